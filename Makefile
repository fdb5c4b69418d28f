# Everything a fresh clone needs: `make test` checks the project, `make demo` shows it.
# Both set up what they need; nothing is installed by hand.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
VENV ?= .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export REPOTRIAL_AGENT_CACHE ?= $(CURDIR)/.agent-cache
AGENTS := pi goose codex claude-code mini-swe-agent
REAL := tests/scenario/test_agent_install.py tests/scenario/test_real_agents.py

.PHONY: help setup lint format types layers check agents unit real coverage wheel fresh reached mutants mutants-sample all-unit all-adversarial all-scenario test test-all certify demo bench docs pictures lock house clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(VENV)/.ready: requirements/dev.lock pyproject.toml tools/setup.sh tools/install_lock.sh
	@tools/setup.sh $(VENV) 2>&1 | tools/heartbeat.sh setup
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

check: setup ## the inner loop: style, types, layers, and the tests of the rooms that touch no machine
	@tools/check.sh $(VENV) 2>&1 | tools/heartbeat.sh check

agents: setup ## real agents for the tests, in a cache of their own (2 GB, once)
	nice -n 3 $(BIN)/repotrial agent install $(AGENTS) --cache "$$REPOTRIAL_AGENT_CACHE" || echo "(the tests say what this machine lacks)"

unit: setup ## all tests but those of real agents, three at a time since many wait; REPOTRIAL_EXHAUSTIVE=1 tries everything where they sample
	$(BIN)/pytest -n 3 --dist worksteal $(addprefix --ignore=,$(REAL))

real: setup ## tests of real agents; they install what is not installed yet
	$(BIN)/pytest -n 2 --dist worksteal $(REAL)

coverage: setup ## all tests again, slower: fails below the agreed share
	$(BIN)/coverage erase
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term

wheel: setup ## build sdist and wheel, install the wheel into a clean environment, try it
	tools/try_wheel.sh $(VENV)

fresh: ## a clean clone of the last commit as a new user, with empty home and caches: sets itself up, runs the demo
	tools/fresh.sh

reached: setup ## the scenario tests under coverage: each module that docs/conformance.md names is executed by a command
	$(BIN)/coverage erase
	$(BIN)/pytest -q -n 2 --dist worksteal --cov --cov-report= --cov-fail-under=0 $(addprefix --ignore=,$(REAL)) tests/scenario
	$(BIN)/coverage json -q --fail-under=0 -o .coverage.json
	$(BIN)/python tools/reached.py .coverage.json

mutants: setup ## break the code on purpose: the tests that docs/conformance.md names notice each breakage
	$(BIN)/python tools/mutants.py

mutants-sample: setup
	@$(BIN)/python tools/mutants.py --sample

test: setup ## everything that must hold, with the time of each part
	@tools/test.sh 2>&1 | tools/heartbeat.sh test

all-unit all-adversarial all-scenario: setup
	REPOTRIAL_EXHAUSTIVE=1 $(BIN)/pytest -n 2 --dist worksteal tests/$(patsubst all-%,%,$@)

test-all: setup ## all tests with everything where they sample, at the oldest versions of dependencies too; what commands reach
	@tools/test_all.sh 2>&1 | tools/heartbeat.sh test-all

certify: setup ## certify every example anew, with this machine's key (minutes; `make test` does one of them)
	tools/fetch_examples.sh $(VENV)
	$(BIN)/repotrial contract certify examples/contracts/* --jobs $$(nproc)

demo: setup ## the main job, on the examples
	@tools/demo.sh $(VENV) 2>&1 | tools/heartbeat.sh demo

bench: setup ## speed as ratios against peers, side by side
	$(BIN)/python -m bench

docs: setup ## write the generated pages and schemas anew
	$(BIN)/python tools/generate.py

pictures: setup ## pictures of the documentation, taken anew in a real browser
	PYTHONPATH=tests $(BIN)/python tools/pictures.py

house: setup ## measure the source tree: sizes of rooms, names, exports
	$(BIN)/python tools/house.py

lock: setup ## resolve the dependencies anew
	tools/lock.sh

clean: ## remove what make made
	chmod -Rf u+w .agent-cache || true
	rm -rf $(VENV) .agent-cache .wheel-venv build dist .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* demo-out
