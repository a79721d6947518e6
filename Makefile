# The words CI uses too. `make race` and `make test` do all the set-up on a fresh machine.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export CARGO_TERM_COLOR ?= never
# Each build of the engine writes its stub, src/dragstrip/_engine.pyi, for type checkers and readers.
export MATURIN_PEP517_ARGS := --generate-stubs
# Tests start hundreds of Python processes: each module is compiled once, also where the environment forbids to keep that.
unexport PYTHONDONTWRITEBYTECODE
# What the engine's library is made of: not its tests.
RUST_SOURCES := $(shell find crates \( -name tests -o -name fuzz \) -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print 2>/dev/null) Cargo.toml

FUZZ_CASES ?= 20000
FUZZ_RUNS ?= 200000
# With what is to be installed and built first, half an hour on two cores.
CLAIMS_MINUTES ?= 22
BENCH_ROUNDS ?= 5
FUZZ_LINES ?= 1000
FUZZ_FILES ?= 1000
FUZZ_SEED ?= 1

.PHONY: race build test check soak fresh golden test-deps check-deps test-unit test-rust test-live test-thorough test-contenders test-release lint prose fmt bench evidence claims \
	check-live calibrate answers simulate fuzz fuzz-cli soak-kill soak-rogue soak-fleet soak-fuzz mutations sanitize check-stacks \
	docs architecture pictures race-pictures dist clean

race: build  ## installs what the default line-up needs (says what, first) and races it
	$(BIN)/dragstrip install --line-up default --yes
	@mkdir -p runs
	$(BIN)/dragstrip race --line-up default --budget 90s --html runs/latest.html --json runs/latest.json

build: .stamps/build

# Looks each time, and is newer only if it made the environment.
$(VENV)/prepared: FORCE
	@packaging/prepare.sh $(PYTHON) $(VENV)

FORCE:

.stamps/build: $(VENV)/prepared pyproject.toml $(RUST_SOURCES)
	@echo "Building Dragstrip: Python packages, then its engine in Rust; a few minutes on two cores." >&2
	$(BIN)/pip install --quiet 'maturin>=1.16,<2'
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --no-build-isolation -c constraints.txt --editable '.[all]'
	@mkdir -p .stamps && touch $@

.stamps/test-deps: .stamps/build constraints.txt
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --no-build-isolation -c constraints.txt --editable '.[test,docs]'
	@touch $@

test-deps: .stamps/test-deps
	$(BIN)/dragstrip install --line-up default --yes
	cargo test --quiet --workspace --profile quick --exclude dragstrip-python --no-run

check-deps: .stamps/test-deps .stamps/bin/actionlint
	$(BIN)/dragstrip install --all --yes
	cargo test --quiet --workspace --profile quick --exclude dragstrip-python --no-run
	@# The page's tests want a browser, HTTP/2's nghttpd, those of wrk's scripts wrk beside them, those of other tools' flags wrk and h2load; where they can't be had, tests say so and are skipped.
	@command -v chromium chromium-browser google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq chromium >/dev/null; } || true
	@command -v nghttpd >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq nghttp2-server >/dev/null; } || true
	@command -v h2load >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq nghttp2-client >/dev/null; } || true
	@# Containers are started by bubblewrap, which `install --all` installs as root.
	@command -v wrk >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq wrk >/dev/null; } || true
	@# Fleets are tested over ssh between network namespaces; RUNLEVEL=1 keeps the package from starting an sshd of its own.
	@{ command -v ip && { command -v sshd || [ -x /usr/sbin/sshd ]; }; } >/dev/null || { [ "$$(id -u)" = 0 ] && RUNLEVEL=1 apt-get install -y -qq openssh-server openssh-client iproute2 >/dev/null; } || true
	@# Fresh roots are made by debootstrap, and the container on one of them by Podman.
	@{ command -v debootstrap && command -v podman; } >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends debootstrap podman >/dev/null; } || true
	@# A lab's test by Slurm wants a controller and a daemon.
	@{ command -v slurmctld && command -v slurmd && command -v munged; } >/dev/null || { [ "$$(id -u)" = 0 ] && RUNLEVEL=1 apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null; } || true

