"""What a venue's checker asks, on embedded recipes, on a new draft, in a folder and at a served place."""

from __future__ import annotations

import json
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from builders.cli.app import main
from builders.describe.renderings import draft
from builders.make.venue import FIELDS, venue_steps
from builders.recipe_files import embedded_recipes, recipe_of
from shiftdata.data.format.addresses import absolute
from shiftdata.data.format.croissant import render_croissant
from shiftdata.data.format.manifest import Manifest
from tests.web import answering


def lacking(folder: Path, at: str | None = None) -> dict[str, str]:
    """The steps of the checker that fail, but those of the fields, which tiny does not answer."""
    steps = [step for step in venue_steps(folder, at) if step.name not in FIELDS]
    return {step.name: step.lacking for step in steps if step.lacking}


@pytest.mark.parametrize("name", embedded_recipes())
def test_embedded_recipes_answer_all_that_a_venue_asks(name):
    document = json.loads(render_croissant(draft(recipe_of(name))))
    assert len(FIELDS) == 8
    for field in FIELDS:
        assert document[field] not in ("", [], None), field
        assert "TODO" not in str(document[field])


@pytest.mark.slow
def test_a_new_draft_lacks_only_what_its_author_must_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{label}{shop}{number},{label},{shop}" for number in range(12) for shop in "ab" for label in "xy"
    ]
    Path("reviews.csv").write_text("\n".join(["text,label,shop", *rows]))
    owner = ["--license", "CC0-1.0", "--attribution", "A. Maker", "--creator", "Ann"]
    assert main(["new", "reviews.csv", "--label", "label", "--domain", "shop", "--text", "text", *owner]) == 0
    build = ["build", "reviews.py", "--workers", "1", "--quiet"]
    assert main(build) == 0
    document = json.loads(render_croissant(Manifest.read(Path("build/shift/reviews"))))
    assert document.keys() >= FIELDS.keys()
    capsys.readouterr()
    assert main(["check", "reviews", "--venue"]) == 1
    said = capsys.readouterr().out
    lines = {line.split()[0]: line for line in said.splitlines()}
    answers = ("limitations", "biases", "people", "uses", "impact")
    for field, name in zip(FIELDS, answers, strict=False):
        assert "has a TODO" in lines[field]
        assert name in lines[field]
    assert "5 of 11 steps fail" in said
    Path("reviews.py").write_text(Path("reviews.py").read_text().replace("TODO: ", "It is answered: "))
    assert main(build) == 0
    assert main(["check", "reviews", "--venue"]) == 0


@pytest.mark.slow
def test_the_published_place_is_read_from_its_json_alone(copy):
    handler = partial(SimpleHTTPRequestHandler, directory=str(copy))
    with answering(handler) as url:
        assert lacking(copy, url)["addresses"].endswith("relative, such as ATTRIBUTION.md")
        written = (copy / "croissant.json").read_bytes()
        (copy / "croissant.json").write_bytes(absolute(written, url))
        assert lacking(copy, url) == {}
        (copy / "data/mini/test-00000-of-00001.parquet").unlink()
        (failed,) = lacking(copy, url)
        assert failed.startswith("records of ")


def test_a_broken_file_and_text_are_named(copy):
    (copy / "metadata/mini/test.parquet").write_bytes(b"not Parquet")
    (failed,) = lacking(copy).values()
    assert failed.startswith("metadata/test: ")
    (copy / "croissant.json").write_text("{")
    assert list(lacking(copy)) == ["JSON"]
