"""Features, computed once: lines of an encoder for the rows of a base, in a `LineCache` or in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.batches import Examples, Loader
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.line_cache import LineCache
from shiftdata.data.loading.order import Ranks
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.threads import torch_threads

#: Changes when `decode` makes other pixels. simplejpeg and Pillow make the same ones.
DECODING = 1
#: Examples that an encoder is given at once, always: sums of matrices depend on the size of a block.
BLOCK = 32
BATCH = 8 * BLOCK  # examples that are read, and lines that are written, together
#: The last lines of each base without a cache: the runs of a sweep encode a text once.
_in_memory: WeakKeyDictionary[Metadata, tuple[tuple[str, bytes], NDArray[Any]]] = WeakKeyDictionary()


class Encoder(Protocol):
    """Makes lines of examples, each line of its example alone."""

    @property
    def modality(self) -> str:
        """The examples it takes: image, text or table."""

    @property
    def fingerprint(self) -> str:
        """All that determines the lines besides the examples: code, weights, options."""

    @property
    def size(self) -> int | tuple[int, int] | None:
        """Height and width of the pictures, or one number for both; None for other examples."""

    def __call__(self, x: Any, /) -> NDArray[Any]:
        """Encode pictures (uint8, n x height x width x 3), a list of texts, or rows of a table."""


@dataclass(frozen=True)
class Pixels:
    """The decoded pictures themselves, as an encoder."""

    size: int | tuple[int, int] | None = None
    modality = "image"
    fingerprint = f"pixels {DECODING}"

    def __call__(self, pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return pictures


def pixels_of(
    metadata: Metadata,
    rows: IntArray,
    *,
    size: int | tuple[int, int] | None = None,
    cache: bool | str | Path = True,
) -> NDArray[Any]:
    """Decode the pictures of some rows of a base once; return them as `features_of` does.

    Each rank decodes what it lacks: a loader may be made by one rank alone.
    """
    return features_of(metadata, rows, Pixels(size), cache=cache, share=False)


def features_of(
    metadata: Metadata,
    rows: IntArray,
    encoder: Encoder,
    *,
    cache: bool | str | Path = True,
    share: bool = True,
    on_rows: Callable[[int], object] = int,
) -> NDArray[Any]:
    """Encode some rows of a base; return an array with a line for each row of the base, filled for these.

    The line of row r is `array[metadata.picture[r]]`: rows that show the same untouched picture share the
    line of the first of them. Only lines that the cache lacks are computed (True: it is in the user's cache
    folder; or give a folder), and the array is a map of its file. Without a cache, or where it cannot be
    written, the array is in memory, of which only the lines that are filled take up room.

    Where `torch.distributed` is set up and ranks `share` the work, all call this alike. Each computes a part,
    and what it still lacks where ranks have no common disk. A line has the same bytes for any ranks, rows
    and batches: the encoder gets blocks of one size and runs in one torch thread. `on_rows` gets how many
    lines became ready since its last call.
    """
    if not len(rows):
        raise InputError(f"no rows of {metadata.name} were given: give rows, such as task.rows('train')")
    lines = np.unique(metadata.picture[rows])
    if cache is not False and metadata.dataset is not None:
        about = {"encoder": encoder.fingerprint, "size": encoder.size}
        store = LineCache.of(metadata.dataset, metadata.base, about, cache)
        ranks = Ranks.of() if share else Ranks()
        return _on_disk(metadata, lines, encoder, store, ranks, on_rows)
    key = encoder.fingerprint, lines.tobytes()
    if metadata not in _in_memory or _in_memory[metadata][0] != key:
        _in_memory[metadata] = key, _filled(_encoded(metadata, lines, encoder), len(metadata), on_rows)
    else:
        on_rows(len(lines))
    return _in_memory[metadata][1]


def _on_disk(
    metadata: Metadata,
    lines: IntArray,
    encoder: Encoder,
    store: LineCache,
    ranks: Ranks,
    on_rows: Callable[[int], object],
) -> NDArray[Any]:
    """Fill the files; return their map, or an array in memory where they cannot be written."""
    ready = 0

    def fill(lines: IntArray) -> int:
        written = 0
        for numbers, values in _encoded(metadata, lines[store.missing(lines)], encoder):
            if not store.put(numbers, values):
                break
            written += len(numbers)
            on_rows(len(numbers))
        return written

    if ranks.world > 1:
        ready = fill(lines[ranks.rank :: ranks.world])
        sys.modules["torch.distributed"].barrier()
        store.refresh()
    ready += fill(lines)
    missing = store.missing(lines)
    if store.x is not None and not missing.any():
        on_rows(len(lines) - ready)
        return store.x
    on_rows(max(0, len(lines) - ready - int(missing.sum())))
    array = _filled(_encoded(metadata, lines[missing], encoder), len(metadata), on_rows)
    if store.x is not None:
        array[lines[~missing]] = store.x[lines[~missing]]
    return array


def _filled(
    batches: Iterator[tuple[IntArray, NDArray[Any]]], size: int, on_rows: Callable[[int], object]
) -> NDArray[Any]:
    """Put lines into an array in memory; the system gives room only to those that are written to."""
    array = None
    for numbers, values in batches:
        if array is None:
            array = np.zeros((size, *values.shape[1:]), values.dtype)
        array[numbers] = values
        on_rows(len(numbers))
    assert array is not None
    return array


def _encoded(
    metadata: Metadata, lines: IntArray, encoder: Encoder
) -> Iterator[tuple[IntArray, NDArray[Any]]]:
    """Read and encode the examples of some rows, in batches."""
    if not len(lines):
        return
    # What is kept for later runs is of the bytes that the metadata names.
    opened = metadata.dataset
    reader = None if opened is None else ExampleReader(opened, metadata.base, verify=True)
    examples = Examples(metadata, lines, size=encoder.size, reader=reader)
    if examples.modality != encoder.modality:
        raise InputError(
            f"{metadata.name} has examples of the modality {examples.modality}, and {encoder!r} is for "
            f"{encoder.modality}"
        )
    one_thread = torch_threads() if "torch" in sys.modules else nullcontext()
    # By one process: the ranks have shared the lines already.
    with Loader(examples, None, batch_size=BATCH, rank=0, world=1) as loader, one_thread:
        for x, _, known in loader:
            if not isinstance(x, list):
                x = np.asarray(x)
            if examples.modality == "image":
                x = x.transpose(0, 2, 3, 1)
            yield lines[np.asarray(known["position"])], encoded(encoder, x)


def encoded(encoder: Callable[[Any], NDArray[Any]], x: Any) -> NDArray[Any]:
    """Encode a batch in blocks of one size; the last is filled up with its last example."""
    lines = []
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        count = len(block)
        if isinstance(block, list):
            block = block + block[-1:] * (BLOCK - count)
        else:
            block = np.concatenate([block, np.repeat(block[-1:], BLOCK - count, axis=0)])
        values = np.asarray(encoder(block))
        if len(values) != BLOCK or values.dtype not in (np.float32, np.uint8):
            raise InputError(
                f"{encoder!r} made {values.dtype} {values.shape} of {BLOCK} examples: an encoder makes a "
                "line of float32 or uint8 for each"
            )
        lines.append(values[:count])
    return np.concatenate(lines)
