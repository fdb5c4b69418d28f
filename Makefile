# Everything a fresh clone needs: `make test` checks the project, `make demo` shows it.
# Both set up what they need; nothing is installed by hand.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
VENV ?= .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup lint format types layers unit coverage wheel test demo bench docs lock clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(VENV)/.ready: requirements/dev.lock pyproject.toml tools/setup.sh
	@tools/setup.sh $(VENV)
	@touch $@

setup: $(VENV)/.ready ## virtual environment with the locked dependencies

lint: setup ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup ## let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup ## mypy, strict
	$(BIN)/mypy

layers: setup ## import contracts
	$(BIN)/lint-imports

unit: setup ## all tests
	$(BIN)/pytest -n 2

coverage: setup ## all tests again, slower: fails below the agreed share
	$(BIN)/coverage erase
	$(BIN)/pytest -n 2 --cov --cov-report=term

wheel: setup ## build sdist and wheel, install the wheel into a clean environment, try it
	tools/try_wheel.sh $(VENV)

test: lint types layers wheel unit ## everything that must hold

demo: setup ## the main job, on the examples
	tools/demo.sh $(VENV)

bench: setup ## speed as ratios against peers, side by side
	$(BIN)/python -m bench

docs: setup ## write the generated pages and schemas anew
	$(BIN)/python tools/generate.py

lock: setup ## resolve the dependencies anew
	tools/lock.sh

clean: ## remove what make made
	rm -rf $(VENV) .wheel-venv build dist .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* demo-out
