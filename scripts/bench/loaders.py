"""Shuffled training reads of encoded pictures: ours beside its peers, in one run on one machine.

    python scripts/bench/loaders.py [--rounds 5] [--workers 2] [--readers ...] [--minutes 5]

The same encoded pictures (half of a dataset that is built first: see `loader_sets.py`) lie as files in
folders, as tar shards, as Parquet shards, in the formats of the peers, and as our dataset. Each reader runs
in a process of its own, as its users run it (with Pillow) and once more with libjpeg-turbo, in batches of 64,
with one thread inside each operation (see `loader_peers.py`). Peers that need another environment get one.

`first` is the first epoch: files out of the page cache, workers started. `warm` is the two epochs after it,
which is the figure to compare: workers are kept, so that nobody is measured starting them. Readers take turns
in each round, and ratios are taken within a round, since others may use the machine: the median of the rounds
counts. `limit` is what threads decode that have the bytes in memory and throw the pixels away; `CPU` is
pictures a second of processor time. What was measured is kept in `rounds.json`: a run that was stopped, or
that ended after `--minutes`, goes on where it was. Needs webdataset, simplejpeg and scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from loader_peers import APART, CACHED, LIMIT, OURS, READERS
from loader_sets import prepare
from peer_environments import python_of

ROOT = Path("build/bench/loaders")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
#: Reader, decoder, workers.
Job = tuple[str, str, int]
Figures = dict[str, float]


def measure(out: Path, name: str, workers: int, decoder: str, epochs: int) -> Figures:
    """Epochs of one reader, in this process: pictures a second, and memory with that of the workers."""
    loader = READERS[name](out, workers, decoder)
    for path in out.rglob("*"):
        if path.is_file() and path.relative_to(out).parts[0] != "crops":
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    took, spent, memory, seen = [], [], [], 0
    for _ in range(epochs):
        began, worked, seen = time.perf_counter(), processor_seconds(), 0
        for batch in loader:
            seen += len(next(iter(batch.values())) if isinstance(batch, dict) else batch[0])
        took.append(time.perf_counter() - began)
        spent.append(processor_seconds() - worked)
        memory.append(proportional_memory())
    return {
        "first": seen / took[0],
        "warm": (epochs - 1) * seen / sum(took[1:]),
        "CPU": (epochs - 1) * seen / sum(spent[1:]),
        "MB": memory[1],
        "MB_last": memory[-1],
        "seen": seen,
    }


def proportional_memory() -> float:
    """MB of this process and its children, what they share counted once."""
    total = 0
    for process in processes():
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1e3


def processor_seconds() -> float:
    """Seconds that this process and its children have worked."""
    stats = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in processes()]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def processes() -> list[str]:
    return ["self", *Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def measured(out: Path, job: Job, epochs: int = 3) -> Figures:
    """The same in a process of its own; `RuntimeError` with its last words if it fails."""
    name, decoder, workers = job
    python = python_of(APART[name]) if name in APART else sys.executable
    one = ["--one", name, str(workers), decoder, str(epochs)]
    done = subprocess.run(
        [python, __file__, "--out", str(out), *one],
        env=os.environ | ONE_THREAD,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{name}, {decoder}: {done.stderr.strip()[-500:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    print(f"{out.name}: {name}, {decoder}, {workers} workers: {figures['warm']:,.0f}/s", file=sys.stderr)
    return figures


def compare(out: Path, jobs: list[Job], rounds: int, until: float) -> tuple[list[dict[str, Any]], list[str]]:
    """What each round gave for each job, as far as time allows, and why some jobs gave nothing."""
    path = out / "rounds.json"
    records: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    have = {(row["round"], row["reader"], row["decoder"], row["workers"]) for row in records}
    left_out: dict[Job, str] = {}
    for number in range(rounds):
        for job in jobs[:: -1 if number % 2 else 1]:
            if (number, *job) in have or job in left_out:
                continue
            if time.monotonic() > until:
                return records, [*left_out.values(), "time is up: run the same command again for the rest"]
            try:
                figures = measured(out, job)
            except RuntimeError as error:
                left_out[job] = str(error)
                print(f"left out: {error}", file=sys.stderr)
                continue
            names = dict(zip(("reader", "decoder", "workers"), job, strict=True))
            records.append({"round": number, **names, **figures})
            path.write_text(json.dumps(records, indent=0) + "\n")
    return records, list(left_out.values())


def figures_of(records: list[dict[str, Any]], job: Job, what: str) -> dict[int, float]:
    """A figure of a job in each round."""
    rows = [row for row in records if (row["reader"], row["decoder"], row["workers"]) == job]
    return {row["round"]: row[what] for row in rows}


def table(records: list[dict[str, Any]], jobs: list[Job]) -> Iterator[str]:
    """Medians of the rounds, as Markdown; one line for the decoders of a reader."""
    yield "| reader, workers | decoder | first epoch, cold | later epochs | processor second | MB |"
    yield "|---|---|---|---|---|---|"
    for name, workers in dict.fromkeys((job[0], job[2]) for job in jobs):
        own = [job for job in jobs if job[::2] == (name, workers) and figures_of(records, job, "warm")]
        columns = [
            [f"{median(figures_of(records, job, what).values()):,.0f}" for job in own]
            for what in ("first", "warm", "CPU", "MB")
        ]
        if own:
            cells = " | ".join(" / ".join(column) for column in [[job[1] for job in own], *columns])
            yield f"| {name}, {workers} | {cells} |"


def ratios(
    records: list[dict[str, Any]], jobs: list[Job], workers: int, what: str
) -> dict[str, tuple[list[float], str]]:
    """What the bars are about: ours beside the peer with the best median, and the limit, in each round."""
    rates = {job: rate for job in jobs if job[2] == workers and (rate := figures_of(records, job, what))}
    peers = {job: median(rate.values()) for job, rate in rates.items() if job[0] in PEERS}
    as_run = [job for job in peers if job[1] != "turbo"]
    alike = [job for job in peers if job[1] == "turbo"]
    limit = [job for job in rates if job[0] == LIMIT and job[1] == "turbo"]
    result = {}
    for label, ours, theirs in (
        ("ours beside the best peer as its users run it", (OURS, "turbo"), as_run),
        ("... with Pillow", (OURS, "Pillow"), as_run),
        ("... with the same decoder", (OURS, "turbo"), alike),
        ("... beside the decoder alone", (OURS, "turbo"), limit),
        ("decoded cache beside the best peer as its users run it", (CACHED, "turbo"), as_run),
        ("decoded cache beside the best peer with the same decoder", (CACHED, "turbo"), alike),
    ):
        mine = rates.get((*ours, workers), {})
        best = max(theirs, key=lambda job: peers.get(job, 0), default=None)
        each = [mine[one] / rates[best][one] for one in mine if one in rates.get(best, {})] if best else []
        if best and each:
            result[label] = (each, f"{best[0]}, {best[1]}")
    return result


def shown(each: list[float]) -> str:
    return f"{median(each):.2f} ({min(each):.2f} to {max(each):.2f})"


PEERS = [name for name in READERS if name not in (OURS, CACHED, LIMIT)]


def main() -> None:
    """Build what is missing, measure, print the tables, write JSON and picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--readers", choices=READERS, nargs="+", default=list(READERS))
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing after that")
    parser.add_argument("--out", type=Path, default=ROOT)
    parser.add_argument("--one", nargs=4, metavar=("READER", "WORKERS", "DECODER", "EPOCHS"))
    options = parser.parse_args()
    if options.one:
        name, workers, decoder, epochs = options.one
        print(json.dumps(measure(options.out, name, int(workers), decoder, int(epochs))))
        return
    until = time.monotonic() + 60 * options.minutes
    out = options.out / "noisy"
    prepare(out)
    # One decoder after the other, so that readers that are compared are near each other in time.
    jobs = [
        (reader, decoder, workers)
        for workers in options.workers
        for decoder in ("turbo", "Pillow")
        for reader in options.readers
        if (reader, decoder) != (CACHED, "Pillow")
    ]
    records, left_out = compare(out, jobs, options.rounds, until)
    print(*table(records, jobs), "", sep="\n")
    print("| median of the rounds (least to most) | later epochs | processor time | peer |")
    print("|---|---|---|---|")
    for workers in options.workers:
        by_time, by_processor = (ratios(records, jobs, workers, figure) for figure in ("warm", "CPU"))
        for label, (each, peer) in by_time.items():
            cells = " | ".join(shown(rounds) for rounds in (each, by_processor[label][0]))
            print(f"| {label}, {workers} workers | {cells} | {peer} |")
    print(*(f"left out: {why}" for why in left_out), sep="\n")


if __name__ == "__main__":
    main()
