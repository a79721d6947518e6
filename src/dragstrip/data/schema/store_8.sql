-- Step 7 to 8 of the store: a block whose server died in its lead-in has no counted part, and is kept all the same.
-- Without this, that server's death ended the whole race. A trigger can't be altered: this is step 7's, but for that line.

-- And how many answers were stamped before their requests had left: a fault of the clocks (0 before it was counted).

ALTER TABLE block ADD COLUMN early_stamps INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER block_kinds;

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
        WHEN NEW.counted_ns < 0 OR (NEW.counted_ns = 0 AND NEW.gave_up IN (0, x'00'))
            THEN RAISE(ABORT, 'block.counted_ns is not above 0')
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
        WHEN typeof(NEW.early_stamps) <> 'integer' THEN RAISE(ABORT, 'block.early_stamps is no whole number')
    END; END;
