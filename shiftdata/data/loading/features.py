"""Features, computed once: lines of an encoder for the rows of a base, in a `LineCache` or in memory."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import PIL
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.paths import data_files, in_order
from shiftdata.data.loading.batches import Examples, Loader
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.order import Ranks
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, StorageError
from shiftdata.files import absolute, cache_folder, locked, whole_file
from shiftdata.logs import logger
from shiftdata.stable import content_hash
from shiftdata.threads import torch_threads
from shiftdata.untrusted.arrays import read_array

#: Raised where earlier files must not be read again.
CACHE_VERSION = 4
#: Seconds to wait for another process that writes.
LOCK_TIMEOUT = 10.0
LOG = logger(__name__)
ROWS, CHECKS, ABOUT, LOCK = "rows.npy", "checks.npy", "about.json", ".lock"


class CacheWarning(UserWarning):
    """Lines cannot be kept, or files of them cannot be used."""


class LineCache:
    """The lines of one base's rows, as far as they are in a folder, shared by runs and processes.

    `rows.npy` is a sparse file with a line for every row, `checks.npy` has a checksum of each line that is
    present and 0 for the others. Lines are written first, under a lock: a process that is killed leaves lines
    without a checksum. Nothing is synced: each line is compared with its checksum before it is used, so
    damage by a power cut or a bad disk costs a computation and never gives a wrong number.

    It is an aid: where the folder cannot be read or written, or the disk is full, lines are computed as if
    there were none. `about` names all that determines them apart from the rows. Nothing removes the arrays
    but their user.
    """

    def __init__(self, about: Mapping[str, Any], size: int, root: bool | str | Path) -> None:
        self.size = size
        self.root = cache_folder("features") if root is True else absolute(Path(str(root)))
        self.about = json.dumps({**about, "rows": size, "version": CACHE_VERSION}, sort_keys=True)
        self.folder = self.root / content_hash(self.about)[:32]
        self.x: NDArray[Any] | None = None
        self._checks: NDArray[np.uint64] = np.zeros(self.size, np.uint64)
        self._writable = True
        self.refresh()

    @classmethod
    def of(
        cls, dataset: OpenDataset, base: str, about: Mapping[str, Any], root: bool | str | Path
    ) -> LineCache:
        """Open the lines of a base's examples, as Pillow decodes them."""
        manifest = dataset.manifest
        splits = manifest.base(base).splits
        files = [path for split in in_order(splits) for path in data_files(manifest.files, base, split)]
        known = {
            "content_id": manifest.base(base).content_id,
            "files": content_hash(*(manifest.files[path].sha256 for path in files)),  # tars: another order
            "base": base,
            "pillow": PIL.__version__,
        }
        return cls({**about, **known}, sum(split.rows for split in splits.values()), root)

    def missing(self, rows: IntArray) -> NDArray[np.bool_]:
        """Return a mask of the rows whose lines are not here whole."""
        if self.x is None:
            return np.ones(len(rows), bool)
        x = np.asarray(self.x)  # lines of a memmap take longer to make
        pairs = zip(rows.tolist(), self._checks[rows].tolist(), strict=True)
        return np.array([not check or _checksum(x[row], row) != check for row, check in pairs], bool)

    def put(self, rows: IntArray, values: NDArray[Any]) -> bool:
        """Write the lines of some rows; return True if all are here now. Lines by other processes stay."""
        if not self._writable:
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.root / LOCK, "another process writes to it", wait=LOCK_TIMEOUT):
                return self._write(rows, values)
        except StorageError as error:
            self.stop(str(error))
        except OSError as error:
            self.stop(f"{self.folder} cannot be written ({error.strerror or error})")
        return False

    def refresh(self) -> None:
        """Map the files as they are now; throw away what is foreign or torn."""
        if not (self.folder / ABOUT).exists():
            self.x = None
            return
        try:
            if (self.folder / ABOUT).read_text(encoding="utf-8") != self.about:
                raise ValueError("it is of another array")
            x, checks = (read_array(self.folder / name, mapped=True) for name in (ROWS, CHECKS))
            if len(x) != self.size or checks.shape != (self.size,) or checks.dtype != np.uint64:
                raise ValueError("it has other rows")
            self.x, self._checks = x, checks
        except (OSError, ValueError, EOFError) as error:
            self._throw_away(str(error))

    def stop(self, reason: str) -> None:
        """Write no more lines, and warn once."""
        if self._writable:
            warnings.warn(f"features: nothing more is kept, {reason}", CacheWarning, stacklevel=2)
        self._writable = False

    def _write(self, rows: IntArray, values: NDArray[Any]) -> bool:
        self.refresh()
        if self.x is not None and (self.x.shape[1:], self.x.dtype) != (values.shape[1:], values.dtype):
            self._throw_away("it has lines of another shape")
        if self.x is None:
            self._create(values)
        if self.x is None:  # other files came in between, and were thrown away
            return False
        new = self.missing(rows)
        checks = np.array([_checksum(line, row) for row, line in zip(rows, values, strict=True)], np.uint64)
        _write_at(self.folder / ROWS, self.x, rows[new], values[new])
        _write_at(self.folder / CHECKS, self._checks, rows[new], checks[new])
        return not self.missing(rows).any()

    def _create(self, values: NDArray[Any]) -> None:
        shape = self.size, *values.shape[1:]
        for name, dtype, size in ((CHECKS, np.dtype(np.uint64), (self.size,)), (ROWS, values.dtype, shape)):
            with whole_file(self.folder / name) as path:
                np.lib.format.open_memmap(path, "w+", dtype, size)
        with whole_file(self.folder / ABOUT) as path:
            path.write_text(self.about, encoding="utf-8")
        self.refresh()

    def _throw_away(self, reason: str) -> None:
        warnings.warn(f"{self.folder} is thrown away: {reason}", CacheWarning, stacklevel=2)
        self.x, self._checks = None, np.zeros(self.size, np.uint64)
        # By unlinking: another process may have mapped the files and goes on with them.
        for name in (ABOUT, ROWS, CHECKS):
            with suppress(OSError):
                (self.folder / name).unlink()


