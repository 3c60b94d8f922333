# What people type. Every target may be run twice; `make test` and `make demo` alone are enough
# on a fresh machine with Python 3.11 or later. CI (.ci/run) calls the same targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
CODE := src tests tools setup.py $(wildcard bench demo)
TESTS := $(wildcard tests/unit tests/wire tests/sim tests/interop tests/faults)
# Pure computation runs on every core; what talks over real sockets has the machine to itself.
COMPUTING := $(wildcard tests/unit tests/sim)
TALKING := $(filter-out $(COMPUTING),$(TESTS))
# What has compiled modules is tested compiled, as it is run, and once more by its sources.
SOURCES := tests/unit/base tests/unit/broker/replication tests/unit/datanode tests/unit/log \
  tests/unit/namespace tests/unit/quorum tests/unit/runtime tests/unit/wire tests/sim/broker tests/sim/namespace
PYTEST := $(BIN)/python -m pytest

# Servers are started hundreds of times by the tests: without bytecode on disk each start would
# compile the whole of src again, which takes twice as long as the rest of the start.
unexport PYTHONDONTWRITEBYTECODE

# ARGS goes to the tool behind a target: make test ARGS="-k segment -x"
ARGS ?=
# make test-long: SHARD=2/5 runs the second fifth; SEEDS=0-199 gives the simulations their seeds;
# FRESH=1 forgets what earlier runs on this very tree have already passed.
SHARD ?=
SEEDS ?=
FRESH ?=

.PHONY: help setup demo test test-long check bench-kafka bench-metadata bench-hdfs bench-pipeline docs requirements clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## .venv with the pinned, hashed requirements, and what is compiled (once per change)
	@bash tools/setup_venv.sh $(VENV)
	@$(BIN)/python tools/compile_modules.py

demo: setup ## a cluster up, events and files in and out, nodes killed, the disks explained
	$(BIN)/python -m demo $(ARGS)

test: setup ## all tests but the long ones: unit, wire, sim, interop, faults
	@# ARGS may choose tests of one half alone: 5 says that the other half had none of them.
	$(PYTEST) $(COMPUTING) -n auto --dist worksteal -m "not long" $(ARGS) || (( $$? == 5 ))
	HEADRACE_INTERPRETED=1 $(PYTEST) $(SOURCES) -n auto --dist worksteal -m "not long" $(ARGS) || (( $$? == 5 ))
	$(PYTEST) $(TALKING) -m "not long" $(ARGS) || (( $$? == 5 ))

test-long: setup ## the long tests, resumable: SHARD=i/n SEEDS=a-b FRESH=1
	SHARD="$(SHARD)" SEEDS="$(SEEDS)" FRESH="$(FRESH)" \
	  $(PYTEST) -p tools.shards $(TESTS) -m long $(ARGS)

check: setup ## format, lint, types, import rules, and the rules of the tree
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy --strict -p headrace
	$(BIN)/mypy --strict $(wildcard tools/*.py)
	@# What these call unreachable, compiled code takes for impossible.
	$(BIN)/mypy --strict --warn-unreachable $$($(BIN)/python tools/compile_modules.py --list)
	$(BIN)/lint-imports --no-logo
	$(PYTEST) tests/unit/project

bench-kafka: setup ## ours, the real Apache Kafka and the floor in one run: ARGS="--quick --only …"
	$(BIN)/python -m bench.kafka $(ARGS)

bench-metadata: setup ## three controllers and three brokers: metadata rates, failover; ARGS="--kafka"
	$(BIN)/python -m bench.metadata $(ARGS)

bench-hdfs: setup ## our file system and the real Apache HDFS in one run: ARGS="--quick"
	$(BIN)/python -m bench.hdfs $(ARGS)

bench-pipeline: setup ## the pipeline beside Spark's own Kafka source and sink: ARGS="--quick"
	$(BIN)/python -m bench.pipeline $(ARGS)

docs: setup ## the pages that are generated from the code
	$(BIN)/python tools/generate_protocols.py
	$(BIN)/python tools/generate_defaults.py

requirements: setup ## pin the dependencies of pyproject.toml again: ARGS="--upgrade"
	@bash tools/pin_requirements.sh $(BIN) $(ARGS)

clean: ## everything that was built or cached; .venv stays
	rm -rf src/headrace/_compiled .build .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests tools $(wildcard bench demo) -name __pycache__ -type d -prune -exec rm -rf {} +
