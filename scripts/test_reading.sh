#!/usr/bin/env bash
# The reading half (shiftdata.data, .evaluation, .untrusted) by the `python` that is active, with the versions of
# constraints.txt and without torch, as a reader has it: scripts/test_reading.sh [option of pytest ...].
# On Linux, macOS and Windows (Git Bash); this is the one list of its tests and of what they need.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
sed -n '/^pip==/,/[^\\]$/p' constraints.txt >build/reading-pip.txt  # older ones take no hashes of constraints
python -m pip install --quiet --requirement build/reading-pip.txt
python - >build/reading.txt <<'END'
import tomllib
config = tomllib.load(open("pyproject.toml", "rb"))
extras = config["project"]["optional-dependencies"]
parts = config["project"]["dependencies"], config["build-system"]["requires"]
tests = "hypothesis pytest pytest-xdist pandas polars scikit-learn scipy".split()
print(*sum(parts, []), *extras["build"], *extras["fast"], *extras["signed"], *extras["wds"], *tests, sep="\n")
END
python -m pip install --quiet --constraint constraints.txt --requirement build/reading.txt
python -m pip install --quiet --no-deps --no-build-isolation --editable .
python -m pytest -n auto --dist loadfile --doctest-modules \
    --ignore tests/untrusted/test_banned.py {tests,shiftdata}/{data,evaluation,untrusted} "$@"  # that is of ruff's rules
