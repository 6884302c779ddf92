"""Places on a Hub: a mirror of our own, asked by the real `huggingface_hub`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import pytest

import shiftdata as sd
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import NotFoundError
from tests.data.fetching.conftest import copied, fetched, flip, same

pytest.importorskip("shiftdata.serve.app")
serving = pytest.importorskip("tests.serve.serving")


@pytest.fixture
def mirror(tiny_out: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A read-only mirror of the tiny dataset."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with serving.serving(tiny_out) as running:
        yield running


@pytest.fixture
def address(mirror: Any) -> str:
    """The tiny dataset there."""
    return f"hf+{mirror.endpoint}/datasets/shift/tiny"


def test_a_whole_dataset_and_every_byte_is_told(tiny, address):
    came: list[int] = []
    assert same(sd.fetch(address, on_bytes=came.append), tiny)
    assert sum(came) == sum(record.bytes for record in Manifest.read(tiny).files.values())


def test_the_catalog_of_a_mirror_is_enough(tiny, mirror, monkeypatch):
    monkeypatch.setenv("SHIFTDATA_CATALOG", f"{mirror.endpoint}/catalog.json")
    outcome = fetched("tiny")
    assert same(outcome.target, tiny)
    assert list(outcome.sources.files) == [f"hf+{mirror.endpoint}/datasets/shift/tiny"]


def test_a_name_without_a_catalog_is_asked_of_the_hub_of_the_environment(tiny, mirror, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "shiftdata", "fetch", "tiny", "--quiet"],
        env=serving.client_env(mirror.endpoint, home),
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "from hf://datasets/shift/tiny" in done.stdout
    assert same(home / "shift/tiny", tiny)


def test_a_cut_connection_is_made_good(tiny, mirror, address):
    whole = sum(record.bytes for record in Manifest.read(tiny).files.values())
    mirror.cut_next = True
    assert same(sd.fetch(f"{address}@main", out="out", jobs=1), tiny)
    assert not mirror.cut_next
    assert mirror.sent < whole * 2


def test_a_wrong_file_on_a_hub_comes_from_the_next_place(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    bad = copied(tiny, tmp_path / "served/shift/tiny")
    flip(bad / "data/mini/test-00000-of-00001.parquet")
    with serving.serving(tmp_path / "served") as running:
        place = f"hf+{running.endpoint}/datasets/shift/tiny"
        outcome = fetched(str(tiny), places=[place], out=Path("out"))
        part = fetched(str(tiny), places=[place], out=Path("part"), select={"style": [2]})
    assert same(outcome.target, tiny)
    assert outcome.sources.files[str(tiny)] == 1
    assert same(part.target, sd.fetch(tiny, select={"style": [2]}, out="other"))


def test_a_repo_that_is_not_there(mirror):
    place = f"hf+{mirror.endpoint}/datasets/shift/other"
    with pytest.raises(NotFoundError, match=re.escape(f"{place}: manifest.json: does not exist")):
        sd.fetch(place)
