-- Step 3 to 4: open loops. A rate of 0 is a closed loop, as every race before was.

ALTER TABLE race ADD COLUMN rate_per_s REAL NOT NULL DEFAULT 0;
ALTER TABLE race ADD COLUMN pace TEXT NOT NULL DEFAULT 'precise';
ALTER TABLE block ADD COLUMN offered INTEGER;
ALTER TABLE block ADD COLUMN unsent INTEGER;
ALTER TABLE block ADD COLUMN departed INTEGER;
ALTER TABLE block ADD COLUMN lag_p99_ns INTEGER;
ALTER TABLE block ADD COLUMN lag_hdr BLOB;
ALTER TABLE block ADD COLUMN latency_sent_hdr BLOB;
