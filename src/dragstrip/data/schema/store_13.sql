-- Step 12 to 13 of the store: requests at a time on each connection over HTTP/2. Races of before had one.

ALTER TABLE race ADD COLUMN streams INTEGER NOT NULL DEFAULT 1;

CREATE TRIGGER race_streams BEFORE INSERT ON race
    BEGIN SELECT CASE
        WHEN typeof(NEW.streams) <> 'integer' OR NEW.streams < 1
            THEN RAISE(ABORT, 'race.streams is no whole number from 1')
    END; END;
