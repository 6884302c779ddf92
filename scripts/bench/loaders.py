"""Shuffled training reads of encoded pictures: ours compared with its peers, in one run on one machine.

    python scripts/bench/loaders.py [--rounds 5] [--workers 2] [--readers ...]

The same encoded pictures (half of a dataset that is built first: see `loader_sets.py`) lie as files in
folders, as tar shards, as Parquet shards, in the formats of the peers, and as our dataset. Each reader runs
in a process of its own, as its users run it (with Pillow) and once more with libjpeg-turbo, in batches of 64,
with one thread inside each operation (see `loader_peers.py`). Peers that need another environment get one.

A figure is of two epochs after a first one: workers are kept, so that nobody is measured starting them.
Readers take turns in each round, and ratios are taken within a round, since others may use the machine: the
median of the rounds counts. Next to it is the processor time of a picture in all processes of a reader, which
depends less on others. `limit` is what threads decode that have the bytes in memory and throw the pixels
away; `by hand` a dataset of a few lines over our shards. Needs webdataset, simplejpeg and scikit-learn.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

from loader_peers import APART, BY_HAND, LIMIT, OUR_DATASET, OURS, READERS
from loader_sets import prepare
from peer_environments import python_of

ROOT = Path("build/bench/loaders")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
EPOCHS = 2
PEERS = [name for name in READERS if name not in (OURS, OUR_DATASET, BY_HAND, LIMIT)]
TICKS = os.sysconf("SC_CLK_TCK")


class Pace(NamedTuple):
    """Pictures a second, and the microseconds of processor time that each took."""

    rate: float
    processor: float


#: Reader and decoder.
Job: TypeAlias = tuple[str, str]
#: By job, the pace in each round; a job that failed in one has fewer.
Paces: TypeAlias = Mapping[Job, Mapping[int, Pace]]


def measure(out: Path, name: str, workers: int, decoder: str) -> Pace:
    """Read some epochs with a reader in this process; return the pace after the first."""
    loader, seen, began, spent = READERS[name](out, workers, decoder), 0, 0.0, 0.0
    for epoch in range(1 + EPOCHS):
        if epoch == 1:
            began, spent = time.perf_counter(), processor_time()
        for batch in loader:
            count = len(next(iter(batch.values())) if isinstance(batch, dict) else batch[0])
            seen += count if epoch else 0
    return Pace(seen / (time.perf_counter() - began), (processor_time() - spent) / seen * 1e6)


def processor_time() -> float:
    """Seconds of this process and of its workers, which are alive: they are kept between epochs."""
    spent = time.process_time()
    for worker in multiprocessing.active_children():
        user, system = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        spent += (int(user) + int(system)) / TICKS
    return spent


def measured(out: Path, job: Job, workers: int) -> Pace:
    """Measure in a process of its own; `RuntimeError` with its last words if it fails."""
    name, decoder = job
    python = python_of(APART[name]) if name in APART else sys.executable
    command = [python, __file__, "--out", str(out), "--workers", str(workers), "--one", *job]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}, {decoder}: {done.stderr.strip()[-500:]}")
    pace = Pace(*map(float, done.stdout.splitlines()[-1].split()))
    print(f"{name}, {decoder}: {pace.rate:,.0f}/s, {pace.processor:,.0f} us each", file=sys.stderr)
    return pace


def compare(out: Path, jobs: list[Job], workers: int, rounds: int) -> Paces:
    """Measure every job in each round, in turns that begin at either end."""
    paces: dict[Job, dict[int, Pace]] = defaultdict(dict)
    for number in range(rounds):
        for job in jobs[:: -1 if number % 2 else 1]:
            try:
                paces[job][number] = measured(out, job, workers)
            except RuntimeError as error:
                print(f"left out: {error}", file=sys.stderr)
    return paces


def table(paces: Paces) -> Iterator[str]:
    """Medians of the rounds, as Markdown; one line for the decoders of a reader."""
    yield "| reader | decoder | images/s | processor time of an image, us |"
    yield "|---|---|---|---|"
    for name in dict.fromkeys(name for name, _ in paces):
        decoders = [decoder for reader, decoder in paces if reader == name]
        rounds = [zip(*paces[name, decoder].values(), strict=True) for decoder in decoders]
        columns = zip(*(map(median, each) for each in rounds), strict=True)
        shown = (" / ".join(f"{value:,.0f}" for value in column) for column in columns)
        yield f"| {name} | {' / '.join(decoders)} | {' | '.join(shown)} |"


def ratios(paces: Paces) -> Iterator[str]:
    """Compare ours with the peer of the best median, with the limit, and with what one writes by hand."""
    medians = {job: median(pace.rate for pace in each.values()) for job, each in paces.items()}
    peers = [job for job in medians if job[0] in PEERS]
    as_run = [job for job in peers if job[1] != "turbo"]
    alike = [job for job in peers if job[1] == "turbo"]
    for label, mine, theirs in (
        ("ours, the best peer as its users run it", (OURS, "turbo"), as_run),
        ("... with Pillow", (OURS, "Pillow"), as_run),
        ("... with the same decoder", (OURS, "turbo"), alike),
        ("... the decoder alone", (OURS, "turbo"), [(LIMIT, "turbo")]),
        ("... the decoder alone, Pillow", (OURS, "Pillow"), [(LIMIT, "Pillow")]),
        ("task.dataset, a dataset by hand", (OUR_DATASET, "turbo"), [(BY_HAND, "turbo")]),
        ("... with Pillow", (OUR_DATASET, "Pillow"), [(BY_HAND, "Pillow")]),
    ):
        best = max(theirs, key=lambda job: medians.get(job, 0), default=mine)
        each = [
            (pace.rate / paces[best][number].rate, paces[best][number].processor / pace.processor)
            for number, pace in paces.get(mine, {}).items()
            if number in paces.get(best, {})
        ]
        if each:
            rates, processors = zip(*each, strict=True)
            spread = f"{median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})"
            yield f"| {label} | {spread} | {median(processors):.2f} | {', '.join(best)} |"


def main() -> None:
    """Build what is missing, measure, print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--readers", choices=READERS, nargs="+", default=list(READERS))
    parser.add_argument("--out", type=Path, default=ROOT / "noisy")
    parser.add_argument("--one", nargs=2, metavar=("READER", "DECODER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, decoder = options.one
        print(*measure(options.out, name, options.workers, decoder))
        return
    prepare(options.out)
    # One decoder after the other, so that readers that are compared are near each other in time.
    jobs = [(reader, decoder) for decoder in ("turbo", "Pillow") for reader in options.readers]
    paces = compare(options.out, jobs, options.workers, options.rounds)
    print(*table(paces), sep="\n")
    print("\n| median of the rounds (least to most) | ratio | of processor time | to |\n|---|---|---|---|")
    print(*ratios(paces), sep="\n")


if __name__ == "__main__":
    main()
