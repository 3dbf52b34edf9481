# Everything a contributor runs. Bare `make` prints the list.

VENV := .venv
BIN := $(VENV)/bin
# Twice quiet: errors are shown, warnings about a machine's own settings of pip are not.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --editable
# Looked up only when an environment has to be made. Give PYTHON=... to choose another one.
PYTHON ?= $(shell tools/find-python)
# Passed on to pytest: make test ARGS="tests/unit -x"
ARGS ?=

# One environment, a stamp for each extra: it was installed since pyproject.toml last changed.
CLI := $(VENV)/.installed-cli
TEST := $(VENV)/.installed-test
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench

# Without Node or the network the page's own tests are skipped, and the run says so at its end; in CI it is an error.
BUILD_PAGE = $(BIN)/python tools/build-page || test "$${CI:-}" != true

.DEFAULT_GOAL := help
.NOTPARALLEL:
# pip says nothing for minutes otherwise.
ANNOUNCE = @echo 'Installing stormproof[$(1)] and what it needs into $(VENV) (about $(2))'

.PHONY: help demo test test-long test-flaky check format bench test-all coverage docs claims rivals proof soak load dist fuzz mutants parity page web-test pictures clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(CLI) ## 20 seconds: an outage, naive retries against Stormproof
	@$(BIN)/stormproof demo

test: $(TEST) ## the suite, in about five minutes; installs redis-server and chromium first where it can
	@tools/setup-services
	@$(BUILD_PAGE)
	@tools/run-tests $(BIN)/python $(ARGS)

test-long: $(DEV) ## the rest: full sizes, the tools, the site, types of users' code
	@tools/setup-services
	@$(BUILD_PAGE)
	@tools/run-tests $(BIN)/python --long $(ARGS)

test-flaky: $(TEST) ## the suite N times: shuffled, under load, with SIGINT ignored, in 1, 2 and 4 processes
	@tools/setup-services
	@$(BUILD_PAGE)
	@tools/test-flaky $(BIN)/python $(or $(N),6)

check: $(DEV) ## lint, format, types, import rules, generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/generate-sync --check

format: $(DEV) ## rewrite the code as `make check` wants it
	$(BIN)/python tools/generate-sync
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BENCH) ## the cost of a call, next to a hand-written loop and other libraries
	$(BIN)/python -m verification.benchmarks $(ARGS)

test-all: ## unit, regressions, properties and faults under every Python from 3.11 to 3.15 found here
	@tools/test-all $(ARGS)

# Long inputs are read in time, but not while every branch is noted.
COVERED := --cov=stormproof --cov-branch --cov-append --cov-report= \
	--deselect=tests/tools/test_fuzzing.py::test_long_inputs_are_read_in_time
coverage: $(DEV) ## the suite again, with the branches of the core that it never takes; at least 99 % are taken
	@tools/setup-services
	@rm -f build/test/coverage-*
	PYTEST_ADDOPTS='$(COVERED)' tools/run-tests $(BIN)/python
	PYTEST_ADDOPTS='$(COVERED)' tools/run-tests $(BIN)/python --long
	$(BIN)/python tools/core-coverage --write build/test/coverage-1 build/test/coverage-2

docs: $(DEV) ## build the site into build/site, without a warning and without the network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

claims: $(DEV) ## docs/claims.md and its plots: published claims about retries, each run and judged
	$(BIN)/python -m verification.claims

rivals: $(BENCH) $(DEV) ## docs/comparison.md: the same probes run against other libraries
	$(BIN)/python -m verification.comparison

proof: $(DEV) ## docs/proof.md: what is proved, by which test, with the figures of this run
	@tools/setup-services
	$(BIN)/python -m verification.report

soak: $(DEV) ## 10,000 seeded simulations of whole pipelines (the suite runs 300)
	$(BIN)/python -m tests.simulation --seeds 10000 --figures verification/report/figures/simulation.json

load: $(DEV) ## ten minutes of load and faults through httpx; writes docs/soak.md
	@tools/setup-services
	$(BIN)/python -m verification.soak $(ARGS)

dist: $(DEV) ## wheel and sdist of the last commit: reproducible, complete, nothing private, each extra alone
	$(BIN)/python tools/check-dist $(ARGS)

fuzz: $(DEV) ## every parser fed with malformed input, guided by coverage
	$(BIN)/python -m verification.fuzzing $(ARGS)

mutants: $(DEV) ## every rule changed a little: would the tests notice? (a run that was stopped goes on)
	nice -n 10 $(BIN)/python -m verification.mutation $(ARGS)

parity: $(DEV) ## the lab against itself and others: 10,000 random runs by both engines (the suite: 200), published figures
	$(BIN)/python -m tests.lab.published_figures
	$(BIN)/python -m tests.lab.random_runs $(ARGS)

page: $(DEV) ## the lab's page, built from web/ (Node from PATH, or the one that dev brings)
	$(BIN)/python tools/build-page

web-test: $(DEV) ## the unit tests of the lab's page
	$(BIN)/python tools/build-page --test

pictures: $(DEV) ## the screenshots in docs/images, made by the browser tests
	STORMPROOF_PICTURES=1 $(BIN)/python -m pytest -q tests/integration/browser

clean: ## remove environments, caches and build output
	rm -rf .venv .venv-* build dist web/node_modules web/.test-build src/stormproof/lab/_page .coverage htmlcov .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'No Python >= 3.11 with venv and pip found on PATH (PYTHON=... names one).' >&2; exit 1; }
	'$(PYTHON)' -m venv $(VENV)

$(CLI): pyproject.toml | $(BIN)/python
	$(call ANNOUNCE,cli,60 MB)
	@$(PIP_INSTALL) '.[cli]'
	@touch $@

# test brings cli with it, and dev both, so a stamp counts for the smaller ones too.
$(TEST): pyproject.toml | $(BIN)/python
	$(call ANNOUNCE,test,1.1 GB)
	@$(PIP_INSTALL) '.[test]'
	@touch $@ $(CLI)

$(DEV): pyproject.toml | $(BIN)/python
	$(call ANNOUNCE,dev,1.9 GB)
	@$(PIP_INSTALL) '.[dev]'
	@touch $@ $(TEST) $(CLI)

$(BENCH): pyproject.toml | $(BIN)/python
	$(call ANNOUNCE,bench,30 MB)
	@$(PIP_INSTALL) '.[bench]'
	@touch $@
