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

# At most 26 crates beside our own five, on the system that this is tested on.
default=$(tree)
count=$(wc -l <<<"$default")
((count <= 26)) || fail "$count crates, more than 26:" $default

# tokio is not in the default tree. Some adapters bring the crate, because the library uses its channels
# or traits, but none brings its runtime.
! grep -qx tokio <<<"$default" || fail "tokio is in the default tree"
counts=()
features=$(.ci/features.sh)
for feature in $features; do
    lines=$(cargo tree --package ws-runtime --features "$feature" --edges normal,features --prefix none)
    # hyper-util's legacy client cannot be had without a connector of its own on tokio's sockets.
    parts='rt|rt-multi-thread|time|fs|process|signal|full'
    [[ $feature == hyper-util ]] || parts+='|net'
    ! grep -E "^tokio feature \"($parts)\"" <<<"$lines" ||
        fail "the feature $feature brings tokio's runtime, or parts of it"
    counts+=("$feature $(tree --features "$feature" | wc -l)")
done

list=$(printf ', %s' "${counts[@]}")
echo "dependencies: $count crates by default; with a feature: ${list#, }; no tokio runtime"
