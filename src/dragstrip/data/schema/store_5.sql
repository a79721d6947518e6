-- Step 4 to 5: a launch's own count of the requests that it had over its round's blocks, where the server says.

ALTER TABLE launch ADD COLUMN served INTEGER;
