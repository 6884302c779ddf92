"""What reads bytes without a bound cannot be called outside the readers: ruff refuses each name."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from functools import cache

import pytest

from tests.paths import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
BANNED = SETTINGS["flake8-tidy-imports"]["banned-api"]


def uses(name: str) -> list[str]:
    """Lines that name a function; ruff says where one is used, or a module imported."""
    module, _, last = name.rpartition(".")
    if not module:
        return [f"import {name}"]
    alias = name.replace(".", "_")
    lines = [f"import {module} as {alias}; print({alias}.{last})"]
    lines += [f"from {module} import {last} as from_{alias}; print(from_{alias})"]
    parent, _, child = module.rpartition(".")
    lines += [f"from {parent} import {child} as in_{alias}; print(in_{alias}.{last})"] if parent else []
    return lines


@cache
def refused(place: str) -> set[str]:
    """The lines that ruff refuses at a place, of all names and of what is allowed."""
    allowed = ["import json, pyarrow.parquet as pq; print(pq.ParquetWriter, json.dumps)"]
    lines = [*allowed, *(line for name in BANNED for line in uses(name))]
    command = [sys.executable, "-m", "ruff", "check", "--select=TID251", "--output-format=concise"]
    command += ["--stdin-filename", str(ROOT / place), "-"]
    code = "\n".join(lines) + "\n"
    done = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True)
    return {lines[int(line.split(":")[1]) - 1] for line in done.stdout.splitlines() if "TID251" in line}


@pytest.mark.parametrize("name", BANNED)
def test_a_raw_reader_is_refused_however_it_is_named(name):
    for place in ("shiftdata/planted.py", "builders/raw/planted.py"):
        assert refused(place) >= set(uses(name))


def test_nothing_else_is_refused():
    assert refused("shiftdata/planted.py") == {line for name in BANNED for line in uses(name)}
    assert refused("shiftdata/untrusted/planted.py") == set()
