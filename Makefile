# `make help` lists the targets. Everything runs in .venv, which is created on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help quickstart test quick explore attack test-slow benchmarks test-envs conformance test-local test-browser agents test-agents test-lowest mutate check format lint types coverage bench reference clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.embedded: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[local]'
	@touch $@ $(VENV)/.installed

$(VENV)/.developing: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

quickstart: $(VENV)/$(if $(SIM),.installed,.embedded) ## train a first skill with a real model on the CPU; SIM=1: simulated models, in seconds; SEED=n: another order of the data
	$(BIN)/skillopt quickstart --yes $(if $(SIM),--sim) $(if $(SEED),--seed $(SEED) --out skillopt-quickstart-$(SEED))

SOURCES := $(shell find skillopt skillopt_webui tests -name '*.py')
SELECT := -m 'not slow and not weights and not agents and not browser'
MEASURING := $(addprefix tests/,analysis core engine gates modes durability optimizer store app/test_scorer_trials.py app/test_handoff.py)

# The tests of core, engine, store, gates and analysis, with coverage: `make test` always runs them,
# `make coverage` only if something has changed since.
$(VENV)/.measured: $(VENV)/.developing $(SOURCES)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q $(SELECT) -n $(JOBS) $(MEASURING)
	$(BIN)/coverage combine --quiet
	@touch $@

test: $(VENV)/.developing ## run the tests, with a short version of the slow ones
	@rm -f $(VENV)/.measured
	$(MAKE) --no-print-directory $(VENV)/.measured
	$(BIN)/python -m pytest -q $(SELECT) -n $(JOBS) $(addprefix --ignore=,$(MEASURING))
	$(BIN)/python -m pytest -q -m weights -k 0.5b

PARTS := $(addprefix tests/,analysis config core datasets engine envs gates harness optimizer prompts store)

quick: $(VENV)/.developing ## run only the tests of single packages, in under a minute
	$(BIN)/python -m pytest -q $(SELECT) -n $(JOBS) $(PARTS) tests/test_architecture.py tests/test_protected.py

RANDOM_SEED = $(or $(SEED),$(shell $(PYTHON) -c 'import random; print(random.randrange(2**32))'))

