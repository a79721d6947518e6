-- From schema 5: loads of one server (`dragstrip load`) have a table of their own, and a column of a race has the
-- definition of its workload ("" of races before this schema).

ALTER TABLE column ADD COLUMN definition TEXT NOT NULL DEFAULT '';

CREATE TABLE load (
    id TEXT NOT NULL, started TEXT NOT NULL, url TEXT NOT NULL,
    verdict TEXT NOT NULL
        CONSTRAINT "load.verdict must be ok, missed, failed or interrupted"
            CHECK (verdict IN ('ok', 'missed', 'failed', 'interrupted')),
    result TEXT NOT NULL
        CONSTRAINT "load.result must be a JSON object" CHECK (json_valid(result) AND json_type(result) = 'object'),
    PRIMARY KEY (id)
) STRICT;

CREATE TRIGGER load_update BEFORE UPDATE ON load
    BEGIN SELECT RAISE(ABORT, 'records are append only: load'); END;
CREATE TRIGGER load_delete BEFORE DELETE ON load
    BEGIN SELECT RAISE(ABORT, 'records are append only: load'); END;
