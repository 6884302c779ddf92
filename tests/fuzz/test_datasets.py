"""Forged datasets through every page, verb and call: a result or an error of ours, and never a gigabyte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.datasets import KINDS, honest
from tests.paths import ROOT


def tried(goods: list[Path], work: Path, share: float, seeds: range) -> None:
    """Try forgeries in a process of their own, which may be killed."""
    work.mkdir()
    words = (work, share, seeds.start, seeds.stop, *goods)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.reading", *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"


def test_some_forgeries_end_in_a_result_or_an_error_of_ours(tmp_path_factory, tmp_path):
    goods = [honest(tmp_path_factory, kind) for kind in KINDS]
    tried(goods, tmp_path / "work", 0.1, range(3))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_forgeries_end_in_a_result_or_an_error_of_ours(kind, tmp_path_factory, tmp_path):
    tried([honest(tmp_path_factory, kind)], tmp_path / "work", 0.05, range(1000, 1100))
