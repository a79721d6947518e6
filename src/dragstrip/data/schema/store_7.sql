-- Step 6 to 7 of the store: a value of the wrong kind is refused when it is written or taken in from a file.
-- Without this a text in place of a number is kept, and every later command fails on it. Rows of before stay.
-- A flag may be one byte, as races of before have it (numpy's truth values, which SQLite took for bytes).

CREATE TRIGGER race_kinds BEFORE INSERT ON race
    BEGIN SELECT CASE
        WHEN typeof(NEW.id) <> 'text' THEN RAISE(ABORT, 'race.id is no text')
        WHEN typeof(NEW.seed) <> 'integer' THEN RAISE(ABORT, 'race.seed is no whole number')
        WHEN typeof(NEW.started) <> 'text' THEN RAISE(ABORT, 'race.started is no text')
        WHEN typeof(NEW.started_ns) <> 'integer' THEN RAISE(ABORT, 'race.started_ns is no whole number')
        WHEN typeof(NEW.workload) <> 'text' THEN RAISE(ABORT, 'race.workload is no text')
        WHEN typeof(NEW.connections) <> 'integer' THEN RAISE(ABORT, 'race.connections is no whole number')
        WHEN NEW.connections <= 0 THEN RAISE(ABORT, 'race.connections is not above 0')
        WHEN typeof(NEW.threads) <> 'integer' THEN RAISE(ABORT, 'race.threads is no whole number')
        WHEN NEW.threads <= 0 THEN RAISE(ABORT, 'race.threads is not above 0')
        WHEN NEW.keepalive NOT IN (0, 1, x'00', x'01') THEN RAISE(ABORT, 'race.keepalive is neither 0 nor 1')
        WHEN typeof(NEW.timeout_ns) <> 'integer' THEN RAISE(ABORT, 'race.timeout_ns is no whole number')
        WHEN NEW.timeout_ns <= 0 THEN RAISE(ABORT, 'race.timeout_ns is not above 0')
        WHEN typeof(NEW.lead_ns) <> 'integer' THEN RAISE(ABORT, 'race.lead_ns is no whole number')
        WHEN typeof(NEW.counted_ns) <> 'integer' THEN RAISE(ABORT, 'race.counted_ns is no whole number')
        WHEN NEW.counted_ns <= 0 THEN RAISE(ABORT, 'race.counted_ns is not above 0')
        WHEN typeof(NEW.passes) <> 'integer' THEN RAISE(ABORT, 'race.passes is no whole number')
        WHEN NEW.passes <= 0 THEN RAISE(ABORT, 'race.passes is not above 0')
        WHEN typeof(NEW.budget_s) <> 'real' THEN RAISE(ABORT, 'race.budget_s is no number')
        WHEN NEW.budget_s <= 0 THEN RAISE(ABORT, 'race.budget_s is not above 0')
        WHEN typeof(NEW.planned_rounds) <> 'integer' THEN RAISE(ABORT, 'race.planned_rounds is no whole number')
        WHEN NEW.planned_rounds <= 0 THEN RAISE(ABORT, 'race.planned_rounds is not above 0')
        WHEN typeof(NEW.metric) <> 'text' THEN RAISE(ABORT, 'race.metric is no text')
        WHEN typeof(NEW.margin) <> 'real' THEN RAISE(ABORT, 'race.margin is no number')
        WHEN typeof(NEW.alpha) <> 'real' THEN RAISE(ABORT, 'race.alpha is no number')
        WHEN NEW.rounds_fixed NOT IN (0, 1, x'00', x'01') THEN RAISE(ABORT, 'race.rounds_fixed is neither 0 nor 1')
        WHEN typeof(NEW.software) <> 'text' THEN RAISE(ABORT, 'race.software is no text')
        WHEN typeof(NEW.method) <> 'integer' THEN RAISE(ABORT, 'race.method is no whole number')
        WHEN json_type(CASE WHEN json_valid(NEW.machine) THEN NEW.machine END) IS NOT 'object'
            THEN RAISE(ABORT, 'race.machine is no JSON object')
        WHEN json_type(CASE WHEN json_valid(NEW.server_cores) THEN NEW.server_cores END) IS NOT 'array'
            THEN RAISE(ABORT, 'race.server_cores is no JSON array')
        WHEN json_type(CASE WHEN json_valid(NEW.engine_cores) THEN NEW.engine_cores END) IS NOT 'array'
            THEN RAISE(ABORT, 'race.engine_cores is no JSON array')
        WHEN typeof(NEW.http) <> 'text' THEN RAISE(ABORT, 'race.http is no text')
        WHEN typeof(NEW.rate_per_s) <> 'real' THEN RAISE(ABORT, 'race.rate_per_s is no number')
        WHEN typeof(NEW.pace) <> 'text' THEN RAISE(ABORT, 'race.pace is no text')
        WHEN json_type(CASE WHEN json_valid(NEW.blocks) THEN NEW.blocks END) IS NOT 'object'
            THEN RAISE(ABORT, 'race.blocks is no JSON object')
        WHEN NEW.margin < 0 OR NEW.margin >= 1 THEN RAISE(ABORT, 'race.margin is not between 0 and 1')
        WHEN NEW.alpha <= 0 OR NEW.alpha >= 1 THEN RAISE(ABORT, 'race.alpha is not between 0 and 1')
    END; END;

CREATE TRIGGER contender_kinds BEFORE INSERT ON contender
    BEGIN SELECT CASE
        WHEN typeof(NEW.race) <> 'text' THEN RAISE(ABORT, 'contender.race is no text')
        WHEN typeof(NEW.seq) <> 'integer' THEN RAISE(ABORT, 'contender.seq is no whole number')
        WHEN typeof(NEW.name) <> 'text' THEN RAISE(ABORT, 'contender.name is no text')
        WHEN typeof(NEW.title) <> 'text' THEN RAISE(ABORT, 'contender.title is no text')
        WHEN typeof(NEW.kind) <> 'text' THEN RAISE(ABORT, 'contender.kind is no text')
        WHEN typeof(NEW.version) <> 'text' THEN RAISE(ABORT, 'contender.version is no text')
        WHEN typeof(NEW.language) <> 'text' THEN RAISE(ABORT, 'contender.language is no text')
        WHEN json_type(CASE WHEN json_valid(NEW.parameters) THEN NEW.parameters END) IS NOT 'object'
            THEN RAISE(ABORT, 'contender.parameters is no JSON object')
        WHEN typeof(NEW.definition_hash) <> 'text' THEN RAISE(ABORT, 'contender.definition_hash is no text')
        WHEN json_type(CASE WHEN json_valid(NEW.parity) THEN NEW.parity END) IS NOT 'object'
            THEN RAISE(ABORT, 'contender.parity is no JSON object')
        WHEN typeof(NEW.out) <> 'text' THEN RAISE(ABORT, 'contender.out is no text')
        WHEN typeof(NEW.out_round) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'contender.out_round is no whole number')
    END; END;

