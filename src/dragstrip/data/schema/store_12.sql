-- Step 11 to 12 of the store: what a launch made of the race's database. NULL where there is none, and in earlier rows.

ALTER TABLE launch ADD COLUMN database_statements INTEGER;

ALTER TABLE launch ADD COLUMN database_wanted REAL;

ALTER TABLE launch ADD COLUMN database_cpu_ns INTEGER;

ALTER TABLE launch ADD COLUMN database_exec_ns INTEGER;

ALTER TABLE launch ADD COLUMN database_connections INTEGER;

CREATE TRIGGER launch_database BEFORE INSERT ON launch
    BEGIN SELECT CASE
        WHEN typeof(NEW.database_statements) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'launch.database_statements is no whole number')
        WHEN typeof(NEW.database_wanted) NOT IN ('real', 'integer', 'null')
            THEN RAISE(ABORT, 'launch.database_wanted is no number')
        WHEN typeof(NEW.database_cpu_ns) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'launch.database_cpu_ns is no whole number')
        WHEN typeof(NEW.database_exec_ns) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'launch.database_exec_ns is no whole number')
        WHEN typeof(NEW.database_connections) NOT IN ('integer', 'null')
            THEN RAISE(ABORT, 'launch.database_connections is no whole number')
    END; END;
