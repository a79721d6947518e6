-- From schema 4: a launch's counts are one JSON object by name, without those that are not known. The table is made anew,
-- so that its text is that of a new store. SQLite's JSON of a REAL would lose digits.

PRAGMA defer_foreign_keys = ON; -- blocks refer to launches; it lasts until the end of the transaction
CREATE TEMP TABLE former AS SELECT * FROM launch ORDER BY rowid;
DROP TABLE launch;

CREATE TABLE launch (
    race TEXT NOT NULL, seq INTEGER NOT NULL, contender TEXT NOT NULL, round INTEGER NOT NULL,
    cores TEXT NOT NULL
        CONSTRAINT "launch.cores must be a JSON array" CHECK (json_valid(cores) AND json_type(cores) = 'array'),
    address TEXT NOT NULL, ready_ns INTEGER NOT NULL, warm_up_ns INTEGER NOT NULL,
    settled INTEGER NOT NULL CONSTRAINT "launch.settled must be 0 or 1" CHECK (settled IN (0, 1)),
    exit_status INTEGER,
    died INTEGER NOT NULL CONSTRAINT "launch.died must be 0 or 1" CHECK (died IN (0, 1)),
    cpu_source TEXT NOT NULL, log_tail TEXT NOT NULL,
    counts TEXT NOT NULL
        CONSTRAINT "launch.counts must be a JSON object" CHECK (json_valid(counts) AND json_type(counts) = 'object'),
    PRIMARY KEY (race, round, contender),
    FOREIGN KEY (race, round) REFERENCES round (race, "index")
) STRICT;

INSERT INTO launch SELECT
    race, seq, contender, round, cores, address, ready_ns, warm_up_ns, settled, exit_status, died, cpu_source, log_tail,
    json_patch('{}', json_object(
        'cpu_ns', cpu_ns, 'peak_memory_bytes', peak_memory_bytes, 'processes', processes, 'threads', threads,
        'served', served, 'database_statements', database_statements,
        'database_wanted', json(CASE WHEN database_wanted IS NOT NULL THEN printf('%!.17g', database_wanted) END),
        'database_cpu_ns', database_cpu_ns, 'database_exec_ns', database_exec_ns,
        'database_connections', database_connections
    ))
FROM former ORDER BY rowid;
DROP TABLE former;

CREATE TRIGGER launch_update BEFORE UPDATE ON launch
    BEGIN SELECT RAISE(ABORT, 'records are append only: launch'); END;
CREATE TRIGGER launch_delete BEFORE DELETE ON launch
    BEGIN SELECT RAISE(ABORT, 'records are append only: launch'); END;
