"""docs/kinds_of_shift.md says what the records and meters give; each hypothesis sees its own effect."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from itertools import product

import pytest

from tests.paths import ROOT


@pytest.fixture
def composition(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    yield import_module("composition")
    sys.modules.pop("composition")


def made(script, gain, blocks=3):
    """Blocks of nine tasks with and without a new domain, in which each method gains over ERM by a rule."""
    tasks = []
    for draw, new in product(range(blocks), (False, True)):
        for n, (spurious, label) in enumerate(product((0.0, 0.3, 0.6), (0.1, 0.4, 0.8))):
            shift = {"spurious correlation": spurious, "label shift": label, "new domains": float(new)}
            noise = ((7 * n + 5 * draw) % 9) / 1000
            accuracy = {name: 50 + gain(name, spurious, label, new) + noise for name in script.COLOURS}
            tasks.append(script.Tried(f"letters seed={draw} new={new}", "1", "3", shift, accuracy))
    return tasks


def truth(name, spurious, label, new):
    """The world that the hypotheses describe."""
    gains = {"rwg": 9 * spurious, "group-dro": 8 * spurious, "dann": 4 * new - 9 * label, "coral": 3 * new}
    gains |= {"rs+rw+erm": 9 * label, "rs+rw+dann": 7 * label}
    return gains.get(name, 0)


def test_every_hypothesis_sees_its_effect_and_its_reverse(composition):
    for sign in (1, -1):
        tasks = made(composition, lambda *of, sign=sign: sign * truth(*of))
        for hypothesis in composition.HYPOTHESES[:-1]:  # the ranking is alike either way
            values = composition.differences(hypothesis, tasks)
            assert len(values) == (3 if hypothesis.by == composition.NEW else 6), hypothesis.text
            assert (sign * values > 0).all(), hypothesis.text
        assert composition.differences(composition.HYPOTHESES[-1], tasks).min() > 0.3


def test_the_page_has_what_the_records_give(composition):
    page = composition.PAGE.read_text(encoding="utf-8")
    measured = json.loads(composition.MEASURED.read_text(encoding="utf-8"))
    assert composition.written(page, composition.tried(measured), measured) == page


def test_a_block_that_lacks_a_run_is_left_out(composition, monkeypatch):
    measured = json.loads(composition.MEASURED.read_text(encoding="utf-8"))
    whole = composition.tried(measured)
    assert len(whole) % 9 == 0
    scores = composition.scores_of

    def without_a_run(records, rule):
        found, *rest = scores(records, rule)
        return [found[1:], *rest]

    monkeypatch.setattr(composition, "scores_of", without_a_run)
    assert len(composition.tried(measured)) == len(whole) - 9
