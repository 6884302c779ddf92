from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from decimal import ROUND_HALF_DOWN, Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.data.format.conditions import rows_matching
from shiftdata.evaluation.protocols import GroupFairness
from tests.evaluation.protocols import made
from tests.properties import share

LABELS = [f"label{number:02d}" for number in range(20)]
STYLES = [f"kind{number:02d}" for number in range(20)]
#: Every label in every style: 20 rows a group train, 8 validate, 12 test.
ALL = made.metadata(20, STYLES, 40)
SIZES = {"train": 20, "validation": 8, "test": 12}
ROWS = made.metadata(6, 6, 30)


def counts_of(task, name):
    table = task.table(name)
    return Counter(zip(table["label"].to_pylist(), table["a"].to_pylist(), strict=True))


def rounded(share: Decimal, size: int) -> int:
    """To the nearest, at least one."""
    return max(1, int((share * size).to_integral_value(ROUND_HALF_DOWN)))


@share(0.5)
@given(st.integers(2, 20), st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.5, 1.0]), st.integers(0, 1000))
def test_counts_are_the_papers(k, mu, seed):
    protocol = GroupFairness(k=k, mu=mu, seed=seed)
    pairs = protocol.pairs(LABELS, STYLES)
    task = sd.task(ALL, protocol)
    styles = [style for _, style, _ in pairs]
    for name, size in SIZES.items():
        expected = {}
        for label, own, nu in pairs:
            assert 0.3 <= nu <= 1
            for style in styles:
                part = Decimal(str(nu)) * (1 if style == own else Decimal(str(mu)))
                expected[label, style] = rounded(round(part, 6), size) if name == "train" else size
        assert counts_of(task, name) == expected
        remaining = rows_matching(ALL.table, task.filters()[name])["key"].to_pylist()
        assert remaining == task.keys(name)  # at least one row a group, in plain filters too


@share(0.3)
@given(st.integers(1, 100), st.sampled_from([0.05, 0.1, 0.2]), st.integers(0, 30))
def test_mu_is_met_at_any_group_size(size, mu, seed):
    train = ["train"] * size
    table = pa.concat_tables([made.table(3, 3, size, shared=False)])
    rows = sd.metadata_from_table(
        table.append_column("part", pa.array(train * 9)),
        label="y",
        nuisance="a",
        origin="origin",
        split="part",
    )
    task = sd.task(rows, "group-fairness", k=3, mu=mu, seed=seed, on_empty="report")
    counts = counts_of(task, "train")
    for label, own, nu in GroupFairness(k=3, mu=mu, seed=seed).pairs(rows.labels, rows.nuisances):
        for style in range(3):
            exact = size * (nu if style == own else round(mu * nu, 6))
            assert abs(counts[label, style] - max(1, exact)) <= 0.5
    assert f"requested: mu = {100 * mu:g} %" in task.history.notes[0]


def test_seeds_draw_differently():
    subsamplings = [GroupFairness(k=4, mu=0.1, seed=seed) for seed in range(20)]
    assert len({tuple(split.pairs(LABELS, STYLES)) for split in subsamplings}) == 20


def test_draws_and_filters_never_change():
    # Published splits are these filters: another hash would be another split under the same name.
    digest = hashlib.sha256()
    for k, mu, seed in itertools.product((2, 4, 8, 12, 20), (0.05, 0.1, 0.2, 1.0), (0, 1, 7, 1234)):
        filters = sd.task(ALL, "group-fairness", k=k, mu=mu, seed=seed).filters()
        digest.update(repr(filters).encode())
    assert digest.hexdigest() == "4812f3527fbda25e9308583e3d23d7dc629c505fc758f11c5e9eb2dd98b13db7"


@share(0.5)
@given(st.integers(2, 5), st.sampled_from([(0.05, 0.1), (0.1, 0.5), (0.5, 1.0)]), st.integers(0, 50))
def test_tasks_are_nested_in_k_and_mu(k, mus, seed):
    few, many = (sd.task(ROWS, "group-fairness", k=k, mu=mu, seed=seed) for mu in mus)
    assert set(few.keys("train")) <= set(many.keys("train"))
    assert few.keys("test") == many.keys("test")
    larger = sd.task(ROWS, "group-fairness", k=k + 1, mu=mus[0], seed=seed)
    for name in few.sets:
        assert set(few.keys(name)) <= set(larger.keys(name))
