"""Datasets that are built once a run, whichever worker asks first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from builders.make.build import build
from tests.contracts.kinds import prepare


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder that `make` filled; the workers of a run share it, so nobody may change it."""
    base = factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # each worker has a folder of its own
    folder, done = root / "shared" / name, root / "shared" / f"{name}.done"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def dataset_of(factory: pytest.TempPathFactory, kind: str) -> Path:
    """Return the folder of a kind's dataset (`tests/contracts/kinds.py`). Read only."""

    def make(folder: Path) -> None:
        (folder / "recipe").mkdir()
        build(str(prepare(kind, folder / "recipe")), folder, workers=1, quiet=True)

    (dataset,) = made_once(factory, kind, make).glob("shift/*")
    return dataset
