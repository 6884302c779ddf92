"""Offline: folders are asked, the network is not, and what is missing is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import shiftdata as sd
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import NotFoundError, StorageError
from tests.data.fetching.conftest import copied, flip, same

TEST = "data/mini/test-00000-of-00001.parquet"


@pytest.fixture(params=["--offline", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def offline(request, monkeypatch) -> dict[str, bool]:
    """Each way to say that the network must not be touched."""
    if request.param.startswith("HF"):
        monkeypatch.setenv(request.param, "1")
        return {}
    return {"offline": True}


def test_folders_are_enough(tiny, server, catalogued, offline):
    catalogued(tiny, "hf://datasets/shift/toy", f"{server.url}/tiny", tiny)
    assert same(sd.fetch("toy", **offline), tiny)
    assert same(sd.fetch("toy", config="gf_k2_mu10", **offline), sd.fetch(tiny, config="gf_k2_mu10", out="x"))
    assert server.bodies == []


def test_what_is_missing_is_named_with_its_size(tiny, server, tmp_path, catalogued, offline):
    catalogued(tiny, f"{server.url}/tiny")
    folder = copied(tiny, Path("shift/toy"))
    flip(folder / TEST)
    (folder / "metadata/mini/test.parquet").unlink()
    with pytest.raises(StorageError) as caught:
        sd.fetch("toy", **offline)
    said = str(caught.value)
    files = Manifest.read(tiny).files
    sizes = [files[path].bytes for path in (TEST, "metadata/mini/test.parquet")]
    assert f"2 of 2 files ({sum(sizes) / 1e6:,.2f} MB) are not here, and this is offline" in said
    assert f"{TEST}  {sizes[0] / 1e6:,.2f} MB" in said
    assert f"{server.url}/tiny: not asked (offline)" in said
    assert said.endswith("run the same command again with the network to go on")
    assert server.bodies == []


def test_what_a_cut_fetch_left_is_known(tiny, server, tmp_path, catalogued):
    bad = copied(tiny, tmp_path / "bad")
    shutil.rmtree(bad / "data/mini")
    catalogued(tiny, f"{server.url}/tiny", bad)
    server.always = "error"
    with pytest.raises(StorageError, match="3 of"):
        sd.fetch("toy")
    shutil.rmtree(bad)
    with pytest.raises(StorageError, match=r"3 of .* files .* are not here, and this is offline"):
        sd.fetch("toy", offline=True)
    with pytest.raises(
        StorageError, match="4 of 4 files"
    ):  # a part needs the metadata of each split and the keys
        sd.fetch("toy", config="gf_k2_mu10", out="shift/toy", offline=True)


def test_a_name_that_is_not_here(tiny, catalogued, offline):
    catalogued(tiny, "hf://datasets/shift/toy", "https://127.0.0.1:9/toy")
    with pytest.raises(NotFoundError) as caught:
        sd.fetch("toy", **offline)
    said = str(caught.value)
    assert "hf://datasets/shift/toy: not asked (offline)" in said
    assert "https://127.0.0.1:9/toy: not asked (offline)" in said
    assert "this is offline; with the network: shiftdata fetch toy" in said
    assert "known, and none of its places gave it" in said


def test_reading_says_that_it_is_offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for read in (sd.info, sd.load_dataset):
        with pytest.raises(NotFoundError, match="this is offline; with the network: shiftdata fetch toy"):
            read("toy")
