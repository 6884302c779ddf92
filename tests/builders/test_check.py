"""`shiftdata check`: what only the producer can say of a built dataset."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builders.__main__ import main
from builders.make.check import check
from builders.recipe import Expected
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from tests.tiny import edit_file


def found(folder: Path, **options) -> str:
    return "\n".join(map(str, check(folder, **options)))


def test_of_what_a_recipe_expects_nothing_but_what_is_not_met_is_named(tiny, recipe):
    rows = {"train": 200, "validation": 80, "test": 120}
    met = Expected(base="mini", rows=rows, smallest_group=4)
    expected = (met, replace(met, rows=rows | {"train": 1}), replace(met, smallest_group=5))
    few, small = check(tiny, replace(load_recipe(str(recipe)), expected=expected))
    assert "the recipe expects {'train': 1" in str(few)
    assert "has a group of 4 rows, the recipe expects at least 5" in str(small)


@pytest.mark.slow
def test_another_recipe_or_other_words_are_named(tiny, recipe):
    made = load_recipe(str(recipe))
    assert "tiny is now" in found(tiny, recipe=replace(made, seed=1))
    assert "has another description than the recipe" in found(tiny, recipe=replace(made, title="Shapes"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "croissant.json"])
def test_a_rendering_that_was_edited_or_lost_is_named(copy, name):
    whole = (copy / name).read_bytes()
    (copy / name).write_bytes(whole.replace(b"\n", b"\r\n"))
    assert f"{name}: has other line endings (CRLF)" in found(copy)
    (copy / name).write_bytes(whole + b" ")
    assert f"{name}: was edited" in found(copy)
    (copy / name).unlink()
    assert f"{name}: is missing" in found(copy)


@pytest.mark.slow
def test_what_datasets_counts_is_compared_with_the_promise(copy, monkeypatch):
    # The real client on a card whose filter lost a clause, as a faulty template would write it.
    from builders.make import check as module

    text = (copy / "README.md").read_text()
    filters = json.dumps(Manifest.read(copy).configs["gf_k2_mu10"].filters[-1])
    broken = text.replace(filters, filters.replace("test", "validation"))
    assert broken != text
    edit_file(copy, "README.md", lambda _: broken.encode())
    monkeypatch.setattr(module, "renderings", lambda manifest: {})
    monkeypatch.setattr("shiftdata.data.verifying.audit.card_problems", lambda *_: [])
    said = found(copy)
    assert "README.md: `datasets` reads 0 rows of gf_k2_mu10/test, streaming, the manifest says 24" in said
    assert "README.md: `datasets` does not read gf_k2_mu10: NonMatchingSplitsSizesError" in said


def test_the_command_line_checks_with_a_recipe_of_ones_own(tiny, recipe, capsys):
    assert main(["check", str(tiny), "--recipe", str(recipe)]) == 0
    assert "all well" in capsys.readouterr().out


def test_the_command_line_shows_the_card_of_a_recipe(recipe, capsys):
    assert main(["card", str(recipe)]) == 0
    out = capsys.readouterr().out
    assert "# Tinted Shapes" in out
    assert "made from the recipe alone" in out
