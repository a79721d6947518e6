-- Step 10 to 11 of the store: requests of several kinds, told apart, and several of them on their way on one connection.
-- Races of before had one kind, and one request at a time.

ALTER TABLE race ADD COLUMN pipelining INTEGER NOT NULL DEFAULT 1;

ALTER TABLE block ADD COLUMN kinds TEXT NOT NULL DEFAULT '{}';

CREATE TRIGGER race_pipelining BEFORE INSERT ON race
    BEGIN SELECT CASE
        WHEN typeof(NEW.pipelining) <> 'integer' OR NEW.pipelining < 1
            THEN RAISE(ABORT, 'race.pipelining is no whole number from 1')
    END; END;

CREATE TRIGGER block_kinds_of_requests BEFORE INSERT ON block
    BEGIN SELECT CASE
        WHEN json_type(CASE WHEN json_valid(NEW.kinds) THEN NEW.kinds END) IS NOT 'object'
            THEN RAISE(ABORT, 'block.kinds is no JSON object')
    END; END;
