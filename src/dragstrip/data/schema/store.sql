-- The store: the record's own shape (record.py). Maps and lists are JSON text.
-- STRICT keeps values of another type out; a CHECK is named by the sentence that its failure shows (store/messages.py).

CREATE TABLE race (
    id TEXT NOT NULL, seed INTEGER NOT NULL, started TEXT NOT NULL, started_ns INTEGER NOT NULL,
    connections INTEGER NOT NULL CONSTRAINT "race.connections must be above 0" CHECK (connections > 0),
    threads INTEGER NOT NULL CONSTRAINT "race.threads must be above 0" CHECK (threads > 0),
    keepalive INTEGER NOT NULL CONSTRAINT "race.keepalive must be 0 or 1" CHECK (keepalive IN (0, 1)),
    timeout_ns INTEGER NOT NULL CONSTRAINT "race.timeout_ns must be above 0" CHECK (timeout_ns > 0),
    http TEXT NOT NULL,
    pace TEXT NOT NULL,
    streams INTEGER NOT NULL CONSTRAINT "race.streams must be above 0" CHECK (streams > 0),
    budget_s REAL NOT NULL CONSTRAINT "race.budget_s must be above 0" CHECK (budget_s > 0),
    planned_rounds INTEGER NOT NULL CONSTRAINT "race.planned_rounds must be above 0" CHECK (planned_rounds > 0),
    metric TEXT NOT NULL,
    margin REAL NOT NULL CONSTRAINT "race.margin must be from 0 to below 1" CHECK (margin >= 0 AND margin < 1),
    alpha REAL NOT NULL CONSTRAINT "race.alpha must be between 0 and 1" CHECK (alpha > 0 AND alpha < 1),
    rounds_fixed INTEGER NOT NULL CONSTRAINT "race.rounds_fixed must be 0 or 1" CHECK (rounds_fixed IN (0, 1)),
    software TEXT NOT NULL, method INTEGER NOT NULL,
    machine TEXT NOT NULL
        CONSTRAINT "race.machine must be a JSON object" CHECK (json_valid(machine) AND json_type(machine) = 'object'),
    server_cores TEXT NOT NULL
        CONSTRAINT "race.server_cores must be a JSON array"
            CHECK (json_valid(server_cores) AND json_type(server_cores) = 'array'),
    engine_cores TEXT NOT NULL
        CONSTRAINT "race.engine_cores must be a JSON array"
            CHECK (json_valid(engine_cores) AND json_type(engine_cores) = 'array'),
    backend TEXT NOT NULL
        CONSTRAINT "race.backend must be epoll, uring or auto" CHECK (backend IN ('epoll', 'uring', 'auto')),
    PRIMARY KEY (id)
) STRICT;

-- What differs between a race's columns; what all share is in its row of race.
CREATE TABLE column (
    race TEXT NOT NULL,
    "index" INTEGER NOT NULL CONSTRAINT "column.index must be 0 or above" CHECK ("index" >= 0),
    name TEXT NOT NULL, workload TEXT NOT NULL,
    waits INTEGER NOT NULL CONSTRAINT "column.waits must be 0 or 1" CHECK (waits IN (0, 1)),
    absent TEXT NOT NULL
        CONSTRAINT "column.absent must be a JSON array" CHECK (json_valid(absent) AND json_type(absent) = 'array'),
    rate_per_s REAL NOT NULL CONSTRAINT "column.rate_per_s must be 0 or above" CHECK (rate_per_s >= 0),
    pipelining INTEGER NOT NULL CONSTRAINT "column.pipelining must be above 0" CHECK (pipelining > 0),
    lead_ns INTEGER NOT NULL,
    counted_ns INTEGER NOT NULL CONSTRAINT "column.counted_ns must be above 0" CHECK (counted_ns > 0),
    passes INTEGER NOT NULL CONSTRAINT "column.passes must be above 0" CHECK (passes > 0),
    blocks TEXT NOT NULL
        CONSTRAINT "column.blocks must be a JSON object" CHECK (json_valid(blocks) AND json_type(blocks) = 'object'),
    definition TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (race, "index"),
    UNIQUE (race, name),
    FOREIGN KEY (race) REFERENCES race (id)
) STRICT;

