#!/bin/sh
# Builds the tests of the virtual machine lane and runs them in the guest: what `make test-vm` does.
#   test.sh [FILTER]
set -eu
here=$(dirname "$(readlink -f "$0")")
target=${CARGO_TARGET_DIR:-$here/../../../target}
cd "$here/../../.."
binary=$(cargo test -p conductor --features studio --test vm --no-run --message-format=json |
  sed -n 's/.*"executable":"\([^"]*\/vm-[^"]*\)".*/\1/p' | tail -n 1)
exec "$here/run.sh" "${CONDUCTOR_VM_CACHE:-$target/vm-cache}" "$binary" "${1:-}"
