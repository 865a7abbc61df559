# New users need two commands: `make run` and `make test`. The other targets are parts of these two,
# or optional.

# rustup's folder is first in PATH, so that no older toolchain in another folder is used.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# `studio` adds JACK, ALSA and X11. On macOS, CoreMIDI needs no feature.
comma := ,
FEATURES := $(if $(filter Darwin,$(shell uname -s)),gamepad$(comma)desktop,studio)

# Seconds for each fuzz target.
TIME ?= 20
# Hours of the soak.
HOURS ?= 1
# Number of faults, and the seed that selects them.
FAULTS ?= 1000
SEED ?=

.DEFAULT_GOAL := help
.PHONY: help run test eval test-vm check check-macos check-windows test-portable test-windows build dist bench bench-quick instructions \
	fuzz fuzz-seeded soak torture tools bench-tools test-tools screenshots

help: ## show this list
	@sed -n 's/^\([a-z-]*\): .*## /\1 /p' Makefile | while read -r name what; do printf '  make %-14s %s\n' "$$name" "$$what"; done

run: tools ## install what is missing, build, and start the demo studio
	@[ -x target/quick/conductor ] || echo "conductor: the first build compiles 400 crates, which takes 5 to 10 minutes on two cores; later starts take a second or two"
	cargo run --profile quick --locked --package conductor --features $(FEATURES) -- up --demo

test: test-tools ## install what the tests need, check formatting and lints, and run all tests
	.ci/comments
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features conductor/studio --locked -- -D warnings
	.ci/test

eval: tools ## check what a model sees: the tokens of each view, the search for tools, and forty replayed tasks
	cargo test --locked --package conductor --features $(FEATURES) --test integration -- evaluation model_view call_tool --nocapture

test-vm: tools ## test the ALSA sequencer, gamepads and virtual keyboards on a real kernel, in an unprivileged virtual machine
	@.ci/install .ci/packages.vm
	crates/conductor-testkit/vm/test.sh

check: tools ## check formatting, lints and dependencies, without tests
	.ci/comments
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features conductor/studio --locked -- -D warnings
	.ci/deny
	@command -v npm >/dev/null || .ci/install .ci/packages.node
	@crates/conductor-testkit/clients/install
	npm --prefix crates/conductor-testkit/clients run --silent check-console

check-macos: tools ## check the lints of the macOS code, on any machine; nothing is linked or run
	.ci/check-macos

check-windows: tools ## check the lints of the Windows code, on any machine; nothing is linked or run
	@.ci/install .ci/packages.windows
	.ci/check-windows

test-portable: tools ## run the suites that need neither Linux nor Wine, on a Mac or a Windows machine
	.ci/test-portable

test-windows: tools ## build for Windows, and run the suites of .ci/windows-suites under Wine
	@.ci/install .ci/packages.windows
	.ci/test-windows

screenshots: test-tools ## write the pictures of the console into docs/images
	cargo test --locked --package conductor --features studio --test end_to_end -- --ignored --exact console_page::screenshots_of_every_view

build: tools ## build the release binary
	cargo build --release --locked --package conductor --features $(FEATURES)

dist: tools ## build and check the release artefacts: archive, Debian package, MCP bundle, SBOM, zip for Windows
	@.ci/install .ci/packages.dist .ci/packages.windows
	@command -v npm >/dev/null || .ci/install .ci/packages.node
	@packaging/tools
	packaging/dist
	packaging/dist-windows

bench: test-tools bench-tools ## run all benchmarks and compare with other programs; writes docs/benchmarks.md and its plots
	cargo build --release --locked --package conductor --package conductor-testkit --bins --features conductor/studio
	crates/conductor-testkit/clients/install bench
	python3 crates/conductor-testkit/bench/report.py

bench-quick: test-tools bench-tools ## measure the most important paths in a few minutes, and print the page
	python3 crates/conductor-testkit/bench/report.py quick

instructions: tools bench-tools ## compare the instruction counts of eight paths with the committed numbers (BLESS=bless writes them)
	crates/conductor-testkit/instructions/guard $(BLESS)

fuzz: tools ## run every fuzz target for TIME seconds (20 if not given)
	TIME=$(TIME) fuzz/run

fuzz-seeded: tools ## check that every fuzz target detects a mistake that is built in on purpose
	TIME=$(TIME) fuzz/run seeded

torture: test-tools ## run the daemon under FAULTS random faults, then check that each check notices its negative control
	cargo build --locked --package conductor --package conductor-testkit --bins --features conductor/studio
	target/debug/torture target/debug/conductor $(FAULTS) $(SEED)
	cargo build --locked --package conductor --package conductor-testkit --bins --features conductor/studio,conductor-testkit/broken
	target/debug/torture target/debug/conductor broken $(SEED)

soak: build ## run the daemon under steady load for HOURS hours; writes docs/benchmarks/soak.svg
	python3 crates/conductor-testkit/bench/soak.py target/release/conductor $(HOURS) docs/benchmarks

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
