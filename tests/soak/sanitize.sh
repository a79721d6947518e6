#!/usr/bin/env bash
# The engine's tests where a bad access of memory is seen: AddressSanitizer over both back ends, Miri over what makes no
# system call it does not know. Both need a nightly toolchain; without one valgrind's memcheck is used, where it is.
# With --record, what passed is written into docs/evidence/engine.md; anything that does not pass ends this with its own message.
set -euo pipefail
cd "$(dirname "$0")/../.."
triple="$(uname -m)-unknown-linux-gnu"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
said=""

# Runs tests under a name; what passed is added to what is said.
under() {
    local name="$1" passed
    shift
    echo "sanitize: $name"
    "$@" | tee "$log"
    passed="$(awk '/^test result: ok/ {passed += $4} END {print passed + 0}' "$log")"
    said="$said${said:+; }$name: $passed tests, nothing found"
}

record() {
    echo "sanitize: $said, in $SECONDS s"
    if [ "${1:-}" = --record ]; then
        PYTHONPATH=benchmarks python3 -c '
import sys
from pages import ENGINE_PAGE, circumstances, splice
splice(ENGINE_PAGE, "sanitize", f"{sys.argv[1]}. ({circumstances()}; {sys.argv[2]} s with building)")
' "$said" "$SECONDS"
    fi
}

if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    if ! command -v valgrind >/dev/null; then
        echo "sanitize: left out: no nightly toolchain (rustup toolchain install nightly), no valgrind (apt-get install valgrind)"
        exit 0
    fi
    echo "sanitize: no nightly toolchain; memcheck knows no io_uring buffers, so the epoll back end it is"
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=9"
    under "valgrind's memcheck over the epoll back end" \
        cargo test --release -p dragstrip-engine --test epoll -- --test-threads=1
    record "$@"
    exit 0
fi

RUSTFLAGS="-Zsanitizer=address" PROPTEST_CASES=100 under "AddressSanitizer over the library and both back ends" \
    cargo +nightly test --target "$triple" --target-dir target/sanitize -p dragstrip-engine --lib --tests

if cargo +nightly miri --version >/dev/null 2>&1; then
    # Isolation off: the corpus is read from files. The back ends' system calls are not Miri's: those tests are above.
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance"
    under "Miri over the response parser" cargo +nightly miri test --target-dir target/miri -p dragstrip-engine \
        --test response -- a_right_answer interim without_a_body contradicts
    under "Miri over buffers and plans" cargo +nightly miri test --target-dir target/miri -p dragstrip-engine --lib -- \
        buffers:: plan:: fixed::
else
    echo "sanitize: Miri is left out (rustup component add miri --toolchain nightly)"
fi
record "$@"
