# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# make run          builds Weir and plays the edge router's captures through it; results in out/
# make test         runs every test of the workspace, including the examples
# make check        runs the checks that take a minute: text, format, lints, documentation, licences
# make conformance  runs the kernel's own tc test suite under Weir as an ordinary user
# make tcp-conformance  runs packetdrill's TCP scripts under Weir as an ordinary user (PACKETDRILL_DIR: a copy of it)
# make bench        runs short benchmarks, without judging their times
# make fuzz         runs each fuzz target for ten minutes (FUZZ_SECONDS=600)
# make ci           runs what continuous integration runs: all of the above except `run`, `fuzz` and `tcp-conformance`
#
# Each target first has ci/setup install missing packages. If ci/setup may not install
# them, it prints what to ask an administrator for.

CARGO ?= cargo
OUT ?= out
WEIR ?= target/release/weir
EDGE := examples/edge-router
FUZZ_SECONDS ?= 600
# A test program that hangs ends after this many seconds, and fails.
TEST_SECONDS ?= 400
TEST_RUNNER ?= timeout --kill-after=10 $(TEST_SECONDS)
# Debian's PATH for ordinary users lacks tc and sysctl; tests that run them would be skipped.
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: all run test check conformance tcp-conformance bench fuzz ci build setup clean

all: build

build:
	$(CARGO) build --release --bin weir

setup:
	@ci/setup test

run:
	@ci/setup run
	$(CARGO) build --release --bin weir
	@mkdir -p $(OUT)
	$(WEIR) run \
	    --in edge/lan0=$(EDGE)/lan.pcapng.gz --in core/wan0=$(EDGE)/wan.pcapng.gz \
	    --out edge/lan0=$(OUT)/lan.pcapng --out core/wan0=$(OUT)/wan.pcapng --out edge/tap=$(OUT)/tap.pcapng \
	    --json $(OUT)/report.json $(EDGE)/setup.sh
	@echo "Written to $(OUT)/: lan.pcapng, wan.pcapng, tap.pcapng (the frames sent, with a comment on each) and report.json"

test:
	@ci/setup test
	$(CARGO) --config 'target."cfg(unix)".runner = "$(TEST_RUNNER)"' test --workspace
	@echo "make test: no test failed"

check:
	@ci/run-checks quick

conformance:
	@ci/setup conformance
	$(CARGO) build --release --bin weir
	conformance/run

tcp-conformance:
	@ci/setup conformance
	$(CARGO) build --release --bin weir
	conformance/tcp/run

bench:
	@ci/bench-short

fuzz:
	@ci/setup fuzz
	ci/fuzz $(FUZZ_SECONDS)

ci:
	.ci/run

clean:
	$(CARGO) clean
	rm -rf $(OUT)
