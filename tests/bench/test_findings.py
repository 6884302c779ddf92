"""docs/findings.md says what the records beside it give, and each verdict follows from its interval."""

from __future__ import annotations

import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student

from builders.recipe_files import load_recipe
from shiftdata.bench.sweep import read_sweep
from tests.paths import ROOT

FOLDER = ROOT / "docs/findings"
SWEEPS = sorted(path.parent.name for path in FOLDER.glob("*/sweep.toml"))


@pytest.fixture(scope="module")
def findings():
    """The modules of scripts/findings, which find each other by their bare names."""
    folder = ROOT / "scripts/findings"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        modules = {name: import_module(name) for name in ("claims", "verdicts", "evidence", "pictures")}
        spec = spec_from_file_location("findings_page", folder / "__main__.py")
        page = module_from_spec(spec)
        patch.setitem(sys.modules, spec.name, page)  # where dataclasses look for it
        spec.loader.exec_module(page)
        yield SimpleNamespace(**modules, page=page)


@pytest.mark.slow
def test_the_page_has_the_tables_of_the_records(findings):
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    block = page.partition(findings.page.BEGIN)[2].partition(findings.page.END)[0]
    assert block.strip() == findings.page.written().strip()


@pytest.mark.parametrize(
    ("differences", "kind", "verdict"),
    [
        ([3.0, 4.0, 5.0], "leads", "holds"),
        ([-3.0, -4.0, -5.0], "leads", "does not hold"),
        ([-0.1, 0.1, 0.05, -0.05], "leads", "no difference"),
        ([0.1, 0.11, 0.12, 0.1], "leads", "no difference"),  # surely above 0, and surer to be small
        ([-0.5, -0.5, -0.6], "not worse", "holds"),
        ([-3.0, -3.1, -2.9], "not worse", "does not hold"),
        ([0.5, -0.5, 0.1], "alike", "holds"),
        ([8.0, 9.0, 8.5], "alike", "does not hold"),
        ([3.0, 3.1, 2.9], "far", "holds"),
        ([1.0, 1.1, 0.9], "far", "does not hold"),
        ([3.0, 3.1], "leads", "inconclusive"),
        ([3.0, 3.0, 3.0], "leads", "inconclusive"),  # no replicates
    ],
)
def test_a_verdict_follows_from_the_interval(findings, differences, kind, verdict):
    assert findings.verdicts.tested(np.array(differences), kind, margin=1.0).verdict == verdict


@pytest.mark.parametrize(("kind", "edge"), [("leads", 0.0), ("not worse", -1.0), ("far", 2.0)])
def test_the_level_of_a_verdict_is_that_of_the_interval_that_touches_its_bound(findings, kind, edge):
    differences = np.random.default_rng(0).normal(edge + 1.5, 2.0, 12)
    p = findings.verdicts.tested(differences, kind, margin=1.0).p
    error = differences.std(ddof=1) / np.sqrt(12)
    reach = student.ppf(1 - p / 2, 11) * error
    assert differences.mean() - reach == pytest.approx(edge, abs=1e-6)


def test_a_verdict_stands_for_all_claims_of_a_paper_at_once(findings):
    tested = findings.verdicts.Tested
    family = [tested("holds", 0.001), tested("holds", 0.03), tested("holds", 0.04), tested("holds", np.nan)]
    assert [claim.verdict for claim in findings.verdicts.decided(family[1:2])] == ["holds"]
    verdicts = [claim.verdict for claim in findings.verdicts.decided(family)]
    assert verdicts == ["holds", "inconclusive", "inconclusive", "inconclusive"]


def test_a_contrast_is_of_the_tasks_it_names(findings, monkeypatch):
    claim = findings.claims.Claim(
        paper="SMA", text="", sweeps=("s",), more="a b", less="c", where="mu=0.1", beyond="mu=0.2"
    )
    means = {
        ("heart", "group-fairness k=2 mu=0.1"): {"a": 5.0, "b": 7.0, "c": 1.0},
        ("heart", "group-fairness k=2 mu=0.2"): {"a": 3.0, "b": 3.0, "c": 2.0},
        ("dom_glyphs", "group-fairness k=4 mu=0.1"): {"a": 3.0, "b": 3.0},
    }
    monkeypatch.setattr(findings.evidence, "means", lambda sweep, rule: means)
    monkeypatch.setattr(findings.evidence, "RECORDS", FOLDER)
    claim = replace(claim, sweeps=("sma-uda",))
    found = findings.evidence.evidence(claim)
    assert found.differences.tolist() == [4.0]
    assert (found.part(embedded=False).tolist(), found.part(embedded=True).tolist()) == ([4.0], [])
    assert findings.evidence.evidence(replace(claim, beyond="", less="a")).differences.tolist() == [1.0, 0.0]
    assert findings.page._contrast(claim) == "mean(a, b) - c, mu=0.1 beyond mu=0.2"


def test_models_change_places_where_each_is_surely_ahead(findings):
    draws = np.random.default_rng(0)
    right = np.zeros((2, 200, 3, 2))  # model, picture, shift, severity
    for model, shares in enumerate([(0.9, 0.5, 0.5), (0.6, 0.5, 0.8)]):
        right[model] = draws.random((200, 3, 2)) < np.array(shares)[:, None]
    changed = findings.pictures._places(right, "shift")
    assert (changed.points, changed.tested.verdict) == ("1 of 1", "holds")
    assert "3 comparisons" in changed.contrast
    assert changed.tested.p < 0.001
    assert findings.pictures._places(right[:, :, :2], "shift").tested.p > 0.05  # no order in the second
    kept = findings.pictures._places(right[:, :, :1], "severity").tested
    assert (kept.verdict, kept.p < 0.001) == ("does not hold", True)


def test_a_trajectory_fails_where_it_is_wrong_first(findings):
    share = np.array([[[[1, 1, 0.0], [1, 0, 1]]]])  # one model and picture, two shifts, three severities
    assert findings.pictures._last(share).tolist() == [0.0]
    assert findings.pictures._last(share[:, :, :1]).tolist() == [100.0]


def of_the_recipe(dataset: str, patterns: str | list[str]) -> list[str]:
    """The canonical splits that fit a pattern, from the recipe: the dataset is not built here."""
    wanted = [patterns] if isinstance(patterns, str) else patterns
    declared = FOLDER / f"datasets/{dataset}.toml"
    recipe = load_recipe(str(declared) if declared.exists() else dataset)
    of = [protocol for protocol in recipe.protocols if not isinstance(protocol, str)]
    return [
        protocol.words()
        for protocol in of
        if any(fnmatchcase(protocol.config_name, pattern) for pattern in wanted)
    ]


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_has_as_many_runs_as_it_says(name, monkeypatch):
    monkeypatch.setattr("shiftdata.bench.sweep._canonical", of_the_recipe)
    sweep = read_sweep(FOLDER / name / "sweep.toml")
    runs = len(list(sweep.studies())) * sweep.search.seeds * sweep.search.trials
    assert sweep.name == name
    assert f": {runs:,} runs" in sweep.about


@pytest.mark.parametrize("path", sorted((FOLDER / "datasets").iterdir()), ids=lambda path: path.name)
def test_the_recipes_of_the_page_can_be_read(path):
    assert load_recipe(str(path)).name == path.stem
