-- Step 13 to 14 of the store: whether answers of the workload wait for something else, which chooses the metric from method
-- version 6 on. Of races of before it is not known; they are judged by their own version, which does not ask.

ALTER TABLE race ADD COLUMN waits INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER race_waits BEFORE INSERT ON race
    BEGIN SELECT CASE
        WHEN NEW.waits NOT IN (0, 1) THEN RAISE(ABORT, 'race.waits is neither 0 nor 1')
    END; END;
