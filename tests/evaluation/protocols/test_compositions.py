"""Compositions of three and four protocols that make sense keep the promises of each; others say why not."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.sampling import dirichlet_marginal
from tests.evaluation.protocols.made import column, kinds, labels, metadata, origins

STYLES = metadata(6, 6, 60)
DOMAINS = metadata(6, 6, 60, shared=False)
STEPS = metadata(4, 4, 40, severities=(0.0, 1.0, 2.0, 3.0))
FAIR = "group-fairness k=4 mu=0.2 seed=1"


def shares(task, name, by="label"):
    """The share of each value of a column among the examples of a set."""
    counts = task.sets[name].counts
    times = np.ones(len(task.sets[name].indices)) if counts is None else counts
    total = defaultdict(float)
    for value, n in zip(column(task, name, by), times, strict=True):
        total[value] += n / times.sum()
    return total


def met(task):
    """The share of each minority group in training, compared with the dominant group of its class."""
    groups = Counter(zip(column(task, "train", "label"), column(task, "train", "a"), strict=True))
    ratios = []
    for label in labels(task, "train"):
        sizes = sorted(count for (of, _), count in groups.items() if of == label)
        ratios += [size / sizes[-1] for size in sizes[:-1]]
    return ratios


def apart(task):
    assert not task.report().leaks
    sets = [origins(task, name) for name in task.sets]
    assert sum(map(len, sets)) == len(set().union(*sets))


@pytest.mark.parametrize("rows", [STYLES, DOMAINS], ids=["shared", "apart"])
def test_a_spurious_correlation_and_a_label_shift_in_a_domain_that_training_lacks(rows):
    hold_out = "leave-one-domain-out test=kind2"
    task = sd.task(rows, f"{hold_out} {FAIR} label-shift alpha=1 replacement=true seed=3")
    apart(task)
    assert kinds(task, "test") == {"kind2"}
    assert "kind2" not in kinds(task, "train")
    assert len(kinds(task, "train")) == len(labels(task, "train")) == 4
    assert np.allclose(met(task), 0.2, atol=0.05)
    drawn = dirichlet_marginal(
        np.isin(np.arange(6), sorted(labels(task, "train"))) / 4, 1, seed=3, names=("label-shift",)
    )
    found = shares(task, "test")
    assert [found[label] for label in range(6)] == pytest.approx(drawn.tolist(), abs=0.12)
    # The same training set as without the label shift, and the same test rows to draw from.
    before = sd.task(rows, f"{hold_out} {FAIR}")
    assert before.keys("train") == task.keys("train")
    assert set(task.keys("test")) <= set(before.keys("test"))


def test_any_order_of_three_protocols_makes_one_task():
    words = ["leave-one-domain-out test=kind2", FAIR, "label-shift alpha=1 replacement=true"]
    ids = {sd.task(STYLES, " ".join(words[n:] + words[:n])).content_id() for n in range(3)}
    assert len(ids) == 1


def test_a_label_shift_within_styles_moves_labels_and_nothing_else():
    uda = sd.task(STYLES, "uda source=kind0 target=kind1")
    words = "uda source=kind0 target=kind1 label-shift alpha=0.5 replacement=true seed=2"
    with pytest.raises(InputError, match=r"take a larger alpha, which shifts less, or another seed, or on_e"):
        sd.task(STYLES, words)
    task = sd.task(STYLES, words, on_empty="report")
    assert not task.report().leaks
    assert task.keys("source_train") == uda.keys("source_train")
    for name in ("target_train", "target_test"):
        assert kinds(task, name) == {"kind1"}
        assert max(shares(task, name).values()) > 0.3 > max(shares(uda, name).values())
    train, test = shares(task, "target_train"), shares(task, "target_test")
    assert [train[label] for label in range(6)] == pytest.approx([test[n] for n in range(6)], abs=0.15)
    assert "label" not in task.table("target_train").column_names


@pytest.mark.parametrize("fair", ["group-fairness k=3 mu=0.2", "group-fairness@code k=3 mu=0.2"])
def test_fairness_at_some_severities_has_the_same_share_at_each(fair):
    task = sd.task(STEPS, f"severity>=1 {fair}")
    apart(task)
    for name in task.sets:
        assert set(column(task, name, "severity")) == {1.0, 2.0, 3.0}
    groups = zip(*(column(task, "train", of) for of in ("label", "a", "severity")), strict=True)
    by_group = defaultdict(set)
    for (label, kind, _), count in Counter(groups).items():
        by_group[label, kind].add(count)
    assert all(len(counts) == 1 for counts in by_group.values())


def test_fairness_over_whole_trajectories_by_shift_and_severity():
    task = sd.task(STEPS, "continuous cells=true group-fairness k=3 mu=0.2")
    whole = sd.task(STEPS, "continuous group-fairness k=3 mu=0.2")
    tests = [name for name in task.sets if name.startswith("test/")]
    assert len(tests) == 3 * 4  # three shifts at four severities
    assert sorted(key for name in tests for key in task.keys(name)) == sorted(whole.keys("test"))
    trajectories = Counter(zip(column(whole, "train", "origin"), column(whole, "train", "a"), strict=True))
    assert set(trajectories.values()) == {4}


def test_a_domain_a_spurious_correlation_and_a_label_shift_over_whole_trajectories():
    task = sd.task(
        STEPS,
        "leave-one-domain-out test=kind3 continuous severities=1,3 group-fairness k=3 mu=0.3 "
        "label-shift alpha=2 replacement=true",
    )
    apart(task)
    assert kinds(task, "test") == {"kind3"}
    times = defaultdict(set)
    rows = task.sets["test"]
    for origin, n in zip(column(task, "test", "origin"), rows.counts, strict=True):
        times[origin].add(int(n))
    assert all(len(counts) == 1 for counts in times.values())  # each trajectory as often at every severity
    assert set(column(task, "test", "severity")) == {1.0, 3.0}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("uda source=kind0 target=kind1 group-fairness k=2 mu=0.1", "as many nuisances, and training has 1"),
        ("evaluate-only group-fairness k=2 mu=0.1", "needs a training set"),
        ("continuous@paper group-fairness k=2 mu=0.1", "needs a training set"),
        ("leave-one-domain-out test=kind0 uda source=kind0 target=kind1", "have cut them|has cut them"),
        ("label-shift alpha=1 label-shift alpha=2", "has chosen rows of this task already"),
    ],
)
def test_what_makes_no_sense_names_its_reason(words, reason):
    with pytest.raises(InputError, match=reason):
        sd.task(STEPS, parse_protocol(words), on_empty="report")
