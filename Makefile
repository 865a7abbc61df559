# A newcomer needs two commands: `make run` and `make test`. The other targets are parts of these
# two, or optional.

# rustup's folder is first in PATH, so that no older toolchain in another folder is used.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# `studio` adds JACK, ALSA and X11. On macOS, CoreMIDI needs no feature.
comma := ,
FEATURES := $(if $(filter Darwin,$(shell uname -s)),gamepad$(comma)desktop,studio)

.DEFAULT_GOAL := help
.PHONY: help run test eval test-vm check check-macos check-windows test-windows build dist bench tools bench-tools test-tools screenshots

help: ## show this list
	@sed -n 's/^\([a-z-]*\): .*## /\1 /p' Makefile | while read -r name what; do printf '  make %-11s %s\n' "$$name" "$$what"; done

run: tools ## install what is missing, build, and start the demo studio
	@[ -d target/quick ] || echo "conductor: the first build compiles about 350 crates; on two cores it takes some ten minutes"
	cargo run --profile quick --locked --package conductor --features $(FEATURES) -- up --demo

test: test-tools ## install what the tests need, and run all tests
	.ci/comments
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features conductor/studio --locked -- -D warnings
	.ci/test

eval: tools ## check what a model sees: tokens of each view, the search for tools, and forty replayed tasks
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

test-windows: tools ## build for Windows, and run the suites of .ci/windows-suites under Wine
	@.ci/install .ci/packages.windows
	.ci/test-windows

screenshots: test-tools ## write the pictures of the console into docs/images
	cargo test --locked --package conductor --features studio --test end_to_end -- --ignored --exact console_page::screenshots_of_every_view

build: tools ## build the release binary
	cargo build --release --locked --package conductor --features $(FEATURES)

dist: tools ## build and check the release artefacts: archive, Debian package, MCP bundle, SBOM
	@.ci/install .ci/packages.dist
	@command -v npm >/dev/null || .ci/install .ci/packages.node
	@packaging/tools
	packaging/dist

bench: test-tools bench-tools ## measure memory, start time, JACK latency, the engine, and MCP calls compared with other servers
	cargo bench --locked --package conductor --features studio --bench footprint
	cargo bench --locked --package conductor --features studio --bench ports
	cargo bench --locked --package conductor --features studio --bench plugins
	cargo bench --locked --package conductor-core --bench engine -- --quick
	cargo bench --locked --package conductor-set --bench compared
	cargo bench --locked --package conductor --features studio --bench lane --bench audit -- --quick
	cargo test --release --locked --package conductor --features studio --test end_to_end -- --ignored --exact --nocapture console_page::a_thousand_events_a_second
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
