"""Devices: precision, clipping; and on a GPU, steps that wait for nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from shiftdata.baselines import make_method
from tests.baselines.problems import PLAIN, fitting, problem, resume, trainer_of, weights_of

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]
METHODS = (
    "erm",
    "group-dro",
    "coral",
    "dann",
    "fishr",
    "mixup",
    "swad+erm",
    "ema+erm",
    "bn-adapt",
    "jtt",
)
#: Steps of these ask nothing of the device. Penalties ask once which domains are there.
NO_WAIT = ("erm", "rwg", "group-dro", "dann", "cdan", "eoa+erm", "sd")


def trained(name: str, device: str, **settings):
    hyper = {"dropout": 0.0} if name == "dann" else {}  # devices draw other masks
    data, backbone = fitting(make_method(name))
    settings = {"steps": 12, "evaluate_every": 6 if "swad" in name else 0} | settings
    trainer = trainer_of(make_method(name, **hyper), data, backbone=backbone, device=device, **settings)
    trainer.run()
    return trainer


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("name", METHODS)
def test_a_gpu_takes_the_steps_of_a_processor(name, device):
    near, far = (trained(name, kind, precision="float64", **PLAIN) for kind in ("cpu", device))
    rows = near.data.select
    assert np.abs(near.scores(rows) - far.scores(rows)).max() < 1e-5


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("name", NO_WAIT)
def test_a_step_waits_for_nothing(name, device):
    data, backbone = fitting(make_method(name))
    trainer = trainer_of(make_method(name), data, backbone=backbone, device=device, steps=12)
    trainer.run(until=4)
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.run(until=10)
    finally:
        torch.cuda.set_sync_debug_mode("default")


#: A processor emulates 16 bits at a hundred times the time.
PRECISIONS = [("cpu", "bfloat16"), ("cpu", "float64")]
PRECISIONS += [pytest.param("cuda", name, marks=NO_GPU) for name in ("bfloat16", "float64")]


@pytest.mark.parametrize(("device", "precision"), PRECISIONS)
def test_it_learns_in_any_precision(device, precision):
    trainer = trainer_of(make_method("erm"), problem(), steps=80, precision=precision, device=device)
    trainer.run()
    data = trainer.data
    assert (trainer.scores(data.select).argmax(1) == data.select_y).mean() > 0.6
    dtype = torch.float64 if precision == "float64" else torch.float32
    assert {parameter.dtype for parameter in trainer.network.parameters()} == {dtype}


@pytest.mark.parametrize("device", DEVICES)
def test_a_stopped_run_ends_in_the_same_bits(device):
    def start():
        return trainer_of(make_method("dann"), problem(), steps=12, clip=0.5, device=device)

    whole, first, second = start(), start(), start()
    whole.run()
    first.run(until=5)
    resume(first, second)
    assert all(map(torch.equal, weights_of(whole), weights_of(second)))


def test_gradients_are_clipped_to_a_norm():
    free, clipped = (
        trainer_of(make_method("erm"), problem(), steps=1, clip=clip, **PLAIN) for clip in (0.0, 1e-3)
    )
    moved = []
    for trainer in (free, clipped):
        before = weights_of(trainer)
        trainer.run()
        steps = [(new - old).reshape(-1) for new, old in zip(weights_of(trainer), before, strict=True)]
        moved.append(float(torch.cat(steps).norm()) / 0.01)
    assert moved[0] > 1e-2
    assert moved[1] == pytest.approx(1e-3, rel=1e-3)
