# The project's whole vocabulary. `make` alone lists it.
# Everything runs in .venv, which is made when it is first needed and again when what is locked changes.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
PYTEST_ARGS ?= -n 4 --dist worksteal
KEEP ?=
CHAOS ?=
BENCH ?=
PEERS ?=
FAILOVER ?=
UP ?=
DAYS ?=
SEED ?=
MINUTES ?=
RELEASE ?=
VALUES ?=
DEFINITIONS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
DOCS := build/docs-venv
MKDOCS := NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(DOCS)/bin/python
SHOTS := build/screenshots-venv
PEERS_VENV := build/peers-venv
PROSE := docs README.md CONTRIBUTING.md SECURITY.md $(wildcard activities/*.md activities/*/*.md bench/*/*.md)
EXTRAS := $(addprefix --extra ,archive encryption otlp) $(wildcard activities/*/requirements.txt)
GROUPS := --extra dev --extra console $(addprefix --group ,tests checks build)
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
BUILD := 'hatchling>=1.27' 'hatch-fancy-pypi-readme>=25.1'
ROOMS := $(wildcard perdure workflows activities workers infra tests bench)

export PYTHONUNBUFFERED := 1
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo; echo '  PYTHON=python3.12 chooses the interpreter, PYTEST_ARGS="-k relay -x" narrows the tests.'

demo: $(STAMP) ## watch lifecycles run, crash and recover on servers of their own (KEEP=1 leaves them up)
	@$(BIN)/python -m infra.demos.comments $(if $(KEEP),--keep)

demo-jobs: $(STAMP) ## watch a job with 500 children, whose pages are in three languages, while a worker is killed
	@$(BIN)/python -m infra.demos.jobs $(if $(KEEP),--keep)

demo-reminders: $(STAMP) ## watch a day of 50 patients in eight zones pass in under a minute (KEEP=1 leaves it up)
	@$(BIN)/python -m infra.demos.reminders $(if $(KEEP),--keep)

check: $(STAMP) ## lint, types, and the unit tests of the library, which need no server
	@$(MAKE) --jobs=2 lint types
	@$(BIN)/python -m pytest $(PYTEST_ARGS) tests/unit

test: $(STAMP) ## lint, types, and every test on real servers
	@$(MAKE) --jobs=3 lint types programs
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-sdks: $(STAMP) ## unit, replay and integration tests on the oldest SDK of Temporal's and on the locked one
	@sdk=$$($(BIN)/python -c 'from perdure.testing.sdk import OLDEST; print(*OLDEST, sep=".")'); other=build/sdk-$$sdk; \
	$(PYTHON) -m venv --clear $$other; \
	$$other/bin/python -m pip install --quiet --require-hashes -r requirements.lock; \
	$$other/bin/python -m pip install --quiet --no-deps "temporalio==$$sdk.*"; \
	$$other/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .; \
	for python in $$other/bin/python $(BIN)/python; do \
	    $$python -c 'import temporalio.service as sdk; print("temporalio", sdk.__version__)'; \
	    $$python -m pytest $(PYTEST_ARGS) tests/unit tests/replay tests/integration tests/applications; \
	done

programs: $(STAMP)
	@$(BIN)/python -m infra.programs

lint: $(STAMP) ## ruff: rules and format, changing nothing
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run: make format" >&2; exit 1; }

types: $(STAMP) ## mypy --strict
	@$(BIN)/mypy --strict --no-error-summary $(ROOMS)

docs: $(DOCS)/.stamp ## the documentation site in build/site: spelling, links and anchors are checked
	@$(DOCS)/bin/python -m codespell_lib $(PROSE) CHANGELOG.md perdure
	@$(MKDOCS) -m mkdocs build --strict # with --quiet, no warning fails it

docs-serve: $(DOCS)/.stamp ## show the documentation site, and build it again when a page changes
	@$(MKDOCS) -m mkdocs serve

docs-version: $(DOCS)/.stamp ## add a version of the site to the branch gh-pages of this clone (RELEASE=v0.5.0)
	@$(MKDOCS) -m infra.site.versions "$(RELEASE)"

screenshots: $(SHOTS)/.stamp ## take the pictures of the console, the Web UI and the terminal in docs/images again
	@$(SHOTS)/bin/python -m infra.site.screenshots

prose: $(STAMP) ## check the words and sentences of the pages
	@$(BIN)/python -m infra.vale $(PROSE)

format: $(STAMP) ## let ruff put the files in order
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format .

explore: $(STAMP) ## random lifecycles and faults on a virtual clock, for as long as you like (SEED=1 MINUTES=10)
	@$(BIN)/python -m perdure.testing.exploring $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES))

chaos: $(STAMP) ## thousands of lifecycles while everything is killed, cut and frozen (CHAOS="--seed 7 --minutes 10")
	@$(BIN)/python -m tests.chaos $(CHAOS)

chaos-reminders: $(STAMP) ## thousands of patients due within a minute while workers are killed (CHAOS="--seed 8")
	@$(BIN)/python -m tests.applications.reminders.chaos $(CHAOS)

manifests: $(STAMP) ## the plain Kubernetes manifests of infra/chart (RELEASE=shop VALUES=values.yaml)
	@$(BIN)/python -m infra.helm "$(RELEASE)" $(VALUES)

