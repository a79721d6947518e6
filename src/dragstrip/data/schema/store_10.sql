-- Step 9 to 10 of the store: a race of several workloads or rates. Races of before have no columns: there was one.

ALTER TABLE race ADD COLUMN columns TEXT NOT NULL DEFAULT '[]';

ALTER TABLE round ADD COLUMN "column" INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER race_columns BEFORE INSERT ON race
    BEGIN SELECT CASE
        WHEN json_type(CASE WHEN json_valid(NEW.columns) THEN NEW.columns END) IS NOT 'array'
            THEN RAISE(ABORT, 'race.columns is no JSON array')
    END; END;

CREATE TRIGGER round_column BEFORE INSERT ON round
    BEGIN SELECT CASE
        WHEN typeof(NEW."column") <> 'integer' OR NEW."column" < 0
            THEN RAISE(ABORT, 'round.column is no whole number from 0')
    END; END;
