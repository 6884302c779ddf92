"""Real processes: killed in mid-epoch, several ranks with gloo."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd

TRAIN = """
import json, os, sys
import shiftdata as sd

folder, log, state, workers, batches = sys.argv[1:]
loader = sd.task(folder).loader(sampler="rwg", batch_size=8, seed=4, workers=int(workers))
if os.path.exists(state):
    loader.load_state_dict(json.load(open(state)))
for _ in range(2):
    for x, y, known in loader:
        done = [known["position"].tolist(), int(x.long().sum())]
        with open(log, "a") as lines:
            print(json.dumps(done), file=lines, flush=True)
        with open(state + ".new", "w") as file:
            json.dump(loader.state_dict(), file)
        os.replace(state + ".new", state)
        batches = int(batches) - 1
        if batches == 0:
            os.kill(os.getpid(), 9)
    if loader.state_dict()["epoch"] == 2:
        break
"""


@pytest.mark.slow
def test_killed_twice_and_resumed_it_sees_what_it_would_have_seen(tiny: Path, tmp_path: Path):
    def train(name: str, workers: int, batches: int) -> int:
        arguments = [str(tiny), str(tmp_path / name), str(tmp_path / f"{name}.state"), workers, batches]
        return subprocess.run([sys.executable, "-c", TRAIN, *map(str, arguments)]).returncode

    assert train("whole", 2, -1) == 0
    assert train("killed", 2, 7) == -signal.SIGKILL
    assert train("killed", 0, 23) == -signal.SIGKILL
    assert train("killed", 3, -1) == 0
    whole, killed = ((tmp_path / name).read_text().splitlines() for name in ("whole", "killed"))
    assert killed == whole
    assert len(whole) == 2 * len(sd.task(tiny).loader(sampler="rwg", batch_size=8))


def rank(number: int, world: int, tiny: str, port: int, folder: str) -> None:
    """Read epochs, count batches with the other processes, and write the positions."""
    import torch.distributed
    from torch.utils.data import DataLoader

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=number, world_size=world)
    task = sd.task(tiny)
    ours = task.loader(sampler="shuffle", batch_size=9, workers=1)
    plain = DataLoader(task.dataset(decode=False), batch_size=9, sampler=task.sampler("shuffle"))
    seen = []
    for loader in (ours, plain, plain):
        seen.append([])
        for _, y, known in loader:
            torch.distributed.all_reduce(y.new_ones(1))  # hangs where a rank has fewer batches
            seen[-1].append(known["position"].tolist())
    Path(folder, f"{number}.json").write_text(json.dumps(seen))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_with_gloo_share_an_epoch(tiny: Path, tmp_path: Path):
    import torch.multiprocessing

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(rank, (2, str(tiny), port, str(tmp_path)), nprocs=2)
    each = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2)]
    size = len(sd.task(tiny).sets["train"])
    alone = sd.task(tiny).loader(sampler="shuffle", batch_size=size)
    first, second = (next(iter(alone.batches)) for _ in range(2))
    for *both, whole in zip(*each, (first, first, second), strict=True):
        assert len(both[0]) == len(both[1])
        mixed = np.stack([np.concatenate(batches) for batches in both]).T.ravel()
        assert mixed[:size].tolist() == whole
    assert sorted(first) == list(range(size))
    assert [position for _, _, known in alone for position in known["position"].tolist()] == first
