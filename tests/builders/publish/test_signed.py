"""Publishing a signed manifest: its signature goes along, stays, and goes when it would be false."""

from __future__ import annotations

import shutil

import pytest

import shiftdata as sd
from shiftdata.data.places.signatures import SIGNATURE
from shiftdata.evaluation.verify import verify
from tests.builders.publish.versions import contents
from tests.signing import Key


@pytest.mark.parametrize("place", ["place", "memory://signed"])
def test_a_signature_goes_along_and_never_outlives_its_manifest(publish, tiny, later, home, place):
    key, other = Key(home / "lab.pub"), Key(home / "other.pub")
    built = shutil.copytree(tiny, home / "built/tiny")
    key.sign(built / "manifest.json")
    assert "27 files published" in publish(built, "--to", place)
    where = f"{place}/tiny" if "://" in place else home / place / "tiny"
    assert verify(where, key=key.public) == []
    (problem,) = verify(where, key=other.public, deep=False)
    assert (problem.path, problem.kind) == (SIGNATURE, "signature")
    assert "all 27 files are there" in publish(built, "--to", place)
    assert "all 26 files are there" in publish(tiny, "--to", place)
    other.sign(built / "manifest.json")
    assert "1 files published" in publish(built, "--to", place)
    publish(later, "--to", place)
    (problem,) = verify(where, key=key.public, deep=False)
    assert "is not signed" in problem.what


def test_a_signed_dataset_is_the_same_dataset(publish, tiny, home, monkeypatch):
    built = shutil.copytree(tiny, home / "built/tiny")
    Key(home / "lab.pub").sign(built / "manifest.json")
    publish(built, "--to", "place", "--catalog", "catalog.json")
    found = contents(home / "place/tiny")
    assert found.pop(SIGNATURE)
    assert found == contents(tiny)
    monkeypatch.setenv("SHIFTDATA_HOME", str(home / "place"))
    assert sd.info("tiny").content_id == sd.info(tiny).content_id
    (home / "catalog.json.minisig").touch()
    assert "its signature is of the earlier one" in publish(tiny, "--to", "two", "--catalog", "catalog.json")
