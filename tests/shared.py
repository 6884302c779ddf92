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
        build(str(prepare(kind, folder / "recipe")), folder / "out", workers=1, quiet=True)

    (dataset,) = made_once(factory, kind, make).glob("out/shift/*")
    return dataset


#: The demo's recipe in fewer fonts: the same letters, styles and canonical splits.
SMALL_DEMO = """
from dataclasses import replace

from builders.recipe_files import load_recipe

DEMO = load_recipe("sma_glyphs_k8")
RECIPE = replace(
    DEMO,
    album=replace(DEMO.album, classes=("mono",)),
    bases=tuple(replace(base, per_group=20) for base in DEMO.bases if base.per_group),
    expected=(),
)
"""


def make_demo(folder: Path) -> None:
    """Build the small demo in `folder/out` by a recipe in `folder/scripts`."""
    recipe = folder / "scripts" / "sma_glyphs_k8.py"
    recipe.parent.mkdir()
    recipe.write_text(SMALL_DEMO, encoding="utf-8")
    build(str(recipe), folder / "out", workers=1, quiet=True)
