#!/usr/bin/env bash
# The engine's tests where a bad access of memory is seen: AddressSanitizer over both back ends, Miri over what makes no
# system call it does not know. Both need a nightly toolchain; without one valgrind's memcheck is used, where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
triple="$(uname -m)-unknown-linux-gnu"

if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    if ! command -v valgrind >/dev/null; then
        echo "sanitize: left out: no nightly toolchain (rustup toolchain install nightly), no valgrind (apt-get install valgrind)"
        exit 0
    fi
    echo "sanitize: no nightly toolchain; valgrind's memcheck over the epoll back end (it knows no io_uring buffers)"
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=9" \
        cargo test --quiet --release -p dragstrip-engine --test epoll -- --test-threads=1
    exit 0
fi

echo "sanitize: AddressSanitizer"
RUSTFLAGS="-Zsanitizer=address" PROPTEST_CASES=100 cargo +nightly test --quiet --target "$triple" --target-dir target/sanitize \
    -p dragstrip-engine --lib --tests

if cargo +nightly miri --version >/dev/null 2>&1; then
    echo "sanitize: Miri"
    # Isolation off: the corpus is read from files. The back ends' system calls are not Miri's: those tests are above.
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance"
    cargo +nightly miri test --quiet --target-dir target/miri -p dragstrip-engine --test response -- \
        a_right_answer interim without_a_body contradicts
    cargo +nightly miri test --quiet --target-dir target/miri -p dragstrip-engine --lib -- \
        buffers:: plan:: fixed::
else
    echo "sanitize: Miri is left out (rustup component add miri --toolchain nightly)"
fi
