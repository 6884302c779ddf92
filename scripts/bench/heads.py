"""A grid of linear heads on frozen features: time, memory, and a plain loop next to it.

    python scripts/bench/heads.py build/shift/sma_glyphs [--cells 84] [--trials 15] [--threads 2] [--plain 6]

The grid: 7 methods x K 2, 4, 8, 12 x mu .05, .1, .2, each with 15 random trials of the rate (1e-4 to 1e-1),
weight decay (1e-4 to 1) and the method's own numbers, and 5 seeds each: 6,300 trainings of 300 full-batch
steps on the canonical splits. Each is predicted on validation and test after every 100 steps.

The plain loop: a `torch.nn.Linear`, `torch.optim.SGD` and `cross_entropy` for one run at a time, all rows in
one batch, features already standardised tensors, no sampler, no predictions, with as many threads; on the
cell --plain-cell (K, mu), for ERM and for SUBG. Both in turns, the median of three rounds; with one thread
also by processor time, which holds on a busy machine.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import shiftdata as sd
from shiftdata.baselines.heads import HEAD_METHODS, HeadSpec, first_weights, train_grid, train_heads
from shiftdata.baselines.methods import make_method
from shiftdata.baselines.models import Floats, Standardised
from shiftdata.baselines.sources import source_of
from shiftdata.evaluation.sampling import make_sampler
from shiftdata.evaluation.tasks import Task
from shiftdata.stable import rng

SIZES, SHARES = (2, 4, 8, 12), (0.05, 0.1, 0.2)
TRIALS, SEEDS, STEPS, EVERY = 15, 5, 300, 100


def main() -> None:
    """Extract features, train the grid, and compare a cell with a plain loop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument(
        "--cells", type=int, default=84, help="how many, from the first on; those of a task together"
    )
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plain", type=int, default=6, help="runs of the plain loop; 0: none")
    parser.add_argument("--plain-cell", type=float, nargs=2, default=(8, 0.1), metavar=("K", "MU"))
    parser.add_argument("--cache", type=Path, help="folder of the features; default: the user's")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tasks = {(k, mu): sd.task(options.folder, "group-fairness", k=k, mu=mu) for k in SIZES for mu in SHARES}
    lines = features(list(tasks.values()), options.cache)
    if options.plain:
        k, mu = options.plain_cell
        for method in ("erm", "subg"):
            for threads in sorted({1, options.threads}):
                compare_plain(tasks[int(k), mu], lines, method, options.plain, threads)
    if options.cells:
        grid(tasks, lines, options.cells, options.trials, options.threads)


def features(tasks: Sequence[Task], cache: Path | None) -> Floats:
    """Return an array with a line for each row of the base, 0 for those of no task."""
    rows = [task.rows(name) for task in tasks for name in task.sets]
    begun, used = time.perf_counter(), time.process_time()
    every = np.unique(np.concatenate(rows))
    read = source_of(tasks[0].metadata, "frozen", every, cache=cache or True).lines(every)
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
        some = methods[: max(0, cells)]
        cells -= len(some)
        if not some:
            break
        since, specs = time.perf_counter(), specs_of(some, trials)
        made = train_grid(task, specs, steps=STEPS, every=EVERY, features=lines, workers=threads)
        total, lost = total + len(specs), lost + len(made.results.failed)
        worst = worst_groups(made, specs)
        print(
            f"K={k} mu={mu}: {len(task.rows('train')):,} rows, {len(specs)} runs, "
            f"{time.perf_counter() - since:.1f} s; best worst group: {worst}",
            flush=True,
        )
    print(
        f"{total:,} trainings of {STEPS} steps, {lost} diverged: {time.perf_counter() - begun:.0f} s, "
        f"{time.process_time() - used:.0f} s of processor time; most memory "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB"
    )


