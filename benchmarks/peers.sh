#!/usr/bin/env bash
# Installs the load generators that `make bench` compares with and that a registry has; says which it could not have.
# Nothing is installed that is on PATH already; what is built goes to a private folder, not into the project.
set -uo pipefail
tools="${DRAGSTRIP_BENCH_TOOLS:-$HOME/.cache/dragstrip-bench}"
have() { command -v "$1" >/dev/null || [ -x "$tools/bin/$1" ]; }

declare -A packages=([wrk]=wrk [ab]=apache2-utils [hey]=hey [h2load]=nghttp2-client [nginx]=nginx-light)
wanted=()
for program in "${!packages[@]}"; do
    have "$program" || wanted+=("${packages[$program]}")
done
if [ "${#wanted[@]}" -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "peers: apt-get install ${wanted[*]}"
    apt-get install -y --no-install-recommends "${wanted[@]}" >/dev/null || echo "peers: apt-get could not"
fi
if ! have oha && command -v cargo >/dev/null; then
    echo "peers: cargo install oha, into $tools (some minutes)"
    mkdir -p "$tools"
    cargo install --quiet --locked --root "$tools" oha >"$tools/oha.log" 2>&1 ||
        echo "peers: oha does not build here; see $tools/oha.log"
fi
for program in nginx wrk ab hey h2load oha wrk2 weighttp httpress gcannon zrk; do
    have "$program" || echo "peers: $program is not here"
done
exit 0