def _checksum(line: NDArray[Any], row: int) -> int:
    """Hash a line and its row number; never 0."""
    return xxh3_64_intdigest(np.ascontiguousarray(line).data, int(row)) or 1


def _write_at(path: Path, array: NDArray[Any], rows: IntArray, values: NDArray[Any]) -> None:
    """Write lines into an array's file: a full disk is an error here, and in a map the end of the process."""
    each = int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
    with path.open("r+b", buffering=0) as file:
        start = os.fstat(file.fileno()).st_size - each * len(array)
        for row, value in zip(rows.tolist(), values, strict=True):
            file.seek(start + row * each)
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
            while data:
                data = data[file.write(data) :]


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

    @property
    def fingerprint(self) -> str:
        """The decoder and how a model cuts its pictures; plain sizes are known to the cache."""
        return f"pixels {DECODING}{f' {self.size}' if isinstance(self.size, tuple) else ''}"

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
        store = _cache_of(metadata, metadata.dataset, encoder, cache)
        ranks = Ranks.of() if share else Ranks()
        return _on_disk(metadata, lines, encoder, store, ranks, on_rows)
    key = encoder.fingerprint, lines.tobytes()
    if metadata not in _in_memory or _in_memory[metadata][0] != key:
        _in_memory[metadata] = key, _filled(_encoded(metadata, lines, encoder), len(metadata), on_rows)
    else:
        on_rows(len(lines))
    return _in_memory[metadata][1]


def uncached(metadata: Metadata, rows: IntArray, encoder: Encoder) -> IntArray:
    """Return the lines of rows of a base that the user's cache lacks."""
    lines: IntArray = np.unique(metadata.picture[rows])
    if metadata.dataset is None:
        return lines
    return lines[_cache_of(metadata, metadata.dataset, encoder, True).missing(lines)]


def _cache_of(
    metadata: Metadata, dataset: OpenDataset, encoder: Encoder, cache: bool | str | Path
) -> LineCache:
    about = {"encoder": encoder.fingerprint, "size": str(encoder.size)}  # a crop says how, a tuple not
    return LineCache.of(dataset, metadata.base, about, cache)


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
    LOG.info("%s: of %d lines, %d were computed now", store.folder, len(lines), ready + int(missing.sum()))
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
