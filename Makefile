# What a person needs to know by heart: `make demo` first, `make check test` before a push.
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
OUT ?= out
PORT ?= 8080
DIST ?= dist

# What Python compiled is kept, whatever the environment says: tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo install test test-process test-changed test-install e2e e2e-all e2e-node e2e-scale check docs docs-serve screens controlplane cluster cluster-down golden bench dist lock clean

# The demo installs only the packages that the program needs to run. Every other target installs those of development too.
demo: $(if $(wildcard .venv/ready),.venv/ready,.venv/run)
	@$(BIN)/python -m tests.demo $(OUT) $(PORT)

install: $(if $(wildcard .venv/ready),.venv/ready,.venv/run)
	@$(BIN)/allot --version

test test-process test-changed test-install: export TMPDIR = $(shell $(PYTHON) -m tests.temporary_folder)
# What needs a cluster, installs packages or is in the lane of `test-process` is left out.
FAST := not e2e and not install and not process

# What needs no process of its own but Git's: rules, rendering, the gate, commands in this process, Git stores.
test: .venv/ready
	$(BIN)/pytest -n auto --dist worksteal -m "$(FAST)" --durations=20

# What starts the program as a process, a browser or a sandbox, is killed, or exhausts a limit.
test-process: .venv/ready
	$(BIN)/pytest -n auto --dist worksteal -m process --durations=20

# BASE=HEAD~3: another commit to compare with. The tests of `make test` that import what changed, or mirror it.
BASE ?= origin/main
test-changed: .venv/ready
	@files="$$($(BIN)/python -m tests.changed $(BASE))"; test -n "$$files" || { echo "Nothing changed that a test imports."; exit; }; \
	$(BIN)/pytest -n auto --dist worksteal -m "$(FAST)" $$files || test $$? -eq 5

# What installs packages, or refuses to, as CI and pre-commit do it for those who use Allotment.
test-install: .venv/ready
	$(BIN)/pytest -n 2 -m install

# Three groups of modules at a time, those that take longest first, each worker with clusters of its own. As root, those that
# need a node that runs containers are among them; else they say why they are skipped. A wait that took too long runs once
# more, and the end of the output names it; an assertion that fails never runs again. The commit draws a long scenario.
E2E := $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder --durations=15 -r sR --reruns 1 --only-rerun NotInTime \
	--rerun-show-tracebacks
e2e: controlplane
	$(E2E) -m "e2e and not scale" --scenarios drawn

# With every long scenario. Commit tests/controlplane/full_run.json afterwards.
e2e-all: controlplane
	$(E2E) -m "e2e and not scale" --scenarios all

# Only those on a node that runs containers, in a private world of this machine: as root.
e2e-node: controlplane
	$(E2E) -m node

# Hundreds of tenants at once: a quarter of an hour, by hand.
e2e-scale: controlplane
	$(BIN)/pytest -m scale

# Once, some 30 to 40 minutes on 2 cores; into the cache folder of the user, keyed by what tests/controlplane/*/go.mod pin.
controlplane: .venv/ready
	@$(BIN)/python -m tests.controlplane build

# CLUSTER=us-1 KARPENTER=yes: another declared cluster, and nodes that come when pods need them. NODE=real: beside the
# simulated nodes one that runs containers.
CLUSTER ?= eu-1
cluster: controlplane
	@$(BIN)/python -m tests.controlplane up --cluster $(CLUSTER) $(if $(KARPENTER),--karpenter) $(if $(NODE),--node $(NODE))

cluster-down: .venv/ready
	@$(BIN)/python -m tests.controlplane down

check: .venv/ready
	$(BIN)/ruff format --check renderers tests
	$(BIN)/ruff check renderers tests
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.prose
	$(BIN)/allot schema --check
	$(BIN)/allot fmt --check
	$(BIN)/allot validate
	$(BIN)/python -m tests.reference --check
	$(BIN)/zensical build --strict

# The documentation's site, in site/.
docs: .venv/ready
	$(BIN)/python -m tests.reference
	$(BIN)/zensical build --strict

# Shows the site at http://localhost:8000 and builds it again when a file changes.
docs-serve: .venv/ready
	$(BIN)/zensical serve

# What commands show on a terminal, as pictures of the documentation; a test says when they are stale.
screens: .venv/ready
	$(BIN)/python -m tests.screens
	$(BIN)/python -m tests.portal.pages.screens

# Without the program that judges network policies, the table of reachability stays, and the last lines say so.
REACHABILITY := tests/e2e/test_reachability.py::test_the_table_is_the_golden_one
golden: .venv/ready
	$(BIN)/allot schema
	$(BIN)/python -m tests.reference
	GOLDEN=write $(BIN)/pytest -p no:xdist tests/declared/test_bad_files.py tests/manifests/test_layout.py tests/manifests/cluster/test_bootstrap.py tests/docs/test_guides.py $(REACHABILITY)
	git status --short tests schemas argo docs

# SIZES=20000: another number of tenants; several, from small to large.
SIZES ?= 100 1000 5000
bench: .venv/ready
	$(BIN)/python -m tests.bench $(SIZES)

# The wheel, the sdist and, where something builds one, the image; then what `allot init --program` takes of each. A commit
# that a version's tag names must be that version.
dist: .venv/ready
	@$(BIN)/python -m tests.dist $(DIST)

# The lock file names every package with its hashes; nothing else is installed.
.venv/run: requirements-run.lock requirements-build.lock pyproject.toml
	$(call install,requirements-run.lock --requirement requirements-build.lock)

.venv/ready: requirements.lock pyproject.toml
	$(call install,requirements.lock)

define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; name one with make PYTHON=...")'
	@echo "Setting up .venv from $(firstword $(1)): $$(grep -c == $(firstword $(1))) packages ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $(1)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
endef

# Resolves the newest versions again, for every Python from 3.11 on: all that is developed with, all that runs, and what builds it.
COMPILE = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
lock: .venv/ready
	$(COMPILE) --upgrade --extra dev --extra all --output-file requirements.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --extra all --output-file requirements-run.lock pyproject.toml
	grep '^requires = ' pyproject.toml | cut -d '"' -f 2 | $(COMPILE) --no-annotate --constraint requirements.lock --output-file requirements-build.lock -

clean:
	@test ! -x $(BIN)/python || $(BIN)/python -m tests.controlplane down
	rm -rf .venv $(DIST) $(OUT) site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
