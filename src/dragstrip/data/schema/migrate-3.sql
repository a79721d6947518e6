-- From schema 2: extra launches of `why`.

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
    PRIMARY KEY (race, "index"),
    FOREIGN KEY (race, "column", contender) REFERENCES contender (race, "column", name)
) STRICT;

CREATE TRIGGER profile_update BEFORE UPDATE ON profile
    BEGIN SELECT RAISE(ABORT, 'records are append only: profile'); END;
CREATE TRIGGER profile_delete BEFORE DELETE ON profile
    BEGIN SELECT RAISE(ABORT, 'records are append only: profile'); END;
