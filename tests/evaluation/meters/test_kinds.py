"""Kinds of shift of made tasks: each meter sees its own, in a size that is counted here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import mutual_info_score

import shiftdata as sd
from shiftdata.errors import InputError
from shiftdata.evaluation.meters import measure_shifts
from shiftdata.evaluation.meters.kinds import LEAST
from tests.evaluation.protocols.made import metadata

NAMES = ("new labels", "new domains", "label shift", "subpopulation shift", "spurious correlation")


def made(train, test, severities=(0.0, 0.0), scale=40):
    """A task whose sets have given numbers of rows of each (label, nuisance), times a scale."""
    rows = []
    for split, groups, severity in zip(("train", "test"), (train, test), severities, strict=True):
        for (label, kind), n in np.ndenumerate(np.array(groups)):
            rows += [
                {"key": f"{split}-{label}-{kind}-{i}", "y": f"y{label}", "a": f"a{kind}", "s": severity}
                | {"split": split}
                for i in range(n * scale)
            ]
    return sd.task(
        sd.metadata_from_table(
            pa.Table.from_pylist(rows), label="y", nuisance="a", severity="s", split="split"
        )
    )


@pytest.mark.parametrize(
    ("train", "test", "kinds"),
    [
        ([[1, 1], [1, 1]], [[1, 1], [1, 1]], ()),
        ([[1, 1], [1, 1]], [[3, 3], [1, 1]], ("label shift",)),
        ([[1, 1], [1, 1]], [[3, 1], [3, 1]], ("subpopulation shift",)),
        ([[9, 1], [1, 9]], [[1, 1], [1, 1]], ("subpopulation shift", "spurious correlation")),
        ([[9, 1], [1, 9]], [[1, 9], [9, 1]], ("subpopulation shift",)),
        ([[1, 1, 0], [1, 1, 0]], [[0, 0, 1], [0, 0, 1]], ("new domains",)),
        ([[1, 1], [1, 1], [0, 0]], [[1, 1], [1, 1], [1, 1]], ("new labels", "label shift")),
        (
            [[9, 1, 0], [1, 9, 0]],
            [[0, 0, 3], [0, 0, 1]],
            ("new domains", "label shift", "spurious correlation"),
        ),
    ],
)
def test_each_kind_is_seen_where_it_is_and_only_there(train, test, kinds):
    shifts = measure_shifts(made(train, test))
    assert shifts.kinds == kinds
    assert [measure.kind for measure in shifts.measures] == list(NAMES)
    for measure in shifts.measures:
        assert measure.interval.low <= measure.value <= measure.interval.high


def test_sizes_are_those_that_are_counted_by_hand():
    shifts = measure_shifts(made([[6, 2], [1, 1]], [[2, 2], [4, 2]]))
    assert shifts["label shift"].value == pytest.approx(0.4)  # .8, .2 to .4, .6
    # Training with the labels of the test: .3, .1, .3, .3; the test: .2, .2, .4, .2.
    assert shifts["subpopulation shift"].value == pytest.approx(0.2)
    assert shifts.examples == (400, 400)


def test_the_spurious_correlation_is_the_mutual_information_of_another_library():
    train, test = np.array([[60, 3, 2], [4, 50, 7]]), np.array([[5, 9, 9], [9, 8, 6]])

    def share(groups):
        label, kind = (np.repeat(index.ravel(), groups.ravel()) for index in np.indices(groups.shape))
        entropy = min(mutual_info_score(of, of) for of in (label, kind))
        free = (groups.shape[0] - 1) * (groups.shape[1] - 1)
        return max(0.0, mutual_info_score(label, kind) - free / (2 * groups.sum())) / entropy

    found = measure_shifts(made(train, test, scale=1))["spurious correlation"].value
    assert found == pytest.approx(share(train) - share(test))


def test_independent_labels_and_nuisances_show_no_correlation_on_average():
    rng = np.random.default_rng(0)
    draws = [rng.multinomial(90, np.full(9, 1 / 9)).reshape(3, 3) for _ in range(60)]
    shifts = [measure_shifts(made(draw, np.ones((3, 3), int) * 30, scale=1)) for draw in draws]
    values = [of["spurious correlation"].value for of in shifts]
    assert np.mean(values) < 0.01
    assert sum("spurious correlation" in of.kinds for of in shifts) <= 2


def test_intervals_hold_the_shift_of_what_was_drawn_from():
    rng, held = np.random.default_rng(1), 0
    for _ in range(40):
        train = rng.multinomial(400, [0.35, 0.35, 0.15, 0.15]).reshape(2, 2)
        test = rng.multinomial(300, [0.2, 0.2, 0.3, 0.3]).reshape(2, 2)
        interval = measure_shifts(made(train, test, scale=1))["label shift"].interval
        held += interval.low <= 0.3 <= interval.high
    assert held >= 34


def test_rows_of_one_origin_count_together():
    alone, shared = (metadata(2, 4, 40, shared=shared) for shared in (False, True))
    words = "group-fairness k=2 mu=0.2 seed=1"
    widths = []
    for rows in (alone, shared):
        interval = measure_shifts(sd.task(rows, words))["new labels"].interval
        widths.append(interval.high - interval.low)
    assert widths[1] > 1.5 * widths[0]


def test_severity_is_measured_where_it_changes():
    shifts = measure_shifts(made([[1, 1], [1, 1]], [[1, 1], [1, 1]], severities=(1.0, 3.0)))
    assert shifts.kinds == ("severity shift",)
    assert (shifts["severity shift"].source, shifts["severity shift"].target) == ("mean 1.00", "mean 3.00")


def test_examples_that_were_drawn_twice_count_twice():
    rows = metadata(3, 2, 60)
    task = sd.task(rows, "label-shift alpha=2 replacement=true seed=1", on_empty="report")
    counts = np.bincount(rows.label[task.sets["test"].indices], task.sets["test"].counts, minlength=3)
    shares = counts / counts.sum()
    before = np.bincount(rows.label[task.sets["train"].indices], minlength=3)
    expected = abs(shares - before / before.sum()).sum() / 2
    assert measure_shifts(task)["label shift"].value == pytest.approx(expected)


def test_the_order_of_rows_does_not_matter():
    words = "leave-one-domain-out test=kind1 group-fairness k=2 mu=0.3"
    first, again = (sd.task(metadata(3, 4, 30, order=order), words) for order in (None, 7))
    assert measure_shifts(first) == measure_shifts(again)


def test_features_show_covariate_and_concept_shift():
    task = made([[1, 1], [1, 1]], [[1, 1], [1, 1]])
    label, split = task.metadata.label, np.arange(len(task.metadata)) >= len(task.rows("train"))
    noise = np.random.default_rng(0).normal(size=(len(label), 3))

    def measured(move=0.0, turn=False, gap=False):
        x = noise.copy()
        x[:, 0] += 6.0 * (label - 0.5) * np.where(split & turn, -1, 1)
        x[:, 1] += move * split
        if gap:
            x[split, 2] = np.nan
        return measure_shifts(task, features=lambda rows: x[rows])

    assert measured().kinds == ()
    assert measured(move=4.0).kinds == ("covariate shift",)
    assert measured(turn=True).kinds == ("concept shift",)
    assert measured(gap=True).kinds == ("covariate shift",)  # a column that the test lacks


def test_it_shows_itself_as_text_markdown_html_and_json():
    shifts = measure_shifts(made([[9, 1], [1, 9]], [[1, 1], [1, 1]]))
    assert "kinds of shift: subpopulation shift, spurious correlation (intervals above 0.05)" in str(shifts)
    assert shifts.to_markdown().splitlines()[0].startswith("| shift | value |")
    assert "spurious correlation" in shifts._repr_html_()
    assert shifts.to_dict()["kinds"] == ["subpopulation shift", "spurious correlation"]
    assert shifts.to_dict()["measures"][4]["interval"]["low"] > LEAST
    with pytest.raises(InputError, match="'concept shift' was not measured here, but new labels"):
        shifts["concept shift"]


def test_sets_can_be_named_and_a_task_without_training_is_refused():
    task = sd.task(metadata(2, 3, 30), "uda source=kind0 target=kind1")
    assert measure_shifts(task, target="source_test").kinds == ()
    assert measure_shifts(task, target="target_test").kinds == ("new domains",)
    with pytest.raises(InputError, match="has no set with the role 'fit'"):
        measure_shifts(sd.task(metadata(2, 3, 30), "evaluate-only"))
