"""Agreement against scikit-learn, and its intervals against simulation."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from shiftdata.cli.app import main
from shiftdata.evaluation.labelling.agreement import agreements, alpha, compare, kappa, linear_weights
from shiftdata.evaluation.labelling.purposes import FILTER, STYLES


def drawn(seed: int, n: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    one = draw.choice(labels, n, p=draw.dirichlet(np.ones(labels)))
    return one, np.where(draw.random(n) < 0.6, one, draw.integers(0, labels, n))


def counts(one: np.ndarray, two: np.ndarray, labels: int) -> np.ndarray:
    made = np.zeros((labels, labels), np.int64)
    np.add.at(made, (one, two), 1)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_kappas_are_those_of_scikit_learn(seed: int) -> None:
    labels = 2 + seed % 3
    one, two = drawn(seed, 40, labels)
    table, names = counts(one, two, labels), list(range(labels))
    assert kappa(table).kappa == pytest.approx(cohen_kappa_score(one, two, labels=names))
    weighted = kappa(table, linear_weights(labels))
    assert weighted.kappa == pytest.approx(cohen_kappa_score(one, two, labels=names, weights="linear"))


@pytest.mark.parametrize("weights", [None, linear_weights(3)])
def test_intervals_cover_the_truth_as_often_as_they_say(weights: np.ndarray | None) -> None:
    draw = np.random.default_rng(0)
    shares = np.array([[0.35, 0.06, 0.02], [0.05, 0.15, 0.06], [0.01, 0.05, 0.25]])
    truth = kappa((shares * 1e9).astype(np.int64), weights).kappa
    made = [kappa(draw.multinomial(300, shares.ravel()).reshape(3, 3), weights) for _ in range(1000)]
    assert np.mean([one.low <= truth <= one.high for one in made]) == pytest.approx(0.95, abs=0.025)


def test_where_nothing_differs_by_chance_nothing_is_defined() -> None:
    for table in (np.zeros((2, 2), np.int64), np.array([[9, 0], [0, 0]])):
        assert math.isnan(kappa(table).kappa)
    assert kappa(np.array([[9, 0], [0, 9]])).kappa == 1
    assert kappa(np.array([[0, 9], [9, 0]])).kappa == -1


def test_only_what_both_labelled_is_compared_and_weights_need_an_order() -> None:
    first = {("a",): "keep", ("b",): "drop", ("c",): "keep"}
    second = {("b",): "partly", ("c",): "keep", ("d",): "drop"}
    found = compare(FILTER, ("anna", first), ("ben", second))
    assert (found.n, found.differ, found.raw[0]) == (2, ((("b",), "drop", "partly"),), 0.5)
    assert found.counts.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert found.weighted is not None
    assert compare(STYLES, ("x", {}), ("y", {})).weighted is None
    names = [
        f"{one.first} - {one.second}"
        for one in agreements(FILTER, [("l.csv", {"anna": first}), ("m.csv", {"anna": second, "ben": first})])
    ]
    assert names == ["anna in l.csv - anna in m.csv", "anna in l.csv - ben", "anna in m.csv - ben"]


def test_the_command_line_compares_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for who, labels in {"anna": "kkddp", "ben": "kkdpp"}.items():
        names = {"k": "keep", "d": "drop", "p": "partly"}
        lines = [f"key{at},{names[one]},{who},2026-11-23T20:00:00Z\n" for at, one in enumerate(labels)]
        files.append(tmp_path / f"{who}.csv")
        files[-1].write_text("key,label,who,when\n" + "".join(lines))
    assert main(["label", "--agreement", *map(str, files)]) == 0
    said = capsys.readouterr().out
    expected = cohen_kappa_score([0, 0, 2, 2, 1], [0, 0, 2, 1, 1])
    assert "anna and ben: n = 5 labelled by both" in said
    assert f"Cohen's kappa {expected:.3f} [" in said
    assert "key3: drop, partly" in said
    assert main(["label", "--agreement", str(files[0])]) == 1
    assert "labels of one person: give a second file" in capsys.readouterr().err


def by_person(table: list[str]) -> dict[str, dict[tuple[str, ...], str]]:
    """The labels of each person in turn, by key; "." where a person gave none."""
    return {
        f"person-{who}": {(f"key-{i}",): label for i, label in enumerate(labels) if label != "."}
        for who, labels in enumerate(table)
    }


def alpha_by_definition(table: list[str]) -> float:
    """Pairs of labels of a key, and pairs of all labels."""
    keys = [[label for label in labels if label != "."] for labels in zip(*table, strict=True)]
    keys = [labels for labels in keys if len(labels) > 1]
    pooled = [label for labels in keys for label in labels]
    differ = [sum(a != b for a, b in permutations(labels, 2)) / (len(labels) - 1) for labels in keys]
    return 1 - sum(differ) / len(pooled) / np.mean([a != b for a, b in permutations(pooled, 2)])


@given(st.lists(st.text("abc.", min_size=3, max_size=3), min_size=2, max_size=8))
def test_alpha_is_what_its_definition_says(keys: list[str]) -> None:
    table = ["".join(labels) for labels in zip(*keys, strict=True)]
    several = "".join(key for key in keys if key.count(".") < 2).replace(".", "")
    found = alpha(by_person(table))
    if len(set(several)) < 2:
        assert found is None
    else:
        assert found.estimate == pytest.approx(alpha_by_definition(table))
        assert found.low <= found.high <= 1


def test_alpha_of_krippendorffs_example() -> None:
    # "Computing Krippendorff's alpha-reliability" (2011), example C: four people, twelve units.
    table = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    assert alpha(by_person(table)).estimate == pytest.approx(0.743, abs=0.0005)
