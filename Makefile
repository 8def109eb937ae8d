# make run: set everything up and run the embedded server.   make test: set everything up and run all tests.
# make quick: linters, types, and the tests nearest to a change.   make check: linters, types, import rules, all tests.
# make bench, make soak.   make lock ARGS=--upgrade: pin anew.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links
BASE := $(VENV)/.base
DEV := $(VENV)/.dev
VENDOR := dashboard/static/vendor/.copied
SOURCES := rtmpweb dashboard analytics ingest tests bench
# Most tests wait for real programs and real time: with as many as there are cores, these would idle.
WORKERS ?= 4

.PHONY: help run test quick check bench soak screenshots lock packages

help:
	@sed -n '1,3s/^# //p' Makefile

run: $(BASE) $(VENDOR)
	@exec $(BIN)/python manage.py serve

# pytest's exit code goes into EXIT_FILE when one is named, so that pytest's closing line is the last (see .ci/run).
test: $(DEV) $(VENDOR) packages
	@$(BIN)/python -m tests.suite $(WORKERS) $(ARGS); code=$$?; \
	if [ -n "$(EXIT_FILE)" ]; then echo $$code > "$(EXIT_FILE)"; else exit $$code; fi

# SINCE: a commit; without one, what is not committed yet, or else the last commit.
quick: $(DEV) $(VENDOR)
	@$(BIN)/python -m tests.suite.quick $(SINCE)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory test

bench: $(DEV)
	@$(BIN)/python -m bench $(ARGS)

soak: $(DEV)
	@$(BIN)/python -m pytest -m soak $(ARGS)

screenshots: $(DEV) $(VENDOR)
	PYTHONPATH=. $(BIN)/python docs/screenshots.py $(ARGS)

lock: $(DEV)
	$(LOCK) $(ARGS) pyproject.toml -o requirements/base.lock
	$(LOCK) $(ARGS) pyproject.toml --extra connect -o requirements/connect.lock
	$(LOCK) $(ARGS) pyproject.toml --extra java -o requirements/java.lock
	$(LOCK) $(ARGS) pyproject.toml --extra dev -o requirements/dev.lock
	$(LOCK) $(ARGS) requirements/node.in -o requirements/node.lock

packages:
	@sh tests/packages.sh

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "rtmpweb needs Python 3.11 or newer; name it: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "No venv module? On Debian: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }

$(BASE): requirements/base.lock | $(BIN)/python
	@echo "Installing the Python packages (a few minutes the first time) ..."
	@$(PIP) -r requirements/base.lock
	@touch $(BASE)

$(DEV): requirements/dev.lock | $(BIN)/python
	@echo "Installing the Python packages of development (a few minutes the first time) ..."
	@$(PIP) -r requirements/dev.lock
	@touch $(BASE) $(DEV)

$(VENDOR): package-lock.json dashboard/vendor.py | $(BIN)/python
	@echo "Fetching the front-end files ..."
	@command -v npm >/dev/null || $(PIP) -r requirements/node.lock
	@PATH="$$PATH:$(CURDIR)/$(BIN)" npm ci --ignore-scripts --no-audit --no-fund --silent
	@$(BIN)/python -m dashboard.vendor
	@touch $(VENDOR)
