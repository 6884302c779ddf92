# Short ways to the scripts. `make help` lists them.

PYTHON ?= python3

VERSIONS ?=
REAL ?=

.PHONY: help setup demo real test test-slow site format bench clean

help:          ## this list
	@sed -n 's/^\([a-z-]*\): .*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup:         ## the environment in .venv: the package and what building and training need
	@PYTHON=$(PYTHON) scripts/setup.sh build

demo: setup    ## build a dataset, load it with plain `datasets`, draw it, train three methods on it
	@.venv/bin/python scripts/demo.py

real:          ## read real datasets from build/real/<name>, and report what came out (REAL="--only pacs")
	@PYTHON=$(PYTHON) scripts/setup.sh build test
	@.venv/bin/python scripts/real $(REAL)

test:          ## lint, types, tests (installs the test extras first)
	@PYTHON=$(PYTHON) scripts/setup.sh build test docs
	@scripts/test.sh

test-slow:     ## the tests that take minutes, long property tests, other versions of `datasets`
	@PYTHON=$(PYTHON) scripts/setup.sh build test docs assets slow
	@PYTHON=$(PYTHON) scripts/test_slow.sh $(VERSIONS)

site:          ## docs, reference and a gallery as one site: build/site/index.html
	@PYTHON=$(PYTHON) scripts/setup.sh build docs
	@.venv/bin/python scripts/docs_site

format:        ## format the code
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format --quiet .

bench: setup   ## stylizer speed against a plain loop (needs the assets extras)
	@PYTHON=$(PYTHON) scripts/setup.sh build assets
	@.venv/bin/python scripts/bench/stylizer.py

clean:         ## remove the environment and everything built
	@rm -rf .venv .venv-peers build dist