CREATE TABLE contender (
    race TEXT NOT NULL, "column" INTEGER NOT NULL, seq INTEGER NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL,
    kind TEXT NOT NULL
        CONSTRAINT "contender.kind must be definition, serve or url" CHECK (kind IN ('definition', 'serve', 'url')),
    version TEXT NOT NULL, language TEXT NOT NULL,
    parameters TEXT NOT NULL
        CONSTRAINT "contender.parameters must be a JSON object"
            CHECK (json_valid(parameters) AND json_type(parameters) = 'object'),
    definition_hash TEXT NOT NULL,
    parity TEXT NOT NULL
        CONSTRAINT "contender.parity must be a JSON object"
            CHECK (json_valid(parity) AND json_type(parity) = 'object'),
    out TEXT NOT NULL, out_round INTEGER,
    PRIMARY KEY (race, "column", name),
    FOREIGN KEY (race, "column") REFERENCES column (race, "index")
) STRICT;

CREATE TABLE round (
    race TEXT NOT NULL,
    "index" INTEGER NOT NULL CONSTRAINT "round.index must be 0 or above" CHECK ("index" >= 0),
    "column" INTEGER NOT NULL,
    started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL,
    void TEXT NOT NULL
        CONSTRAINT "round.void must be a JSON array" CHECK (json_valid(void) AND json_type(void) = 'array'),
    PRIMARY KEY (race, "index"),
    FOREIGN KEY (race, "column") REFERENCES column (race, "index")
) STRICT;

-- Its counts are by name (record.LaunchCount); what is not known is left out.
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

CREATE TABLE block (
    race TEXT NOT NULL, seq INTEGER NOT NULL, contender TEXT NOT NULL, round INTEGER NOT NULL,
    pass_index INTEGER NOT NULL, position INTEGER NOT NULL, started_ns INTEGER NOT NULL,
    lead_ns INTEGER NOT NULL,
    counted_ns INTEGER NOT NULL -- a server that dies in its lead-in leaves a block without a counted part
        CONSTRAINT "block.counted_ns must be above 0" CHECK (counted_ns > 0 OR (counted_ns = 0 AND gave_up)),
    duration_ns INTEGER NOT NULL, requests INTEGER NOT NULL, sent INTEGER NOT NULL, answered INTEGER NOT NULL,
    failed INTEGER NOT NULL, in_flight INTEGER NOT NULL,
    errors TEXT NOT NULL
        CONSTRAINT "block.errors must be a JSON object" CHECK (json_valid(errors) AND json_type(errors) = 'object'),
    bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL, connects INTEGER NOT NULL, latency_hdr BLOB NOT NULL,
    latency_sum_ns INTEGER NOT NULL, turn_sum_ns INTEGER NOT NULL, clock_step_ns INTEGER NOT NULL,
    early_stamps INTEGER NOT NULL, p50_ns INTEGER NOT NULL, p90_ns INTEGER NOT NULL, p99_ns INTEGER NOT NULL,
    p999_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL, server_cpu_ns INTEGER, server_wait_ns INTEGER,
    server_runs INTEGER, engine_cpu_ns INTEGER NOT NULL, engine_wait_ns INTEGER NOT NULL,
    engine_switches INTEGER NOT NULL,
    engine_threads INTEGER NOT NULL CONSTRAINT "block.engine_threads must be above 0" CHECK (engine_threads > 0),
    steal_ns INTEGER NOT NULL,
    gave_up INTEGER NOT NULL CONSTRAINT "block.gave_up must be 0 or 1" CHECK (gave_up IN (0, 1)),
    sample TEXT NOT NULL, offered INTEGER, unsent INTEGER, departed INTEGER, lag_p99_ns INTEGER, lag_hdr BLOB,
    latency_sent_hdr BLOB,
    kinds TEXT NOT NULL
        CONSTRAINT "block.kinds must be a JSON object" CHECK (json_valid(kinds) AND json_type(kinds) = 'object'),
    void TEXT NOT NULL
        CONSTRAINT "block.void must be a JSON array" CHECK (json_valid(void) AND json_type(void) = 'array'),
    PRIMARY KEY (race, round, seq),
    FOREIGN KEY (race, round, contender) REFERENCES launch (race, round, contender)
) STRICT;

