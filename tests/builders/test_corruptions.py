from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.sample import Item, Sample
from builders.shifts.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from builders.shifts.steps import Corrupt
from shiftdata.data.format.schema import KEY_PATTERN
from shiftdata.errors import InputError
from tests.pictures import apart, letters, photographs, unlike
from tests.properties import share
from tests.thirds import a_third

ALIKE_FOR_MANY_KEYS = {
    "gaussian_blur", "defocus_blur", "zoom_blur", "brightness", "contrast", "saturate", "pixelate",
    "jpeg_compression",
}  # fmt: skip
KEY = (0, "test", "picture")


@pytest.mark.parametrize("pictures", [photographs, letters])
@pytest.mark.parametrize("name", a_third(CORRUPTIONS))
def test_each_severity_is_farther_from_the_picture(name, pictures):
    """In pixels and in shape: by 4% in the mean, and for nearly every picture."""
    ladders = []
    for at, picture in enumerate(pictures(64)):
        steps = [corrupt(name, picture, severity, key=(at,)) for severity in SEVERITIES]
        ladders.append([[far(picture, step) for step in steps] for far in (apart, unlike)])
    mean = np.mean(ladders, axis=0)
    assert (mean[:, 0] > (1, 0.005)).all(), mean
    assert (mean[:, 1:] > 1.04 * mean[:, :-1]).all(), mean
    assert (np.diff(ladders, axis=2) > 0).mean(axis=(0, 2)).min() > 0.9, ladders


@share(0.5)
@given(
    name=st.sampled_from(CORRUPTIONS),
    size=st.tuples(*2 * [st.integers(16, 90)]),
    step=st.sampled_from(SEVERITIES),
)
def test_any_size_gives_a_picture_of_that_size_twice(name, size, step):
    picture = photographs(128)[0].resize(size)
    first, second = (corrupt(name, picture, step, key=KEY) for _ in range(2))
    assert (first.size, first.mode) == (size, "RGB")
    assert first.tobytes() == second.tobytes()
    # Below 32 pixels the mildest step can change nothing: a disc within one pixel, impulses that hit none.
    assert min(size) < 32 or first.tobytes() != picture.tobytes()


@pytest.mark.parametrize("name", sorted(set(CORRUPTIONS) - ALIKE_FOR_MANY_KEYS))
def test_keys_draw_differently(name):
    picture = photographs(128)[0]
    assert len({corrupt(name, picture, 3, key=("test", seed)).tobytes() for seed in range(3)}) == 3


def test_the_step_makes_a_trajectory_a_corruption():
    item = Item(key="cat", label="a", origin="a/cat", license="MIT", attribution="x")
    step = Corrupt(seed=1, dataset="d", names=("motion_blur", "frost"), steps=(2, 5))
    made = list(step(iter([Sample(item=item, key="cat", example=photographs(32)[0], params={"album": "x"})])))
    assert [sample.key for sample in made] == [
        "cat-motion_blur-2", "cat-motion_blur-5", "cat-frost-2", "cat-frost-5",
    ]  # fmt: skip
    assert all(KEY_PATTERN.fullmatch(sample.key) for sample in made)
    assert [sample.trajectory for sample in made] == 2 * ["cat-motion_blur"] + 2 * ["cat-frost"]
    assert (step.nuisances, step.severities) == (("motion_blur", "frost"), (2.0, 5.0))
    assert made[3].params == {"album": "x", "corruption": "frost", "severity": 5}
    assert made[3].image.tobytes() == corrupt("frost", photographs(32)[0], 5, key=(1, "d", "cat")).tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ("forst",)}, "did you mean 'frost'"),
        ({"names": ()}, "at least one name"),
        ({"steps": (3, 2)}, "ascending, got"),
    ],
)
def test_a_step_that_cannot_be_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Corrupt(seed=0, dataset="d", **options)
