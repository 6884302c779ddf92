"""Each protocol against numbers computed by hand."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import SCENARIOS, GroupFairness, LabelShift, parse_protocol
from shiftdata.evaluation.tasks import LeakWarning, MuWarning
from tests.evaluation.protocols.made import NICO, column, kinds, labels, metadata, origins
from tests.properties import share

SHARED = metadata(6, NICO, 100)
WHOLE = metadata(6, NICO, 60, shared=False)
NAMES = [f"label{n}" for n in range(20)]


def sizes(task):
    return {name: len(rows) for name, rows in task.sets.items()}


def folds(task, name):
    return set(column(task, name, "fold"))


def test_uda_cuts_origins_in_half_and_the_target_half_in_half():
    result = sd.task(SHARED, "uda", source="rock", target="dim")
    assert sizes(result) == {
        "source_train": 240,
        "source_validation": 60,
        "target_train": 150,
        "target_test": 150,
        "source_test": 150,
    }
    assert folds(result, "source_train") == set(range(40))
    assert folds(result, "target_train") == set(range(50, 75))
    assert kinds(result, "source_train") == kinds(result, "source_test") == {"rock"}
    assert kinds(result, "target_test") == {"dim"}
    assert origins(result, "target_test") == origins(result, "source_test")  # both are tests
    paired = sd.task(SHARED, "uda@paired", source="rock", target="dim")
    fitted = origins(paired, "source_train") | origins(paired, "source_validation")
    assert fitted == origins(paired, "target_train")
    assert not origins(paired, "target_train") & origins(paired, "target_test")
    assert list(sizes(paired).values()) == [240, 60, 300, 300, 300]
    whole = sd.task(WHOLE, "uda", source="rock", target="dim")
    assert list(sizes(whole).values()) == [6 * 24, 6 * 6, 6 * 30, 6 * 30, 6 * 30]  # 50/50 as in the paper


def test_the_papers_uda_draws_each_style_on_its_own():
    with pytest.warns(LeakWarning):
        result = sd.task(SHARED, "uda@paper", source="rock", target="dim")
    assert sizes(result) == dict.fromkeys(["source_train", "target_train", "target_test", "source_test"], 300)
    assert origins(result, "source_train") & origins(result, "target_test")


def test_unida_takes_classes_in_the_order_of_the_alphabet():
    result = sd.task(
        SHARED, "unida", source="rock", target="dim", shared=3, source_private=1, target_private=2
    )
    assert labels(result, "source_train") == {0, 1, 2, 3}
    assert labels(result, "target_train") == labels(result, "target_test") == {0, 1, 2, 4, 5}
    assert result.labels == ("label00", "label01", "label02", "label03")
    assert result.remapped.tolist() == [0, 1, 2, 3, 4, 4]  # 4 is unknown


def test_the_papers_scenarios():
    assert len(set(SCENARIOS)) == 25
    assert SCENARIOS[0] == ("american_impressionism", "american_barbizon_school")
    assert SCENARIOS[24] == ("prehistorian_painting", "american_barbizon_school")
    assert len({name for pair in SCENARIOS for name in pair}) == 19  # "water lilies" is in none
    rows = metadata(2, ["American Impressionism", "american-barbizon-school"], 20)
    source, target = SCENARIOS[0]
    assert len(sd.task(rows, "uda", source=source, target=target).sets["source_train"]) == 16


@pytest.mark.parametrize("rows", [SHARED, WHOLE], ids=["shared", "whole"])
def test_leave_one_domain_out(rows):
    result = sd.task(rows, "leave-one-domain-out", test="rock")
    assert kinds(result, "test") == {"rock"}
    assert kinds(result, "train") == kinds(result, "validation") == set(NICO) - {"rock"}
    if rows is SHARED:
        assert [len(rowset) for rowset in result.sets.values()] == [6 * 9 * 50, 6 * 9 * 20, 6 * 30]
    else:  # the whole domain, and 80/20 of each other one
        assert [len(rowset) for rowset in result.sets.values()] == [6 * 9 * 48, 6 * 9 * 12, 6 * 60]


def test_domainbed_has_four_disjoint_sets():
    result = sd.task(SHARED, "domainbed", test="rock")
    assert [len(rowset) for rowset in result.sets.values()] == [6 * 9 * 50, 6 * 9 * 20, 6 * 24, 6 * 6]
    assert kinds(result, "oracle") == {"rock"}
    whole = sd.task(WHOLE, "domainbed", test="rock")
    assert [len(rowset) for rowset in whole.sets.values()] == [6 * 9 * 48, 6 * 9 * 12, 6 * 48, 6 * 12]


@pytest.mark.parametrize(
    ("split", "tested"),
    [
        (1, {"sand", "winter", "outdoor", "dark"}),
        (2, {"autumn", "winter", "dark", "dim"}),
        (3, {"rock", "indoor", "outdoor", "dim"}),
    ],
)
def test_classic_dg(split, tested):
    result = sd.task(WHOLE, "classic-dg", split=split)
    assert kinds(result, "test") == tested
    assert kinds(result, "train") == set(NICO) - tested
    six = metadata(3, ["autumn", "dim", "grass", "outdoor", "rock", "water"], 10, shared=False)
    with pytest.raises(InputError, match=r"unknown a '(sand|winter|indoor)'"):
        sd.task(six, "classic-dg", split=split)
    assert kinds(sd.task(six, "classic-dg@public", split=split), "test") == tested & set(six.nuisances)
    assert kinds(sd.task(six, "leave-one-group-out", group=1), "test") == {"autumn", "rock"}


def test_oracle_is_seven_to_one_to_two():
    result = sd.task(SHARED, "oracle", test=("rock", "dim"))
    assert [len(rowset) for rowset in result.sets.values()] == [6 * 2 * 70, 6 * 2 * 10, 6 * 2 * 20]
    assert kinds(sd.task(SHARED, "oracle*", test="dim"), "train") == {"dim"}


@pytest.mark.parametrize("variant", ["", "compositional"])
def test_flexible_dg(variant):
    rows = metadata(5, 20, 30, shared=False)
    result = sd.task(rows, "flexible-dg", variant=variant, per_domain=10)
    exclusive = set()
    for label in range(5):
        of = {}
        for name in result.sets:
            table = result.table(name)
            of[name] = Counter(
                a
                for a, y in zip(table["a"].to_pylist(), table["label"].to_pylist(), strict=True)
                if y == label
            )
        fitted = of["train"] + of["validation"]
        assert sorted(fitted.values()) == [10] * 12 + [30] * 2
        assert sorted(of["test"].values()) == [10] * (4 if variant else 6)
        assert not set(fitted) & set(of["test"])
        exclusive |= {kind for kind, count in fitted.items() if count == 30}
    assert len(exclusive) <= (4 if variant else 10)
    if variant:
        assert not exclusive & set(result.table("test")["a"].to_pylist())
    shared = sd.task(metadata(5, 20, 100), "flexible-dg", variant=variant)
    assert not origins(shared, "train") & origins(shared, "test")
    more = sd.task(rows, "flexible-dg", variant=variant, per_domain=15)
    assert set(result.keys("test")) < set(more.keys("test"))


def test_continuous_takes_whole_trajectories():
    rows = metadata(2, 2, 10, severities=(0.0, 0.5, 1.0))
    result = sd.task(rows, "continuous", shifts="kind1", severities=(0.0, 1.0))
    assert [len(rowset) for rowset in result.sets.values()] == [2 * 5 * 2, 2 * 2 * 2, 2 * 3 * 2]
    assert result.filters()["test"] is not None
    cells = sd.task(rows, "continuous", cells=True)
    assert len(cells.sets) == 3 * 2 * 3
    assert len(cells.sets["test/kind0@0.5"]) == 2 * 3
    assert not cells.report().leaks
    with pytest.raises(InputError, match=r"rows has no severity 3: take some of 0, 0.5, 1"):
        sd.task(rows, "continuous", severities=(3,))


def test_label_shift_of_a_domain_pair_cuts_80_20():
    result = sd.task(WHOLE, "label-shift", alpha=None, source="rock", target="dim")
    assert [len(rowset) for rowset in result.sets.values()] == [288, 72, 288, 72]
    same = sd.task(SHARED, "label-shift", alpha=None, source="rock", target="rock")
    assert [len(rowset) for rowset in same.sets.values()] == [384, 96, 96, 24]
    pair = sd.task(SHARED, "label-shift", alpha=None, source="rock", target="dim")
    assert [len(rowset) for rowset in pair.sets.values()] == [240, 60, 240, 60]
    with pytest.raises(InputError, match="none in common"):
        sd.task(SHARED, "label-shift", alpha=1, source="rock", target=("rock", "dim"))


@pytest.mark.parametrize("variant", ["", "code"])
def test_label_marginals_are_the_targets_in_expectation(variant):
    rows = metadata(3, 1, 40)
    base = sd.task(rows)
    drawn = []
    for seed in range(200):
        task = LabelShift(alpha=3, seed=seed, variant=variant, replacement=True)(base, on_empty="report")
        table = task.table("test")
        drawn.append(np.bincount(table["label"].to_numpy(), table["count"].to_numpy(), minlength=3))
    shares = np.array(drawn) / np.array(drawn).sum(axis=1, keepdims=True)
    assert np.allclose(shares.mean(axis=0), 1 / 3, atol=0.07)
    # A Dirichlet of weight w (alpha, or alpha * K) varies by p (1 - p) / (w + 1); 36 draws add their own.
    weight = 9 if variant else 3
    expected = 2 / 9 * (1 / (weight + 1) + (1 - 1 / (weight + 1)) / 36)
    assert shares.var(axis=0).mean() == pytest.approx(expected, rel=0.25)


@share(0.5)
@given(st.integers(2, 6), st.integers(0, 50))
def test_the_released_codes_group_fairness(k, seed):
    drawn = GroupFairness(k=k, mu=0.2, seed=seed, variant="code").pairs(NAMES, NAMES)
    assert [nu for _, _, nu in drawn][:2] == [1.0, 0.5]
    assert all(0.5 <= nu <= 1 for _, _, nu in drawn)
    assert drawn == sorted(drawn, key=lambda pair: pair[0]) == sorted(drawn, key=lambda pair: pair[1])
    binary = GroupFairness(k=k, mu=0.2, seed=seed, variant="code-binary")
    assert len(binary.pairs(NAMES, NAMES)) == 2
    assert binary.minority == 0.2 / (k - 1)
    assert len(binary.drawn_nuisances(NAMES)) == k


@pytest.mark.parametrize("before", ["flexible-dg minor=3 test=2 per_domain=10", "classic-dg split=2"])
@pytest.mark.parametrize("rows", [SHARED, WHOLE], ids=["shared", "whole"])
def test_an_oracle_cuts_the_test_of_another_protocol(before, rows):
    """NICO++, appendix C.1: 7:1:2 of the data that the methods are tested on; no origin on two sides."""
    tested = set(sd.task(rows, parse_protocol(before)).keys("test"))
    sizes = set()
    for seed in (0, 3):
        task = sd.task(rows, parse_protocol(f"{before} oracle seed={seed}"))
        parts = [set(task.keys(name)) for name in ("train", "validation", "test")]
        assert set.union(*parts) == tested
        assert [len(part) / len(tested) for part in parts] == pytest.approx([0.7, 0.1, 0.2], abs=0.05)
        assert not task.report().leaks
        assert [rows.roles for rows in task.sets.values()] == [("fit",), ("select",), ("test",)]
        sizes.add(tuple(map(len, parts)))
    assert len(sizes) == 1 or rows is SHARED
    domain = min(kinds(task, "test"))
    star = sd.task(rows, parse_protocol(f"{before} oracle* test={domain}"), on_empty="report")
    assert kinds(star, "test") == {domain}
    assert set(star.keys("train")) <= tested
    with pytest.raises(InputError, match="oracle cuts all rows, and uda"):
        sd.task(rows, parse_protocol("uda source=rock target=dim oracle"))
    with pytest.raises(InputError, match="oracle needs test="):
        sd.task(rows, "oracle")


def test_a_drawn_trajectory_is_whole_and_its_failures_are_counted_as_often():
    rows = metadata(6, ("rain", "snow"), 40, severities=(0.0, 1.0, 2.0))
    for words in (
        "label-shift@code alpha=3 continuous",
        "continuous label-shift@code alpha=3 replacement=true",
    ):
        task = sd.task(rows, parse_protocol(words), on_empty="report")
        truth = np.array([rows.labels[n] for n in column(task, "test", "label")])
        at_two = np.array(column(task, "test", "severity")) == 2
        first = np.array(column(task, "test", "origin")) < "o3"
        wrong = at_two & first
        answers = np.where(wrong, "label05", truth)
        result = task.evaluate(dict(zip(task.keys("test"), answers.tolist(), strict=True)))
        counts = task.table("test").to_pydict().get("count")
        counts = np.ones(len(truth)) if counts is None else np.array(counts)
        assert result["failures"] == pytest.approx(counts[wrong].sum() / counts[at_two].sum())
        assert result["drop@1"] == 0


def test_a_mu_that_rounding_moves_far_is_at_the_top_and_what_is_offered_helps():
    with pytest.warns(MuWarning, match="mu in train is 0.0932"):
        task = sd.task(metadata(12, 12, 32, shared=False), "group-fairness", k=12, mu=0.05)
    first = str(task.report()).splitlines()[2]
    assert first.startswith("caution: mu in train is 0.0932")
    offered = float(first.partition("Ask for mu=")[2].partition(",")[0])
    needed = int(re.search(r"take a base with (\d+) rows", first)[1])
    for each, mu in ((32, offered), (2 * needed, 0.05)):  # half of the rows train
        notes = sd.task(metadata(12, 12, each, shared=False), "group-fairness", k=12, mu=mu).history.notes
        assert not any(note.startswith("caution") for note in notes)


def test_families_of_shifts_are_those_of_cns_bench():
    """The 14 shifts of appendix A.1.3, as its dataset names them: eight styles, six weathers."""
    styles = "cartoon_style plush_toy_style pencil_sketch_style painting_style the_design_of_sculpture "
    styles += "graffiti_style video_game_renditions_style style_of_a_tattoo"
    weathers = [f"heavy_{name}" for name in ("snow", "rain", "fog", "smog", "dust", "sandstorm")]
    rows = metadata(2, (*styles.split(), *weathers), 10, severities=(0.0, 1.0))
    for family, members in (("style", styles.split()), ("weather", weathers)):
        task = sd.task(rows, "continuous", shifts=family)
        assert kinds(task, "test") == set(members)
        assert task.history.notes == (f"{family}: {', '.join(sorted(members))}",)
    both = sd.task(rows, "continuous", shifts=("weather", "cartoon_style"))
    assert kinds(both, "test") == {*weathers, "cartoon_style"}
    few = metadata(2, ("brightness", "jpeg"), 10, severities=(0.0, 1.0))
    with pytest.raises(InputError, match=r"weather is a family .* none of it: name shifts of brightness"):
        sd.task(few, "continuous", shifts="weather")


def test_a_trajectory_that_lacks_a_severity_or_has_it_twice_is_left_out():
    whole = metadata(1, 1, 10, severities=(0.0, 0.5, 1.0))
    fifth = whole.table.slice(4, 1)
    lacking = pa.concat_tables([whole.table.slice(0, 4), whole.table.slice(5)])
    twice = pa.concat_tables([whole.table, fifth.set_column(0, "key", pa.array(["twice"]))])
    for rows in (lacking, twice):
        result = sd.task(sd.Metadata(rows, whole.labels, whole.nuisances, "a", False), "continuous")
        remaining = set().union(*(origins(result, name) for name in result.sets))
        assert remaining == set(whole.table["origin"].to_pylist()) - set(fifth["origin"].to_pylist())
        assert "trajectories that lack a severity" in result.sets[fifth["split"][0].as_py()].reason


def test_a_report_says_which_dirichlet_it_is_and_how_many_labels_are_left():
    rows, left = metadata(20, ("a", "b"), 30, shared=False), {}
    for variant, law in (("", "Dirichlet(alpha p)"), ("@code", "Dirichlet(alpha K p)")):
        left[variant] = []
        for seed in range(10):
            task = sd.task(rows, f"label-shift{variant}", alpha=0.5, seed=seed, on_empty="report")
            left[variant].append(len(set(task.table("test")["label"].to_pylist())))
            assert f"{law}, alpha = 0.5" in str(task.report())
            assert f"labels that have rows: {left[variant][-1]} of 20 in test" in str(task.report())
    assert max(left[""]) < min(left["@code"])