def worst_groups(made: Any, specs: Sequence[HeadSpec]) -> str:
    """The test accuracy of the worst group, of each method's trial that is best on validation."""
    accuracy = np.zeros((2, len(specs)))
    for at, name in enumerate(("validation", "test")):
        rows = made.rows[made.sets.index(name)]
        label, group = made.task.metadata.label[rows], made.task.metadata.group[rows]
        _, group = np.unique(group, return_inverse=True)
        for run in range(len(specs)):
            if run not in made.results.failed:
                right = made.predicted(run, name) == label
                accuracy[at, run] = (np.bincount(group, right) / np.bincount(group)).min()
    parts = []
    for method in HEAD_METHODS:
        mine = np.array([run for run, one in enumerate(specs) if one.method == method], np.int64)
        if len(mine):
            trials = accuracy[:, mine].reshape(2, -1, SEEDS).mean(2)
            parts.append(f"{method} {trials[1, trials[0].argmax()]:.2f}")
    return ", ".join(parts)


def compare_plain(task: Task, lines: Floats, method: str, runs: int, threads: int) -> None:
    """All runs of a cell at once, and some of them one after another, in turns."""
    metadata, rows = task.metadata, task.rows("train")
    _, y = np.unique(metadata.label[rows], return_inverse=True)
    _, group = np.unique(metadata.group[rows], return_inverse=True)
    x = lines[rows]
    x, specs = Standardised(x)(x).numpy(), specs_of([method])
    torch.set_num_threads(threads)
    kept = {
        seed: np.sort(make_sampler(method, labels=y, groups=group, seed=seed).rows_of(0))  # type: ignore[union-attr]
        if method == "subg"
        else np.arange(len(y))
        for seed in range(SEEDS)
    }
    times: dict[str, list[tuple[float, float]]] = {"batched": [], "plain": []}
    off = 0.0
    chosen = rng(0, "plain", method).choice(len(specs), runs, replace=False)
    for _ in range(3):
        begun = now()
        made = train_heads(x, y, group, specs, steps=STEPS, workers=threads)
        times["batched"].append(since(begun, len(specs)))
        begun = now()
        for run in chosen:
            some = kept[specs[run].seed]
            layer = plain(torch.from_numpy(x[some]), torch.from_numpy(y[some]), specs[run])
            with torch.no_grad():
                off = max(off, float(np.abs(layer(torch.from_numpy(x)).numpy() - made.scores(run, x)).max()))
        times["plain"].append(since(begun, runs))
    for at, what in enumerate(("", " of processor time")[: 2 if threads == 1 else 1]):
        fast, slow = (1e3 * median(one[at] for one in times[name]) / STEPS for name in times)
        print(
            f"{task.describe()} {method}, {len(kept[0]):,} rows, {threads} threads: {fast:.3f} ms{what} a "
            f"run and step, plain loop {slow:.3f}: {slow / fast:.1f} x; scores differ by {off:.1e} at most",
            flush=True,
        )


def now() -> tuple[float, float]:
    """The time, and this process's."""
    return time.perf_counter(), time.process_time()


def since(begun: tuple[float, float], runs: int) -> tuple[float, float]:
    """Both since then, a run."""
    wall, used = now()
    return (wall - begun[0]) / runs, (used - begun[1]) / runs


def plain(x: torch.Tensor, y: torch.Tensor, spec: HeadSpec) -> torch.nn.Linear:
    """One run, as everybody writes it."""
    classes = int(y.max()) + 1
    layer = torch.nn.Linear(x.shape[1], classes)
    weights = first_weights(spec, x.shape[1], classes)
    with torch.no_grad():
        layer.weight.copy_(weights[:, :-1])
        layer.bias.copy_(weights[:, -1])
    optimizer = torch.optim.SGD(
        layer.parameters(), spec.learning_rate, momentum=spec.momentum, weight_decay=spec.weight_decay
    )
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(layer(x), y))
        optimizer.step()
    return layer


if __name__ == "__main__":
    main()
