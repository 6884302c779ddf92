from __future__ import annotations

from dataclasses import replace

import pytest

from builders.describe.renderings import draft
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest, checksummed
from shiftdata.errors import InputError, IntegrityError, NotFoundError


def test_text_and_record_are_the_same_thing(tiny):
    text = (tiny / "manifest.json").read_text()
    assert Manifest.from_json(text).to_json() == text


def test_prompts_are_written_where_there_are_any(tiny, recipe):
    plain = Manifest.read(tiny)
    assert '"prompts"' not in plain.to_json()
    manifest = replace(plain, prompts=["a {} in a tint.", "the {}"])
    assert Manifest.from_json(manifest.to_json()) == manifest
    for wrong in ("no place", "{} and {}", "{0}", "{} {", "a {}\nb"):
        with pytest.raises(IntegrityError, match=r"prompt|line break"):
            Manifest.from_json(replace(plain, prompts=[wrong]).to_json())
        with pytest.raises(InputError, match="prompt"):
            replace(load_recipe(str(recipe)), prompts=(wrong,))
    before = load_recipe(str(recipe))
    after = replace(before, prompts=("the {}",))
    assert after.recipe_id() == before.recipe_id()
    assert draft(after).prompts == ["the {}"]
    with pytest.raises(InputError, match="prompts is a tuple"):
        replace(before, prompts="the {}")


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
