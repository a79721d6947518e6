#!/usr/bin/env bash
# `dragstrip diff` in CI: installs Dragstrip, finds the revision to compare with, races, and writes the reports.
#
# The GitHub action and the GitLab template both run this script. It needs no secret and writes nothing but its own
# folders and the files that CI names. From the environment it takes:
#   DRAGSTRIP_BASE, DRAGSTRIP_HEAD   revisions; empty: what the event tells
#   DRAGSTRIP_OPTIONS                further options of `dragstrip diff`
#   DRAGSTRIP_WHEEL                  a wheel, as a file or an address; empty: built from these sources
#   DRAGSTRIP                        a `dragstrip` that is installed already; nothing is installed then
# `diff.sh sources` only prints a hash over what a wheel is built from, by which CI keeps the wheel.
set -euo pipefail

sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ "${1:-}" = sources ]; then
    cd "$sources"
    echo "hash=$(find Cargo.lock Cargo.toml pyproject.toml crates src -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-20)"
    exit
fi

temporary=${RUNNER_TEMP:-${CI_PROJECT_DIR:+$CI_PROJECT_DIR/.dragstrip}}
temporary=${temporary:-$(mktemp -d)}
reports=$temporary/dragstrip-diff
rm -rf "$reports"
mkdir -p "$reports"
export DRAGSTRIP_CACHE=${DRAGSTRIP_CACHE:-$temporary/dragstrip-cache}

fail() {
    echo "dragstrip: $1" >&2
    result error
    exit 2
}

# Tells CI the outcome and the folder of the reports.
result() {
    if [ -n "${GITHUB_OUTPUT:-}" ]; then
        printf 'outcome=%s\nfolder=%s\n' "$1" "$reports" >> "$GITHUB_OUTPUT"
    fi
}

install() {
    local wheel=${DRAGSTRIP_WHEEL:-} built=$temporary/dragstrip-wheel environment=$temporary/dragstrip-environment
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or later is needed; add a step that installs it"
    python3 -m venv "$environment"
    if [ -z "$wheel" ]; then
        if ! compgen -G "$built/*.whl" > /dev/null; then
            command -v cargo > /dev/null || fail "no wheel is given, and building one needs Rust's cargo; give the input \`wheel\`"
            "$environment/bin/pip" wheel --quiet --no-deps --wheel-dir "$built" "$sources"
        fi
        wheel=$(compgen -G "$built/*.whl" | head -n 1)
    fi
    "$environment/bin/pip" install --quiet "$wheel[page,database,tls]"
    DRAGSTRIP=$environment/bin/dragstrip
}

# The value of a key of the event that started the workflow; empty if it has none.
event() {
    [ -n "${GITHUB_EVENT_PATH:-}" ] || return 0
    python3 - "$1" "$GITHUB_EVENT_PATH" << 'PYTHON'
import json, sys

value = json.load(open(sys.argv[2], encoding="utf-8"))
for key in sys.argv[1].split("."):
    value = value.get(key) if isinstance(value, dict) else None
print(value if isinstance(value, str) else "")
PYTHON
}

is_commit() {
    git rev-parse --verify --quiet --end-of-options "$1^{commit}" > /dev/null
}

# The revision to compare with, by the event: a pull request's base, the commit before a push, else the latest tag.
base() {
    local found=""
    case ${GITHUB_EVENT_NAME:-${CI_PIPELINE_SOURCE:-}} in
        pull_request | pull_request_target) found=$(event pull_request.base.sha) ;;
        merge_request_event) found=${CI_MERGE_REQUEST_DIFF_BASE_SHA:-} ;;
        push) found=$(event before)${CI_COMMIT_BEFORE_SHA:-} ;;
    esac
    # Where the branch left its base counts, not what has come to the base since.
    if [ -n "$found" ] && is_commit "$found"; then
        git merge-base "$found" HEAD 2> /dev/null || echo "$found"
        return
    fi
    git describe --tags --abbrev=0 HEAD~1 2> /dev/null || git rev-parse --verify --quiet HEAD~1 || true
}

[ -n "${DRAGSTRIP:-}" ] || install
against=${DRAGSTRIP_BASE:-$(base)}
[ -n "$against" ] || fail "no revision to compare with: check out the history (fetch-depth: 0), or give the input \`base\`"

# Over all lines: a `--fail-if` on a second line must not be lost.
read -r -d '' -a options <<< "${DRAGSTRIP_OPTIONS:-}" || true
code=0
"$DRAGSTRIP" diff --quiet --store "$temporary/dragstrip-races.sqlite" \
    --export-markdown "$reports/diff.md" --json "$reports/diff.json" --html "$reports/diff.html" \
    --junit "$reports/junit.xml" "${options[@]}" -- "$against" "${DRAGSTRIP_HEAD:-HEAD}" || code=$?

if [ -f "$reports/diff.md" ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$reports/diff.md" >> "$GITHUB_STEP_SUMMARY"
fi
case $code in
    0) result passed ;;
    1) result failed ;;
    3) result unclear; echo "dragstrip: no interval to test, so the threshold neither holds nor fails" >&2 ;;
    *) result error ;;
esac
exit "$code"
