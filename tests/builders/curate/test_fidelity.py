"""`styles fidelity`: what stays recognisable, by trials that go on, and the tables and the chart of it."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from builders.curate import fidelity
from builders.curate.content import SIDE, Content
from builders.curate.fidelity import Plan, halves, measure, summed
from builders.filters.scorers import Sketch
from builders.make.render import render_item
from builders.recipe_files import load_recipe
from builders.shifts.styles.bank import style_picture
from builders.shifts.styles.listed import read_listed, write_listed
from builders.shifts.stylizers import Arbitrary
from builders.shifts.stylizers.vgg import middle_square
from shiftdata.data.executors import Here
from shiftdata.errors import InputError
from tests.builders.curate.conftest import STYLES


class Fog(Arbitrary):
    """Hides what is painted in one style behind grey, and leaves the others as they are."""

    hidden = "swamp"
    encoded: ClassVar[list[Image.Image]] = []

    def encode(self, picture):
        self.encoded.append(picture)
        return np.array([np.asarray(picture, float).mean()])

    def stylize(self, picture, codes, strengths):
        assert strengths == [1.0] * len(codes)
        flat = Image.new("RGB", picture.size, (128, 128, 128))
        return [flat if any(code == one for one in self.foggy) else picture for code in codes]


@pytest.fixture
def fog(monkeypatch, out: Path) -> None:
    """The stylizer above, and features that need no weights."""
    of = [one for one in read_listed(out) if one.style == Fog.hidden]
    Fog.foggy = [Fog().encode(style_picture(out / one.file)) for one in of]
    Fog.encoded.clear()
    monkeypatch.setattr(fidelity, "describer", lambda: ("a sketch", "sketch", Sketch().pictures))


def outcomes(out: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((out / fidelity.TRIALS).rglob("*.json"))]


def test_a_style_that_hides_everything_has_the_fidelity_of_chance(out: Path, shapes: Path, fog) -> None:
    result = measure(out, Content(str(shapes)), Here(), Fog(), trials=12, keep=3)
    found = {one.style: one for one in result.styles}
    assert result.original > 0.9
    assert found["swamp"].fidelity == pytest.approx(1 / 3 / result.original, abs=0.01)
    assert not found["swamp"].kept
    table = (out / "fidelity.tsv").read_text().splitlines()
    assert (
        table[-1] == f"swamp\t{found['swamp'].fidelity:.6f}\t{found['swamp'].sem:.6f}\t{found['swamp'].n}\tno"
    )
    assert [one.style for one in result.styles][-1] == "swamp"
    for style in set(STYLES) - {"swamp"}:
        assert found[style].fidelity == pytest.approx(1, abs=0.05)
        assert found[style].kept
    assert sum(one.n for one in result.styles) == 36


def test_fidelity_is_the_mean_ratio_with_its_standard_error() -> None:
    """By hand; a trial whose untouched pictures were all mistaken says nothing."""
    done = [
        {"original": 0.8, "styles": {"a": 0.4, "b": 0.8, "c": 0.6}, "n": 9},
        {"original": 0.5, "styles": {"a": 0.35, "b": 0.5, "d": 0.1}, "n": 9},
        {"original": 0.0, "styles": {"a": 0.9, "c": 0.9, "d": 0.9}, "n": 9},
        {"original": 1.0, "styles": {"a": 0.3, "b": 0.7, "c": 0.95}, "n": 9},
    ]
    result = summed(["a", "b", "c", "d", "e"], done, "a sketch", 2)
    assert [(style.style, style.n, style.kept) for style in result.styles] == [
        ("b", 3, True),
        ("c", 2, True),
        ("a", 3, False),
        ("d", 1, False),
        ("e", 0, False),
    ]
    assert [style.fidelity for style in result.styles[:4]] == pytest.approx([0.9, 0.85, 0.5, 0.2])
    assert [style.sem for style in result.styles[:3]] == pytest.approx([0.1, 0.1, 0.2 / math.sqrt(3)])
    assert result.original == pytest.approx(0.575)


def test_no_origin_is_learned_from_and_tested_on(shapes: Path, tmp_path) -> None:
    """Also where several pictures share one: two of each here."""
    content = Content(str(shapes))
    classes = Plan(tmp_path, (), content, Arbitrary()).classes
    learned = set()
    for number in range(5):
        train, test = ([item.key for item, _ in half] for half in halves(content, number, classes))
        assert not set(train) & set(test)
        assert len(train) == len(test) == 16
        learned.add(tuple(train))
    assert len(learned) == 5
    twins = [replace(item, origin=f"o{n // 2}") for n, item in enumerate(classes["bar"])]
    train, test = ({item.origin for item, _ in half} for half in halves(content, 0, {"bar": twins}))
    assert not train & test
    assert len(train) == len(test) == 2


def test_trials_that_were_made_stay(out: Path, shapes: Path, monkeypatch, fog) -> None:
    content, asked = Content(str(shapes)), []

    def plain(pictures):
        asked.append(len(pictures))
        if len(asked) == 15:
            raise KeyboardInterrupt
        return Sketch().pictures(pictures)

    monkeypatch.setattr(fidelity, "describer", lambda: ("a sketch", "sketch", plain))
    with pytest.raises(KeyboardInterrupt):
        measure(out, content, Here(), Fog(), trials=5)
    assert len(outcomes(out)) == 2  # each asks six times
    assert not (out / "fidelity.tsv").exists()
    done: list[int] = []
    stopped = measure(out, content, Here(), Fog(), trials=5, on_done=done.append)
    assert done == [2, 1, 1, 1]
    assert len(asked) == 15 + 18
    first = outcomes(out)
    measure(out, content, Here(), Fog(), trials=6)
    assert outcomes(out)[:5] == first
    assert len(Fog.encoded) > 18  # each content picture draws one of its style
    assert len(asked) == 15 + 18 + 6
    for path in (out / fidelity.TRIALS).rglob("*.json"):
        path.unlink()
    assert measure(out, content, Here(), Fog(), trials=5) == stopped


def test_what_cannot_be_measured_is_refused(out: Path, shapes: Path, tmp_path) -> None:
    two = tmp_path / "two"
    two.mkdir()
    for label in ("bar", "disc"):
        (two / label).symlink_to(shapes / label)
    with pytest.raises(
        InputError, match="has 2 labels with 4 or more origins, and a trial draws 3: give other"
    ):
        measure(out, Content(str(two)), Here(), Arbitrary())
    write_listed(out, [one for one in read_listed(out) if one.style in ("dawn", "waves")])
    with pytest.raises(InputError, match="has 2 styles to measure, and a trial draws 3: get more"):
        measure(out, Content(str(shapes)), Here(), Arbitrary())


def test_content_of_a_recipe_is_its_pictures_before_the_shift() -> None:
    content = Content("sma_glyphs")
    recipe = load_recipe("sma_glyphs")
    ((item, picture),) = content.pictures(content.items[:1])
    (sample,) = render_item(recipe, "content", item)
    assert picture.size == (SIDE, SIDE)
    assert picture.mode == "RGB"
    assert picture.tobytes() == middle_square(sample.image, SIDE).tobytes()
    again = pickle.loads(pickle.dumps(content))
    assert again.fingerprint() == content.fingerprint() != Content("dom_glyphs").fingerprint()