-- Extra launches after the race; counts and missing are by counter (record.Counter).
CREATE TABLE profile (
    race TEXT NOT NULL,
    "index" INTEGER NOT NULL CONSTRAINT "profile.index must be 0 or above" CHECK ("index" >= 0),
    "column" INTEGER NOT NULL, contender TEXT NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL,
    blocks INTEGER NOT NULL CONSTRAINT "profile.blocks must be above 0" CHECK (blocks > 0),
    duration_ns INTEGER NOT NULL,
    answered INTEGER NOT NULL CONSTRAINT "profile.answered must be above 0" CHECK (answered > 0),
    failed INTEGER NOT NULL,
    counts TEXT NOT NULL
        CONSTRAINT "profile.counts must be a JSON object" CHECK (json_valid(counts) AND json_type(counts) = 'object'),
    missing TEXT NOT NULL
        CONSTRAINT "profile.missing must be a JSON object"
            CHECK (json_valid(missing) AND json_type(missing) = 'object'),
    frames TEXT NOT NULL
        CONSTRAINT "profile.frames must be a JSON array" CHECK (json_valid(frames) AND json_type(frames) = 'array'),
    stacks TEXT NOT NULL
        CONSTRAINT "profile.stacks must be a JSON array" CHECK (json_valid(stacks) AND json_type(stacks) = 'array'),
    PRIMARY KEY (race, "index"),
    FOREIGN KEY (race, "column", contender) REFERENCES contender (race, "column", name)
) STRICT;

CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT, race TEXT NOT NULL, at_ns INTEGER NOT NULL, kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    facts TEXT NOT NULL
        CONSTRAINT "event.facts must be a JSON object" CHECK (json_valid(facts) AND json_type(facts) = 'object'),
    contender TEXT, round INTEGER,
    CONSTRAINT "event.contender must be given by an event of kind 'out'" CHECK (kind <> 'out' OR contender IS NOT NULL),
    FOREIGN KEY (race) REFERENCES race (id)
) STRICT;

CREATE INDEX event_of_race ON event (race);

-- Loads of one server, which belong to no race: result is what `load --json` writes (load.schema.json).
CREATE TABLE load (
    id TEXT NOT NULL, started TEXT NOT NULL, url TEXT NOT NULL,
    verdict TEXT NOT NULL
        CONSTRAINT "load.verdict must be ok, missed, failed or interrupted"
            CHECK (verdict IN ('ok', 'missed', 'failed', 'interrupted')),
    result TEXT NOT NULL
        CONSTRAINT "load.result must be a JSON object" CHECK (json_valid(result) AND json_type(result) = 'object'),
    PRIMARY KEY (id)
) STRICT;

-- Records are append only.

CREATE TRIGGER race_update BEFORE UPDATE ON race
    BEGIN SELECT RAISE(ABORT, 'records are append only: race'); END;
CREATE TRIGGER race_delete BEFORE DELETE ON race
    BEGIN SELECT RAISE(ABORT, 'records are append only: race'); END;
CREATE TRIGGER column_update BEFORE UPDATE ON column
    BEGIN SELECT RAISE(ABORT, 'records are append only: column'); END;
CREATE TRIGGER column_delete BEFORE DELETE ON column
    BEGIN SELECT RAISE(ABORT, 'records are append only: column'); END;
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
CREATE TRIGGER profile_update BEFORE UPDATE ON profile
    BEGIN SELECT RAISE(ABORT, 'records are append only: profile'); END;
CREATE TRIGGER profile_delete BEFORE DELETE ON profile
    BEGIN SELECT RAISE(ABORT, 'records are append only: profile'); END;
CREATE TRIGGER event_update BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'records are append only: event'); END;
CREATE TRIGGER event_delete BEFORE DELETE ON event
    BEGIN SELECT RAISE(ABORT, 'records are append only: event'); END;
CREATE TRIGGER load_update BEFORE UPDATE ON load
    BEGIN SELECT RAISE(ABORT, 'records are append only: load'); END;
CREATE TRIGGER load_delete BEFORE DELETE ON load
    BEGIN SELECT RAISE(ABORT, 'records are append only: load'); END;
