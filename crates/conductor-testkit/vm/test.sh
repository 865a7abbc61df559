#!/bin/sh
# Builds the tests for the virtual machine and runs them there. `make test-vm` calls this script.
#   test.sh [FILTER]
set -eu
here=$(dirname "$(readlink -f "$0")")
target=${CARGO_TARGET_DIR:-$here/../../../target}
cd "$here/../../.."
binary=$(cargo test -p conductor --features studio --test vm --no-run --message-format=json |
  sed -n 's/.*"executable":"\([^"]*\/vm-[^"]*\)".*/\1/p' | tail -n 1)
exec "$here/run.sh" "${CONDUCTOR_VM_CACHE:-$target/vm-cache}" "$binary" "${1:-}"
