# make run: set everything up and run the embedded server.   make test: set everything up and run the default tests.
# make test-pure: the protocol core alone, in seconds.   make test-all: the default tests and the matrix.
# make quick: linters, types and the pure tests.   make check: linters, types, import rules and the default tests.
# make bench, make soak.   make lock ARGS=--upgrade: pin newer versions.

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
# Many tests wait for real programs, so more workers than cores keep the cores busy.
WORKERS ?= 4
REPORTS := var/tests/reports
DJANGO := tests/ingest tests/dashboard tests/analytics tests/rtmpweb
# Two workers, because each one first migrates its own PostgreSQL database, and that takes longer than most of its tests.
STORES := -n 2
# Folders whose tests take long begin first, so that all workers end together.
REST := tests/e2e tests/production tests/analytics tests --ignore=tests/pure
# On a CI server pytest would print values whole, and hundreds of processes should share one compilation of the project.
unexport CI BUILD_NUMBER PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-pure test-all quick check bench soak screenshots lock packages

help:
	@sed -n '1,4s/^# //p' Makefile

run: $(BASE) $(VENDOR)
	@exec $(BIN)/python manage.py serve

# $(call run,NAME,ARGUMENTS): one pytest run with the report NAME.xml. ARGS go to each run; 5 means that no test matched.
run = $(BIN)/python -m pytest -q --tb=short -n $(WORKERS) --dist loadgroup --no-loadscope-reorder \
	--junitxml=$(REPORTS)/$(1).xml $(2) $(ARGS) || [ $$? = 5 ] || code=1
# `make test-all` gives hypothesis new examples in each run; `make test` uses the same ones.
RANDOM_EXAMPLES := --hypothesis-profile random
PURE := -p no:django -o addopts="--strict-markers --strict-config -p no:cacheprovider" tests/pure -m "not matrix"
begin = rm -rf $(REPORTS); mkdir -p $(REPORTS); code=0
javascript = PATH="$$PATH:$(CURDIR)/$(BIN)" node --test --test-reporter=junit \
	--test-reporter-destination=$(REPORTS)/javascript.xml tests/js/*.test.mjs || code=1
summary = $(BIN)/python -m tests.summary $(REPORTS) $$code

test: $(DEV) $(VENDOR) packages
	@$(begin); $(javascript); $(call run,pure,$(PURE)); \
	$(call run,default,-m "(journey or not matrix) and not soak" $(REST)); \
	TESTS_FORM=production $(call run,stores,$(STORES) -m "stores and not matrix" $(DJANGO)); \
	$(summary)

test-pure: $(DEV)
	@$(begin); $(call run,pure,$(PURE)); $(summary)

test-all: $(DEV) $(VENDOR) packages
	@$(begin); $(javascript); $(call run,pure,$(PURE) $(RANDOM_EXAMPLES) -m ""); \
	$(call run,all,$(RANDOM_EXAMPLES) -m "not alone and not measures_time and not soak" $(REST)); \
	$(call run,timed,-n 3 -m measures_time tests/e2e tests/production); \
	$(call run,alone,-n 0 -m alone tests/e2e); \
	TESTS_FORM=production $(call run,stores,-m "both_forms or stores" $(DJANGO)); \
	$(summary)

quick: $(DEV)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && $(BIN)/mypy $(SOURCES)
	@$(MAKE) --no-print-directory test-pure

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
