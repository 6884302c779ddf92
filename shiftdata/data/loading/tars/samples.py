"""The samples of a split in tars, in an order that depends on seed and epoch, shared by ranks and workers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.paths import in_order
from shiftdata.data.loading.byte_ranges import ExampleReader, read_ahead
from shiftdata.data.loading.order import Ranks
from shiftdata.data.loading.tars.epochs import Epochs, worker_info
from shiftdata.data.loading.tars.index import Index, Numbers, Sample
from shiftdata.errors import InputError
from shiftdata.stable import hash64, rng

#: Samples that are read at once.
TOGETHER = 64


@dataclass(frozen=True)
class Iteration:
    """An epoch, the sample of the rank that it starts from, and how many more this worker skips."""

    epoch: int
    start: int = 0
    skipped: int = 0


class Samples:
    """The source of a pipeline: call it for the samples of an iteration that `begin` gave.

    The order is a function of seed and epoch. With a `shuffle` of n, stretches of about 4 MB of the tars are
    put into a random order, and each sample moves by less than n places from there; with 0 it is the order of
    the tars. Each rank gets one stretch of the order, equally many samples, and each of its workers one
    stretch of that: as many whole batches of `batch_size` as a loader takes from it in turns.
    """

    def __init__(
        self,
        dataset: OpenDataset,
        base: str,
        split: str,
        *,
        shuffle: int = 0,
        seed: int = 0,
        batch_size: int = 1,
        ranks: Ranks | None = None,
    ) -> None:
        if shuffle < 0 or batch_size < 1:
            raise InputError(
                f"shuffle must be at least 0 and batch_size at least 1, got {shuffle} and {batch_size}"
            )
        self.dataset, self.base, self.split = dataset, base, split
        self.shuffle, self.seed, self.batch_size = shuffle, seed, batch_size
        self.ranks = ranks or Ranks()
        self.epochs = Epochs()
        self._now: Iteration | None = None
        self._resume: Iteration | None = None
        self._done = 0
        if self.size < 1:
            raise InputError(
                f"the {len(self.index):,} samples of {base}/{split} are too few for {self.ranks.world} ranks "
                "with drop_last: leave it out"
            )

    @cached_property
    def index(self) -> Index:
        key = ("samples", self.base, self.split)
        return self.dataset.keep(key, lambda: Index.of(self.dataset, self.base, self.split))

    @cached_property
    def reader(self) -> ExampleReader:
        """Each process has one, whose files stay open between epochs."""
        return ExampleReader(self.dataset, self.base, whole=True)

    def close(self) -> None:
        """Let go of files and connections; `.close()` of a pipeline does it."""
        self.reader.close()

    @property
    def size(self) -> int:
        """How many samples of an epoch this rank gets."""
        return self.ranks.size(len(self.index))

    def in_batches(self, batch_size: int) -> Self:
        """The same samples, of which a worker takes whole batches of this size."""
        made = copy(self)
        made.batch_size = batch_size
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("index", "reader")}

    # --- where an iteration is

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        if epoch < 0 or not 0 <= start <= self.size:
            raise InputError(
                f"epoch must be at least 0, and start from 0 to the {self.size:,} samples of this rank; got "
                f"{epoch} and {start}"
            )
        self._now = self._resume = None
        self.epochs.choose(epoch, start)

    def begin(self) -> Iteration:
        """Take the next epoch, or the one that is resumed."""
        if self._resume is None:
            now = Iteration(*self.epochs.begin())
        else:
            now, self._resume = self._resume, None
            self.epochs.go_on(now.epoch)
        self._now, self._done = now, 0
        return now

    def state_dict(self) -> dict[str, Any]:
        worker = worker_info()
        if worker is None and self.epochs.in_workers:
            raise InputError(
                "the samples are read in workers, and only their loader knows how far: take the state of "
                "torchdata's StatefulDataLoader, or count the samples that were used and call "
                "set_epoch(epoch, start)"
            )
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        now = self._resume or self._now or Iteration(*self.epochs.next)
        done = self._done if now is self._now else 0
        if worker is None and now.start + done == self.size:  # of a worker, the others may still be at it
            now, done = Iteration(now.epoch + 1), 0
        place = {"epoch": now.epoch, "start": now.start, "done": now.skipped + done}
        return {"key": self._key, **place, "worker": number, "workers": count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        worker = worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        if state.get("key") != self._key:
            raise InputError(
                "the state is of another pipeline: make it of the same tars and split, with the shuffle, "
                "seed, batch size, drop_last, rank and world it had then"
            )
        if state["workers"] == 1:
            self.set_epoch(state["epoch"], state["start"] + state["done"])
        elif (state["worker"], state["workers"]) == (number, count):
            self._resume = Iteration(state["epoch"], state["start"], state["done"])
        else:
            raise InputError(
                f"the state is of worker {state['worker']} of {state['workers']}, and this is {number} of "
                f"{count}: load it with as many workers as it was taken with"
            )

    @property
    def _key(self) -> int:
        names = (self.base, self.split, self.seed, self.shuffle, self.batch_size)
        ranks = (self.ranks.rank, self.ranks.world, int(self.ranks.drop_last))
        return hash64("tars", self.dataset.sha256, *names, *ranks)

    # --- order and shares

    def order(self, epoch: int) -> Numbers:
        """The samples of an epoch on all ranks, by their places in the split."""
        every = np.arange(len(self.index))
        if not self.shuffle:
            return every
        generator = rng(self.seed, "tars", self.base, self.split, epoch)
        stretches = np.split(every, np.flatnonzero(np.diff(self.index.stretches)) + 1)
        mixed = np.concatenate([stretches[number] for number in generator.permutation(len(stretches))])
        # A buffer of n without the buffer: sorted by place + U(0, n), a sample moves by less than n. Without
        # a state, any place of the epoch is reached and nothing read that comes before.
        places = every + self.shuffle * generator.random(len(every))
        return mixed[np.argsort(places, kind="stable")]

    def share(self, now: Iteration, worker: int = 0, workers: int = 1) -> Numbers:
        """The samples that a worker of this rank hands out in an iteration."""
        size, batch = self.size, self.batch_size
        # One stretch each: ranks that took turns would each fetch every tar.
        first = self.ranks.rank * size
        mine = np.resize(self.order(now.epoch), size * self.ranks.world)[first : first + size]
        if workers == 1:
            return mine[now.start + now.skipped :]
        if now.start % batch and now.start != size:
            raise InputError(
                f"start={now.start} is not a multiple of batch_size={batch}: with workers, whole batches "
                "were used; give the pipeline the batch_size of its DataLoader"
            )
        used = -(-now.start // batch)
        # The loader asks its first worker first, which goes on where the batch after the used ones would be.
        worker = (worker + used) % workers
        batches = [len(range(one, -(-size // batch), workers)) for one in range(workers)]
        last = (-(-size // batch) - 1) % workers  # whose last batch may be smaller
        sizes = [count * batch for count in batches]
        sizes[last] -= -size % batch
        begin = sum(sizes[:worker])
        skipped = batch * len(range(worker, used, workers)) + now.skipped
        return mine[begin : begin + sizes[worker]][skipped:]

    # --- samples

    def __call__(self, now: Iteration) -> Generator[Sample]:
        worker, index = worker_info(), self.index
        mine = self.share(now, worker.id, worker.num_workers) if worker else self.share(now)
        parts = [mine[at : at + TOGETHER] for at in range(0, len(mine), TOGETHER)]
        splits = self.dataset.manifest.base(self.base).splits
        before = in_order(splits)[: in_order(splits).index(self.split)]
        first = sum(splits[split].rows for split in before)
        with closing(_read(self.reader, [first + part for part in parts])) as read:
            for part, data in zip(parts, read, strict=True):
                for number, sample in zip(part.tolist(), data, strict=True):
                    if self._now is now:
                        self._done += 1
                    yield index.sample(number, sample)


def _read(reader: ExampleReader, parts: Sequence[Numbers]) -> Generator[list[bytes]]:
    """The bytes of the samples at some positions, part by part; from afar, many parts ahead."""
    if not reader.ahead:
        yield from (reader.read(part.tolist()) for part in parts)
        return
    with closing(read_ahead(reader, zip(parts, parts, strict=True))) as batches:
        for _, take in batches:
            yield take()