# Checks the workflows of docs/maintainers.md; without Go their test says so and is skipped.
.stamps/bin/actionlint:
	@mkdir -p .stamps/bin
	@command -v go >/dev/null && GOBIN=$(CURDIR)/.stamps/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 || true

lint: .stamps/test-deps
	cargo fmt --all --check
	@# In the profile of the tests, whose build scripts (LuaJIT, ring) have then run already.
	cargo clippy --workspace --all-targets --profile quick -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

prose: .stamps/test-deps  ## spelling and style of documents, docstrings and comments
	$(BIN)/python docs/check_prose.py

fmt: .stamps/test-deps
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# docs/evidence/tests.md says what each tier proves and takes; tests/tiers.py lists their parts, times them and prints a table.
test: test-deps  ## in a few minutes: unit tests, the engine's, and real servers of the default line-up
	$(BIN)/python tests/tiers.py test

check: check-deps  ## all that CI runs: also linters, every contender and a short fuzz run
	$(BIN)/python tests/tiers.py check

fresh: .stamps/build  ## types the README's commands in fresh Debian roots, as root and as an ordinary user; FRESH=trixie-root
	$(BIN)/python tests/fresh.py $(if $(FRESH),--only $(FRESH))

golden: .stamps/test-deps  ## stored races as an older commit shows them, beside this checkout; OLD=COMMIT, RACES=28 ENGINE=FILE makes more
	$(BIN)/python tests/golden.py $(OLD) $(if $(RACES),--make $(RACES) --engine $(ENGINE))

soak: check-deps  ## the long ones: 100 times kill -9, every misbehaving server, long fuzz runs
	$(BIN)/python tests/tiers.py soak

PYTEST := $(BIN)/python -m pytest
# Files below folders 2 with a test of mark 1; others are not imported. tests/conftest.py holds that the mark is in the file.
marked = $$(grep -rlE --include='test_*.py' 'mark\.$(1)\b' $(2))
# Several at a time, each file by one process: noise does not make a test fail, and no test decides by time.
test-unit: .stamps/test-deps
	$(PYTEST) -q -m 'unit and not (live or contenders or release or soak or thorough)' -n 2 --dist loadfile tests/unit tests/extras

test-rust: .stamps/build
	cargo test --workspace --profile quick --exclude dragstrip-python

test-live: .stamps/test-deps
	$(PYTEST) -q -m 'live and not (contenders or release or soak or thorough)' -n 4 --dist loadfile --no-loadscope-reorder tests/live $(call marked,live,tests/unit tests/extras tests/contenders)

test-thorough: .stamps/test-deps
	$(PYTEST) -q -m 'thorough and not (contenders or release or soak)' -n 4 --dist loadfile --no-loadscope-reorder tests/statistics $(call marked,thorough,tests)

test-contenders: .stamps/test-deps
	$(PYTEST) -q -m 'contenders and not soak' -n 4 --dist loadfile tests/contenders $(call marked,contenders,tests/unit tests/extras tests/statistics tests/live)

test-release: .stamps/test-deps
	$(BIN)/pip install --quiet -c constraints.txt --editable '.[dist]'
	$(PYTEST) -q -m release $(call marked,release,tests)

soak-kill: .stamps/build
	$(BIN)/python tests/soak/kill_check.py --kills 100
	@# Races of containers: the check itself wants root.
	[ "$$(id -u)" != 0 ] || $(BIN)/python tests/soak/kill_check.py --image --kills 40

soak-rogue: .stamps/test-deps
	$(PYTEST) -q -m soak $(call marked,soak,tests) --deselect tests/extras/fleet/test_fleet.py --deselect tests/extras/fleet/test_fleet_install.py

soak-fleet: .stamps/test-deps  ## machines that are lost, links that are slow: namespaces of the tests' own
	$(PYTEST) -q -m 'soak or thorough' tests/extras/fleet/test_fleet.py tests/extras/fleet/test_fleet_install.py

soak-fuzz:
	$(MAKE) --no-print-directory fuzz FUZZ_CASES=1000000 FUZZ_RUNS=3000000

