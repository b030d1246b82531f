# Each target first creates the environment in .venv, and finds or installs a Java for Spark.
#
#   make demo       runs the main job on real data, and kills a TaskManager
#   make test       runs the tests, except the rules on the code itself (see lint)
#   make quick      runs the tests that need no Spark and are not slow, in a minute
#   make test-long  runs the tests that take minutes: whole pages of docs/, notebooks and benchmarks, endless kills, a deeper
#                   search for counterexamples
#   make lint       checks format, lint, types, import contracts, rules on the code
#   make check      runs lint, then the tests; required for a change
#   make bench      compares the speed with Spark's own streaming
#   make simulate   simulates two thousand clusters in virtual time, and some again under other hash seeds
#   make clean      restores a fresh clone

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PREPARED := build/cache/.prepared
# The script runs first in a recipe's shell; if it finds no Java, the recipe ends with its message.
WITH_JAVA := JAVA_HOME=$$(scripts/java.sh) && export JAVA_HOME &&

.DEFAULT_GOAL := check
.PHONY: demo test quick test-long check lint bench simulate clean

demo: $(READY)
	@$(WITH_JAVA) $(BIN)/python examples/flights.py $(ARGS)

# The tests start a hundred Python processes: without bytecode on disk each would compile every module again.
test quick test-long: export PYTHONDONTWRITEBYTECODE :=

# Four processes, each with its own Spark session: with fewer the two cores would be idle at times.
test: export FLYKKA_CACHE_DIR := $(CURDIR)/build/cache
test: $(PREPARED)
	@$(WITH_JAVA) $(BIN)/python -m pytest -n 4 --dist worksteal --ignore tests/layout -m 'not long' --durations=10 --durations-min=0.25 $(ARGS)

# The tests start Spark a hundred times, so record its classes first. Meanwhile compile the tests, because four processes
# would each compile all of them.
$(PREPARED): $(READY)
	@$(WITH_JAVA) { $(BIN)/flykka class-archive & archive=$$!; \
	    $(BIN)/python -m pytest -q --collect-only -m 'not long' > /dev/null; wait $$archive; }
	@touch $@

quick: $(READY)
	@$(BIN)/python -m pytest -n auto --dist worksteal --file-budget 6 \
	    -m 'not spark and not slow and not long' $(ARGS)

test-long: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m pytest -m long --timeout 1200 --durations=0 --durations-min=0.25 $(ARGS)
	@$(BIN)/python -m pytest -n auto -m 'hypothesis and not spark and not long' --hypothesis-profile deep $(ARGS)

check: lint test

# Layout tests are rules on names, imports, sizes and words of the code and the docs.
# The cache of lint-imports would keep reporting a new module as missing until its importer changes.
lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict -p flykka
	$(BIN)/mypy --explicit-package-bases $(wildcard examples benchmarks tests)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -n auto tests/layout

bench: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.streaming $(ARGS)

# Processes with different hash seeds must agree: no decision depends on the order of a set.
simulate: $(READY)
	@$(BIN)/flykka simulate --seeds 2000 --jobs 2 $(ARGS)
	@mkdir -p build
	@for seed in 1 2; do PYTHONHASHSEED=$$seed $(BIN)/flykka simulate --seeds 100 --digest > build/simulated-$$seed; done
	@cmp build/simulated-1 build/simulated-2 && echo 'the same turns under two hash seeds'

clean:
	rm -rf $(VENV) build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Rebuilt when dependencies change; the stamp is written last, so an interrupted build is repeated.
$(READY): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'flykka needs Python 3.11 or newer: make PYTHON=/path/to/it' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	    { echo 'python3 has no venv module (Debian, Ubuntu: apt install python3-venv)' >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[examples,test,dev,benchmarks]'
	@touch $@
