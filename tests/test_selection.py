"""Which trial and step each rule chooses, what it may see, ties, and what cannot win."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.bench import RULES, Candidate, select
from shiftdata.errors import InputError, NotFoundError
from tests.protocols.made import metadata

TASK = sd.task(metadata(4, 4, 20), "group-fairness", k=4, mu=0.5)
ROWS = {name: TASK.rows(name) for name in ("validation", "test")}
GROUPS = sorted(set(TASK.metadata.group[ROWS["validation"]].tolist()))


class Poison:
    """An evaluation of a test set that must not be read: only its role may be."""

    role = "test"

    def __getattr__(self, name):
        raise AssertionError(f"{name} of a test evaluation was read")


def judged(right, name="validation"):
    """An evaluation in which each group has the given share right, in the order of group numbers."""
    group, true = TASK.metadata.group[ROWS[name]], TASK.metadata.label[ROWS[name]].astype(int)
    predicted = true.copy()
    for number, share in zip(GROUPS, right, strict=True):
        rows = np.flatnonzero(group == number)
        wrong = rows[round(share * len(rows)) :]
        predicted[wrong] = (predicted[wrong] + 1) % 4
    return TASK.evaluate(predicted, name)


def shares(*given):
    """Sixteen groups: those given first, all others at one half."""
    return [*given, *[0.5] * (16 - len(given))]


def candidate(trial, step, right, test=None, **more):
    test = Poison() if test is None else judged(shares(*[test] * 16), "test")
    return Candidate(trial, step, {"validation": judged(right), "test": test}, **more)


# Validation has 4 rows a group, so that shares are quarters. By rule another one is best.
EVEN = candidate("even", 1, shares())  # worst and worst-m .5
UNEVEN = candidate("uneven", 1, shares(0.25, *[0.75] * 12))  # mean above .5, worst .25
LOW = candidate("low", 1, shares(0.0, *[1.0] * 15))  # the best mean, worst 0, three worst .667


@pytest.mark.parametrize(
    ("rule", "trial", "score"),
    [
        ("iid", "low", 15 / 16),
        ("iid-mean-class", "low", 15 / 16),
        ("iid-mean-group", "low", 15 / 16),
        ("iid-mean-domain", "low", 15 / 16),
        ("iid-worst", "even", 0.5),
        ("iid-worst-m", "low", 2 / 3),
    ],
)
def test_each_rule_by_hand_and_none_reads_a_test(rule, trial, score):
    chosen = select([EVEN, UNEVEN, LOW], rule)
    assert (chosen.trial, chosen.step, chosen.among, chosen.undefined) == (trial, 1, 3, 0)
    assert chosen.score == pytest.approx(score)
    assert chosen.candidate in (EVEN, LOW)


def test_m_is_how_many_of_the_worst_are_averaged():
    assert select([EVEN, LOW], "iid-worst-m", m=1).trial == "even"
    assert select([EVEN, LOW], "iid-worst-m", m=2).score == pytest.approx(0.5)
    with pytest.raises(InputError, match="m=17 of the worst groups"):
        select([EVEN, LOW], "iid-worst-m", m=17)


def test_last_takes_the_last_step_of_one_trial_and_reads_nothing():
    nothing = [Candidate("a", step, {"test": Poison(), "validation": Poison()}) for step in (300, 900, 600)]
    chosen = select(nothing, "last")
    assert (chosen.step, chosen.candidate, math.isnan(chosen.score)) == (900, nothing[1], True)
    with pytest.raises(InputError, match="last chooses a step and not a trial: give one trial of 2"):
        select([*nothing, Candidate("b", 1, {})], "last")


def test_oracles_see_the_test_at_any_step_or_at_the_last():
    steps = [
        candidate("a", 1, shares(), 1.0),
        candidate("a", 2, shares(), 0.5),
        candidate("b", 2, shares(), 0.75),
    ]
    assert (select(steps, "oracle").trial, select(steps, "oracle").step) == ("a", 1)
    assert (select(steps, "oracle-last").trial, select(steps, "oracle-last").among) == ("b", 2)
    assert [name for name, rule in RULES.items() if rule.role == "test"] == ["oracle", "oracle-last"]


def test_domainbeds_oracle_is_judged_on_the_set_of_that_name():
    both = Candidate("a", 1, {"test": Poison(), "oracle": judged(shares(), "test")})
    assert select([both], "oracle").score == pytest.approx(0.5)
    with pytest.raises(AssertionError, match="of a test evaluation was read"):
        select([both], "oracle", sets=["test"])


def test_leave_one_domain_out_is_the_mean_over_held_out_domains():
    def trial(name, left, right):
        return [
            candidate(name, 5, shares(*[left] * 16), held_out="rock"),
            candidate(name, 5, shares(*[right] * 16), held_out="sand"),
            candidate(name, 5, shares(*[1.0] * 16)),  # trained on all: the one that is taken
        ]

    candidates = [*trial("a", 1.0, 0.25), *trial("b", 0.75, 0.75)]
    chosen = select(candidates, "leave-one-domain-out")
    assert (chosen.trial, chosen.score, chosen.among) == ("b", 0.75, 2)
    assert chosen.candidate is candidates[5]
    assert select(candidates, "iid").among == 2  # models that lack a domain are not compared
    with pytest.raises(InputError, match="trial b, step 5 has no model without rock"):
        select([*candidates[:3], *candidates[4:]], "leave-one-domain-out")
    with pytest.raises(InputError, match=r"compares models with held_out= .*, and none of 3 candidates"):
        select([EVEN, UNEVEN, LOW], "leave-one-domain-out")


def test_among_equals_the_earliest_or_the_latest():
    same = [candidate(trial, step, shares()) for trial in "ba" for step in (8, 4)]
    assert [(one.trial, one.step) for one in (select(same, "iid"), select(same, "iid", ties="latest"))] == [
        ("b", 4),
        ("a", 8),
    ]
    with pytest.raises(InputError, match="ties must be 'earliest' or 'latest', got 'later'"):
        select(same, "iid", ties="later")


def test_what_is_undefined_never_wins():
    rows = metadata(4, 4, 10)
    hole = (rows.table["label"].to_numpy() == 1) & (rows.table["a"].to_numpy() == 2)
    lacking = sd.Metadata(rows.table.filter(~hole), rows.labels, rows.nuisances, "a", True)
    task = sd.task(lacking, "group-fairness", k=4, mu=1, on_empty="report")
    undefined = task.evaluate(task.metadata.label[task.rows("validation")], "validation")
    empty = Candidate("empty", 1, {"validation": undefined, "test": Poison()})
    chosen = select([empty, EVEN], "iid-worst", ties="latest")
    assert (chosen.trial, chosen.undefined) == ("even", 1)
    assert str(chosen) == "iid-worst: trial even, step 1 (0.5000), of 2 candidates, 1 of them undefined"
    assert select([empty, EVEN], "iid").trial == "empty"  # overall is defined
    with pytest.raises(InputError, match="iid-worst: the scores of all 1 candidates are undefined"):
        select([empty], "iid-worst")


def test_several_validation_sets_count_the_same():
    """DomainBed: the unweighted mean over the out splits of the training domains."""
    both = Candidate(
        "a", 1, {"out rock": judged(shares(*[1.0] * 16)), "out sand": judged(shares()), "test": Poison()}
    )
    assert select([both], "iid").score == 0.75
    assert select([both], "iid", sets=["out sand"]).score == 0.5


@pytest.mark.parametrize(
    ("candidates", "rule", "more", "message"),
    [
        (
            [EVEN],
            "iid",
            {"sets": ["test"]},
            "given sets with the role 'select' alone, and test has 'test': only",
        ),
        ([EVEN], "oracle", {"sets": ["validation"]}, "the role 'test' alone, and validation has 'select'"),
        ([EVEN], "iid", {"sets": ["valid"]}, "unknown set 'valid'; did you mean 'validation'"),
        ([EVEN, EVEN], "iid", {}, "trial even, step 1 is there twice"),
        ([Candidate(0, 7, {"test": Poison()})], "iid", {}, r"trial 0, step 7 has test \(test\)"),
        ([Candidate(0, 7, {})], "oracle", {}, "the role 'test'; trial 0, step 7 has none"),
        ([], "iid", {}, "compares models without held_out=, and none of 0 candidates"),
    ],
)
def test_what_cannot_be_selected_is_answered(candidates, rule, more, message):
    with pytest.raises(InputError, match=message):
        select(candidates, rule, **more)


def test_an_unknown_rule_is_answered():
    with pytest.raises(NotFoundError, match="did you mean 'iid-worst'"):
        select([EVEN], "iid-wurst")


QUARTERS = [judged(shares(*[quarter / 4] * 16)) for quarter in range(5)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=12))
def test_it_is_the_first_or_last_maximum_whatever_the_order(rows):
    scores = {(trial, step): quarter for trial, step, quarter in rows}
    candidates = [Candidate(*place, {"validation": QUARTERS[quarter]}) for place, quarter in scores.items()]
    trials = list(dict.fromkeys(trial for trial, _ in scores))
    order = sorted(scores, key=lambda place: (trials.index(place[0]), place[1]))
    best = [place for place in order if scores[place] == max(scores.values())]
    for ties, expected in (("earliest", best[0]), ("latest", best[-1])):
        chosen = select(candidates, "iid", ties=ties)
        assert (chosen.trial, chosen.step) == expected
