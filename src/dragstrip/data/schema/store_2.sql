-- Step 1 to 2: what of a race's load became a choice. The defaults are what every race before did.

ALTER TABLE race ADD COLUMN http TEXT NOT NULL DEFAULT '1.1';
