"""Batches of examples for training: decoded by threads into one array a batch, resumable to the batch."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError, IntegrityError
from shiftdata.format.schema import Feature
from shiftdata.loading.batches.decode import Pixels
from shiftdata.loading.batches.examples import Examples, Job
from shiftdata.sampling import Batches, CellBatches, InOrder, Ranks, RowSampler, Sampler
from shiftdata.stable import hash64, rng
from shiftdata.threads import ahead, available_cores

#: What to do about an example that cannot be read: stop, or go on with the others and report it.
OnError: TypeAlias = Literal["error", "skip"]
#: x, y (unless labels are hidden), and what else is known of each example.
Batch: TypeAlias = tuple[Any, ...]
#: Makes another x of a whole batch's x, with a generator for what is random.
BatchTransform: TypeAlias = Callable[[Any, np.random.Generator], Any]
#: A batch to be made, and what reads its examples.
_Ahead: TypeAlias = tuple[Job, Callable[[], list[Any]]]


@dataclass(kw_only=True)
class _Filled:
    """Pictures in one array, or the x of each example; their numbers; those that cannot be read."""

    pixels: Pixels | None = None
    made: list[Any] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


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
    and `world` are given here.
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
        rank: int | None = None,
        world: int | None = None,
    ) -> None:
        if batch_size < 1 or (workers or 0) < 0:
            raise InputError(
                f"batch_size must be at least 1, workers at least 0; got {batch_size} and {workers}"
            )
        if on_error not in ("error", "skip"):
            raise InputError(f"on_error must be 'error' or 'skip', got {on_error!r}")
        self.examples = examples
        if not isinstance(sampler, RowSampler | Batches | CellBatches):
            sampler = InOrder(_positions(sampler, len(examples)))
        given = rank is not None or world is not None
        ranks = Ranks.of(rank, world) if given else sampler.ranks
        batches = Batches(sampler, batch_size) if isinstance(sampler, RowSampler) else sampler
        self.batches = batches.among(replace(ranks, drop_last=drop_last or sampler.ranks.drop_last))
        # Only pictures are decoded outside of the interpreter's lock: one thread reads ahead of all else.
        most = available_cores() if examples.modality == "image" else 1
        self.workers = most if workers is None else workers
        self.skipped: dict[str, str] = {}
        self._batch_transform = batch_transform
        self._on_error = on_error
        self._epoch = self._done = self._start = 0
        # Weak, so that a loop that is left drops its iteration, and that its threads.
        self._running: weakref.ref[Generator[Batch]] | None = None
        _torch()  # imported here, not in the middle of the first batch

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
        self.examples.reader.close()

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
        jobs = self.examples.read_ahead(self._jobs(epoch, start))
        # Jobs end first, else threads would still wait for what is read ahead.
        with closing(ahead(partial(self._make, epoch), jobs, self.workers)) as made, closing(jobs):
            for batch, skipped in made:
                self._done += 1
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

    def _jobs(self, epoch: int, start: int) -> Iterator[Job]:
        first = start if self.examples.transform is None else 0  # what came before counts for a transform
        seen = np.zeros(len(self.examples), np.int32)
        for number, wanted in enumerate(self.batches.items_of(epoch, first), first):
            times = self.examples.times(wanted, seen)
            if number >= start:
                yield number, wanted, times

    def _make(self, epoch: int, job: _Ahead) -> tuple[Batch, Mapping[str, str]]:
        """A batch, and why examples are missing in it, by key."""
        number, examples = job[0][0], self.examples
        filled = self._fill(epoch, job)
        if not filled.kept:
            key, reason = next(iter(filled.skipped.items()))
            raise IntegrityError(f"no example of batch {number} can be read, first {key}: {reason}")
        if filled.pixels is not None:
            x = _tensor(filled.pixels[: len(filled.kept)].transpose(0, 3, 1, 2))
        else:
            x = _stacked(filled.made)
        if self._batch_transform is not None:
            names = ("batch-transform", epoch, self.batches.ranks.rank, number)
            x = self._batch_transform(x, rng(examples.seed, *names))
        kept = np.array(filled.kept)
        known = {name: _tensor(column[kept]) for name, column in examples.known.items()}
        if examples.labels is None:
            return (x, known), filled.skipped
        known["key"] = examples.keys(filled.kept)
        return (x, _tensor(examples.labels[kept]), known), filled.skipped

    def _fill(self, epoch: int, job: _Ahead) -> _Filled:
        (_, wanted, times), read = job
        filled, examples = _Filled(), self.examples
        for number, before, data in zip(wanted, times, self._read(wanted, read), strict=True):
            try:
                if isinstance(data, Exception):
                    raise data
                out = None if filled.pixels is None else filled.pixels[len(filled.kept)]
                x = examples.decoded(number, data, out)
            except IntegrityError as error:
                if self._on_error == "error":
                    raise examples.named(number, error) from error
                filled.skipped[examples.keys([number])[0]] = str(error)
                continue
            if examples.transform is not None:
                filled.made.append(examples.transformed(x, number, before, epoch))
            elif examples.modality != "image":
                filled.made.append(x)
            elif filled.pixels is None:
                filled.pixels = np.empty((len(wanted), *x.shape), np.uint8)
                filled.pixels[0] = x
            elif x is not out:
                raise InputError(
                    f"pictures differ in size, {examples.keys([number])[0]} has {x.shape[:2]} beside "
                    f"{filled.pixels.shape[1:3]}: give size=(height, width)"
                )
            filled.kept.append(number)
        return filled

    def _read(self, wanted: list[int], read: Callable[[], list[Any]]) -> list[Any]:
        """The encoded examples; in the place of one that cannot be read and may be skipped, its error."""
        try:
            return read()
        except IntegrityError as error:
            if self._on_error == "error":
                raise
            alone = [(one, partial(self.examples.read, [one])) for one in wanted]
            return [error] if len(wanted) == 1 else [self._read([one], read)[0] for one, read in alone]


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


def _stacked(made: list[Any]) -> Any:
    """A batch of arrays, tensors or numbers; of anything else, such as texts, the list.

    Arrays of height x width x 3 are put as plain pictures are.
    """
    torch = _torch()
    tensors = torch is not None and isinstance(made[0], torch.Tensor)
    if not tensors and not isinstance(made[0], np.ndarray | np.generic | int | float):
        return made
    if len(shapes := {np.shape(one) for one in made}) > 1:
        raise InputError(
            f"the transform makes x of several shapes, {sorted(shapes)}: let it make one, or give size=... "
            "for pictures; or let it give lists, and make the batch of them in batch_transform"
        )
    if tensors:
        return torch.stack(made)
    array = np.stack(made)
    pictures = array.ndim == 4 and array.shape[3] == 3
    return _tensor(array.transpose(0, 3, 1, 2) if pictures else array)


@cache
def _torch() -> Any:
    return import_module("torch") if find_spec("torch") else None


def _tensor(array: Any) -> Any:
    torch = _torch()
    return array if torch is None else torch.from_numpy(array)
