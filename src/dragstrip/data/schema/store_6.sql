-- Step 5 to 6 of the store: what method version 5 records beside the rest. Extensions of a race are events.

-- By contender: lead-in, counted part (nanoseconds) and passes of its own blocks; none in races before version 5.
ALTER TABLE race ADD COLUMN blocks TEXT NOT NULL DEFAULT '{}';

-- How often a contender's threads were put on a core during a block; NULL where it can't be read.
ALTER TABLE block ADD COLUMN server_runs INTEGER;
