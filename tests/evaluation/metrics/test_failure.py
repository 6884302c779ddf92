from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import failure_points

STEPS = [0, 0.5, 1, 1.5, 2, 2.5]  # CNS-Bench's grid


def points_of(table, order=None):
    """Failure points of {(origin, shift): which of the six are right}, rows in any order."""
    rows = [
        (0, int(not right), severity, origin, shift)
        for (origin, shift), rights in table.items()
        for severity, right in zip(STEPS, rights, strict=True)
    ]
    labels, predictions, severities, origins, shifts = zip(
        *(rows[i] for i in order or range(len(rows))), strict=True
    )
    return failure_points(labels, predictions, severities, trajectories=origins, shifts=shifts)


HAND = {
    ("dove", "snow"): [1, 1, 1, 0, 0, 0],  # fails first at 1.5
    ("dove", "fog"): [1, 1, 1, 1, 1, 1],  # never
    ("gull", "snow"): [0, 1, 1, 1, 1, 1],  # at 0, whatever comes later
    ("gull", "fog"): [1, 1, 1, 0, 1, 0],  # at 1.5
    ("wren", "fog"): [1, 1, 1, 1, 1, 0],  # at 2.5
}


def by_name(result):
    names = zip(result.trajectory, (result.shifts[i] for i in result.shift), strict=True)
    return dict(zip(names, result.point.tolist(), strict=True))


def test_a_table_by_hand():
    result = points_of(HAND)
    assert by_name(result) == {
        ("dove", "snow"): 1.5,
        ("gull", "snow"): 0,
        ("dove", "fog"): pytest.approx(np.nan, nan_ok=True),
        ("gull", "fog"): 1.5,
        ("wren", "fog"): 2.5,
    }
    assert (result.n, result.never, result.counts.tolist()) == (5, 1, [1, 0, 0, 2, 0, 1])


def test_every_normalisation_by_its_name():
    result = points_of(HAND)
    assert result.histogram().tolist() == result.histogram("failures").tolist() == [0.25, 0, 0, 0.5, 0, 0.25]
    assert result.histogram("trajectories") == pytest.approx([0.2, 0, 0, 0.4, 0, 0.2])
    shifted = result.histogram("shifted-failures")
    assert np.isnan(shifted[0])
    assert shifted[1:] == pytest.approx([0, 0, 2 / 3, 0, 1 / 3])
    assert result.histogram("trajectories", total=10)[3] == 0.2  # of several models together
    assert result.cumulative().tolist() == [0.25, 0.25, 0.25, 0.75, 0.75, 1]
    assert result.cumulative("trajectories")[-1] == pytest.approx(0.8)
    assert result.cumulative("shifted-failures") == pytest.approx([0, 0, 0, 2 / 3, 2 / 3, 1])


def test_never_failing_has_two_conventions():
    result = points_of(HAND)
    assert result.beyond == 3  # the released code's max_shift on this grid
    assert result.mean() == result.mean("beyond") == pytest.approx((1.5 + 0 + 1.5 + 2.5 + 3) / 5)
    assert result.mean("left-out") == pytest.approx((1.5 + 0 + 1.5 + 2.5) / 4)
    assert result.margin == pytest.approx(3 - 1.7)


@pytest.mark.parametrize(
    ("severities", "beyond"),
    [
        ([0, 1, 2.5], 3.0),  # CNS-Bench's max_shift, from a part of its grid
        ([0, 0.5, 1, 1.5, 2, 2.5], 3.0),
        ([0, 1], 2.0),
        ([1, 3, 4], 5.0),
        ([0, 0.1, 0.3], 0.4),
        ([0, 1 / 3, 2 / 3], 1.0),  # six decimals have a millionth in common
        ([0, 0.37, 1], 1.37),
    ],
)
def test_beyond_is_one_step_of_the_grid_after_the_last_severity(severities, beyond):
    n = len(severities)
    result = failure_points([0] * n, [0] * n, severities, trajectories=["a"] * n, shifts=["s"] * n)
    assert result.beyond == pytest.approx(beyond, abs=2e-6)
    assert result.mean() == result.beyond


def test_shifts_are_apart_and_add_up():
    result = points_of(HAND)
    snow, fog = result.of("snow"), result.of("fog")
    assert snow.counts.tolist() == [1, 0, 0, 1, 0, 0]
    assert fog.trajectory == ("dove", "gull", "wren")
    assert (snow.never, fog.never) == (0, 1)
    assert (snow.counts + fog.counts).tolist() == result.counts.tolist()
    with pytest.raises(InputError, match="unknown shift 'rain'; known: fog, snow"):
        result.of("rain")


trajectories = st.dictionaries(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["snow", "fog", "rain"])),
    st.lists(st.booleans(), min_size=6, max_size=6),
    min_size=1,
)


@given(trajectories, st.randoms())
def test_rows_may_come_in_any_order(table, random):
    order = list(range(6 * len(table)))
    random.shuffle(order)
    result = points_of(table, order)
    found = by_name(result)
    assert found.keys() == table.keys()
    for name, rights in table.items():
        expected = next(
            (severity for severity, right in zip(STEPS, rights, strict=True) if not right), np.nan
        )
        assert found[name] == pytest.approx(expected, nan_ok=True)
    assert result.counts.sum() + result.never == result.n
    if result.never < result.n:
        assert result.histogram().sum() == pytest.approx(1)
        assert result.cumulative()[-1] == pytest.approx(1)
    assert result.histogram("trajectories").sum() == pytest.approx(1 - result.never / result.n)


def test_no_failure_at_all_has_no_shares_by_failures():
    result = points_of({("dove", "fog"): [1] * 6})
    assert np.isnan(result.histogram()).all()
    assert np.isnan(result.mean("left-out"))
    assert (result.mean(), result.margin) == (3, 0)
    assert result.histogram("trajectories").tolist() == [0] * 6


def test_incomplete_and_repeated_trajectories_are_refused():
    with pytest.raises(InputError, match="1 of 2 trajectories lack a severity, first 'b' of shift 's'; give"):
        failure_points([0] * 3, [0] * 3, [0, 1, 0], trajectories=["a", "a", "b"], shifts=["s"] * 3)
    with pytest.raises(
        InputError, match="1 of 1 trajectories have a severity more than once, first 7 of shift 0"
    ):
        failure_points([0] * 3, [0] * 3, [0, 1, 1], trajectories=[7, 7, 7], shifts=[0] * 3)
    with pytest.raises(InputError, match="only 0 occurs; a failure point needs at least two"):
        failure_points([0], [0], [0], trajectories=["a"], shifts=["s"])
    with pytest.raises(InputError, match="predictions: 1 of 2 are too large"):
        failure_points([0, 0], [0, 3], [0, 1], trajectories=["a", "a"], shifts=["s", "s"], n_classes=3)
    with pytest.raises(InputError, match="lengths differ"):
        failure_points([0], [0], [0, 1], trajectories=["a"], shifts=["s"])