CREATE TRIGGER round_kinds BEFORE INSERT ON round
    BEGIN SELECT CASE
        WHEN typeof(NEW.race) <> 'text' THEN RAISE(ABORT, 'round.race is no text')
        WHEN typeof(NEW."index") <> 'integer' THEN RAISE(ABORT, 'round.index is no whole number')
        WHEN typeof(NEW.started_ns) <> 'integer' THEN RAISE(ABORT, 'round.started_ns is no whole number')
        WHEN typeof(NEW.ended_ns) <> 'integer' THEN RAISE(ABORT, 'round.ended_ns is no whole number')
        WHEN json_type(CASE WHEN json_valid(NEW.void) THEN NEW.void END) IS NOT 'array'
            THEN RAISE(ABORT, 'round.void is no JSON array')
    END; END;

CREATE TRIGGER launch_kinds BEFORE INSERT ON launch
    BEGIN SELECT CASE
        WHEN typeof(NEW.race) <> 'text' THEN RAISE(ABORT, 'launch.race is no text')
        WHEN typeof(NEW.seq) <> 'integer' THEN RAISE(ABORT, 'launch.seq is no whole number')
        WHEN typeof(NEW.contender) <> 'text' THEN RAISE(ABORT, 'launch.contender is no text')
        WHEN typeof(NEW.round) <> 'integer' THEN RAISE(ABORT, 'launch.round is no whole number')
        WHEN json_type(CASE WHEN json_valid(NEW.cores) THEN NEW.cores END) IS NOT 'array'
            THEN RAISE(ABORT, 'launch.cores is no JSON array')
        WHEN typeof(NEW.address) <> 'text' THEN RAISE(ABORT, 'launch.address is no text')
        WHEN typeof(NEW.ready_ns) <> 'integer' THEN RAISE(ABORT, 'launch.ready_ns is no whole number')
        WHEN typeof(NEW.warm_up_ns) <> 'integer' THEN RAISE(ABORT, 'launch.warm_up_ns is no whole number')
        WHEN NEW.settled NOT IN (0, 1, x'00', x'01') THEN RAISE(ABORT, 'launch.settled is neither 0 nor 1')
        WHEN typeof(NEW.exit_status) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'launch.exit_status is no whole number')
        WHEN NEW.died NOT IN (0, 1, x'00', x'01') THEN RAISE(ABORT, 'launch.died is neither 0 nor 1')
        WHEN typeof(NEW.cpu_ns) NOT IN ('integer', 'null') THEN RAISE(ABORT, 'launch.cpu_ns is no whole number')
        WHEN typeof(NEW.peak_memory_bytes) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'launch.peak_memory_bytes is no whole number')
        WHEN typeof(NEW.cpu_source) <> 'text' THEN RAISE(ABORT, 'launch.cpu_source is no text')
        WHEN typeof(NEW.processes) <> 'integer' THEN RAISE(ABORT, 'launch.processes is no whole number')
        WHEN typeof(NEW.threads) <> 'integer' THEN RAISE(ABORT, 'launch.threads is no whole number')
        WHEN typeof(NEW.log_tail) <> 'text' THEN RAISE(ABORT, 'launch.log_tail is no text')
        WHEN typeof(NEW.served) NOT IN ('integer', 'null') THEN RAISE(ABORT, 'launch.served is no whole number')
    END; END;

