-- Step 8 to 9 of the store: events and back ends are values. Rows of earlier versions keep their sentences, and NULL here.
-- A reason that voids a block or a round is a JSON object from now on, where it was a sentence: the column stays.

ALTER TABLE race ADD COLUMN backend TEXT;

ALTER TABLE event ADD COLUMN facts TEXT;

CREATE TRIGGER race_backend BEFORE INSERT ON race
    BEGIN SELECT CASE
        WHEN typeof(NEW.backend) NOT IN ('text', 'null') THEN RAISE(ABORT, 'race.backend is no text')
    END; END;

CREATE TRIGGER event_facts BEFORE INSERT ON event
    BEGIN SELECT CASE
        WHEN NEW.facts IS NOT NULL AND json_type(CASE WHEN json_valid(NEW.facts) THEN NEW.facts END) IS NOT 'object'
            THEN RAISE(ABORT, 'event.facts is no JSON object')
    END; END;
