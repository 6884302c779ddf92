from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from shiftdata.labelling.agreement import agreement
from shiftdata.labelling.table import Row
from shiftdata.metrics import Resampling

LABELS = ("keep", "partly", "drop")
ONCE = Resampling(replicates=1)


def rows(*people):
    """The labels of each person in turn, by sample; "" where a person gave none."""
    return [
        Row((f"sample-{i}",), label, f"person-{who}", "")
        for who, labels in enumerate(people)
        for i, label in enumerate(labels)
        if label
    ]


def disagreement(table):
    """Krippendorff's alpha by its definition: pairs of labels of a sample, and pairs of all labels."""
    samples = [[label for label in labels if label] for labels in zip(*table, strict=True)]
    samples = [labels for labels in samples if len(labels) > 1]
    pooled = [label for labels in samples for label in labels]
    observed = sum(
        sum(a != b for a, b in itertools.permutations(labels, 2)) / (len(labels) - 1) for labels in samples
    ) / len(pooled)
    expected = np.mean([a != b for a, b in itertools.permutations(pooled, 2)])
    return 1 - observed / expected


def people(count, values=LABELS):
    return st.lists(st.tuples(*[st.sampled_from(values)] * count), min_size=2, max_size=12).map(
        lambda samples: list(zip(*samples, strict=True))
    )


@given(people(2))
def test_two_people_as_scikit_learn(both):
    found = agreement(rows(*both), ONCE)
    if len({*both[0], *both[1]}) == 1:
        assert found is None
    else:
        assert found.measure == "Cohen's kappa"
        assert found.interval.estimate == pytest.approx(cohen_kappa_score(*both))
        assert found.unanimous == sum(a == b for a, b in zip(*both, strict=True))


@given(people(3, (*LABELS, "")))
def test_more_people_as_the_definition_says(table):
    found = agreement(rows(*table), ONCE)
    if found is not None and found.people == 3:
        assert found.measure == "Krippendorff's alpha"
        assert found.interval.estimate == pytest.approx(disagreement(table))


def test_krippendorffs_example():
    # "Computing Krippendorff's alpha-reliability" (2011), example C: four people, twelve units, 0.743.
    table = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    assert agreement(rows(*[[label.strip(".") for label in one] for one in table])).interval.estimate == (
        pytest.approx(0.743, abs=0.001)
    )


def test_only_samples_with_several_labels_and_the_last_label_count():
    table = rows(["keep", "drop", "keep", "drop", "keep"], ["keep", "drop", "drop", "drop"])
    table.append(Row(("sample-2",), "keep", "person-1", ""))
    found = agreement(table)
    assert (found.samples, found.people, found.unanimous) == (4, 2, 4)
    assert found.interval.estimate == 1
    assert "all agree on 1.0000 [0.5101, 1.0000]\nCohen's kappa 1.0000" in str(found)
    assert agreement(rows(["keep", "drop"], ["", ""])) is None
    assert agreement([]) is None


@pytest.mark.slow
def test_the_interval_holds_the_kappa_of_many_samples():
    # One keeps half of the samples at random, the other says the same of 80 %: 2 x .8 - 1.
    covered = 0
    for seed in range(50):
        generator = np.random.default_rng(seed)
        first = generator.integers(2, size=200)
        second = np.where(generator.random(200) < 0.8, first, 1 - first)
        interval = agreement(
            rows(*([LABELS[2 * one] for one in person] for person in (first, second)))
        ).interval
        covered += interval.low <= 0.6 <= interval.high
    assert covered >= 44
