"""Batches of examples for training: decoded by threads into one array a batch, resumable to the batch."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.schema import Feature
from shiftdata.data.loading.batches.arrays import Arrays, stacked, tensor, torch_or_none
from shiftdata.data.loading.batches.decode import Pixels
from shiftdata.data.loading.batches.examples import Examples, Job
from shiftdata.data.loading.order import Batches, EpochSampler, InOrder, Ranks, RowSampler, Sampler
from shiftdata.errors import InputError, IntegrityError, not_found
from shiftdata.files import absolute
from shiftdata.stable import hash64, rng
from shiftdata.threads import ahead, available_cores

if TYPE_CHECKING:
    from shiftdata.data.loading.batches.decoded import Decoded

#: What to do about an example that cannot be read: stop, or go on with the others and report it.
OnError: TypeAlias = Literal["error", "skip"]
#: What ranks share: the rows of an epoch, each for batches of its own, or the rows of every batch.
Share: TypeAlias = Literal["epoch", "batch"]
#: The most bytes of decoded pictures that are kept in a folder.
DECODED_LIMIT = 10 * 2**30
#: x, y (unless labels are hidden), and what else is known of each example.
Batch: TypeAlias = tuple[Any, ...]
#: Makes another x of a whole batch's x, with a generator for what is random.
BatchTransform: TypeAlias = Callable[[Any, np.random.Generator], Any]
#: A batch to be made, and what reads the examples of it that must be read.
_Ahead: TypeAlias = tuple[Job, Callable[[], list[Any]]]
#: Why examples of a batch cannot be read, by their places in it.
_Faults: TypeAlias = dict[int, str]


class Loader:
    """Iterates over the batches `(x, y, metadata)` of one epoch, then of the next.

    x is uint8, pictures x 3 x height x width, a view of memory with channels last; of a table float32, rows x
    `features`; of texts a list, as it is of rows with a text among their features. y are the labels' numbers;
    `metadata` has group, nuisance and position (the row in `task.table(...)`), torch tensors where torch is
    installed, else numpy arrays, and key, a list. Where labels are hidden a batch is `(x, metadata)`, without
    group, and key are hashes as int64. `len` is the number of batches in an epoch.

    The batches depend only on seed, epoch, sampler and rank. With 0 `workers` the caller's thread decodes.
    A transform of the `examples` runs in the threads: the arrays, tensors or numbers that it makes are
    stacked, anything else comes as a list. Then `batch_transform` gets each batch's x and a generator keyed
    by seed, epoch, rank and batch. With `on_error="skip"` an example that cannot be read is left out of its
    batch, and `skipped` says why.
    Beginning another iteration ends the one before, and an epoch that was left early begins again.

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
        batch_transform: BatchTransform | None = None,
        drop_last: bool = False,
        on_error: OnError = "error",
        decoded: bool | str | Path = False,
        decoded_limit: int = DECODED_LIMIT,
        rank: int | None = None,
        world: int | None = None,
        share: Share = "epoch",
    ) -> None:
        if batch_size < 1 or (workers or 0) < 0 or decoded_limit < 0:
            raise InputError(
                "batch_size must be at least 1, workers at least 0, decoded_limit too; got "
                f"{batch_size}, {workers} and {decoded_limit}"
            )
        if decoded and examples.modality != "image":
            raise InputError(f"decoded is for pictures, and these are of a {examples.modality}: leave it out")
        if on_error not in ("error", "skip"):
            raise InputError(f"on_error must be 'error' or 'skip', got {on_error!r}")
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
        self.skipped: dict[str, str] = {}
        self._batch_transform = batch_transform
        self._on_error = on_error
        self._epoch = self._done = self._start = 0
        self._decoded: Decoded | None = None
        self._to_decoded = decoded, decoded_limit
        self._shape: tuple[int, ...] | None = None
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
        """Where the iteration is, fit for JSON: after the batch that was handed out last."""
        return {"key": self._key, "epoch": self._epoch, "done": self._done, "skipped": dict(self.skipped)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the batch at which the state was taken; the number of workers may be another."""
        if state.get("key") != self._key:
            raise InputError(
                "the state is of another loader: make it of the same task and set with the sampler, seed, "
                "batch_size, drop_last and world it had then"
            )
        self._stop()
        self._epoch, self._done, self._start = state["epoch"], state["done"], state["done"]
        self.skipped = dict(state["skipped"])

    def close(self) -> None:
        """End the iteration, its threads, and the reader."""
        self._stop()
        self.examples.close()
        self._decoded = None

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
        self._look_into_decoded()
        # The caller waits for a single batch in any case: no thread is begun for it.
        left = len(self) - start
        workers = min(self.workers, left) if left > 1 else 0
        arrays = Arrays(2 * workers + 2)
        make = partial(self._make, arrays, epoch)
        jobs = self.examples.read_ahead(self._jobs(epoch, start))
        # Jobs end first, else threads would still wait for what is read ahead.
        with closing(ahead(make, jobs, workers)) as made, closing(jobs):
            for batch, skipped in made:
                self._done += 1
                if self._done == len(self):
                    # Before the batch is given away: a caller that counts, as Lightning does, asks no more.
                    self._epoch, self._done = epoch + 1, 0
                self.skipped.update(skipped)
                yield batch
        self._epoch, self._done = epoch + 1, 0
        if self.skipped:
            key, reason = next(iter(self.skipped.items()))
            warnings.warn(
                f"{len(self.skipped):,} examples cannot be read and were skipped, first {key} ({reason}): "
                "see `loader.skipped`",
                stacklevel=2,
            )

    def _look_into_decoded(self) -> None:
        folder, limit = self._to_decoded
        if folder and self._decoded is None:
            from shiftdata.data.loading.batches.decoded import Decoded, default_folder

            root = default_folder() if folder is True else absolute(folder)
            self._decoded = Decoded(root, limit, self.examples.size, self.examples.hashes())
        if self._decoded is not None:
            self._decoded.begin()

    def _jobs(self, epoch: int, start: int) -> Iterator[Job]:
        first = start if self.examples.transform is None else 0  # what came before counts for a transform
        seen = np.zeros(len(self.examples), np.int32)
        for number, wanted in enumerate(self.batches.items_of(epoch, first), first):
            times = self.examples.times(wanted, seen)  # of all ranks: an example may come to another next
            if self._part.world > 1:
                part = _part_of(len(wanted), self._part)
                wanted, times = wanted[part], times[part]
            if number >= start:
                missing = wanted if self._decoded is None else self._decoded.missing(wanted)
                yield number, missing, wanted, times

    def _make(self, arrays: Arrays, epoch: int, job: _Ahead) -> tuple[Batch, Mapping[str, str]]:
        """A batch, and why examples are missing in it, by key."""
        (number, _, wanted, _), examples = job[0], self.examples
        x, faults = self._x(arrays, epoch, job)
        skipped = {examples.keys([wanted[place]])[0]: why for place, why in faults.items()}
        if len(skipped) == len(wanted):
            key, reason = next(iter(skipped.items()))
            raise IntegrityError(f"no example of batch {number} can be read, first {key}: {reason}")
        x = stacked(x) if isinstance(x, list) else tensor(x.transpose(0, 3, 1, 2) if x.ndim == 4 else x)
        if self._batch_transform is not None:
            names = ("batch-transform", epoch, self.batches.ranks.rank, number)
            x = self._batch_transform(x, rng(examples.seed, *names))
        kept = [one for place, one in enumerate(wanted) if place not in faults]
        known = {name: tensor(column[kept]) for name, column in examples.known.items()}
        if examples.labels is None:
            return (x, known), skipped
        known["key"] = examples.keys(kept)
        return (x, tensor(examples.labels[kept]), known), skipped

    def _x(self, arrays: Arrays, epoch: int, job: _Ahead) -> tuple[Pixels | list[Any], _Faults]:
        """The x of a batch, pictures in one array, and why some examples cannot be read."""
        (_, _, wanted, times), examples = job[0], self.examples
        faults: _Faults = {}
        block = examples.block(wanted)
        if block is not None and examples.transform is None:
            return block, faults
        together = None
        if examples.modality == "image" and (examples.transform is None or self._decoded is not None):
            together = self._together(arrays, job, faults)
        if together is None:
            faults.clear()
            given = self._decode(job, range(len(wanted)), lambda place: None, faults)
            pairs = ((place, x) for place, x, _ in given)
        elif examples.transform is None:
            return np.delete(together, list(faults), 0) if faults else together, faults
        else:
            pairs = ((place, x) for place, x in enumerate(together) if place not in faults)
        return [examples.transformed(x, wanted[place], times[place], epoch) for place, x in pairs], faults

    def _together(self, arrays: Arrays, job: _Ahead, faults: _Faults) -> Pixels | None:
        """The pictures of a batch, decoded now or before; None where they differ in size and may."""
        wanted = job[0][2]
        batch, there = None, np.zeros(len(wanted), bool)
        if self._decoded is not None:
            batch, there = self._decoded.take(wanted, arrays)
        if batch is None and self._shape is not None:
            batch = arrays.new(len(wanted), *self._shape)
        new: dict[int, bytes] = {}
        missing = np.flatnonzero(~there).tolist()
        given = self._decode(job, missing, lambda place: None if batch is None else batch[place], faults)
        for place, x, data in given:
            if batch is None or x.shape != batch.shape[1:]:
                if batch is not None and (new or there.any()):
                    self._refuse_sizes(wanted[place], x.shape, batch.shape[1:])
                    return None
                self._shape = x.shape
                batch = arrays.new(len(wanted), *x.shape)
                batch[place] = x
            new[place] = data
        if self._decoded is not None and batch is not None:
            kept = batch[list(new)] if len(new) < len(batch) else batch
            self._decoded.put([wanted[place] for place in new], kept, list(new.values()))
        return batch

    def _refuse_sizes(self, number: int, size: tuple[int, ...], before: tuple[int, ...]) -> None:
        """Do without what was decoded, since a transform may make pictures alike; else it is an error."""
        if self.examples.transform is None or self._decoded is None:
            raise InputError(
                f"pictures differ in size, {self.examples.keys([number])[0]} has {size[:2]} beside "
                f"{before[:2]}: give size=(height, width)"
            )
        self._decoded.give_up()

    def _decode(
        self, job: _Ahead, places: Sequence[int], out: Callable[[int], Pixels | None], faults: _Faults
    ) -> Iterator[tuple[int, Any, Any]]:
        """Read and decode the examples at some places of a batch: place, x and what was read."""
        (_, expected, wanted, _), read = job
        if not places:
            self.examples.check_unchanged()
            return
        missing = [wanted[place] for place in places]
        read = read if missing == expected else partial(self.examples.read, missing)
        for place, data in zip(places, self._read(missing, read), strict=True):
            try:
                if isinstance(data, Exception):
                    raise data
                x = self.examples.decoded(wanted[place], data, out(place))
            except IntegrityError as error:
                if self._on_error == "error":
                    raise self.examples.named(wanted[place], error) from error
                faults[place] = str(error)
            else:
                yield place, x, data

    def _read(self, wanted: list[int], read: Callable[[], list[Any]]) -> list[Any]:
        """The encoded examples; in the place of one that cannot be read and may be skipped, its error."""
        try:
            return read()
        except IntegrityError as error:
            if self._on_error == "error":
                raise
            alone = [(one, partial(self.examples.read, [one])) for one in wanted]
            return [error] if len(wanted) == 1 else [self._read([one], read)[0] for one, read in alone]


def _part_of(size: int, ranks: Ranks) -> slice:
    """The stretch of a batch that a rank gets; where it does not divide, the first ranks get one more."""
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
