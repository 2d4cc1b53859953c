# Needs python3 (3.11 or newer) and make; everything else goes into .venv, at the locked versions.

PYTHON ?= python3
LOCK_FLAGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
COMPILE := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --generate-hashes \
           --no-emit-options --strip-extras --allow-unsafe --build-deps-for editable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-statistics fuzz lint browser docs bench lock clean

help:
	@echo "make demo    simulate a table, cluster it, show the result"
	@echo "make test    all checks: lint, tests, docs"
	@echo "make test-statistics   claims over many seeds (a quarter of an hour); writes docs/results"
	@echo "make fuzz    hostile files (CASES=200000, an hour; SEED=0, WORKERS=1); writes docs/results"
	@echo "make lint    ruff, mypy, import contracts"
	@echo "make docs    build the documentation into build/docs"
	@echo "make bench   run the benchmarks and write docs/results"
	@echo "make lock    rewrite requirements/ from pyproject.toml (LOCK_FLAGS=--upgrade for newer versions)"
	@echo "make clean   remove everything that make has made, .venv included"

# The full set serves as well where it is installed.
demo: $(or $(wildcard .venv/.dev-stamp),.venv/.run-stamp)
	@$(BIN)/python examples/demo.py

lint: .venv/.dev-stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: lint browser
	$(BIN)/pytest -n 2
	@$(MAKE) --no-print-directory docs

# Slow, with fixed seeds; what it measured goes to docs/results/statistics.md.
test-statistics: .venv/.dev-stamp
	$(BIN)/python -m pytest -n 2 -p tests.statistics_page -p no:randomly -m statistics

# Hostile files, given to every reader; CASES=20000 takes some minutes.
CASES ?= 200000
SEED ?= 0
WORKERS ?= 1
fuzz: .venv/.dev-stamp
	$(BIN)/python -m fuzz --cases $(CASES) --seed $(SEED) --workers $(WORKERS) --page docs/results/fuzz.md

# The report is tested in a real browser, Debian's; where there is none these tests are skipped.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    echo "Installing Chromium (half a minute, once)" && \
	    { apt-get -qq update; apt-get -qq install -y --no-install-recommends chromium; } >/dev/null 2>&1; } || \
	    echo "note: no Chromium, so tests of the report in a browser are skipped" >&2

docs: .venv/.dev-stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: .venv/.dev-stamp
	$(BIN)/python -m benchmarks

lock: .venv/.dev-stamp
	$(COMPILE) $(LOCK_FLAGS) --extra dev --extra docs --extra experiments -o requirements/dev.txt pyproject.toml
	@# Starting from the full lock keeps the versions of the two files the same.
	cp requirements/dev.txt requirements/run.txt
	$(COMPILE) -o requirements/run.txt pyproject.toml
	@if grep -nE '://|^-|@ ' requirements/*.txt; then \
	    echo "error: a lock names a host, a path or an option" >&2; exit 1; fi

clean:
	rm -rf .venv build dist demo-output .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests fuzz -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "error: $(PYTHON) is missing or older than 3.11; name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "error: $(PYTHON) has no venv module; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv .venv

.venv/.run-stamp: requirements/run.txt pyproject.toml | .venv/bin/python
	@echo "Installing the locked packages into .venv (about a minute, once)"
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

.venv/.dev-stamp: requirements/dev.txt pyproject.toml | .venv/bin/python
	@echo "Installing the locked packages for development into .venv (a few minutes, once)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
