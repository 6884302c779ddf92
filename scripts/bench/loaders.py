"""Shuffled training reads of encoded pictures: ours compared with its peers, in one run on one machine.

    python scripts/bench/loaders.py [--rounds 5] [--workers 2] [--readers ...]

The same encoded pictures (half of a dataset that is built first: see `loader_sets.py`) lie as files in
folders, as tar shards, as Parquet shards, in the formats of the peers, and as our dataset. Each reader runs
in a process of its own, as its users run it (with Pillow) and once more with libjpeg-turbo, in batches of 64,
with one thread inside each operation (see `loader_peers.py`). Peers that need another environment get one.

A figure is of two epochs after a first one: workers are kept, so that nobody is measured starting them.
Readers take turns in each round, and ratios are taken within a round, since others may use the machine: the
median of the rounds counts. `limit` is what threads decode that have the bytes in memory and throw the pixels
away. Needs webdataset, simplejpeg and scikit-learn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TypeAlias

from loader_peers import APART, LIMIT, OURS, READERS
from loader_sets import prepare
from peer_environments import python_of

ROOT = Path("build/bench/loaders")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
EPOCHS = 2
PEERS = [name for name in READERS if name not in (OURS, LIMIT)]

#: Reader and decoder.
Job: TypeAlias = tuple[str, str]
#: By job, the pictures a second of each round; a job that failed in one has fewer.
Rates: TypeAlias = Mapping[Job, Mapping[int, float]]


def measure(out: Path, name: str, workers: int, decoder: str) -> float:
    """Read some epochs with a reader in this process; return the pictures a second after the first."""
    loader, seen, began = READERS[name](out, workers, decoder), 0, 0.0
    for epoch in range(1 + EPOCHS):
        began = time.perf_counter() if epoch == 1 else began
        for batch in loader:
            count = len(next(iter(batch.values())) if isinstance(batch, dict) else batch[0])
            seen += count if epoch else 0
    return seen / (time.perf_counter() - began)


def measured(out: Path, job: Job, workers: int) -> float:
    """Measure in a process of its own; `RuntimeError` with its last words if it fails."""
    name, decoder = job
    python = python_of(APART[name]) if name in APART else sys.executable
    command = [python, __file__, "--out", str(out), "--workers", str(workers), "--one", *job]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}, {decoder}: {done.stderr.strip()[-500:]}")
    rate = float(done.stdout.splitlines()[-1])
    print(f"{name}, {decoder}: {rate:,.0f}/s", file=sys.stderr)
    return rate


def compare(out: Path, jobs: list[Job], workers: int, rounds: int) -> Rates:
    """Measure every job in each round, in turns that begin at either end."""
    rates: dict[Job, dict[int, float]] = defaultdict(dict)
    for number in range(rounds):
        for job in jobs[:: -1 if number % 2 else 1]:
            try:
                rates[job][number] = measured(out, job, workers)
            except RuntimeError as error:
                print(f"left out: {error}", file=sys.stderr)
    return rates


def table(rates: Rates) -> Iterator[str]:
    """Medians of the rounds, as Markdown; one line for the decoders of a reader."""
    yield "| reader | decoder | images/s |"
    yield "|---|---|---|"
    for name in dict.fromkeys(name for name, _ in rates):
        decoders = [decoder for reader, decoder in rates if reader == name]
        shown = [f"{median(rates[name, decoder].values()):,.0f}" for decoder in decoders]
        yield f"| {name} | {' / '.join(decoders)} | {' / '.join(shown)} |"


def ratios(rates: Rates) -> Iterator[str]:
    """Ours compared with the peer of the best median, and with the limit, in each round."""
    peers = {job: median(rate.values()) for job, rate in rates.items() if job[0] in PEERS}
    as_run = [job for job in peers if job[1] != "turbo"]
    alike = [job for job in peers if job[1] == "turbo"]
    for label, decoder, theirs in (
        ("ours, the best peer as its users run it", "turbo", as_run),
        ("... with Pillow", "Pillow", as_run),
        ("... with the same decoder", "turbo", alike),
        ("... the decoder alone", "turbo", [(LIMIT, "turbo")]),
    ):
        mine = rates.get((OURS, decoder), {})
        best = max(theirs, key=lambda job: peers.get(job, 0), default=(LIMIT, "turbo"))
        each = [mine[number] / rates[best][number] for number in mine if number in rates.get(best, {})]
        if each:
            yield f"| {label} | {median(each):.2f} ({min(each):.2f} to {max(each):.2f}) | {', '.join(best)} |"


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
        print(measure(options.out, name, options.workers, decoder))
        return
    prepare(options.out)
    # One decoder after the other, so that readers that are compared are near each other in time.
    jobs = [(reader, decoder) for decoder in ("turbo", "Pillow") for reader in options.readers]
    rates = compare(options.out, jobs, options.workers, options.rounds)
    print(
        *table(rates), "", "| median of the rounds (least to most) | ratio | to |", "|---|---|---|", sep="\n"
    )
    print(*ratios(rates), sep="\n")


if __name__ == "__main__":
    main()
