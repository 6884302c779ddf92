from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.format.conditions import rows_matching
from shiftdata.metadata.folds import quantiles
from shiftdata.protocols import GroupFairness
from tests.properties import share
from tests.protocols import made

LABELS = [f"label{number}" for number in range(20)]
STYLES = [f"style{number}" for number in range(20)]
SIZES = {"train": 20, "validation": 8, "test": 12}


def metadata(sizes: dict[str, int], labels: int = 20, styles: int = 20) -> pa.Table:
    """Every (split, label, style) with so many rows."""
    cells = [(s, i, j) for s in sizes for i in range(labels) for j in range(styles) for _ in range(sizes[s])]
    keys = [f"k{number}" for number in range(len(cells))]
    split, label, style = (list(column) for column in zip(*cells, strict=True))
    codes = np.unique([f"{s}/{i}/{j}" for s, i, j in cells], return_inverse=True)[1]
    quantile = quantiles(codes, keys)
    return pa.table({"key": keys, "split": split, "label": label, "style": style, "quantile": quantile})


TABLE = metadata(SIZES)
ROWS = made.metadata(6, 6, 30)


@given(st.integers(2, 20), st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.5, 1.0]), st.integers(0, 1000))
def test_counts_are_the_papers(k, mu, seed):
    protocol = GroupFairness(k=k, mu=mu, seed=seed)
    pairs = protocol.pairs(LABELS, STYLES)
    rows = rows_matching(TABLE, protocol.filters(LABELS, STYLES, "style"))
    found = Counter(zip(*(rows[c].to_pylist() for c in ("split", "label", "style")), strict=True))
    styles = [style for _, style, _ in pairs]
    expected = {}
    for label, own, nu in pairs:
        assert 0.3 <= nu <= 1
        for style in styles:
            share = Decimal(str(nu)) * (1 if style == own else Decimal(str(mu)))
            expected["train", label, style] = math.ceil(round(share, 6) * SIZES["train"])
            expected["validation", label, style] = SIZES["validation"]
            expected["test", label, style] = SIZES["test"]
    assert found == expected
    assert min(found.values()) > 0


def test_evaluation_rows_do_not_change_with_mu_and_training_rows_are_nested():
    kept = [
        rows_matching(TABLE, GroupFairness(k=8, mu=mu).filters(LABELS, STYLES, "style"))
        for mu in (0.05, 0.1, 0.2)
    ]
    held_out = [set(t.filter(pa.compute.field("split") != "train")["key"].to_pylist()) for t in kept]
    assert held_out[0] == held_out[1] == held_out[2]
    train = [set(t.filter(pa.compute.field("split") == "train")["key"].to_pylist()) for t in kept]
    assert train[0] < train[1] < train[2]


@given(st.integers(2, 19), st.integers(0, 50))
def test_a_smaller_k_draws_part_of_a_larger_one(k, seed):
    small = GroupFairness(k=k, mu=0.1, seed=seed).pairs(LABELS, STYLES)
    large = GroupFairness(k=k + 1, mu=0.1, seed=seed).pairs(LABELS, STYLES)
    assert small == large[:k]


def test_seeds_draw_differently():
    draws = {tuple(GroupFairness(k=4, mu=0.1, seed=seed).pairs(LABELS, STYLES)) for seed in range(20)}
    assert len(draws) == 20


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 1, "mu": 0.1}, "k must be at least 2"),
        ({"k": 2, "mu": 0}, "mu must be above 0"),
        ({"k": 2, "mu": 1.5}, "at most 1"),
        ({"k": 2, "mu": float("nan")}, "mu must be above 0"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        GroupFairness(**parameters)


def test_more_classes_than_there_are_is_refused():
    with pytest.raises(InputError, match="k=21 needs as many labels, and there are 20"):
        GroupFairness(k=21, mu=0.1).pairs(LABELS, STYLES)


def test_draws_and_filters_never_change():
    # Published splits are these filters: another hash would be another split under the same name.
    digest = hashlib.sha256()
    for k, mu, seed in itertools.product((2, 4, 8, 12, 20), (0.05, 0.1, 0.2, 1.0), (0, 1, 7, 1234)):
        digest.update(repr(GroupFairness(k=k, mu=mu, seed=seed).filters(LABELS, STYLES, "style")).encode())
    assert digest.hexdigest() == "1d1614ed3489422ddeb4255778e61aca26a134da71d2a8cc67bd6bdff649c4b3"


@share(0.5)
@given(st.integers(2, 5), st.sampled_from([(0.05, 0.1), (0.1, 0.5), (0.5, 1.0)]), st.integers(0, 50))
def test_tasks_are_nested_in_k_and_mu(k, mus, seed):
    few, many = (sd.task(ROWS, "group-fairness", k=k, mu=mu, seed=seed) for mu in mus)
    assert set(few.keys("train")) <= set(many.keys("train"))
    assert few.keys("test") == many.keys("test")
    larger = sd.task(ROWS, "group-fairness", k=k + 1, mu=mus[0], seed=seed)
    for name in few.sets:
        assert set(few.keys(name)) <= set(larger.keys(name))


def test_frozen_keys_are_those_of_the_filters(tiny):
    protocol = GroupFairness(k=4, mu=0.2, seed=1)
    frozen = pq.read_table(tiny / "protocols/gf_k4_mu20_s1.parquet")
    filters = protocol.filters(
        ["bar", "disc", "ring", "wedge"], ["blue", "cyan", "green", "red", "yellow"], "style"
    )
    for split in ("train", "validation", "test"):
        rows = rows_matching(pq.read_table(tiny / f"metadata/mini/{split}.parquet"), filters)
        assert frozen.filter(pa.compute.field("split") == split)["key"].to_pylist() == rows["key"].to_pylist()
    assert set(frozen["count"].to_pylist()) == {1}
