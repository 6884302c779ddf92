"""docs/findings.md says what the records beside it give, and each verdict follows from its interval."""

from __future__ import annotations

import runpy
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest

from builders.recipe_files import load_recipe
from shiftdata.bench.sweep import read_sweep
from tests.paths import ROOT


@pytest.fixture(scope="module")
def findings() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "scripts/findings.py"))


@pytest.mark.slow
def test_the_page_has_the_tables_of_the_records(findings):
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    block = page.partition(findings["BEGIN"])[2].partition(findings["END"])[0]
    assert block.strip() == findings["written"]().strip()


@pytest.mark.parametrize(
    ("differences", "alike", "verdict"),
    [
        ([3.0, 4.0, 5.0], False, "holds here"),
        ([-3.0, -4.0, -5.0], False, "does not hold"),
        ([-3.0, 4.0, 1.0], False, "inconclusive"),
        ([3.0], False, "inconclusive"),
        ([0.5, -0.5, 0.1], True, "holds here"),
        ([8.0, 9.0, 8.5], True, "does not hold"),
        ([8.0, -9.0, 8.5], True, "inconclusive"),
        ([3.0, np.nan, 4.0, 5.0], False, "holds here"),
    ],
)
def test_a_verdict_follows_from_the_interval(findings, differences, alike, verdict):
    assert findings["line"]("paper", "claim", "a - b", np.array(differences), alike)[-1] == verdict


def test_a_contrast_is_of_the_tasks_it_names(findings):
    claim = findings["Claim"]("P", "text", "sweep", "a b", "c", "mu=0.1", "mu=0.2")
    means = {
        ("d", "group-fairness k=2 mu=0.1"): {"a": 5.0, "b": 7.0, "c": 1.0},
        ("d", "group-fairness k=2 mu=0.2"): {"a": 3.0, "b": 3.0, "c": 2.0},
    }
    assert claim.differences(means).tolist() == [4.0]
    assert claim.contrast == "mean of a, b - c, mu=0.1 beyond mu=0.2"
    assert replace(claim, rule="oracle").contrast == f"{claim.contrast}, selected by oracle"


def test_models_change_places_where_each_is_surely_ahead(findings):
    draws = np.random.default_rng(0)
    right = np.zeros((2, 200, 3, 2))  # model, photograph, shift, severity
    for model, shares in enumerate([(0.9, 0.5, 0.5), (0.6, 0.5, 0.8)]):
        right[model] = draws.random((200, 3, 2)) < np.array(shares)[:, None]
    changed = findings["places"](right, 2, "shifts")
    assert (changed[3], changed[-1]) == ("1 of 1", "holds here")
    assert "3 comparisons" in changed[2]
    assert findings["places"](right[:, :, :2], 2, "shifts")[-1] == "inconclusive"  # the second knows no order
    assert findings["places"](right[:, :, :1], 3, "severities")[-1] == "does not hold"


def of_the_recipe(dataset: str, patterns: str | list[str]) -> list[str]:
    """The canonical splits that fit a pattern, from the recipe: the dataset is not built here."""
    wanted = [patterns] if isinstance(patterns, str) else patterns
    of = [protocol for protocol in load_recipe(dataset).protocols if not isinstance(protocol, str)]
    return [
        protocol.words()
        for protocol in of
        if any(fnmatchcase(protocol.config_name, pattern) for pattern in wanted)
    ]


@pytest.mark.parametrize("name", ["rls-alpha", "sma-uda", "sma-unida", "uda-scratch"])
def test_the_runs_of_a_preset_are_as_many_as_it_and_the_page_say(name, monkeypatch):
    monkeypatch.setattr("shiftdata.bench.sweep._canonical", of_the_recipe)
    sweep = read_sweep(name)
    runs = len(list(sweep.studies())) * sweep.search.seeds * sweep.search.trials
    assert f": {runs:,} runs" in sweep.about
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert sweep.about in page.partition(f"`shiftdata sweep {name}`")[2].partition("\n")[0]
