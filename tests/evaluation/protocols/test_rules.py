"""What keeps a task from misleading: roles, sizes over seeds, shared origins, rules that act on sets."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import parse_protocol, protocol, protocols
from tests.evaluation.protocols.made import NICO, column, kinds, metadata, table
from tests.evaluation.protocols.test_every import CASES, SHARED, WHOLE
from tests.properties import share

FOUR = ("apple", "google", "noto", "twemoji")
DOMAINS = metadata(8, FOUR, 40, shared=False)


def test_a_role_that_no_set_has_is_answered():
    task = sd.task(SHARED)
    with pytest.raises(InputError, match=r"no set with the role 'unlabelled': name one of train \(fit\)"):
        task.set_of("unlabelled")
    with pytest.raises(InputError, match=r"task\.also"):
        task.keys("test", "unlabelled")
    also = task.also("test", "unlabelled")
    assert also.sets["test"].roles == ("test", "unlabelled")
    assert "test also unlabelled" in also.describe()
    assert sorted(also.keys("test", "unlabelled")) == also.keys("test", "unlabelled")
    assert also.keys("test") == task.keys("test")
    with pytest.raises(InputError, match="can only be 'unlabelled'"):
        task.also("test", "fit")


def test_an_unlabelled_set_names_neither_label_nor_group():
    task = sd.task(SHARED, "uda", source="rock", target="dim")
    shown = task.table("target_train")
    assert shown.column_names == ["key", "a", "severity"]
    assert shown["key"].to_pylist() == task.keys("target_train") == sorted(task.keys("target_train"))
    assert not set(shown["key"].to_pylist()) & set(SHARED.table["key"].to_pylist())
    assert sorted(task.rows("target_train").tolist()) == task.sets["target_train"].indices.tolist()
    # Neighbours say nothing of each other: in the file's order they are of one label.
    label = SHARED.label[task.rows("target_train")]
    assert np.mean(label[1:] == label[:-1]) < 0.4
    drawn = sd.task(
        SHARED, "label-shift", alpha=9, source="rock", target="dim", replacement=True, on_empty="report"
    )
    counted = drawn.table("target_train")
    assert sum(counted["count"].to_pylist()) == len(drawn.sets["target_train"])
    of = dict(zip(drawn.rows("target_train").tolist(), counted["count"].to_pylist(), strict=True))
    rowset = drawn.sets["target_train"]
    assert of == dict(zip(rowset.indices.tolist(), rowset.counts.tolist(), strict=True))


CUTS = {
    "leave-one-domain-out": {"test": "rock"},
    "domainbed": {"test": "rock"},
    "uda": {"source": "rock", "target": "dim"},
    "oracle": {"test": ("rock", "dim")},
    "label-shift": {"alpha": None, "source": "rock", "target": "dim"},
}


@share(0.3)
@given(
    st.sampled_from(sorted(CUTS)), st.integers(1, 40), st.booleans(), st.integers(1, 60), st.integers(1, 6)
)
def test_a_seed_changes_rows_and_not_sizes(name, each, shared, seed, largest):
    rows = uneven(each, shared, largest)
    first, other = (sd.task(rows, name, seed=of, on_empty="report", **CUTS[name]) for of in (0, seed))
    biggest = np.bincount(rows.origin).max()
    for of in first.sets:
        # So few origins of so many rows: to leave no part empty can cost one in each stratum.
        strata = 3 * (1 if shared else len(kinds(first, of) | kinds(other, of)))
        assert abs(len(first.sets[of]) - len(other.sets[of])) <= biggest * strata
        if largest == 1:
            assert len(first.sets[of]) == len(other.sets[of])
        # No group that has a row by seed 0 lacks one by another seed, as long as there are origins for it.
        assert len(other.sets[of]) > 0 or not len(first.sets[of])
    stratum = rows.strata[rows.origin]
    for part in first.sets:
        for number in np.unique(stratum[first.sets[part].indices]) if shared else ():
            assert (stratum[other.sets[part].indices] == number).any()
    assert not other.report().leaks


def uneven(each: int, shared: bool, largest: int) -> sd.Metadata:
    """Rows whose origins have from one to `largest` rows in a group."""
    rows = table(3, NICO[:7], each * largest, shared=shared).to_pylist()
    for row in rows:
        head, _, number = row["origin"].rpartition("-")
        row["origin"] = (
            f"{head}-{int(number) * (1 + int(number) % largest) // largest // max(1, largest - 1)}"
        )
    return sd.metadata_from_table(pa.Table.from_pylist(rows), label="y", nuisance="a", origin="origin")


def test_seeds_take_other_rows():
    task = sd.task(WHOLE, "leave-one-domain-out", test="rock", seed=3)
    assert task.filters()["test"] is not None  # the whole domain, whatever the seed
    assert task.filters()["train"] is None
    assert task.sets["train"].reason == "seed 3 ranks the origins anew; seed 0 is a filter"


def test_only_origins_that_recur_are_cut_apart():
    """A quarter of the origins of a domain recur in another: only of those the test loses rows."""
    lines = table(4, ("a", "b", "c"), 100, shared=False).to_pylist()
    for row in lines:
        label, kind, number = row["origin"].split("-")
        if kind in "ab" and int(number) < 25:
            row["origin"] = f"{label}-both-{number}"
    rows = sd.metadata_from_table(pa.Table.from_pylist(lines), label="y", nuisance="a", origin="origin")
    assert rows.recurs.sum() == 200
    turned = pa.Table.from_pylist(lines[::-1])
    turned = sd.metadata_from_table(turned, label="y", nuisance="a", origin="origin")
    assert turned.recurs[::-1].tolist() == rows.recurs.tolist()
    for seed in (0, 3):
        task = sd.task(rows, "leave-one-domain-out", test="a", seed=seed)
        test = Counter(origin.split("-")[1] for origin in column(task, "test", "origin"))
        assert test["a"] == 300  # every row that recurs nowhere
        assert 24 <= test["both"] <= 36  # the test folds of the hundred that do
        assert not task.report().leaks
        assert "only these are cut apart" in task.sets["test"].reason
        train = Counter(origin.split("-")[1] for origin in column(task, "train", "origin"))
        assert train["c"] == 320
        assert 40 <= train["both"] <= 60


def test_a_cut_that_is_the_same_for_all_origins_needs_not_know_which_recur(monkeypatch):
    parts = sd.task(SHARED, "oracle", test="rock").sets
    monkeypatch.delattr(sd.Metadata, "recurs")
    rows = metadata(6, NICO, 20)
    for name, part in sd.task(rows, "oracle", test="rock").sets.items():
        assert part.indices.tolist() == parts[name].indices.tolist()
    with pytest.raises(AttributeError, match="recurs"):
        sd.task(rows, "leave-one-domain-out", test="rock")


@pytest.mark.parametrize("turned", [False, True])
def test_a_share_is_of_the_rows_in_the_set_whatever_cut_it(turned):
    steps = [protocol("leave-one-domain-out", test="noto"), protocol("group-fairness", k=3, mu=0.1)]
    both = steps[1] & steps[0] if turned else steps[0] & steps[1]
    task = both(sd.task(DOMAINS))
    assert task.describe().startswith("leave-one-domain-out@1")
    counts = np.array(task.report().sets["train"].counts)
    used = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    assert used.shape == (3, 3)
    shares = used / 32  # 80 % of 40 rows a group train
    for row in shares:
        own = row.max()
        assert np.allclose(np.sort(row)[:2], 0.1 * own, atol=0.5 / 32 + 1e-9)
    assert kinds(task, "test") == {"noto"}
    assert len(task.sets["test"]) == 3 * 40  # a held-out domain stays whole
    assert set(task.history.metrics) == {"domains", "fairness"}
    assert "requested: mu = 10 %" in str(task.report())
    with pytest.raises(InputError, match="put leave-one-domain-out first"):
        steps[0](steps[1](sd.task(DOMAINS)))
    with pytest.raises(InputError, match=r"k=4 needs as many nuisances, and training has 3"):
        (steps[0] & protocol("group-fairness", k=4, mu=0.1))(sd.task(DOMAINS))


def test_cells_are_many_sets():
    cells = sd.task(metadata(3, 2, 20, severities=(0.0, 1.0)), "continuous", cells=True)
    with pytest.raises(InputError, match="has cut train into many sets: name one, such as train/kind0@0"):
        cells.set_of("fit")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 5])
def test_words_are_read_back(name, seed):
    chain = protocol(name, **{**CASES[name], "seed": seed}) & parse_protocol("severity<=1.5")
    again = parse_protocol(chain.words())
    assert again is not None
    assert str(again) == str(chain)
    first, second = (step(sd.task(SHARED), on_empty="report") for step in (chain.steps[0], again.steps[0]))
    assert first.content_id() == second.content_id()
    assert chain.words() == again.words()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("group-fairness k=2 mu=0.2 group-fairness k=2 mu=0.5 seed=1", "group-fairness has chosen rows"),
        ("label-shift alpha=3 label-shift alpha=3 seed=1", "label-shift has chosen rows"),
        (
            "flexible-dg dominant=1 minor=1 test=1 per_domain=3 group-fairness k=3 mu=0.2",
            r"each of 3 classes in each of 3 nuisances, and .* training has \d of these groups",
        ),
        ("label-shift alpha=3 source=rock target=rock", "target_test has no row to shift"),
    ],
)
def test_compositions_that_would_mislead_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        sd.task(SHARED, parse_protocol(words), on_empty="report")


def test_a_task_without_a_test_is_refused():
    three = metadata(4, 4, 3)  # origins at folds 0, 33 and 66
    with pytest.raises(InputError, match="has no test set, only train, validation"):
        sd.task(three, "group-fairness", k=2, mu=0.5)
    assert list(sd.task(three, "group-fairness", k=2, mu=0.5, on_empty="report").sets) == [
        "train",
        "validation",
    ]


@pytest.mark.parametrize(
    ("words", "config"),
    [
        ("uda source=0 target=15", "uda_0_15"),
        ("oracle test=15,30", "oracle_15_30"),
        ("leave-one-group-out group=1 groups=0:15,30:45", "logo_group1_0_15_30_45"),
        ("label-shift alpha=none source=0 target=15,30", "ls_alphanone_0_15_30"),
        ("continuous shifts=0 severities=1", "continuous_0_severities1"),
    ],
)
def test_nuisances_with_numbers_as_names(words, config):
    rows = metadata(4, ("0", "15", "30", "45"), 20, shared=False, severities=(0.0, 1.0))
    chosen = parse_protocol(words)
    assert chosen is not None
    assert chosen.config_name == config
    assert parse_protocol(chosen.words()) == chosen
    task = sd.task(rows, chosen)
    if "shifts=0" in words:
        assert kinds(task, "test") == {"0"}
        assert set(column(task, "test", "severity")) == {1.0}


def test_cells_are_of_the_domains_that_a_set_may_contain():
    rows = metadata(4, ("fog", "rain", "snow"), 20, severities=(0.0, 1.0))
    held_out = sd.task(rows, parse_protocol("leave-one-domain-out test=rain continuous cells=true"))
    assert [name for name in held_out.sets if "/rain@" in name] == ["test/rain@0", "test/rain@1"]
    assert len(held_out.sets) == (2 + 2 + 1) * 2


@pytest.mark.parametrize("shared", [True, False])
def test_what_one_label_has_too_many_the_next_has_fewer(shared):
    rows = uneven_labels(30, shared)
    biggest = np.bincount(rows.origin).max()
    first = sd.task(rows, "leave-one-domain-out", test="b", on_empty="report")
    for seed in range(1, 6):
        other = sd.task(rows, "leave-one-domain-out", test="b", seed=seed, on_empty="report")
        for name in first.sets:
            assert abs(len(first.sets[name]) - len(other.sets[name])) <= biggest


def uneven_labels(labels: int, shared: bool) -> sd.Metadata:
    """Origins of one to six rows, in every label."""
    rows = [
        {
            "key": f"{y}-{a}-{o}-{n}",
            "y": f"label{y:02d}",
            "a": a,
            "o": f"{y}-{o}" if shared else f"{y}-{a}-{o}",
        }
        for y in range(labels)
        for a in ("b", "c")
        for o in range(31)
        for n in range(1 + (5 * o + y) % 6)
    ]
    return sd.metadata_from_table(pa.Table.from_pylist(rows), label="y", nuisance="a", origin="o")


def test_config_names_differ_where_parameters_do():
    every = [protocol(n, **{**params, "seed": s}) for n, params in CASES.items() for s in (0, 5)]
    words = "uda source=dim target=rock; continuous; continuous cells=true; continuous shifts=snow; "
    words += "continuous severities=0.5,1; label-shift alpha=0.5 source=rock target=dim"
    every += [parse_protocol(text) for text in words.split(";")]
    names = [each.config_name for each in every]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "a").isalnum() and name == name.lower() for name in names)
    assert all(each.summary("style").endswith(".") for each in every)
    assert {each.id for each in protocols()} >= {name.split("@")[0] for name in CASES}


def test_trajectories_of_your_own_table():
    """Two trajectories an origin: those that lack a severity go, the complete ones stay."""
    rows = [
        {"key": f"{o}-{t}-{s}", "y": "dog", "a": "snow", "o": f"o{o}", "t": f"{o}-{t}", "s": float(s)}
        for o, t, s in itertools.product(range(40), range(2), range(3))
        if not (t == 1 and o % 3 == 0 and s == 2)
    ]
    given = {"label": "y", "nuisance": "a", "origin": "o", "severity": "s"}
    own = sd.metadata_from_table(pa.Table.from_pylist(rows), trajectory="t", **given)
    task = sd.task(own, "continuous")
    remaining = {tuple(key.split("-")[:2]) for name in task.sets for key in task.keys(name)}
    assert remaining == {(str(o), str(t)) for o in range(40) for t in range(2) if not (t == 1 and o % 3 == 0)}
    for options, message in (
        (given, "name the column of trajectories"),
        ({**given, "trajectory": "o"}, "two rows at one severity"),
        ({"label": "y", "nuisance": "a", "trajectory": "t"}, "of its own, and `severity`"),
    ):
        with pytest.raises(InputError, match=message):
            sd.task(sd.metadata_from_table(pa.Table.from_pylist(rows), **options), "continuous")
