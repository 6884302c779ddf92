"""Batches of examples for training: decoded by threads into one array a batch, resumable to the batch."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.schema import Feature
from shiftdata.data.loading.batches.arrays import torch_or_none
from shiftdata.data.loading.batches.assembly import UNDER_WAY, Assembler, Batch
from shiftdata.data.loading.batches.examples import Examples, Job
from shiftdata.data.loading.order import Batches, EpochSampler, InOrder, Ranks, RowSampler, Sampler
from shiftdata.errors import InputError, not_found
from shiftdata.stable import hash64
from shiftdata.threads import ahead, available_cores

#: Ranks share the rows of an epoch, each for batches of its own, or the rows of every batch.
Share: TypeAlias = Literal["epoch", "batch"]


class Loader:
    """Iterates over the batches `(x, y, metadata)` of one epoch, then of the next.

    x is uint8, pictures x 3 x height x width, a view of memory with channels last; of a table float32, rows x
    `features`; of texts a list, as it is of rows with a text among their features. y are the labels' numbers;
    `metadata` has group, nuisance and position (the row in `task.table(...)`), torch tensors where torch is
    installed, else numpy arrays, and key, a list. Where labels are hidden a batch is `(x, metadata)`, without
    group, and key are hashes as int64. `len` is the number of batches in an epoch.

    The batches depend only on seed, epoch, sampler and rank. With 0 `workers` the caller's thread decodes.
    A transform of the `examples` runs in the threads: the arrays, tensors or numbers that it makes are
    stacked, anything else comes as a list.
    Beginning another iteration ends the one before, and an epoch that was left early begins again.

    With `pin_memory` the threads put tensors into pinned memory where torch has a GPU, and without one into
    ordinary memory: `x.to(device, non_blocking=True)` then copies while the program goes on, and x may be
    dropped at once.

    `names` has the names of the numbers: `loader.names["group"][int(known["group"][0])]` is "bird / leaves".

    A sampler that makes batches keeps its batch_size. One that was made for some rank keeps it unless `rank`
    and `world` are given here. With `share="batch"` batch_size is that of all ranks together, and each rank
    gets its stretch of every batch: for a loss over the whole batch, which ranks gather.
    """

    def __init__(
        self,
        examples: Examples,
        sampler: Sampler | Sequence[int] | NDArray[np.int64] | None,
        *,
        batch_size: int,
        workers: int | None = None,
        drop_last: bool = False,
        pin_memory: bool = False,
        rank: int | None = None,
        world: int | None = None,
        share: Share = "epoch",
    ) -> None:
        if batch_size < 1 or (workers or 0) < 0:
            raise InputError(
                f"batch_size must be at least 1 and workers at least 0, got {batch_size} and {workers}"
            )
        self.examples = examples
        if not isinstance(sampler, EpochSampler):
            sampler = InOrder(_positions(sampler, len(examples)))
        given = rank is not None or world is not None
        ranks = Ranks.of(rank, world) if given else sampler.ranks
        batches = Batches(sampler, batch_size) if isinstance(sampler, RowSampler) else sampler
        drop_last = drop_last or sampler.ranks.drop_last
        if share not in get_args(Share):
            raise not_found("share", share, get_args(Share))
        # Of one batch, a rank with nothing to read would leave the others waiting for it.
        self._part = ranks if share == "batch" else Ranks()
        self.batches = batches.among(replace(Ranks() if share == "batch" else ranks, drop_last=drop_last))
        # Only pictures are decoded outside of the interpreter's lock: one thread reads ahead of all else.
        most = available_cores() if examples.modality == "image" else 1
        self.workers = most if workers is None else workers
        self._epoch = self._done = self._start = 0
        self._assembler = Assembler(examples, pin=pin_memory)
        # Weak, so that a loop that is left drops its iteration, and that its threads.
        self._running: weakref.ref[Generator[Batch]] | None = None
        torch_or_none()  # imported here, not in the middle of the first batch

    def __repr__(self) -> str:
        return f"<Loader: {len(self):,} batches of {self.examples!r}>"

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        """The names of label, nuisance and group, by the numbers that batches have; of hidden ones none."""
        return self.examples.names

    def __len__(self) -> int:
        return self.batches.size

    @property
    def features(self) -> Mapping[str, Feature]:
        """The columns of a table's x, in order: the type of each, or the names of its categories."""
        return self.examples.features

    def __iter__(self) -> Generator[Batch]:
        self._stop()
        iteration = self._epoch_from(self._start)
        self._start, self._running = 0, weakref.ref(iteration)
        return iteration

    def set_epoch(self, epoch: int) -> None:
        """Choose the next iteration's epoch; without it, each is the one after that which was finished.

        Choosing the epoch of a state that was just loaded changes nothing: it goes on in mid-epoch.
        """
        if epoch < 0:
            raise InputError(f"epoch must be at least 0, got {epoch}")
        if epoch != self._epoch:
            self._epoch, self._done, self._start = epoch, 0, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the place of the iteration, fit for JSON: after the batch that was handed out last."""
        return {"key": self._key, "epoch": self._epoch, "done": self._done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the batch at which the state was taken; the number of workers may be another."""
        if state.get("key") != self._key:
            raise InputError(
                "the state is of another loader: make it of the same task and set with the sampler, seed, "
                "batch_size, drop_last and world it had then"
            )
        self._stop()
        self._epoch, self._done, self._start = state["epoch"], state["done"], state["done"]

    def close(self) -> None:
        """End the iteration, its threads, and the reader."""
        self._stop()
        self.examples.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self) -> None:
        iteration = self._running and self._running()
        if iteration:
            iteration.close()

    @cached_property
    def _key(self) -> int:
        return hash64("loader", self.examples.identity(), self.batches.state["key"])

    def _epoch_from(self, start: int) -> Generator[Batch]:
        self._done = start
        epoch = self._epoch
        # The caller waits for a single batch in any case: no thread is begun for it.
        workers = self.workers if len(self) - start > 1 else 0
        jobs = self.examples.read_ahead(self._jobs(epoch, start))
        parts = self._assembler.parts(jobs, epoch, workers)
        # Jobs end first, else threads would still wait for what is read ahead.
        with closing(ahead(self._assembler.make, parts, workers, queued=UNDER_WAY)) as made, closing(jobs):
            for underway in made:
                if underway is None:
                    continue
                self._done += 1
                if self._done == len(self):
                    # Before the batch is given away: a caller that counts, as Lightning does, asks no more.
                    self._epoch, self._done = epoch + 1, 0
                yield underway.take()
        self._epoch, self._done = epoch + 1, 0

    def _jobs(self, epoch: int, start: int) -> Iterator[Job]:
        first = start if self.examples.transform is None else 0  # what came before counts for a transform
        seen = np.zeros(len(self.examples), np.int32)
        for number, wanted in enumerate(self.batches.items_of(epoch, first), first):
            times = self.examples.times(wanted, seen)  # of all ranks: an example may come to another next
            if self._part.world > 1:
                part = _part_of(len(wanted), self._part)
                wanted, times = wanted[part], times[part]
            if number >= start:
                yield wanted, times


def _part_of(size: int, ranks: Ranks) -> slice:
    """Return the stretch of a batch of a rank; where it does not divide, the first ranks get one more."""
    each, more = divmod(size, ranks.world)
    begin = ranks.rank * each + min(ranks.rank, more)
    return slice(begin, begin + each + (ranks.rank < more))


def _positions(given: Sequence[int] | NDArray[np.int64] | None, examples: int) -> NDArray[np.int64]:
    if given is None:
        return np.arange(examples)
    positions = np.asarray(given)
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or not len(positions):
        raise InputError(
            "sampler is a sampler's name, one that `task.sampler` made, or positions in the set (whole "
            f"numbers); got {given!r:.80}"
        )
    low, high = positions.min(), positions.max()
    if low < 0 or high >= examples:
        raise InputError(f"positions must be from 0 to {examples - 1:,}, got {low:,} to {high:,}")
    return positions.astype(np.int64)
