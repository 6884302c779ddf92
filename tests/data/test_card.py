"""The card says what the manifest says, to `datasets`, to the Hub and to people."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from PIL import Image

import shiftdata
from builders.datasheet import Datasheet
from builders.describe.card import CARDS, front_matter, render_card
from builders.describe.renderings import card_of_recipe
from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import embedded_recipes, load_recipe
from shiftdata.data.format.attribution import credited, terms
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Credit
from shiftdata.errors import InputError, NotFoundError
from tests.tiny import write_recipe


@pytest.mark.parametrize("name", embedded_recipes())
def test_the_cards_of_the_house_are_fresh_complete_and_linked(name):
    # `shiftdata card` writes them again.
    recipe = load_recipe(name)
    assert recipe.name == name
    card = card_of_recipe(recipe)
    assert (CARDS / f"{name}.md").read_text(encoding="utf-8") == card
    assert "Not stated" not in card
    cited = re.findall(r"arXiv:(\d{4}\.\d{4,5})", recipe.citation)
    assert re.findall(r"https://arxiv\.org/abs/(\d{4}\.\d{4,5})", card) == cited


def test_every_picture_and_file_that_a_card_names_is_there(tiny):
    card = (tiny / "README.md").read_text()
    named = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", card)
    assert named == ["preview.jpg", "groups.png"]
    assert set(named) <= set(Manifest.read(tiny).files)
    for name in named:
        Image.open(tiny / name).load()


def test_what_was_not_said_is_not_invented(tiny):
    manifest = Manifest.read(tiny)
    assert manifest.datasheet == {}
    assert "**For which purpose?** Not stated by the publisher." in render_card(manifest)
    told = render_card(replace(manifest, datasheet={"purpose": "To test."}))
    assert "**For which purpose?** To test." in told


def test_long_lists_are_folded_and_every_fold_ends(tiny):
    manifest = Manifest.read(tiny)
    split = manifest.canonical_splits[0]
    many = [replace(split, name=f"split_{number}") for number in range(24)]
    people = [Credit(license="MIT", attribution=f"person {number}", rows=9) for number in range(50)]
    card = render_card(replace(manifest, canonical_splits=many, credits=people, more_credits=100))
    shown, _, folded = card.partition("<details><summary>18 more canonical splits</summary>")
    assert [name for name in ("split_5", "split_6") if f'"{name}"`' in shown.partition("## Canon")[2]] == [
        "split_5"
    ]
    assert '`"split_23"`' in folded.partition("</details>")[0]
    assert [person for person in ("person 4", "person 5") if person in card] == ["person 4"]
    assert "And 145 more: [ATTRIBUTION.md](ATTRIBUTION.md)." in card
    assert card.count("\n<details><summary>") == card.count("\n</details>\n")


def test_names_cannot_break_the_page(tiny):
    labels = ["a|b", "*c*", "d\ne", "Étoile.v2", "<script>"]
    manifest = replace(Manifest.read(tiny), labels=labels, title="A: B # C", summary="x | y")
    card = render_card(manifest)
    assert "a\\|b, \\*c\\*, d e, Étoile.v2, \\<script\\>" in card
    assert yaml.safe_load(card.split("---\n")[1])["pretty_name"] == "A: B # C"


@pytest.mark.parametrize(
    ("terms_of_use", "expected"),
    [
        ("MIT", {"license": ["mit"]}),
        ("Apache-2.0 AND CC-BY-4.0", {"license": ["apache-2.0", "cc-by-4.0"]}),
        ("ODbL-1.0", {"license": ["odbl"]}),
        ("GPL-3.0-only", {"license": ["gpl-3.0"]}),
        (
            "LicenseRef-Mine AND MIT",
            {"license": ["mit", "other"], "license_name": "licenseref-mine"},
        ),
    ],
)
def test_licences_are_written_as_the_hub_writes_them(tiny, terms_of_use, expected):
    front = front_matter(replace(Manifest.read(tiny), license=terms_of_use))
    assert expected.items() <= front.items()
    assert ("license_name" in front) == ("license_name" in expected)


def test_credits_are_counted_and_cut_but_licences_are_all_named():
    pairs = [("MIT", f"person {n}") for n in range(60)] * 2 + [("CC0-1.0", "one")]
    entries = terms(credited(pairs), [], "")
    assert entries["license"] == "CC0-1.0 AND MIT"
    assert (len(entries["credits"]), entries["more_credits"]) == (50, 11)
    assert entries["credits"][0] == Credit(license="MIT", attribution="person 0", rows=2)


def many_splits(own: Path, count: int, more: str = "") -> Path:
    text = own.read_text()
    start, end = text.index("    protocols=("), text.index("    seed=0")
    protocols = f"    protocols=tuple(GroupFairness(k=2, mu=0.5, seed=seed) for seed in range({count})),\n"
    own.write_text(text[:start] + protocols + more + text[end:])
    return own


@pytest.mark.slow
def test_the_first_canonical_splits_are_configs_and_the_others_key_files(tmp_path):
    own = many_splits(write_recipe(tmp_path / "own"), 26, "    virtual=24,\n")
    folder = build(str(own), tmp_path / "out", bases=["mini"], workers=1, quiet=True)
    manifest = Manifest.read(folder)
    assert [split.is_config for split in manifest.canonical_splits] == [True] * 24 + [False] * 2
    assert check(folder) == []
    import datasets

    with pytest.raises(ValueError, match="not found"):
        datasets.load_dataset(str(folder), "gf_k2_mu50_s25", streaming=True)
    for streaming in (False, True):
        loaded = shiftdata.load_dataset(folder, "gf_k2_mu50_s25", split="test", streaming=streaming)
        assert len(list(loaded)) == manifest.splits_of("gf_k2_mu50_s25")["test"].rows


@pytest.mark.parametrize(("count", "most_bytes"), [(25, 100_000), (24, 3_000)])
def test_more_configs_or_bytes_than_a_card_carries_are_refused_first(
    tmp_path, monkeypatch, count, most_bytes
):
    monkeypatch.setattr("shiftdata.data.format.front_matter.MOST_BYTES", most_bytes)
    own = many_splits(write_recipe(tmp_path / "own"), count)
    with pytest.raises(
        InputError, match=f"would have {count} virtual configs.*Give the recipe a lower `virtual`"
    ):
        build(str(own), tmp_path / "out", bases=["mini"], workers=1, quiet=True)
    assert not list(tmp_path.rglob("spool-*/*/*.arrow"))  # nothing was rendered


def test_a_datasheet_is_read_from_toml(tmp_path):
    (tmp_path / "sheet.toml").write_text('purpose = """\nTo see\nif it works.\n"""\nfunding = "None."\n')
    assert Datasheet.read(tmp_path / "sheet.toml").stated() == {
        "purpose": "To see if it works.",
        "funding": "None.",
    }


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ('porpose = "x"', NotFoundError, "unknown question 'porpose'; did you mean 'purpose'"),
        ("purpose = 3", InputError, "the answer to purpose must be text, got 3"),
        ("purpose = ", InputError, "cannot be read as a datasheet"),
    ],
)
def test_a_bad_datasheet_is_refused(tmp_path, text, error, message):
    (tmp_path / "sheet.toml").write_text(text)
    with pytest.raises(error, match=message):
        Datasheet.read(tmp_path / "sheet.toml")


def test_arxiv_ids_lead_to_their_papers(tiny):
    cited = (
        "A. Author. One. arXiv:2305.15253v2; B. Author. Two. CVPR 2024, arXiv:0902.3430. Version 2305.15253."
    )
    card = render_card(replace(Manifest.read(tiny), citation=cited))
    assert re.findall(r"\[(arXiv:\S+)\]\(https://arxiv\.org/abs/([\d.]+)\)", card) == [
        ("arXiv:2305.15253v2", "2305.15253"),
        ("arXiv:0902.3430", "0902.3430"),
    ]
