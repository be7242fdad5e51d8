# Two commands on a machine that has only Python (3.11 or newer) and make: `make demo`, `make test`.
# ARGS is handed on:   make test ARGS="-k crash -x"     JOBS=0 runs the tests in one process
# PYTHON names the interpreter for .venv, else the first that was built with optimizations is taken;
# `UV=` builds it with pip even where there is uv.

.DEFAULT_GOAL := help
BIN := .venv/bin
JOBS ?= 2
READY := .venv/ready
BENCH_READY := .venv-bench/ready
AWS_READY := .venv-aws/ready
GX_READY := .venv-gx/ready

# Without export the script would look for uv itself and miss an explicit `make UV=`.
ifneq ($(origin UV),undefined)
export UV
endif
ifneq ($(origin PYTHON),undefined)
export PYTHON
endif

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: $(READY) ## See it work: three consumers, one truth, a dozen kill -9
	$(BIN)/headgate demo $(ARGS)

.PHONY: test
test: $(READY) $(AWS_READY) ## Run the tests, on a real Postgres that comes with the package (JOBS=2 at a time)
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)

.PHONY: test-services
test-services: $(READY) $(AWS_READY) ## The same suites against further servers, installed into .services
	@scripts/services
	$(BIN)/pytest $(ARGS) tests/services/*.py

.PHONY: test-queue
test-queue: $(READY) $(AWS_READY) ## 10,000 objects through a queue that misbehaves, standard and FIFO (some minutes)
	HEADGATE_TEST_OBJECTS=10000 HEADGATE_TEST_OUTAGE_SECONDS=30 $(BIN)/pytest -q \
	    tests/promises/queue.py tests/promises/queue_crashes.py -k "misbehaves or away" $(ARGS)

.PHONY: test-redrive
test-redrive: $(READY) ## A redrive of 10,000 of which a fifth is still bad (some minutes)
	HEADGATE_TEST_ENTRIES=10000 $(BIN)/pytest -q tests/promises/redrive.py -k "cap" $(ARGS)

.PHONY: test-operations
test-operations: $(READY) ## Sixteen processes call one key at once, 1,000 times (some minutes)
	HEADGATE_TEST_ROUNDS=1000 $(BIN)/pytest -q tests/promises/operation_processes.py -k share_one_execution $(ARGS)

.PHONY: test-gx
test-gx: $(READY) $(GX_READY) ## Great Expectations and pandas, in an environment of their own
	PYTHONPATH=src .venv-gx/bin/pytest -q --noconftest $(ARGS) tests/expectations/suites.py

.PHONY: check
check: lint types layers docs ## Everything that can be said without running it: lint, types, layers, docs
	$(BIN)/pytest -q tests/docs tests/project

.PHONY: lint
lint: $(READY) ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: format
format: $(READY) ## ruff: repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: types
types: $(READY) ## pyright's checker, strict for src
	$(BIN)/basedpyright

.PHONY: layers
layers: $(READY) ## import-linter: who may import whom
	$(BIN)/lint-imports --no-cache

.PHONY: docs
docs: $(READY) ## Build the documentation into build/docs; a warning is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky -d build/doctrees docs build/docs

.PHONY: pictures
pictures: $(READY) ## Record the pictures of docs/images anew: the commands run for real
	$(BIN)/python scripts/record $(ARGS)

.PHONY: bench
bench: $(READY) $(BENCH_READY) $(AWS_READY) ## Measure: the bare loop, Headgate, others; into bench/latest.json (some 15 minutes)
	$(BIN)/python -m bench $(ARGS)

.PHONY: bench-quick
bench-quick: $(READY) ## Measure a small job; fails when a ratio is below its guard
	$(BIN)/python -m bench.quick

.PHONY: bench-page
bench-page: $(READY) ## Write the figures of bench/latest.json into the page and the charts
	$(BIN)/python -m bench.report

.PHONY: venv
venv: $(READY) ## Build .venv, or bring it up to date

# A .venv that was copied or moved with its folder still points to the old place: build it anew.
ifneq ($(shell cat $(READY) 2>/dev/null),$(realpath .))
.PHONY: $(READY)
endif
$(READY): requirements.lock pyproject.toml src/headgate/_version.py scripts/venv
	@scripts/venv

# The others that `make bench` measures, in an environment of their own.
ifneq ($(shell cat $(BENCH_READY) 2>/dev/null),$(realpath .))
.PHONY: $(BENCH_READY)
endif
$(BENCH_READY): bench/requirements.lock scripts/venv-beside | $(READY)
	@scripts/venv-beside .venv-bench bench/requirements.lock

# The cloud that tests talk to: an emulator of AWS, on loopback, in an environment of its own.
ifneq ($(shell cat $(AWS_READY) 2>/dev/null),$(realpath .))
.PHONY: $(AWS_READY)
endif
$(AWS_READY): tests/aws/requirements.lock scripts/venv-beside | $(READY)
	@scripts/venv-beside .venv-aws tests/aws/requirements.lock

# Great Expectations is too heavy for everyone's .venv.
ifneq ($(shell cat $(GX_READY) 2>/dev/null),$(realpath .))
.PHONY: $(GX_READY)
endif
$(GX_READY): tests/expectations/requirements.lock scripts/venv-beside | $(READY)
	@scripts/venv-beside .venv-gx tests/expectations/requirements.lock

.PHONY: lock
lock: ## Resolve the dependencies anew into the locks (needs uv; ARGS=--upgrade for newer ones)
	@command -v uv >/dev/null || { echo "make lock needs uv: python3 -m pip install uv" >&2; exit 1; }
	@uv pip compile pyproject.toml --group dev --all-extras --python-version 3.11 --universal \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet $(ARGS) \
	    --output-file requirements.lock
	@uv pip compile bench/requirements.in --python-version 3.11 --universal \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet $(ARGS) \
	    --output-file bench/requirements.lock
	@uv pip compile tests/aws/requirements.in --python-version 3.11 --universal \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet $(ARGS) \
	    --output-file tests/aws/requirements.lock
	@uv pip compile pyproject.toml tests/expectations/requirements.in --python-version 3.11 --universal \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet $(ARGS) \
	    --output-file tests/expectations/requirements.lock
	@echo "requirements.lock and those of bench, tests/aws and tests/expectations are up to date"

.PHONY: clean
clean: ## Remove what was built and cached (.venv and .headgate stay)
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests docs scripts bench -name __pycache__ -type d -prune -exec rm -rf {} +