explore: $(VENV)/.developing ## run the property tests with new random examples and add failing ones as @example; SEED=n repeats a search
	$(BIN)/python -m pip install --quiet 'hypothesis[codemods]'
	rm -rf .hypothesis/patches
	@seed=$(RANDOM_SEED); echo "seed $$seed (repeat with: make explore SEED=$$seed)"; \
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -q -m 'hypothesis and not slow' -n $(JOBS) --hypothesis-seed=$$seed || \
	{ for patch in .hypothesis/patches/*.patch; do \
	    test -e "$$patch" && git apply "$$patch" && echo "added as @example to the tests (import the name example where it is missing): $$patch"; done; exit 1; }

attack: $(VENV)/.developing ## random faults in real processes and servers, and runs stopped by signals; SEED=n repeats it, ROUNDS=n sets the length
	@seed=$(RANDOM_SEED); echo "seed $$seed (repeat with: make attack SEED=$$seed)"; \
	ATTACK_SEED=$$seed ATTACK_ROUNDS=$(or $(ROUNDS),20) $(BIN)/python -m pytest -q tests/attack tests/durability/test_kill.py -n $(JOBS)

test-slow: $(VENV)/.developing ## run all fault injection tests: runs stopped by signals at 40 moments, all modes
	$(BIN)/python -m pytest -q tests/durability -n $(JOBS)

AXE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/skillopt/axe

test-browser: $(VENV)/.developing ## run the tests of the dashboard in chromium (installs it as root, playwright, axe-core); SHOTS=DIR keeps pictures, ALL=1: every width light and dark
	$(BIN)/python -m pip install --quiet 'playwright>=1.50'
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get install -y -q chromium; } || \
	  echo "chromium is not installed (apt-get install chromium): the tests are skipped"
	@if command -v npm >/dev/null; then mkdir -p "$(AXE)" && npm install --prefix "$(AXE)" --no-save --no-audit --no-fund --loglevel error axe-core@4; \
	else echo "npm is not installed: accessibility is not checked"; fi
	@$(if $(SHOTS),mkdir -p "$(SHOTS)")
	SKILLOPT_AXE="$$(test -e "$(AXE)/node_modules/axe-core/axe.min.js" && echo "$(AXE)/node_modules/axe-core/axe.min.js")" SKILLOPT_SHOTS="$(if $(SHOTS),$(abspath $(SHOTS)))" SKILLOPT_ALL_LOOKS="$(ALL)" \
	  $(BIN)/python -m pytest -q -m browser tests/web

test-local: $(VENV)/.developing $(VENV)/.embedded ## run the tests with real local models (downloads 1.6 GB)
	$(BIN)/skillopt model fetch qwen2.5-coder-0.5b
	$(BIN)/skillopt model fetch qwen2.5-coder-1.5b
	$(BIN)/python -m pytest -q -m weights

$(VENV)/.benchmarks: pyproject.toml | $(VENV)/.developing
	$(BIN)/python -m pip install --quiet --editable '.[dev,alfworld,inspect,mathverse,spreadsheetbench,swebench]'
	@command -v soffice >/dev/null || { test "$$(id -u)" = 0 && apt-get install -y -q libreoffice-calc-nogui bubblewrap; } || \
	  echo "LibreOffice is not installed (apt-get install libreoffice-calc-nogui): tests with formulas are skipped"
	@touch $@

benchmarks: $(VENV)/.benchmarks ## install what the benchmarks need, so that `make test` runs them for real (compiles ALFWorld for minutes, installs LibreOffice as root)

test-envs: benchmarks ## run only the tests of the benchmarks, for real
	$(BIN)/python -m pytest -q tests/envs -n $(JOBS)

conformance: $(VENV)/.benchmarks ## compare scorers with public implementations on made-up answers (installs about 1 GB from PyPI)
	$(BIN)/python benchmarks/conformance.py

AGENTS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/skillopt/agents
PACKAGES := claude=@anthropic-ai/claude-code@2.1.197 codex=@openai/codex@0.166.0 \
  copilot=@github/copilot@1.0.102 gemini=@google/gemini-cli@0.61.0 opencode=opencode-ai@1.18.33 \
  pi=@mariozechner/pi-coding-agent@0.73.1 qwen=@qwen-code/qwen-code@0.15.10
PROGRAMS ?= claude codex copilot gemini opencode pi qwen

agents: ## install agent programs for test-agents (1.6 GB in the user's cache; needs npm); PROGRAMS="claude codex": only these
	@if command -v npm >/dev/null; then \
	  mkdir -p "$(AGENTS)" && npm install --prefix "$(AGENTS)" --no-save --no-audit --no-fund --loglevel error $(foreach program,$(PROGRAMS),$(patsubst $(program)=%,%,$(filter $(program)=%,$(PACKAGES)))); \
	else echo "npm is not installed: tests with real programs are skipped"; fi

test-agents: $(VENV)/.developing agents ## run the tests with real agent programs (installs them); PROGRAMS="claude codex": only these
	SKILLOPT_AGENTS="$(AGENTS)" SKILLOPT_PROGRAMS="$(PROGRAMS)" $(BIN)/python -m pytest -q -m agents -n $(JOBS)

LOWEST := .venv-lowest
NEWER := tests/web tests/sleep/test_mcp.py
DEPENDENT := $(addprefix tests/,config datasets model optimizer prompts store cli/test_main.py cli/test_widths.py harness/test_places.py test_floors.py)

test-lowest: $(VENV)/.developing ## run the tests with the lowest allowed version of each dependency; QUICK=1: those of the packages that use one
	$(BIN)/python -m pip install --quiet uv
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[test]'
	SKILLOPT_LOWEST=1 $(LOWEST)/bin/python -m pytest -q $(SELECT) -n $(JOBS) $(if $(QUICK),$(DEPENDENT),$(addprefix --ignore=,$(NEWER)))
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[dev]'
	$(LOWEST)/bin/python -m pytest -q $(SELECT) -n $(JOBS) $(NEWER)

check: format lint types coverage ## run format, lint, types and coverage

format: $(VENV)/.developing ## check the format (ruff)
	$(BIN)/ruff format --check .

lint: $(VENV)/.developing ## run ruff
	$(BIN)/ruff check .

types: $(VENV)/.developing ## run pyright in strict mode
	$(BIN)/pyright

coverage: $(VENV)/.measured ## require 95 % branch coverage of core, engine, store, gates and analysis
	$(BIN)/coverage report --fail-under=95 --include='skillopt/core/*,skillopt/engine/*,skillopt/store/*,skillopt/gates/*,skillopt/analysis/*'

mutate: $(VENV)/.developing ## change single places of core, engine and gates, and see whether their tests notice; SAMPLE=n places (40), SEED=n others
	$(BIN)/python -m pip install --quiet mutmut==3.8.1
	$(BIN)/python benchmarks/mutate.py --sample $(or $(SAMPLE),40) --seed $(or $(SEED),1) --jobs $(JOBS)

bench: $(VENV)/.developing ## compare the overhead with skillopt 0.2.0 from PyPI
	$(BIN)/python benchmarks/overhead.py

reference: $(VENV)/.developing ## write the keys of the settings into default.yaml and docs/configuration.md, and the pictures of docs/design.md
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/pictures.py

clean: ## remove generated files and virtual environments
	rm -rf $(VENV) $(LOWEST) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage* mutants