mutations: .stamps/test-deps  ## breaks chosen lines one at a time: the tests that must fail, into docs/evidence/tests.md
	$(BIN)/python tests/soak/mutations.py --write

fuzz-cli: .stamps/build  ## command lines and definition files at random; FUZZ_LINES, FUZZ_FILES, FUZZ_SEED
	$(BIN)/python tests/soak/fuzz_cli.py --lines $(FUZZ_LINES) --files $(FUZZ_FILES) --seed $(FUZZ_SEED)
	$(BIN)/python tests/soak/fuzz_files.py --cases 10000 --seed $(FUZZ_SEED)

fuzz: .stamps/build  ## the response parser, HTTP/2's and WebSocket's frames on random bytes; FUZZ_CASES=1000000, FUZZ_RUNS=3000000 for long runs
	PROPTEST_CASES=$(FUZZ_CASES) cargo test --profile quick -p dragstrip-engine --test response --test corpus
	FUZZ_CASES=$(FUZZ_CASES) cargo test --profile quick -p dragstrip-engine --test frames --test websocket_frames
	$(BIN)/python tests/soak/fuzz.py --runs $(FUZZ_RUNS)
	@# In long runs only: every flood at every moment; frames by LLVM's fuzzer, whose corpus the tests above have read.
	$(if $(filter file,$(origin FUZZ_RUNS)),,FUZZ_CASES=$(FUZZ_CASES) cargo test --profile quick -p dragstrip-engine --test epoll --test uring never_stops_sending)
	$(if $(filter file,$(origin FUZZ_RUNS)),,$(BIN)/python tests/soak/fuzz.py --target frames --runs $(FUZZ_RUNS))
	$(if $(filter file,$(origin FUZZ_RUNS)),,$(BIN)/python tests/soak/fuzz.py --target messages --runs $(FUZZ_RUNS))

sanitize:  ## unsafe code under AddressSanitizer and Miri (nightly); without a nightly under valgrind, where it is
	bash tests/soak/sanitize.sh --record

bench: build  ## this engine beside other generators and beside the floor, into docs/evidence/engine.md; BENCH_ROUNDS=5
	bash benchmarks/peers.sh
	$(BIN)/python benchmarks/engine.py --rounds $(BENCH_ROUNDS) --record
	$(BIN)/python benchmarks/http2.py --rounds $(BENCH_ROUNDS) --record
	-$(BIN)/python benchmarks/open_loop.py --record
	$(BIN)/python benchmarks/latency_truth.py --record
	$(BIN)/python benchmarks/request_kinds.py --record

PART ?=
MINUTES ?= 0
LIST ?=
evidence: .stamps/test-deps  ## measures what README and docs show again, in parts that go on where they were cut off; LIST=1, PART=claims, MINUTES=30
	@$(BIN)/python benchmarks/evidence.py $(if $(LIST),--list) --part '$(PART)' --minutes $(MINUTES)

claims: build  ## published claims, put to the test: docs/CLAIMS.md; goes on where it was cut off
	$(BIN)/python benchmarks/claims_page.py --minutes $(CLAIMS_MINUTES)

check-live: build  ## does a race call what is true here today: a server against itself, and 10 % planted
	cargo build --release --examples -p dragstrip-engine
	$(BIN)/python tests/soak/live_check.py

CALIBRATE_MINUTES ?= 60
CALIBRATE_KINDS ?=
calibrate: build  ## many live races of known truth into docs/evidence/verdicts.md; adds to docs/calibration/races.jsonl; CALIBRATE_MINUTES=60, CALIBRATE_KINDS='^same'
	cargo build --release --examples -p dragstrip-engine
	$(BIN)/dragstrip install nginx-return nginx-lua luajit node --yes
	$(BIN)/python benchmarks/calibration.py --minutes $(CALIBRATE_MINUTES) --kinds '$(CALIBRATE_KINDS)'

