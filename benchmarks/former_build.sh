#!/bin/bash
# former_build.sh COMMIT: the engine's driver of an earlier commit, as runs/former/COMMIT/drive, which comparisons need.
set -e
commit=$1
place=runs/former/$commit
[ -x "$place/drive" ] && exit 0
rm -rf "$place"
git worktree prune
git worktree add --quiet --detach "$place/source" "$commit"
trap 'git worktree remove --force "$place/source"' EXIT
CARGO_TARGET_DIR=$PWD/$place/target cargo build --quiet --release -p dragstrip-engine --example drive \
    --manifest-path "$place/source/Cargo.toml"
cp "$place/target/release/examples/drive" "$place/drive"
rm -rf "$place/target"
