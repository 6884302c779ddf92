from __future__ import annotations

import pytest

from shiftdata.data.format.manifest import Manifest, checksummed
from shiftdata.errors import IntegrityError, NotFoundError


def test_text_and_record_are_the_same_thing(tiny):
    text = (tiny / "manifest.json").read_text()
    assert Manifest.from_json(text).to_json() == text


def test_names_that_load_dataset_accepts(tiny):
    names = list(Manifest.read(tiny).configs)
    assert names == ["mini", "content", "extended", "gf_k2_mu10", "gf_k4_mu20_s1", "metadata"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "x is not a shiftdata manifest"),
        ("[]", "x is not a shiftdata manifest"),
        ("{}", "x is not a shiftdata manifest"),
        ('{"format": 2}', "has manifest format 2; this shiftdata reads format 1: install a newer shiftdata"),
        ('{"format": 1}', "is damaged, was edited, or had its line endings converted"),
        (checksummed({"format": 1}), "x is not a shiftdata manifest: bases is missing"),
        ("[" * 100_000, "x is not a shiftdata manifest"),
    ],
)
def test_a_text_that_is_no_manifest_is_refused(text, message):
    with pytest.raises(IntegrityError, match=message):
        Manifest.from_json(text, "x")


def test_a_folder_without_manifest_is_no_dataset(tmp_path):
    with pytest.raises(NotFoundError, match="its build has not finished"):
        Manifest.read(tmp_path)


def test_an_unknown_base_or_config_offers_the_nearest(tiny):
    manifest = Manifest.read(tiny)
    with pytest.raises(NotFoundError, match="unknown base 'mine'; did you mean 'mini'"):
        manifest.base("mine")
    with pytest.raises(NotFoundError, match="did you mean 'gf_k2_mu10'"):
        manifest.splits_of("gf_k2_mu1")


def test_nothing_of_the_machine_is_published(tiny, recipe):
    for path in tiny.rglob("*"):
        if path.is_file():
            assert str(recipe.parent).encode() not in path.read_bytes()
