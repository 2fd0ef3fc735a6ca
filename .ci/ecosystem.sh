#!/usr/bin/env bash
# Real libraries against real servers: the proofs in tests/ecosystem/, a workspace of its own.
#
# Installs the servers where they are missing, and starts none of them: the proofs do that, each on a free
# port of this machine and in a folder of its own, and stop it by its own process id.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$target/ci
mkdir -p "$logs"

# PROGRAM:PACKAGE, of Debian. /usr/sbin is not on everybody's path, and PostgreSQL's programs are on nobody's.
programs=(
    curl:curl
    dbus-daemon:dbus
    dnsmasq:dnsmasq-base
    epmd:rabbitmq-server
    h2load:nghttp2-client
    nginx:nginx-light
    redis-server:redis-server
    wrk:wrk
)
missing=()
for entry in "${programs[@]}"; do
    PATH=$PATH:/usr/sbin command -v "${entry%%:*}" >/dev/null || missing+=("${entry##*:}")
done
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
[[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]] || missing+=(rabbitmq-server)

if ((${#missing[@]})); then
    # Debian starts a server that it installs, unless this says no.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    # PostgreSQL would also make a database, which nobody here uses.
    mkdir -p /etc/postgresql-common
    [[ -e /etc/postgresql-common/createcluster.conf ]] ||
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$logs/apt-ecosystem.log"
fi

# The adapters' own examples, and the unit tests that need their features.
cargo test --package ws-runtime --all-features --doc
cargo test --package ws-runtime --all-features --lib

cd tests/ecosystem
cargo fmt --all --check
# A new dependency of ws is one of this workspace too, so its lock file changes with it: `cargo update --workspace` in
# this folder, in the same commit. All other versions stay as they are.
export CARGO_TARGET_DIR=$target/ecosystem
cargo test --locked
cargo run --locked --quiet --example both_contexts
# With the package that compares, which is built nowhere else.
cargo clippy --locked --quiet --workspace --all-targets -- -D warnings
