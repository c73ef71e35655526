# Every verb does its own set-up: a virtual environment in .venv, with weft installed anew when what it is built from
# changes; Python sources are used where they are.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-all check docs bench bench-live results figures clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml hatch_build.py $(wildcard native/*.c native/*.h)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: weft needs Python 3.11 or newer"; echo "hint: make PYTHON=/path/to/python3.11 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)  ## Run real PyTorch jobs here, under fifo and weft, and draw them
	$(BIN)/python demo/run.py

test: $(READY)  ## Run the tests of all tiers, each meaning once
	$(BIN)/pytest -n auto --dist worksteal

test-unit: $(READY)  ## Run those that start no process, on each save
	$(BIN)/pytest -n auto --dist worksteal -m unit

test-all: $(READY)  ## Run every combination, and the training scripts with PyTorch's compiler loaded as for a user
	TESTS=all $(BIN)/pytest -n auto --dist worksteal
	TESTS=all LEAN=no $(BIN)/pytest -n auto --dist worksteal tests/runtime tests/native/test_lanes.py

check: $(READY)  ## Lint, types, layers, names and sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_layout.py

docs: $(READY)  ## Build the pages of docs/ as a site in out/site; fail on a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "built out/site/index.html"

bench: $(READY)  ## Print each figure beside its goal and the peers' (TRACES=../shared/traces)
	$(BIN)/python bench/run.py

bench-live: $(READY)  ## The same for sharing devices live, with real PyTorch jobs
	$(BIN)/python bench/live_sharing.py

results: $(READY)  ## Simulate all policies on the public traces and write docs/results.md (TRACES=../shared/traces)
	$(BIN)/python bench/results

figures: $(READY)  ## Put what bench, bench-live and results measured into the pages
	$(BIN)/python bench/pages.py

clean:  ## Remove what the other verbs made
	rm -rf $(VENV) out src/weft/runtime/libweft.so .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
