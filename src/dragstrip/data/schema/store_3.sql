-- Step 2 to 3 of the store: latencies by the kernel's stamps, and the engine's own turn-round apart from them.

ALTER TABLE block ADD COLUMN turn_sum_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE block ADD COLUMN clock_step_ns INTEGER NOT NULL DEFAULT 0;
