"""Time and memory of a grid of linear heads on frozen features.

    python scripts/bench/heads.py build/shift/sma_glyphs [--cells 84] [--trials 15] [--threads 2]

The grid: 7 methods x K 2, 4, 8, 12 x mu .05, .1, .2, each with 15 random trials of the rate (1e-4 to 1e-1),
weight decay (1e-4 to 1) and the method's hyper-parameters, and 5 seeds each: 6,300 trainings of 300
full-batch steps on the canonical splits. Each is predicted on validation and test after every 100 steps.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import shiftdata as sd
from shiftdata.baselines.heads import HEAD_METHODS, HeadSpec, train_grid
from shiftdata.baselines.methods import make_method
from shiftdata.baselines.models import Floats
from shiftdata.baselines.sets import source_of
from shiftdata.evaluation.tasks import Task
from shiftdata.stable import rng

SIZES, SHARES = (2, 4, 8, 12), (0.05, 0.1, 0.2)
TRIALS, SEEDS, STEPS, EVERY = 15, 5, 300, 100


def main() -> None:
    """Compute features, and train the grid."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument(
        "--cells", type=int, default=84, help="how many, from the first on; those of a task together"
    )
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tasks = {(k, mu): sd.task(options.folder, "group-fairness", k=k, mu=mu) for k in SIZES for mu in SHARES}
    lines = features(list(tasks.values()))
    if options.cells:
        grid(tasks, lines, options.cells, options.trials, options.threads)


def features(tasks: Sequence[Task]) -> Floats:
    """Return an array with a line for each row of the base, 0 for those of no task."""
    rows = [task.rows(name) for task in tasks for name in task.sets]
    begun, used = time.perf_counter(), time.process_time()
    every = np.unique(np.concatenate(rows))
    read = source_of(tasks[0].metadata, "frozen", every).lines(every)
    assert read is not None  # features are lines
    lines = np.zeros((len(tasks[0].metadata), read.shape[1]), np.float32)
    lines[every] = read
    print(
        f"features of {len(every):,} rows: {time.perf_counter() - begun:.1f} s, "
        f"{time.process_time() - used:.1f} s of processor time",
        flush=True,
    )
    return lines


def specs_of(methods: Sequence[str], trials: int = TRIALS) -> list[HeadSpec]:
    """Random trials of each method, 5 seeds each."""
    made = []
    for method in methods:
        for trial in range(trials):
            draw = rng(0, "heads", method, trial)
            rate, decay = 10 ** draw.uniform(-4, -1), 10 ** draw.uniform(-4, 0)
            own = {"eta": 10 ** draw.uniform(-3, 0), "first": draw.uniform(0.05, 0.5)}
            own["up"] = float(draw.choice([4, 20, 50, 100]))
            hyper = {name: own[name] for name in make_method(method).hyper if name in own}
            made += [
                HeadSpec(method=method, learning_rate=rate, weight_decay=decay, seed=seed, hyper=hyper)
                for seed in range(SEEDS)
            ]
    return made


def grid(tasks: dict[Any, Task], lines: Floats, cells: int, trials: int, threads: int) -> None:
    """Train the cells, those of a task together."""
    methods, total, lost = list(HEAD_METHODS), 0, 0
    begun, used = time.perf_counter(), time.process_time()
    for (k, mu), task in tasks.items():
        chosen = methods[: max(0, cells)]
        cells -= len(chosen)
        if not chosen:
            break
        since, specs = time.perf_counter(), specs_of(chosen, trials)
        results = train_grid(task, specs, steps=STEPS, every=EVERY, features=lines, workers=threads).results
        total, lost = total + len(specs), lost + len(results.failed)
        print(
            f"K={k} mu={mu}: {len(task.rows('train')):,} rows, {len(specs)} runs, "
            f"{time.perf_counter() - since:.1f} s",
            flush=True,
        )
    print(
        f"{total:,} trainings of {STEPS} steps, {lost} diverged: {time.perf_counter() - begun:.0f} s, "
        f"{time.process_time() - used:.0f} s of processor time; most memory "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB"
    )


if __name__ == "__main__":
    main()
