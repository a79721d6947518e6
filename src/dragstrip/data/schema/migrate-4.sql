-- From schema 3: sampled stacks of extra launches; those before have none. The table is made anew, so that its text is
-- that of a new store.

CREATE TEMP TABLE former AS SELECT * FROM profile;
DROP TABLE profile;

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

INSERT INTO profile SELECT *, '[]', '[]' FROM former;
DROP TABLE former;

CREATE TRIGGER profile_update BEFORE UPDATE ON profile
    BEGIN SELECT RAISE(ABORT, 'records are append only: profile'); END;
CREATE TRIGGER profile_delete BEFORE DELETE ON profile
    BEGIN SELECT RAISE(ABORT, 'records are append only: profile'); END;
