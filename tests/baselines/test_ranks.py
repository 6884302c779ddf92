"""Several processes: together they take the steps that one takes, and only one writes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

WORK = """
import sys, torch
from pathlib import Path
from shiftdata.baselines import make_method
from tests.baselines.problems import PLAIN, problem, trainer_of

torch.distributed.init_process_group("gloo")
data = problem()
trainer = trainer_of(make_method(sys.argv[2]), data, steps=12, **PLAIN)
trainer.run()
if torch.distributed.get_rank() == 0:
    torch.save({"scores": torch.from_numpy(trainer.scores(data.select))}, sys.argv[1])
"""


@pytest.mark.parametrize(
    "method", ["erm", *[pytest.param(one, marks=pytest.mark.slow) for one in ("rwg", "mcd")]]
)
def test_two_processes_take_the_steps_of_one(method, tmp_path):
    import torch

    from shiftdata.baselines import make_method
    from tests.baselines.problems import PLAIN, problem, trainer_of

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    known["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", WORK, str(tmp_path / "both.pt"), method]
    running = [subprocess.Popen(command, env=known | {"RANK": str(rank)}) for rank in range(2)]
    assert [one.wait(timeout=100) for one in running] == [0, 0]
    data = problem()
    alone = trainer_of(make_method(method), data, steps=12, **PLAIN)
    alone.run()
    both = torch.load(tmp_path / "both.pt")["scores"]
    assert torch.allclose(both, torch.from_numpy(alone.scores(data.select)), atol=1e-5)
