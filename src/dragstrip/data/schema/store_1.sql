-- Step 0 to 1 of the store: the record's own shape (record.py). Maps and lists are JSON text.

CREATE TABLE race (
    id TEXT PRIMARY KEY, seed INTEGER NOT NULL, started TEXT NOT NULL, started_ns INTEGER NOT NULL,
    workload TEXT NOT NULL,
    connections INTEGER NOT NULL, threads INTEGER NOT NULL, keepalive INTEGER NOT NULL,
    timeout_ns INTEGER NOT NULL,
    lead_ns INTEGER NOT NULL, counted_ns INTEGER NOT NULL, passes INTEGER NOT NULL, budget_s REAL NOT NULL,
    planned_rounds INTEGER NOT NULL, metric TEXT NOT NULL, margin REAL NOT NULL, alpha REAL NOT NULL,
    rounds_fixed INTEGER NOT NULL,
    software TEXT NOT NULL, method INTEGER NOT NULL, machine TEXT NOT NULL,
    server_cores TEXT NOT NULL, engine_cores TEXT NOT NULL);

CREATE TABLE contender (
    race TEXT NOT NULL REFERENCES race (id), seq INTEGER NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL,
    kind TEXT NOT NULL, version TEXT NOT NULL, language TEXT NOT NULL, parameters TEXT NOT NULL,
    definition_hash TEXT NOT NULL, parity TEXT NOT NULL, out TEXT NOT NULL, out_round INTEGER,
    PRIMARY KEY (race, name));

CREATE TABLE round (
    race TEXT NOT NULL REFERENCES race (id), "index" INTEGER NOT NULL, started_ns INTEGER NOT NULL,
    ended_ns INTEGER NOT NULL, void TEXT NOT NULL,
    PRIMARY KEY (race, "index"));

CREATE TABLE launch (
    race TEXT NOT NULL, seq INTEGER NOT NULL, contender TEXT NOT NULL, round INTEGER NOT NULL,
    cores TEXT NOT NULL, address TEXT NOT NULL, ready_ns INTEGER NOT NULL, warm_up_ns INTEGER NOT NULL,
    settled INTEGER NOT NULL, exit_status INTEGER, died INTEGER NOT NULL, cpu_ns INTEGER,
    peak_memory_bytes INTEGER, cpu_source TEXT NOT NULL, processes INTEGER NOT NULL,
    threads INTEGER NOT NULL, log_tail TEXT NOT NULL,
    PRIMARY KEY (race, round, contender),
    FOREIGN KEY (race, round) REFERENCES round (race, "index"),
    FOREIGN KEY (race, contender) REFERENCES contender (race, name));

CREATE TABLE block (
    race TEXT NOT NULL, seq INTEGER NOT NULL, contender TEXT NOT NULL, round INTEGER NOT NULL,
    pass_index INTEGER NOT NULL, position INTEGER NOT NULL, started_ns INTEGER NOT NULL,
    lead_ns INTEGER NOT NULL, counted_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
    requests INTEGER NOT NULL, sent INTEGER NOT NULL, answered INTEGER NOT NULL, failed INTEGER NOT NULL,
    in_flight INTEGER NOT NULL, errors TEXT NOT NULL, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,
    connects INTEGER NOT NULL, latency_hdr BLOB NOT NULL, latency_sum_ns INTEGER NOT NULL,
    p50_ns INTEGER NOT NULL, p90_ns INTEGER NOT NULL, p99_ns INTEGER NOT NULL, p999_ns INTEGER NOT NULL,
    max_ns INTEGER NOT NULL, server_cpu_ns INTEGER, server_wait_ns INTEGER, engine_cpu_ns INTEGER NOT NULL,
    engine_wait_ns INTEGER NOT NULL, engine_switches INTEGER NOT NULL, engine_threads INTEGER NOT NULL,
    steal_ns INTEGER NOT NULL, gave_up INTEGER NOT NULL, sample TEXT NOT NULL, void TEXT NOT NULL,
    PRIMARY KEY (race, round, seq),
    FOREIGN KEY (race, round, contender) REFERENCES launch (race, round, contender));

CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT, race TEXT NOT NULL REFERENCES race (id), at_ns INTEGER NOT NULL,
    kind TEXT NOT NULL, detail TEXT NOT NULL, contender TEXT, round INTEGER);

CREATE INDEX event_of_race ON event (race);

CREATE TRIGGER race_update BEFORE UPDATE ON race
    BEGIN SELECT RAISE(ABORT, 'records are append only: race'); END;
CREATE TRIGGER race_delete BEFORE DELETE ON race
    BEGIN SELECT RAISE(ABORT, 'records are append only: race'); END;
CREATE TRIGGER contender_update BEFORE UPDATE ON contender
    BEGIN SELECT RAISE(ABORT, 'records are append only: contender'); END;
CREATE TRIGGER contender_delete BEFORE DELETE ON contender
    BEGIN SELECT RAISE(ABORT, 'records are append only: contender'); END;
CREATE TRIGGER round_update BEFORE UPDATE ON round
    BEGIN SELECT RAISE(ABORT, 'records are append only: round'); END;
CREATE TRIGGER round_delete BEFORE DELETE ON round
    BEGIN SELECT RAISE(ABORT, 'records are append only: round'); END;
CREATE TRIGGER launch_update BEFORE UPDATE ON launch
    BEGIN SELECT RAISE(ABORT, 'records are append only: launch'); END;
CREATE TRIGGER launch_delete BEFORE DELETE ON launch
    BEGIN SELECT RAISE(ABORT, 'records are append only: launch'); END;
CREATE TRIGGER block_update BEFORE UPDATE ON block
    BEGIN SELECT RAISE(ABORT, 'records are append only: block'); END;
CREATE TRIGGER block_delete BEFORE DELETE ON block
    BEGIN SELECT RAISE(ABORT, 'records are append only: block'); END;
CREATE TRIGGER event_update BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'records are append only: event'); END;
CREATE TRIGGER event_delete BEFORE DELETE ON event
    BEGIN SELECT RAISE(ABORT, 'records are append only: event'); END;
