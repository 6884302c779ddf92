#!/usr/bin/env bash
# Lint, types, doors, tests, in the order of their speed.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/ruff check .
.venv/bin/ruff format --check --quiet . || { echo "some files are not in the house's form: run 'make format'" >&2; exit 1; }
.venv/bin/mypy
.venv/bin/lint-imports --no-cache | tail -n 1
.venv/bin/python -m pytest "$@"