ANSWERS_MINUTES ?= 120
ANSWERS_KINDS ?=
answers: build  ## races beside an ordered disturbance into docs/calibration/disturbed.jsonl and docs/evidence/verdicts.md; ANSWERS_MINUTES=120, ANSWERS_KINDS='^same'
	cargo build --release --examples -p dragstrip-engine
	$(BIN)/dragstrip install --line-up default --yes
	$(BIN)/python benchmarks/answers.py --minutes $(ANSWERS_MINUTES) --kinds '$(ANSWERS_KINDS)'
	$(BIN)/python benchmarks/answers.py --write
	$(BIN)/python benchmarks/simulate_disturbed.py --write docs/evidence/verdicts.md

simulate: build  ## the same by simulation and on recorded noise, into docs/evidence/simulation.md
	$(BIN)/python benchmarks/simulate.py --write docs/evidence/simulation.md

check-stacks: build  ## install all contenders, verify each; as root also as nobody; nothing may be left
	$(BIN)/python tests/soak/check_stacks.py

docs: architecture  ## the tables of CONTENDERS.md, workloads.md, other-tools.md and ARCHITECTURE.md; which measured pages are older; all pages into runs/docs
	$(BIN)/python docs/write_reference.py
	$(BIN)/python benchmarks/evidence.py --mark
	$(BIN)/pip install --quiet -c constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

architecture: .stamps/test-deps  ## the tables of docs/ARCHITECTURE.md, from the sources; the picture into runs/architecture.svg
	$(BIN)/python docs/draw_architecture.py

RUN ?= last
pictures: .stamps/test-deps  ## the pictures of README and docs, from a stored race; RUN=ID
	mkdir -p docs/pictures
	$(BIN)/dragstrip report $(RUN) --svg docs/pictures/race.svg
	$(BIN)/dragstrip export $(or $(RUN),last) docs/pictures/first.svg --chart ranking
	$(BIN)/python docs/take_pictures.py $(RUN)

# One race of the default line-up, and one of several workloads, in a store of their own.
race-pictures: .stamps/test-deps  ## races again, then takes all pictures of README and docs
	rm -rf runs/pictures && mkdir -p runs/pictures
	export XDG_DATA_HOME=$(CURDIR)/runs/pictures; \
	$(BIN)/dragstrip race --serve "orders-v1=node docs/orders.js 20" --serve "orders-v2=node docs/orders.js" \
		--path /orders -b '{"item":"tea","count":2}' --quiet && \
	$(BIN)/dragstrip race nginx-lua node tornado --workload hello,multiply --budget 2m --quiet && \
	$(BIN)/dragstrip race --line-up default --budget 90s --quiet && \
	$(MAKE) --no-print-directory pictures

# What a release holds: sources, and a wheel for each processor that can be built for here.
ARM64 := aarch64-unknown-linux-gnu
SHARE := dragstrip._engine.data/data/share
# LuaJIT's own program is linked besides its library: zig's linker is to be told of unwinding, and strip can't read arm64.
FOR_LUAJIT := TARGET_LIBS=-lunwind TARGET_STRIP=true
dist: .stamps/build  ## source package and wheels with man pages and completions into dist/
	$(BIN)/pip install --quiet -c constraints.txt --editable '.[dist]'
	rm -rf dist $(SHARE)
	$(BIN)/python packaging/manual_and_completions.py $(SHARE)
	$(BIN)/maturin sdist --out dist
	$(BIN)/maturin build --release --strip --out dist
	@# Rust's library for arm64 comes by rustup; where there is none, or no network, x86-64 alone is built.
	if rustup target list --installed 2>/dev/null | grep -q $(ARM64) || rustup target add $(ARM64); then \
		PATH="$(abspath $(BIN)):$$PATH" $(FOR_LUAJIT) $(BIN)/maturin build --release --target $(ARM64) --zig --out dist || { \
			echo "arm64: LuaJIT can't be built for it here; the wheel goes without wrk's scripts (load -s)"; \
			PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --release --target $(ARM64) --zig --out dist \
				--no-default-features --features pyo3/extension-module; }; \
	else echo "no wheel for arm64: rustup can't add the target $(ARM64)"; fi

clean:
	rm -rf dist dragstrip._engine.data target $(VENV) .stamps runs
