#!/usr/bin/env bash
# The features of the library, one a line, as its Cargo.toml has them. None is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

awk '/^\[/ { on = $0 == "[features]" } on && /^[a-z]/ { print $1 }' Cargo.toml | grep .
