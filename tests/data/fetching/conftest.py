"""Datasets to fetch, and an environment in which the network may be asked: only servers of our own are."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shiftdata as sd
from shiftdata.data.fetching.run import Plan
from shiftdata.data.places.catalog import Catalog, Entry
from tests.contracts.kinds import KINDS
from tests.data.byte_ranges.server import Served, ranges
from tests.data.test_places import at_once, memory
from tests.shared import dataset_of

__all__ = ["at_once", "memory"]  # fixtures


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_once: None) -> None:
    """No sign of being offline, no catalog of the user's own, and an empty folder to work in."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "SHIFTDATA_CATALOG", "SHIFTDATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def catalogued(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Write a catalog with one entry for the dataset in a folder, at some places, and name it."""

    def write(folder: Path, *places: str | Path, name: str = "toy") -> Path:
        digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
        path = tmp_path / "catalog.json"
        Catalog({name: Entry(digest, tuple(map(str, places)))}).write(path)
        monkeypatch.setenv("SHIFTDATA_CATALOG", str(path))
        return path

    return write


@pytest.fixture
def server(tiny: Path) -> Iterator[Served]:
    """An HTTP server of the tiny dataset."""
    with ranges(tiny.parent) as served:
        yield served


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of each kind of the contract. Read only."""
    return dataset_of(tmp_path_factory, request.param)


def fetched(name: str | Path, **options: Any) -> Plan:
    """Fetch a dataset; return its plan, whose sources have counted what came."""
    plans: list[Plan] = []
    sd.fetch(name, on_plan=plans.append, **options)
    return plans[0]


def same(folder: Path, other: Path) -> bool:
    """Return True if two folders hold the same files, byte for byte."""
    return contents(folder) == contents(other)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def copied(folder: Path, target: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(folder, target))


def flip(file: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
