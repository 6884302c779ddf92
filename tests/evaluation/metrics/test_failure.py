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
        (right, severity, origin, shift)
        for (origin, shift), rights in table.items()
        for severity, right in zip(STEPS, rights, strict=True)
    ]
    right, severities, origins, shifts = zip(*(rows[i] for i in order or range(len(rows))), strict=True)
    return failure_points(right, severities, trajectories=origins, shifts=shifts)


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
    assert result.counts.tolist() == [1, 0, 0, 2, 0, 1]
    assert result.beyond == 3  # the released code's max_shift on this grid
    assert result.mean == pytest.approx((1.5 + 0 + 1.5 + 2.5 + 3) / 5)
    shares = ["0.2500", "0.0000", "0.0000", "0.5000", "0.0000", "0.2500"]
    assert str(result).splitlines()[-1].split() == ["all", "5", "1", "1.7000", *shares]


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
    result = failure_points([1] * n, severities, trajectories=["a"] * n, shifts=["s"] * n)
    assert result.beyond == pytest.approx(beyond, abs=2e-6)
    assert result.mean == result.beyond


def test_shifts_are_apart_and_add_up():
    result = points_of(HAND)
    snow, fog = result.of("snow"), result.of("fog")
    assert snow.counts.tolist() == [1, 0, 0, 1, 0, 0]
    assert fog.trajectory == ("dove", "gull", "wren")
    assert (snow.counts + fog.counts).tolist() == result.counts.tolist()


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
    points = by_name(result)
    assert points.keys() == table.keys()
    for name, rights in table.items():
        expected = next(
            (severity for severity, right in zip(STEPS, rights, strict=True) if not right), np.nan
        )
        assert points[name] == pytest.approx(expected, nan_ok=True)
    assert result.counts.sum() == sum(not all(rights) for rights in table.values())


def test_incomplete_and_repeated_trajectories_are_refused():
    with pytest.raises(InputError, match="1 of 2 trajectories lack a severity, first 'b' of shift 's'; give"):
        failure_points([1] * 3, [0, 1, 0], trajectories=["a", "a", "b"], shifts=["s"] * 3)
    with pytest.raises(
        InputError, match="1 of 1 trajectories have a severity more than once, first 7 of shift 0"
    ):
        failure_points([1] * 3, [0, 1, 1], trajectories=[7, 7, 7], shifts=[0] * 3)
    with pytest.raises(InputError, match="only 0 occurs; a failure point needs at least two"):
        failure_points([1], [0], trajectories=["a"], shifts=["s"])
    with pytest.raises(InputError, match="lengths differ"):
        failure_points([1], [0, 1], trajectories=["a"], shifts=["s"])