CREATE TRIGGER block_kinds BEFORE INSERT ON block
    BEGIN SELECT CASE
        WHEN typeof(NEW.race) <> 'text' THEN RAISE(ABORT, 'block.race is no text')
        WHEN typeof(NEW.seq) <> 'integer' THEN RAISE(ABORT, 'block.seq is no whole number')
        WHEN typeof(NEW.contender) <> 'text' THEN RAISE(ABORT, 'block.contender is no text')
        WHEN typeof(NEW.round) <> 'integer' THEN RAISE(ABORT, 'block.round is no whole number')
        WHEN typeof(NEW.pass_index) <> 'integer' THEN RAISE(ABORT, 'block.pass_index is no whole number')
        WHEN typeof(NEW.position) <> 'integer' THEN RAISE(ABORT, 'block.position is no whole number')
        WHEN typeof(NEW.started_ns) <> 'integer' THEN RAISE(ABORT, 'block.started_ns is no whole number')
        WHEN typeof(NEW.lead_ns) <> 'integer' THEN RAISE(ABORT, 'block.lead_ns is no whole number')
        WHEN typeof(NEW.counted_ns) <> 'integer' THEN RAISE(ABORT, 'block.counted_ns is no whole number')
        WHEN NEW.counted_ns <= 0 THEN RAISE(ABORT, 'block.counted_ns is not above 0')
        WHEN typeof(NEW.duration_ns) <> 'integer' THEN RAISE(ABORT, 'block.duration_ns is no whole number')
        WHEN typeof(NEW.requests) <> 'integer' THEN RAISE(ABORT, 'block.requests is no whole number')
        WHEN typeof(NEW.sent) <> 'integer' THEN RAISE(ABORT, 'block.sent is no whole number')
        WHEN typeof(NEW.answered) <> 'integer' THEN RAISE(ABORT, 'block.answered is no whole number')
        WHEN typeof(NEW.failed) <> 'integer' THEN RAISE(ABORT, 'block.failed is no whole number')
        WHEN typeof(NEW.in_flight) <> 'integer' THEN RAISE(ABORT, 'block.in_flight is no whole number')
        WHEN json_type(CASE WHEN json_valid(NEW.errors) THEN NEW.errors END) IS NOT 'object'
            THEN RAISE(ABORT, 'block.errors is no JSON object')
        WHEN typeof(NEW.bytes_in) <> 'integer' THEN RAISE(ABORT, 'block.bytes_in is no whole number')
        WHEN typeof(NEW.bytes_out) <> 'integer' THEN RAISE(ABORT, 'block.bytes_out is no whole number')
        WHEN typeof(NEW.connects) <> 'integer' THEN RAISE(ABORT, 'block.connects is no whole number')
        WHEN typeof(NEW.latency_hdr) <> 'blob' THEN RAISE(ABORT, 'block.latency_hdr are no bytes')
        WHEN typeof(NEW.latency_sum_ns) <> 'integer' THEN RAISE(ABORT, 'block.latency_sum_ns is no whole number')
        WHEN typeof(NEW.p50_ns) <> 'integer' THEN RAISE(ABORT, 'block.p50_ns is no whole number')
        WHEN typeof(NEW.p90_ns) <> 'integer' THEN RAISE(ABORT, 'block.p90_ns is no whole number')
        WHEN typeof(NEW.p99_ns) <> 'integer' THEN RAISE(ABORT, 'block.p99_ns is no whole number')
        WHEN typeof(NEW.p999_ns) <> 'integer' THEN RAISE(ABORT, 'block.p999_ns is no whole number')
        WHEN typeof(NEW.max_ns) <> 'integer' THEN RAISE(ABORT, 'block.max_ns is no whole number')
        WHEN typeof(NEW.server_cpu_ns) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'block.server_cpu_ns is no whole number')
        WHEN typeof(NEW.server_wait_ns) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'block.server_wait_ns is no whole number')
        WHEN typeof(NEW.engine_cpu_ns) <> 'integer' THEN RAISE(ABORT, 'block.engine_cpu_ns is no whole number')
        WHEN typeof(NEW.engine_wait_ns) <> 'integer' THEN RAISE(ABORT, 'block.engine_wait_ns is no whole number')
        WHEN typeof(NEW.engine_switches) <> 'integer' THEN RAISE(ABORT, 'block.engine_switches is no whole number')
        WHEN typeof(NEW.engine_threads) <> 'integer' THEN RAISE(ABORT, 'block.engine_threads is no whole number')
        WHEN NEW.engine_threads <= 0 THEN RAISE(ABORT, 'block.engine_threads is not above 0')
        WHEN typeof(NEW.steal_ns) <> 'integer' THEN RAISE(ABORT, 'block.steal_ns is no whole number')
        WHEN NEW.gave_up NOT IN (0, 1, x'00', x'01') THEN RAISE(ABORT, 'block.gave_up is neither 0 nor 1')
        WHEN typeof(NEW.sample) <> 'text' THEN RAISE(ABORT, 'block.sample is no text')
        WHEN json_type(CASE WHEN json_valid(NEW.void) THEN NEW.void END) IS NOT 'array'
            THEN RAISE(ABORT, 'block.void is no JSON array')
        WHEN typeof(NEW.turn_sum_ns) <> 'integer' THEN RAISE(ABORT, 'block.turn_sum_ns is no whole number')
        WHEN typeof(NEW.clock_step_ns) <> 'integer' THEN RAISE(ABORT, 'block.clock_step_ns is no whole number')
        WHEN typeof(NEW.offered) NOT IN ('integer', 'null') THEN RAISE(ABORT, 'block.offered is no whole number')
        WHEN typeof(NEW.unsent) NOT IN ('integer', 'null') THEN RAISE(ABORT, 'block.unsent is no whole number')
        WHEN typeof(NEW.departed) NOT IN ('integer', 'null') THEN RAISE(ABORT, 'block.departed is no whole number')
        WHEN typeof(NEW.lag_p99_ns) NOT IN ('integer', 'null') THEN RAISE(ABORT, 'block.lag_p99_ns is no whole number')
        WHEN typeof(NEW.lag_hdr) NOT IN ('blob', 'null') THEN RAISE(ABORT, 'block.lag_hdr are no bytes')
        WHEN typeof(NEW.latency_sent_hdr) NOT IN ('blob', 'null')
            THEN RAISE(ABORT, 'block.latency_sent_hdr are no bytes')
        WHEN typeof(NEW.server_runs) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'block.server_runs is no whole number')
    END; END;

CREATE TRIGGER event_kinds BEFORE INSERT ON event
    BEGIN SELECT CASE
        WHEN typeof(NEW.race) <> 'text' THEN RAISE(ABORT, 'event.race is no text')
        WHEN typeof(NEW.at_ns) <> 'integer' THEN RAISE(ABORT, 'event.at_ns is no whole number')
        WHEN typeof(NEW.kind) <> 'text' THEN RAISE(ABORT, 'event.kind is no text')
        WHEN typeof(NEW.detail) <> 'text' THEN RAISE(ABORT, 'event.detail is no text')
        WHEN typeof(NEW.contender) NOT IN ('text', 'null') THEN RAISE(ABORT, 'event.contender is no text')
        WHEN typeof(NEW.round) NOT IN ('integer', 'null') THEN RAISE(ABORT, 'event.round is no whole number')
    END; END;
