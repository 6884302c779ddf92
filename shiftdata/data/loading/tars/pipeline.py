"""The samples of a split in tars, in an order of seed and epoch, as the source of a `webdataset` pipeline."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from webdataset import DataPipeline
from webdataset.compat import FluidInterface

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.paths import data_files, in_order, index_file
from shiftdata.data.loading.byte_ranges import ExampleReader, read_ahead
from shiftdata.data.loading.byte_ranges.layout import member_bounds, sample_names
from shiftdata.data.loading.byte_ranges.reader import AHEAD
from shiftdata.data.loading.order import Ranks
from shiftdata.data.metadata.columns import read_columns
from shiftdata.errors import InputError
from shiftdata.stable import rng

#: A sample as the `webdataset` library has it: members by their extensions, `__key__` and `__url__`.
Sample: TypeAlias = dict[str, Any]

#: Bytes of a tar that stay together when an epoch is mixed: of a place far away, one request.
STRETCH = 4 << 20
#: Samples that are read at once.
TOGETHER = 64


class Pipeline(DataPipeline, FluidInterface):  # type: ignore[misc]  # the library has no types
    """An iterable dataset: `.map(...)`, `.to_tuple(...)`, `.batched(...)` and all that the library has."""

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Choose the epoch of the next iteration, workers' too, and the sample of this rank it starts from.

        With workers, `start` counts whole batches of `batch_size`, and there are as many workers as before.
        A loader that starts its workers again in each epoch needs this call before each of them.
        """
        self.pipeline[0].set_epoch(epoch, start)

    def state_dict(self) -> dict[str, Any]:
        """Return the place of this process's iteration, fit for JSON: shard and sample that come next.

        Whole batches of `batch_size` count as used, and what waits in a buffer of your own (`.shuffle(n)`). A
        worker's state is of that worker: torchdata's `StatefulDataLoader` asks each of them.
        """
        state: dict[str, Any] = self.pipeline[0].state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on there with the next iteration, in the middle of an epoch and of a shard."""
        self.pipeline[0].load_state_dict(state)


class Samples:
    """The source of a pipeline: each call is an iteration.

    With a `shuffle` of n, stretches of about 4 MB of the tars are put into a random order, and each sample
    moves by less than n places from there; with 0 it is the order of the tars. Each rank gets one stretch of
    the order, equally many samples, and each of its workers one stretch of that: as many whole batches of
    `batch_size` as a loader takes from it in turns.
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
        self._chosen: Any = np.zeros(3, np.int64)  # epoch, start, and how often they were chosen
        if torch := sys.modules.get("torch"):
            self._chosen = torch.from_numpy(self._chosen).share_memory_()  # workers that live on see it
        self._begun = (-1, 0)  # how often an epoch was chosen, and iterations of this process since
        self._iterating: tuple[int, int, IntArray] | None = None  # epoch, start and samples of this process
        self._done, self._ended = 0, False  # of these; whether all were handed out
        self._resumed: Mapping[str, Any] | None = None
        if self.size < 1:
            few = f"{len(self.index):,} samples for {self.ranks.world} ranks"
            raise InputError(f"{base}/{split} has {few}: leave out drop_last")

    @property
    def index(self) -> pa.Table:
        """Name, url, stretch and members of each sample, read once for an opened dataset."""
        key = ("samples", self.base, self.split)
        return self.dataset.keep(key, lambda: _index(self.dataset, self.base, self.split))

    @cached_property
    def reader(self) -> ExampleReader:
        """Each process has one, whose files stay open between epochs; workers share the memory."""
        worker = _worker()
        ahead = AHEAD // (worker.num_workers if worker else 1)
        return ExampleReader(self.dataset, self.base, ahead=ahead, whole=True)

    def close(self) -> None:
        """Close files and connections; `.close()` of a pipeline calls it."""
        self.reader.close()

    @property
    def size(self) -> int:
        """Count the samples of an epoch on this rank."""
        return self.ranks.size(len(self.index))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "reader"}

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        if epoch < 0 or not 0 <= start <= self.size:
            raise InputError(
                f"epoch must be at least 0, and start from 0 to the {self.size:,} samples of this rank; got "
                f"{epoch} and {start}"
            )
        times = int(self._chosen[2])
        self._chosen[0], self._chosen[1], self._chosen[2] = epoch, start, times + 1

    def state_dict(self) -> dict[str, Any]:
        if self._iterating is None:
            return {}
        epoch, start, mine = self._iterating
        # Of a batch that is not whole, the library has read ahead.
        done = self._done - self._done % self.batch_size
        return self._placed(epoch, start, len(mine) if self._ended else done, mine)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._resumed = dict(state)

    def _placed(self, epoch: int, start: int, done: int, mine: IntArray) -> dict[str, Any]:
        """Describe a place among the samples of this process: how many are used, and which is the next."""
        following = self.index.take(mine[done : done + 1]).select(["__url__", "__key__"]).to_pylist()
        shard, sample = following[0].values() if following else (None, None)
        shard = shard and shard.rpartition("/")[2]  # the dataset may lie elsewhere next time
        return {"epoch": epoch, "start": start, "done": done, "shard": shard, "sample": sample}

    def order(self, epoch: int) -> IntArray:
        """Return the samples of an epoch on all ranks, by their places in the split."""
        every = np.arange(len(self.index))
        if not self.shuffle:
            return every
        generator = rng(self.seed, "tars", self.base, self.split, epoch)
        stretches = np.split(every, np.flatnonzero(np.diff(self.index["stretch"].to_numpy())) + 1)
        mixed = np.concatenate([stretches[number] for number in generator.permutation(len(stretches))])
        # A buffer of n without the buffer: sorted by place + U(0, n), a sample moves by less than n. Without
        # a state, any place of the epoch is reached and nothing read that comes before.
        places = every + self.shuffle * generator.random(len(every))
        return mixed[np.argsort(places, kind="stable")]

    def share(self, epoch: int, start: int = 0, worker: int = 0, workers: int = 1) -> IntArray:
        """Return the samples of a worker of this rank in an iteration."""
        size, batch = self.size, self.batch_size
        # One stretch each: ranks that took turns would each fetch every tar.
        first = self.ranks.rank * size
        mine = np.resize(self.order(epoch), size * self.ranks.world)[first : first + size]
        if workers == 1:
            return mine[start:]
        if start % batch and start != size:
            raise InputError(
                f"start={start} is not a multiple of batch_size={batch}: with workers, whole batches "
                "were used; give the pipeline the batch_size of its DataLoader"
            )
        used = -(-start // batch)
        # The loader asks its first worker first, which goes on where the batch after the used ones would be.
        worker = (worker + used) % workers
        batches = -(-size // batch)
        sizes = [batch * len(range(number, batches, workers)) for number in range(workers)]
        sizes[(batches - 1) % workers] -= -size % batch  # the last batch may be smaller
        begin = sum(sizes[:worker])
        return mine[begin : begin + sizes[worker]][batch * len(range(worker, used, workers)) :]

    def __call__(self) -> Iterator[Sample]:
        worker = _worker()
        resumed, self._resumed = self._resumed, None
        epoch, start = self._next(worker, resumed)
        mine = self.share(epoch, start, worker.id, worker.num_workers) if worker else self.share(epoch, start)
        done = resumed.get("done", 0) if resumed else 0
        if resumed and resumed != self._placed(epoch, start, done, mine):
            raise InputError(
                "the state is of another pipeline: make it of the same tars and split with the shuffle, "
                "seed, batch_size, ranks and workers it had then"
            )
        self._iterating, self._done, self._ended = (epoch, start, mine), done, False
        mine = mine[done:]
        parts = [mine[at : at + TOGETHER] for at in range(0, len(mine), TOGETHER)]
        splits = self.dataset.manifest.base(self.base).splits
        before = in_order(splits)[: in_order(splits).index(self.split)]
        first = sum(splits[split].rows for split in before)
        with closing(read_ahead(self.reader, ((part, first + part) for part in parts))) as batches:
            for part, take in batches:
                described = self.index.take(part).select(["__key__", "__url__"]).to_pylist()
                for known, places, data in zip(described, self._members(part), take(), strict=True):
                    self._done += 1
                    yield known | {name: data[begin:end] for name, begin, end in places}
        self._ended = True

    def _next(self, worker: Any, resumed: Mapping[str, Any] | None) -> tuple[int, int]:
        """Take the next epoch of this process, and where it starts."""
        epoch, start, times = map(int, self._chosen)
        if resumed:
            before, epoch = epoch, resumed.get("epoch", 0)
            self._begun = times, epoch - before
            return epoch, resumed.get("start", 0)
        count = self._begun[1] + 1 if self._begun[0] == times else 0
        self._begun = times, count
        if worker and not times:
            # Nobody chose an epoch. Workers of an iteration have torch's base seed in common, ranks have not.
            if self.ranks.world > 1:
                raise InputError("several ranks share the samples: call set_epoch before each epoch")
            epoch = worker.seed - worker.id
        return epoch + count, 0 if count else start

    def _members(self, part: IntArray) -> list[list[tuple[str, int, int]]]:
        """Locate the members that each of some samples has: name, begin and end, counted from its first."""
        names = self.dataset.manifest.sample
        starts, lengths = (
            np.stack([self.index[f"{name}_{which}"].to_numpy()[part] for name in names], axis=1)
            for which in ("start", "length")
        )
        return [
            [(name, at, at + length) for name, at, length in zip(names, *places, strict=True) if at >= 0]
            for places in zip(starts.tolist(), lengths.tolist(), strict=True)
        ]


def _worker() -> Any:
    """Return what torch knows of this worker; who has not imported it is none."""
    torch = sys.modules.get("torch.utils.data")
    return torch.get_worker_info() if torch else None


def _index(dataset: OpenDataset, base: str, split: str) -> pa.Table:
    """Read where the members of each sample lie, counted from its first; -1 for a member that it lacks."""
    manifest, members = dataset.manifest, tuple(dataset.manifest.sample)
    drawn = ["copy"] if manifest.base(base).task else []
    places = [f"{member}_{name}" for name in ("offset", "length") for member in members]
    tars = data_files(manifest.files, base, split)
    tables = [read_columns(dataset, index_file(tar), ["key", *drawn, *places]) for tar in tars]
    dataset.check_unchanged()  # else these places may be of another version
    table = pa.concat_tables(tables).combine_chunks()
    first, _ = member_bounds(table, members)
    tar = np.repeat(np.arange(len(tars)), [len(each) for each in tables])
    changes = (np.diff(np.stack([tar, first // STRETCH])) != 0).any(axis=0)
    columns = {
        "__key__": sample_names(table),
        "__url__": pa.array([f"{dataset.address}/{path}" for path in tars]).take(pa.array(tar)),
        "stretch": np.cumsum([0, *changes]),
    }
    for member in members:
        offset, length = (pc.fill_null(table[f"{member}_{name}"], -1) for name in ("offset", "length"))
        columns[f"{member}_start"] = np.where(offset.to_numpy() < 0, -1, offset.to_numpy() - first)
        columns[f"{member}_length"] = length.to_numpy()
    return pa.table(columns)
