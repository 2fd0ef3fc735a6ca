#!/usr/bin/env bash
# What the runtime brings into a user's build: few crates, and no other runtime.
set -euo pipefail

fail() {
    echo "dependencies: $*" >&2
    exit 1
}

# tree ARGUMENTS...: the names of all crates that are linked or run in a user's build, ours left out
tree() {
    cargo tree --package ws-runtime --edges normal,build --prefix none --format '{p}' "$@" |
        awk '{ print $1 }' | sort -u | grep -v '^ws-'
}

# At most 26 crates beside our own four, on the system that this is tested on.
default=$(tree)
count=$(wc -l <<<"$default")
((count <= 26)) || fail "$count crates, more than 26:" $default

# tokio is not in the default tree. The feature `hyper` brings the crate, because hyper uses its channels,
# but never its runtime.
! grep -qx tokio <<<"$default" || fail "tokio is in the default tree"
features=$(cargo tree --package ws-runtime --features hyper --edges normal,features --prefix none)
! grep -qE '^tokio feature "(rt|rt-multi-thread|net|time|full)"' <<<"$features" ||
    fail "the feature hyper brings more of tokio than its channels"

echo "dependencies: $count crates by default, $(tree --features hyper | wc -l) with hyper, no tokio runtime"
