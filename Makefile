# A newcomer needs two commands: `make run` and `make test`. The other targets are parts of them or
# optional.

# rustup's folder comes first, so that an older toolchain elsewhere on PATH is not used.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# Backends: JACK, ALSA and X11 on Linux; CoreMIDI is always built on macOS.
FEATURES := $(if $(filter Darwin,$(shell uname -s)),gamepad,studio)

.DEFAULT_GOAL := help
.PHONY: help run test test-vm check check-macos build bench tools bench-tools test-tools

help: ## show this list
	@sed -n 's/^\([a-z-]*\): .*## /\1 /p' Makefile | while read -r name what; do printf '  make %-11s %s\n' "$$name" "$$what"; done

run: tools ## install what is missing, build, and start the demo studio
	cargo run --release --locked --package conductor --features $(FEATURES) -- up --demo

test: test-tools ## install what the tests need, and run all of them
	.ci/comments
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features conductor/studio --locked -- -D warnings
	.ci/test

test-vm: tools ## test the ALSA sequencer and gamepads on a real kernel, in an unprivileged virtual machine
	@.ci/install .ci/packages.vm
	crates/conductor-testkit/vm/test.sh

check: tools ## formatting, lints and dependencies only
	.ci/comments
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features conductor/studio --locked -- -D warnings
	.ci/deny

check-macos: tools ## lints of the macOS code, on any machine; nothing is linked or run
	.ci/check-macos

build: tools ## build the release binary
	cargo build --release --locked --package conductor --features $(FEATURES)

bench: test-tools bench-tools ## memory, start and idle time; JACK port to port; engine and workers; calls at every door, compared with the bare SDK, Node and Python
	cargo bench --locked --package conductor --features studio --bench footprint
	cargo bench --locked --package conductor --features studio --bench ports
	cargo bench --locked --package conductor --features studio --bench plugins
	cargo bench --locked --package conductor-core --bench engine -- --quick
	cargo bench --locked --package conductor-set --bench compared
	cargo bench --locked --package conductor --features studio --bench lane --bench audit -- --quick
	cargo build --release --locked --package conductor --package conductor-testkit --bins --features conductor/studio
	crates/conductor-testkit/clients/install bench
	cargo bench --locked --package conductor --features studio --bench patch
	crates/conductor-testkit/clients/bench
	python3 crates/conductor-testkit/clients/outside_bench.py target/release

tools:
	@.ci/install .ci/packages.run
	@.ci/rust

bench-tools: tools
	@.ci/install .ci/packages.bench

test-tools:
	@.ci/install .ci/packages.run .ci/packages
	@command -v npm >/dev/null || .ci/install .ci/packages.node
	@.ci/rust
	@crates/conductor-testkit/clients/install