manifests-check: $(STAMP) ## what Kubernetes' own API server says of the chart, without a cluster (VALUES="values.yaml ...")
	@$(BIN)/python -m infra.kubernetes $(or $(VALUES),$(wildcard tests/infra/chart/values/*.yaml)) $(DEFINITIONS)

bench: $(STAMP) ## what a lifecycle costs, beside Temporal's samples and DBOS, in 12 minutes (BENCH="--minutes 5")
	@$(MAKE) $(PEERS_VENV)/.stamp || echo "without DBOS, whose environment could not be made" >&2
	@$(BIN)/python -m bench.cost $(BENCH)

bench-peers: $(STAMP) $(PEERS_VENV)/.stamp ## one order in Perdure and other tools, killed at the same places (PEERS="--tool DBOS")
	@$(BIN)/python -m bench.peers $(PEERS)

bench-failover: $(STAMP) ## seconds until work goes on after each fault, and what is lost (FAILOVER="--only host-vanished")
	@$(BIN)/python -m bench.failover $(FAILOVER)

bench-up: $(STAMP) ## seconds from an empty Debian to a running installation, and what it takes while idle (UP="--no-build")
	@$(BIN)/python -m bench.up $(UP)

bench-days: $(STAMP) ## upgrade, bad release, restore, full disk and more, under load (DAYS="--only keeper")
	@$(BIN)/python -m bench.day2 $(DAYS)

histories: $(STAMP) ## record this release: workflow histories, which later releases must replay, and the wheel
	@$(BIN)/python -m tests.replay.record

# Hashes and no index: it installs from PyPI, a mirror or a proxy, and the files are the same.
lock: $(STAMP) ## renew requirements.lock and infra/locks: the newest versions that pyproject.toml allows
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet uv
	@$(COMPILE) --upgrade $(GROUPS) $(EXTRAS) pyproject.toml -o requirements.lock
	@$(COMPILE) --constraint requirements.lock --extra console $(EXTRAS) pyproject.toml -o infra/locks/worker.lock
	@printf '%s\n' $(BUILD) | $(COMPILE) --constraint requirements.lock - -o infra/locks/build.lock
	@$(COMPILE) --constraint requirements.lock --extra archive --extra console --extra encryption --group docs pyproject.toml -o infra/locks/docs.lock
	@$(COMPILE) --constraint requirements.lock --extra dev --group build --group screenshots pyproject.toml \
	    -o infra/locks/screenshots.lock
	@$(COMPILE) --upgrade --group peers -o infra/locks/peers.lock
	@printf '%s\n' 'cyclonedx-bom>=7.5' 'pip-licenses>=5.5' | $(COMPILE) --upgrade - -o infra/locks/sbom.lock
	@printf '%s\n' 'build>=1.3' 'twine>=6.2' $(BUILD) | \
	    $(COMPILE) --constraint requirements.lock - -o infra/locks/release.lock
	@echo "requirements.lock and infra/locks are renewed; the next target installs them"

sbom: $(STAMP) ## what a worker is made of: build/sbom.cdx.json (CycloneDX) and build/licences.md
	@mkdir -p build
	@$(PYTHON) -m venv --clear build/sbom-tools
	@build/sbom-tools/bin/python -m pip install --quiet --require-hashes -r infra/locks/sbom.lock
	@$(PYTHON) -m venv --clear build/sbom-worker
	@build/sbom-worker/bin/python -m pip install --quiet --require-hashes -r infra/locks/worker.lock
	@build/sbom-tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	    --output-file build/sbom.cdx.json build/sbom-worker/bin/python
	@build/sbom-tools/bin/pip-licenses --python build/sbom-worker/bin/python --format markdown --with-urls \
	    --output-file build/licences.md

release-check: $(STAMP) ## what a release must pass: built twice alike, checked, installed, and the tutorial done with it
	@$(BIN)/python -m infra.release $(RELEASE)

clean: ## remove what was made here: .venv, caches, builds
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

setup: $(STAMP) ## make .venv from requirements.lock (the other targets do it when needed)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "perdure needs Python 3.11 or newer; $(PYTHON) is: $$($(PYTHON) --version 2>&1 || true)" >&2; \
	    echo "say which one to use: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null || { \
	    echo "$(PYTHON) can't make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@PYTHONPATH=. $(PYTHON) -m perdure.servers.progress "installing what requirements.lock names into $(VENV) (once)" -- \
	    $(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(DOCS)/.stamp: infra/locks/docs.lock
	@$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --require-hashes -r infra/locks/docs.lock
	@touch $@

$(SHOTS)/.stamp: infra/locks/screenshots.lock
	@$(PYTHON) -m venv --clear $(SHOTS)
	@$(SHOTS)/bin/python -m pip install --quiet --require-hashes -r infra/locks/screenshots.lock
	@$(SHOTS)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@test -x /usr/bin/chromium || $(SHOTS)/bin/python -m playwright install chromium || { \
	    echo "no Chromium; on Debian: apt-get install chromium" >&2; exit 1; }
	@touch $@

$(PEERS_VENV)/.stamp: infra/locks/peers.lock
	@$(PYTHON) -m venv --clear $(PEERS_VENV)
	@$(PEERS_VENV)/bin/python -m pip install --quiet --require-hashes -r infra/locks/peers.lock
	@touch $@

.PHONY: help demo demo-jobs demo-reminders check test test-sdks programs lint types docs docs-serve docs-version screenshots prose format explore chaos chaos-reminders manifests-check bench bench-peers bench-up bench-days histories lock sbom release-check clean setup
