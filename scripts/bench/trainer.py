"""Speed and memory of `sd.train` on 224 px pictures, compared with a plain loop over the same loader.

    python scripts/bench/trainer.py FOLDER --pictures 2500 --steps 40

JPEG pictures are made and built once in FOLDER (150 KB of pixels each: 2,500 are 375 MB, 25,000 are 3.75 GB;
half of them are for training). Then `sd.train` and a plain torch loop over `task.loader` train the same
small network with the same optimiser, each in a process of its own. A line gives steps per second after a
warm-up and the peak of the resident memory. `--rounds` repeats both; the ratio is of the best rounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loader_sets import built

import shiftdata as sd

SIDE, BATCH, WARM = 224, 64, 4
WAYS = ("sd.train", "plain loop")


def measured(dataset: Path, way: str, given: argparse.Namespace) -> float:
    """Return the steps per second of one way to train."""
    import torch

    begun: list[float] = []

    def on_step(done: int, total: int = 0) -> None:
        if done in (WARM, given.steps):
            if given.device != "cpu":
                torch.cuda.synchronize()
            begun.append(time.perf_counter())

    task = sd.task(sd.read_metadata(str(dataset)))
    if way == WAYS[0]:
        train(task, given, on_step)
    else:
        if given.device == "cpu":
            torch.set_num_threads(1)
        plain_loop(task, given, on_step)
    return (given.steps - WARM) / (begun[1] - begun[0])


def train(task: sd.Task, given: argparse.Namespace, on_step: Callable[..., None]) -> None:
    """Take every step by `sd.train`."""
    from shiftdata.baselines import Training

    training = Training(steps=given.steps, batch=BATCH, precision=given.precision, shift=0)
    where: Any = {"side": SIDE, "device": given.device}
    sd.train(task, "erm", backbone="small-cnn", training=training, on_step=on_step, **where)


def plain_loop(task: sd.Task, given: argparse.Namespace, on_step: Callable[..., None]) -> None:
    """Take every step by a loop as one writes it without a library."""
    import torch

    from shiftdata.baselines.models import build

    batches = task.loader(sampler="shuffle", batch_size=BATCH, drop_last=True, size=SIDE, remap=True)
    sample = torch.zeros(2, 3, SIDE, SIDE, dtype=torch.uint8)
    network, prepare, _ = build("small-cnn", sample, len(task.labels))
    network.to(given.device).train()
    optimizer = torch.optim.AdamW(network.parameters(), 0.01, weight_decay=0.05)
    half = torch.autocast(
        torch.device(given.device).type, torch.bfloat16, enabled=given.precision == "bfloat16"
    )
    done = 0
    while done < given.steps:
        for x, y, *_ in batches:
            if given.device != "cpu":
                x, y = (part.pin_memory().to(given.device, non_blocking=True) for part in (x, y))
            optimizer.zero_grad()
            with half:
                loss = torch.nn.functional.cross_entropy(network(prepare(x)), y)
            loss.backward()
            optimizer.step()
            done += 1
            on_step(done)
            if done == given.steps:
                break


def main() -> None:
    """Measure every way, or (`--way`) one of them in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=int, default=2500)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--way", choices=WAYS)
    given = parser.parse_args()
    dataset = built(given.folder, given.pictures, SIDE)
    if given.way:
        speed = measured(dataset, given.way, given)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"speed": speed, "peak": peak}))
        return
    best = dict.fromkeys(WAYS, 0.0)
    for _ in range(given.rounds):
        for way in WAYS:
            command = [sys.executable, __file__, *map(str, sys.argv[1:]), "--way", way]
            ran = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            result = json.loads(ran.splitlines()[-1])
            best[way] = max(best[way], result["speed"])
            print(f"{way:32} {result['speed']:6.2f} steps/s  {result['peak'] / 1e6:6.0f} MB", flush=True)
    print(f"sd.train: {best[WAYS[0]] / best[WAYS[1]]:.2f} x the plain loop")


if __name__ == "__main__":
    main()
