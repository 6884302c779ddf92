"""From the rows of a set to its examples, and from those to a loader: what `Task.dataset` and `loader` do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.loading.batches.examples import Examples
from shiftdata.loading.batches.loader import Loader
from shiftdata.loading.batches.order import Order, Positions, place_in_world
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.metadata import Metadata
from shiftdata.sampling import EpochSampler, Sampler
from shiftdata.threads import available_cores


def examples_of(
    metadata: Metadata,
    indices: NDArray[np.int64],
    counts: NDArray[np.int64] | None,
    *,
    reader: ExampleReader | None = None,
    **options: Any,
) -> Examples:
    """The examples of some rows, read where the metadata came from; `options` are those of `Examples`."""
    if metadata.dataset is None:
        raise InputError(
            f"{metadata.name} is a table of your own, without examples to read: make the task from a "
            "dataset, by its name, folder or URL"
        )
    modality = metadata.dataset.manifest.roles.modality
    reader = reader or ExampleReader(metadata.dataset, metadata.base)
    return Examples(reader, metadata, indices, counts, modality=modality, **options)


def loader_of(
    examples: Examples,
    sampler: Sampler | Sequence[int] | NDArray[np.int64] | None,
    *,
    batch_size: int,
    drop_last: bool,
    rank: int | None,
    world: int | None,
    workers: int | None,
    size: int | tuple[int, int] | None,
    **options: Any,
) -> Loader:
    """A loader of the examples in a sampler's order; `options` are those of `Loader`."""
    if batch_size < 1 or (workers or 0) < 0:
        raise InputError(
            f"batch_size must be at least 1 and workers at least 0, got {batch_size} and {workers}"
        )
    rank, world = place_in_world(rank, world)
    chosen = sampler if isinstance(sampler, EpochSampler) else _positions(sampler, len(examples))
    order = Order(chosen, batch_size, drop_last=drop_last, rank=rank, world=world)
    workers = available_cores() if workers is None else workers
    return Loader(examples, order, workers=workers, size=_size(size), **options)


def _positions(given: Sequence[int] | NDArray[np.int64] | None, examples: int) -> Positions:
    """Positions as they were given; all, in the stored order, if none were."""
    if given is None:
        return np.arange(examples)
    found = np.asarray(given)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise InputError(
            "sampler is the name of one, one that `task.sampler` made, or positions in the set (whole "
            f"numbers); got {given!r:.80}"
        )
    if found.min() < 0 or found.max() >= examples:
        raise InputError(
            f"positions must be from 0 to {examples - 1:,}, got {found.min():,} to {found.max():,}"
        )
    return found.astype(np.int64)


def _size(given: int | tuple[int, int] | None) -> tuple[int, int] | None:
    size = (given, given) if isinstance(given, int) else given
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise InputError(
            f"size is a height and a width of at least 1 pixel, or one number for both; got {given}"
        )
    return size
