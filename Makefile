# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# make run          build Weir and play the edge router's captures through it; results in out/
# make test         every test of the workspace, the examples among them
# make check        the checks that take a minute: text, format, lints, documentation, licences
# make conformance  the kernel's own tc test suite, run under Weir as an ordinary user
# make bench        the benchmarks, short (no judgement of times)
# make fuzz         ten minutes of each fuzz target (FUZZ_SECONDS=600)
# make ci           what continuous integration runs: all of the above but `run` and `fuzz`
#
# Each target first lets ci/setup install what is missing; where it may not, it
# says what to ask an administrator for.

CARGO ?= cargo
OUT ?= out
WEIR ?= target/release/weir
EDGE := examples/edge-router
FUZZ_SECONDS ?= 600
# Debian gives an ordinary user no path to tc and sysctl; without one, tests that run them are skipped.
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: all run test check conformance bench fuzz ci build setup clean

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
	@echo "Left in $(OUT)/: lan.pcapng, wan.pcapng, tap.pcapng (what was sent, a comment on each packet) and report.json"

test:
	@ci/setup test
	$(CARGO) test --workspace
	@echo "make test: no test failed"

check:
	@ci/run-checks quick

conformance:
	@ci/setup conformance
	$(CARGO) build --release --bin weir
	conformance/run

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
