"""Tasks over the tiny dataset, to be exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.tasks.making import choose
from tests.tiny import edit_manifest


@pytest.fixture(scope="session")
def canonical(tiny: Path) -> sd.Task:
    return sd.task(tiny)


@pytest.fixture(scope="session")
def fair(tiny: Path) -> sd.Task:
    """Two labels and two tints, which are not the first ones."""
    return sd.task(tiny, "group-fairness", k=2, mu=0.1)


@pytest.fixture(scope="session")
def adapted(tiny: Path) -> sd.Task:
    """Sets with names of their own."""
    return sd.task(tiny, "uda", source="blue", target="red")


@pytest.fixture(scope="session")
def drawn(fair: sd.Task) -> sd.Task:
    """Rows drawn with replacement: the first twice, the second three times."""
    indices = fair.sets["test"].indices
    counts = np.ones(len(indices), np.int64)
    counts[:2] = 2, 3
    return choose(fair, "test", indices, "drawn", counts=counts)


@pytest.fixture
def odd(copy: Path) -> Path:
    """The tiny dataset under labels and tints whose names no folder should have, or that mean a split."""
    manifest = Manifest.read(copy)
    assert [len(manifest.labels), len(manifest.nuisances)] == [4, 5]
    labels = ["train", "a/b", "Train", "..hot dog"]
    nuisances = ["z one", "z_one", "test", "keys.csv", 'say, "so"']
    edit_manifest(copy, lambda raw: raw.update(labels=labels, nuisances=nuisances))
    return copy
