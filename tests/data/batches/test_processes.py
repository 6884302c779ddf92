"""Real processes: killed in mid-epoch, interrupted by Ctrl-C, several ranks with gloo."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch.distributed
import torch.multiprocessing
from torch.utils.data import DataLoader

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


WAIT = """
import signal, sys, time
import shiftdata as sd
from shiftdata.data.loading.byte_ranges import ExampleReader

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
task = sd.task(sys.argv[1])

class Slow(ExampleReader):
    def read(self, rows):
        time.sleep(60 if sys.argv[2] == "hangs" else 0.01)
        return super().read(rows)

slow = Slow(task.metadata.dataset, task.metadata.base)
with task.loader(batch_size=8, workers=2, reader=slow) as loader:
    print("reading", flush=True)
    while True:
        for batch in loader:
            pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("read", ["hangs", "goes on"])
def test_ctrl_c_ends_it_at_once(tiny: Path, read: str):
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT, str(tiny), read],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    try:
        _, error = process.communicate(timeout=15)  # not 60: it does not wait for the read
    finally:
        process.kill()
    assert "KeyboardInterrupt" in error
    assert process.returncode == -signal.SIGINT


def rank(number: int, world: int, tiny: str, port: int, folder: str) -> None:
    """One of the processes: reads epochs, counts batches with the others, and writes what it saw."""
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
