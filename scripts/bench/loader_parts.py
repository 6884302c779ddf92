"""What a loader costs in addition to the decoder, part by part, in one process with two threads.

    python scripts/bench/loader_parts.py [--rounds 7]

Each line adds a part to the line before: the memory of batches, our checks of a picture, the loader with
bytes that lie in memory, the reads of a shard. Parts take turns. Linux tells of each thread how long it ran,
how long it waited for a core that others used, and so how long it waited for anything else: the interpreter's
lock, a job, the end of an epoch. Only the wait for a core depends on who else uses the machine.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from threading import Thread
from typing import NamedTuple

import numpy as np
import simplejpeg
from loader_peers import BATCH
from loader_sets import prepare
from loaders import ROOT
from numpy.typing import NDArray

import shiftdata as sd
from shiftdata import threads
from shiftdata.data.loading.batches import Loader
from shiftdata.data.loading.batches.decode import decode

THREADS = 2


class Spent(NamedTuple):
    """Microseconds of all threads for a picture: on a core, and waiting for anything but a core."""

    running: float
    blocked: float


class Clock:
    """Adds up the time of threads."""

    def __init__(self) -> None:
        self.running = self.blocked = 0.0

    def timed(self, work: Callable[..., object]) -> Callable[..., None]:
        """Let a thread that does some work add its time."""

        def run(*given: object) -> None:
            began, before = time.perf_counter_ns(), self._of_thread()
            work(*given)
            running, waiting = (self._of_thread() - before).tolist()
            self.running += running
            self.blocked += time.perf_counter_ns() - began - running - waiting

        return run

    def spent(self, pictures: int) -> Spent:
        return Spent(self.running / pictures / 1e3, self.blocked / pictures / 1e3)

    @staticmethod
    def _of_thread() -> NDArray[np.int64]:
        """Return the nanoseconds for which this thread ran, and waited for a core."""
        return np.array(Path("/proc/thread-self/schedstat").read_text().split()[:2], np.int64)


class Parts:
    """A shuffled epoch over encoded pictures, with more and more of what a loader does."""

    def __init__(self, folder: Path) -> None:
        self.task = sd.task(folder)
        examples = self.task.dataset("train")
        self.data = examples.read(range(len(examples)))
        self.order = np.random.default_rng(0).permutation(len(self.data))
        self.loaders = [self._loader(), self._loader()]
        self.loaders[True].examples.read = lambda numbers: [self.data[number] for number in numbers]
        self.batches = [np.empty((BATCH, *decode(self.data[0]).shape), np.uint8) for _ in range(4)]

    def _loader(self) -> Loader:
        return self.task.loader("train", sampler="shuffle", batch_size=BATCH, workers=THREADS)

    def by_name(self) -> dict[str, Callable[[Clock], None]]:
        return {
            "the decoder alone, into the memory of one picture": lambda clock: self._decode(clock, self._one),
            "... into the memory of batches": lambda clock: self._decode(clock, self._into),
            "... with our checks of size and budget": lambda clock: self._decode(clock, self._checked),
            "loader, bytes in memory": lambda clock: self._load(clock, in_memory=True),
            "... read from shards": self._load,
        }

    def _decode(self, clock: Clock, decode_batch: Callable[[int, list[int]], None]) -> None:
        def work(number: int) -> None:
            for at in range(number * BATCH, len(self.order), THREADS * BATCH):
                decode_batch(at // BATCH, self.order[at : at + BATCH].tolist())

        workers = [Thread(target=clock.timed(work), args=(number,)) for number in range(THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _one(self, number: int, wanted: list[int]) -> None:
        for example in wanted:
            simplejpeg.decode_jpeg(self.data[example], buffer=self.batches[number % THREADS][0])

    def _into(self, number: int, wanted: list[int]) -> None:
        for place, example in zip(self.batches[number % 4], wanted, strict=False):
            simplejpeg.decode_jpeg(self.data[example], buffer=place)

    def _checked(self, number: int, wanted: list[int]) -> None:
        for place, example in zip(self.batches[number % 4], wanted, strict=False):
            decode(self.data[example], out=place)

    def _load(self, clock: Clock, *, in_memory: bool = False) -> None:
        serve = threads._serve
        threads._serve = clock.timed(serve)
        try:
            for _ in self.loaders[in_memory]:
                pass
        finally:
            threads._serve = serve


def table(spent: dict[str, list[Spent]]) -> Iterator[str]:
    """Medians of the rounds, as Markdown; the ratio of running time is taken in each round."""
    yield "| part | running, us | waiting, us | running, to the decoder alone |"
    yield "|---|---|---|---|"
    alone = next(iter(spent.values()))
    for name, rounds in spent.items():
        running, blocked = (median(column) for column in zip(*rounds, strict=True))
        ratio = median(mine.running / base.running for mine, base in zip(rounds, alone, strict=True))
        yield f"| {name} | {running:.0f} | {blocked:.0f} | {ratio:.2f} |"


def main() -> None:
    """Build what is missing, measure, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=ROOT / "noisy")
    options = parser.parse_args()
    prepare(options.out)
    parts = Parts(options.out / "shift" / "bench_jpeg")
    spent = defaultdict[str, list[Spent]](list)
    for number in range(options.rounds):
        jobs = list(parts.by_name().items())
        for name, job in jobs[:: -1 if number % 2 else 1]:
            job(clock := Clock())
            spent[name].append(clock.spent(len(parts.data)))
    print(*table({name: spent[name] for name in parts.by_name()}), sep="\n")


if __name__ == "__main__":
    main()
