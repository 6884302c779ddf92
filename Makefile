# Short ways to the scripts. `make help` lists them.

PYTHON ?= python3

.PHONY: help setup demo test test-slow test-peers format bench clean

help:          ## this list
	@sed -n 's/^\([a-z-]*\): .*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup:         ## the environment in .venv: the package and what building needs
	@PYTHON=$(PYTHON) scripts/setup.sh build

demo: setup    ## build shift/sma_emoji, load it with plain `datasets`, draw a contact sheet
	@.venv/bin/python scripts/demo.py

test:          ## lint, types, tests (installs the test extras first)
	@PYTHON=$(PYTHON) scripts/setup.sh build test
	@scripts/test.sh

test-slow:     ## the tests that take minutes
	@PYTHON=$(PYTHON) scripts/setup.sh build test assets
	@.venv/bin/python -m pytest -m slow

test-peers:    ## read what we publish, and use a mirror, with other versions of `datasets`, each in its own environment
	@PYTHON=$(PYTHON) scripts/setup.sh build test
	@PYTHON=$(PYTHON) scripts/test_peers.sh
	@PYTHON=$(PYTHON) scripts/test_mirror_peers.sh

format:        ## put the code into the house's form
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format --quiet .

bench: setup   ## stylizer speed against a plain loop (needs the assets extras)
	@PYTHON=$(PYTHON) scripts/setup.sh build assets
	@.venv/bin/python scripts/bench/stylizer.py

clean:         ## remove the environment and everything built
	@rm -rf .venv .venv-peers build dist
