from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from PIL import Image

from shiftdata.errors import InputError, MissingExtraError
from shiftdata.evaluation.meters import Training, covariate_shift_by_training, shallow_cnn

SHORT = Training(epochs=8, batch=32)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pictures(seed, n=80, brighter=0, side=20):
    """Noise around one random colour a picture."""
    generator = np.random.default_rng(seed)
    colours = generator.integers(60, 140, size=(n, 1, 1, 3)) + brighter
    return np.clip(colours + generator.normal(0, 20, size=(n, side, side, 3)), 0, 255).astype(np.uint8)


def linear(n_classes=2, side=20):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * side * side, n_classes))


def test_the_papers_network_tells_dark_pictures_from_bright_ones():
    found = covariate_shift_by_training(
        pictures(1), pictures(2, brighter=80), training=Training(epochs=12, batch=16)
    )
    assert found.value > 0.7
    assert found.value == max(found.directions)
    assert found.interval.low > 0.5
    assert found.hypotheses == (
        "pairs of trained networks, 0-1 loss, Training(epochs=12, batch=16, learning_rate=0.1)"
    )


def test_without_a_shift_there_is_none():
    found = covariate_shift_by_training(pictures(1), pictures(2), training=SHORT)
    assert abs(found.value) < 4 * 0.5 * np.sqrt(2 / 40)
    assert (found.n_source, found.n_target) == (40, 40)  # the halves that were measured


def test_any_module_and_any_iterable_will_do():
    made = []

    def network():
        made.append(linear(3))
        return made[-1]

    dark, bright = pictures(1), pictures(2, brighter=80)
    found = covariate_shift_by_training(dark, bright, network=network, training=SHORT)
    again = covariate_shift_by_training(
        (Image.fromarray(picture) for picture in dark), list(bright), network=network, training=SHORT
    )
    assert found == again
    assert len(made) == 8  # two networks for either objective
    assert min(found.directions) > 0.5
    assert found != covariate_shift_by_training(dark, bright, network=network, training=SHORT, seed=1)


def test_the_generators_of_torch_are_left_as_they_were():
    before = torch.get_rng_state()
    covariate_shift_by_training(pictures(1, 20), pictures(2, 20), network=linear, training=Training(epochs=1))
    assert torch.equal(before, torch.get_rng_state())


def test_the_network_is_that_of_table_12():
    network = shallow_cnn((28, 28, 3), 10)
    convolutions = [layer for layer in network if isinstance(layer, torch.nn.Conv2d)]
    assert [(c.kernel_size[0], c.stride[0], c.out_channels) for c in convolutions] == [
        (7, 1, 32),
        (5, 2, 32),
        (3, 1, 64),
        (3, 2, 64),
    ]
    assert [layer.p for layer in network if isinstance(layer, torch.nn.Dropout)] == [0.4, 0.4]
    assert [layer.out_features for layer in network if isinstance(layer, torch.nn.Linear)] == [16, 10]
    for height, width, channels in ((28, 28, 3), (19, 40, 1)):
        network = shallow_cnn((height, width, channels), 5).eval()
        assert network(torch.zeros(2, channels, height, width)).shape == (2, 5)
    with pytest.raises(InputError, match="pictures of 18 x 28 pixels are too small: give at least 19 x 19"):
        shallow_cnn((18, 28, 3), 2)


def test_bad_input():
    good = pictures(1, 20)
    with pytest.raises(InputError, match=r"pictures of \(20, 20, 3\) and target of \(21, 21, 3\): resize"):
        covariate_shift_by_training(good, pictures(2, 20, side=21))
    for bad in ([], [*good, good[0][:9]], good / 255, good[..., 0]):
        with pytest.raises(InputError, match=r"target: .* give pictures of one size"):
            covariate_shift_by_training(good, bad)
    with pytest.raises(InputError, match="9 rows in a set of the source"):
        covariate_shift_by_training(good[:9], good)
    with pytest.raises(InputError, match="at least 1 epoch, batches of at least 4"):
        Training(epochs=0)


def test_torch_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'shiftdata\[torch\]'"):
        covariate_shift_by_training(pictures(1), pictures(2))
