"""Publishing with a signature of the manifest: it goes along, stays, and goes when it would be false."""

from __future__ import annotations

import pytest

import shiftdata as sd
from shiftdata.data.places.signatures import SIGNATURE, make_key
from shiftdata.evaluation.verify import verify
from tests.builders.publish.versions import contents


@pytest.mark.parametrize("place", ["place", pytest.param("memory://signed", marks=pytest.mark.slow)])
def test_a_signature_goes_along_and_never_outlives_its_manifest(publish, tiny, later, home, place):
    make_key(home / "lab.key", "")
    make_key(home / "other.key", "")
    said = publish(tiny, "--to", place, "--sign", "lab.key")
    assert "29 files published" in said
    where = f"{place}/tiny" if "://" in place else home / place / "tiny"
    assert verify(where, key=str(home / "lab.pub")) == []
    (problem,) = verify(where, key=str(home / "other.pub"), deep=False)
    assert (problem.path, problem.kind) == (SIGNATURE, "signature")
    assert "all 29 files are there" in publish(tiny, "--to", place, "--sign", "lab.key")
    assert "all 28 files are there" in publish(tiny, "--to", place)
    assert "1 files published" in publish(tiny, "--to", place, "--sign", "other.key")
    publish(later, "--to", place)
    (problem,) = verify(where, key=str(home / "lab.pub"), deep=False)
    assert "is not signed" in problem.what


def test_a_signed_dataset_is_the_same_dataset(publish, tiny, home, monkeypatch):
    make_key(home / "lab.key", "")
    publish(tiny, "--to", "place", "--sign", "lab.key", "--catalog", "catalog.json")
    found = contents(home / "place/tiny")
    assert found.pop(SIGNATURE)
    assert found == contents(tiny)
    monkeypatch.setenv("SHIFTDATA_HOME", str(home / "place"))
    assert sd.info("tiny").content_id == sd.info(tiny).content_id
    (home / "catalog.json.minisig").touch()
    assert "its signature is of the earlier one" in publish(tiny, "--to", "two", "--catalog", "catalog.json")


def test_a_key_that_others_read_signs_nothing(publish, tiny, home):
    make_key(home / "lab.key", "")
    (home / "lab.key").chmod(0o644)
    assert "chmod 600" in publish(tiny, "--to", "place", "--sign", "lab.key", fails=True)
    assert not (home / "place").exists()
