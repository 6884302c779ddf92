"""Batches of pictures for training: decoded by threads into one array a batch, resumable to the batch."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError, IntegrityError
from shiftdata.loading.batches.decode import Pixels, Size, decode
from shiftdata.loading.batches.examples import Examples
from shiftdata.loading.batches.order import Order, Positions, place_in_world
from shiftdata.sampling import EpochSampler, Sampler
from shiftdata.stable import content_hash, hash64, rng
from shiftdata.threads import ahead, available_cores

#: What to do about a picture that cannot be read: stop, or go on with the others and report it.
OnError: TypeAlias = Literal["error", "skip"]
#: x, y, and group, nuisance and position of each example.
Batch: TypeAlias = tuple[Any, Any, dict[str, Any]]
Transform: TypeAlias = Callable[[Any, np.random.Generator], Any]


@dataclass(kw_only=True)
class _Filled:
    """Pictures in one array, which examples they are, and those that could not be read."""

    pixels: Pixels | None = None
    kept: list[int] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


class Loader:
    """Iterates over the batches `(x, y, metadata)` of one epoch, then of the next.

    x is uint8, pictures x 3 x height x width, a view of memory with channels last; y are the labels' numbers;
    `metadata` has group, nuisance and position (the row in `task.table(...)`): torch tensors where torch is
    installed, else numpy arrays. `len` is the number of batches in an epoch.

    The batches depend only on seed, epoch, sampler and rank. With 0 `workers` the caller's thread decodes.
    `transform` gets each batch's x and a generator keyed by seed, epoch, rank and batch. With
    `on_error="skip"` a picture that cannot be read is left out of its batch, and `skipped` says why.
    Beginning another iteration ends the one before, and an epoch that was left early begins again.
    """

    def __init__(
        self,
        examples: Examples,
        sampler: Sampler | Sequence[int] | Positions | None,
        *,
        batch_size: int,
        seed: int = 0,
        workers: int | None = None,
        size: int | Size | None = None,
        transform: Transform | None = None,
        drop_last: bool = False,
        on_error: OnError = "error",
        rank: int | None = None,
        world: int | None = None,
    ) -> None:
        if batch_size < 1 or (workers or 0) < 0:
            raise InputError(
                f"batch_size must be at least 1, workers at least 0; got {batch_size} and {workers}"
            )
        if examples.modality != "image":
            raise InputError(
                f"the loader decodes pictures, and the examples of {examples.name} are "
                f"{examples.modality}: give task.dataset(...) to torch's DataLoader"
            )
        if on_error not in ("error", "skip"):
            raise InputError(f"on_error must be 'error' or 'skip', got {on_error!r}")
        self.examples = examples
        chosen = sampler if isinstance(sampler, EpochSampler) else _positions(sampler, len(examples))
        self.order = Order(chosen, batch_size, drop_last, *place_in_world(rank, world))
        self.workers = available_cores() if workers is None else workers
        self.skipped: dict[str, str] = {}
        self._seed = seed
        self._size = _size(size)
        self._transform = transform
        self._on_error = on_error
        self._epoch = self._done = self._start = 0
        # Weak, so that a loop that is left drops its iteration, and that its threads.
        self._running: weakref.ref[Generator[Batch]] | None = None
        _torch()  # imported here, not in the middle of the first batch

    def __len__(self) -> int:
        return self.order.batches

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
        return hash64("loader", self._seed, content_hash(self.examples.rows.tobytes()), self.order.key)

    def _epoch_from(self, start: int) -> Generator[Batch]:
        self._done = start
        epoch = self._epoch
        jobs = list(enumerate(self.order.of(epoch)))[start:]
        with closing(ahead(partial(self._make, epoch), jobs, self.workers)) as made:
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

    def _make(self, epoch: int, job: tuple[int, Positions]) -> tuple[Batch, Mapping[str, str]]:
        """A batch, and why examples are missing in it, by key."""
        number, wanted = job
        filled = self._fill(wanted.tolist())
        if filled.pixels is None:
            key, reason = next(iter(filled.skipped.items()))
            raise IntegrityError(f"no picture of batch {number} can be read, first {key}: {reason}")
        examples, kept = self.examples, np.array(filled.kept)
        x = _tensor(filled.pixels[: len(kept)].transpose(0, 3, 1, 2))
        if self._transform is not None:
            x = self._transform(x, rng(self._seed, "transform", epoch, self.order.rank, number))
        group, nuisance, position, y = (
            _tensor(column[kept])
            for column in (examples.groups, examples.nuisances, examples.positions, examples.labels)
        )
        return (x, y, {"group": group, "nuisance": nuisance, "position": position}), filled.skipped

    def _fill(self, wanted: list[int]) -> _Filled:
        filled = _Filled()
        for number, data in zip(wanted, self._read(wanted), strict=True):
            try:
                if isinstance(data, Exception):
                    raise data
                out = None if filled.pixels is None else filled.pixels[len(filled.kept)]
                picture = decode(data, size=self._size, out=out)
            except IntegrityError as error:
                if self._on_error == "error":
                    raise self.examples.named(number, error) from error
                filled.skipped[self.examples.key(number)] = str(error)
                continue
            if filled.pixels is None:
                filled.pixels = np.empty((len(wanted), *picture.shape), np.uint8)
                filled.pixels[0] = picture
            elif picture is not out:
                raise InputError(
                    f"pictures differ in size, {self.examples.key(number)} has {picture.shape[:2]} beside "
                    f"{filled.pixels.shape[1:3]}: give size=(height, width)"
                )
            filled.kept.append(number)
        return filled

    def _read(self, wanted: list[int]) -> list[bytes | IntegrityError]:
        """The encoded pictures; where they may be skipped, the error of one that cannot be read."""
        try:
            return list(self.examples.reader.read(self.examples.rows[wanted].tolist()))
        except IntegrityError as error:
            if self._on_error == "error":
                raise
            return [error] if len(wanted) == 1 else [self._read([one])[0] for one in wanted]


def _positions(given: Sequence[int] | NDArray[np.int64] | None, examples: int) -> Positions:
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


def _size(given: int | tuple[int, int] | None) -> tuple[int, int] | None:
    size = (given, given) if isinstance(given, int) else given
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise InputError(f"size is a height and a width in pixels, or one number for both; got {given}")
    return size


@cache
def _torch() -> Any:
    return import_module("torch") if find_spec("torch") else None


def _tensor(array: Any) -> Any:
    torch = _torch()
    return array if torch is None else torch.from_numpy(array)
