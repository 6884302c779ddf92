#!/usr/bin/env bash
# Lint, types, order of the rooms, tests; in the order of their speed. The tests of a file run in one process.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE  # tests start many processes: each would compile both packages again
.venv/bin/ruff check .
.venv/bin/ruff format --check --quiet . || { echo "some files are not formatted: run 'make format'" >&2; exit 1; }
.venv/bin/mypy
.venv/bin/lint-imports --no-cache | tail -n 1
.venv/bin/python -m pytest -n auto --dist loadfile --max-worker-restart 0 "$@"  # one that crashed may leave the rest waiting
