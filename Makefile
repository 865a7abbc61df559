# Two commands are all a newcomer needs: `make run` and `make test`. Everything else is a part of them.

# Where rustup puts its tools; a toolchain found earlier on PATH that is too old must not win.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# What a studio has: JACK, ALSA and X11 are Linux's, CoreMIDI is always there on macOS.
FEATURES := $(if $(filter Darwin,$(shell uname -s)),gamepad,studio)

.DEFAULT_GOAL := help
.PHONY: help run test test-vm check check-macos build bench tools bench-tools test-tools

help: ## show this list
	@sed -n 's/^\([a-z-]*\): .*## /\1 /p' Makefile | while read -r name what; do printf '  make %-11s %s\n' "$$name" "$$what"; done

run: tools ## install what is missing, build, and start the demo studio
	cargo run --release --locked --package conductor --features $(FEATURES) -- up --demo

test: test-tools ## install what is missing, and run every test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features conductor/studio --locked -- -D warnings
	.ci/test

test-vm: tools ## ALSA sequencer and gamepads on a real kernel, in a virtual machine that needs no privileges
	@.ci/install .ci/packages.vm
	crates/conductor-testkit/vm/test.sh

check: tools ## formatting and lints only
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features conductor/studio --locked -- -D warnings

check-macos: tools ## lints of what runs on macOS, from any machine; nothing is linked or run
	.ci/check-macos

build: tools ## build the release binary
	cargo build --release --locked --package conductor --features $(FEATURES)

bench: test-tools bench-tools ## memory, start and idle time; port to port over JACK; the engine and the lanes; calls through every door beside the bare SDK, Node and Python
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
