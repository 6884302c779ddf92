"""Features, computed once: files with a line for each row, shared by tasks, runs and processes.

A folder for each base of a dataset and encoder has `rows.npy`, a sparse file with a line for every row of the
base, and `checks.npy`, a checksum of each line that is present and 0 for the others. Lines are written first,
under a lock: a process that is killed leaves lines without a checksum. Nothing is synced: each line is
compared with its checksum before it is used, so damage by a power cut or a bad disk costs a computation and
never gives a wrong number.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import PIL
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.batches import Examples, Loader
from shiftdata.data.loading.order import Ranks
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, StorageError
from shiftdata.files import absolute, cache_folder, locked, whole_file
from shiftdata.stable import content_hash

#: Raised where earlier files must not be read again.
CACHE_VERSION = 3
#: Bytes of all folders together; those that nobody used for a while make room.
LIMIT = 20 << 30
#: Seconds for which a folder that was used is left alone.
IDLE = 3600.0
#: Seconds to wait for another process that writes.
PATIENCE = 10.0
ROWS, CHECKS, ABOUT, LOCK = "rows.npy", "checks.npy", "about.json", ".lock"
#: Examples that an encoder is given at once, always: sums of matrices depend on the size of a block.
BLOCK = 32
#: The last lines of each base that is in use: the runs of a sweep encode a text once.
_in_memory: WeakKeyDictionary[Metadata, tuple[tuple[str, bytes], NDArray[Any]]] = WeakKeyDictionary()
BATCH = 8 * BLOCK  # examples that are read, and lines that are written, together


class FeatureWarning(UserWarning):
    """Features cannot be kept, or files of them cannot be used."""


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


def features_of(
    metadata: Metadata,
    rows: IntArray,
    encoder: Encoder,
    *,
    cache: bool | str | Path = True,
    on_rows: Callable[[int], object] = int,
) -> NDArray[Any]:
    """Encode some rows of a base; return an array with a line for each row of the base, filled for these.

    The line of row r is `array[metadata.picture[r]]`: rows that show the same untouched picture share the
    line of the first of them. Only lines that the cache lacks are computed (True: it is in the user's cache
    folder; or give a folder), and the array is a map of its file. Without a cache, or where it cannot be
    written, the array is in memory, of which only the lines that are filled take up room.

    Where `torch.distributed` is set up, all ranks call this alike. Each computes a share, and what it still
    lacks where ranks have no common disk. A line has the same bytes for any ranks, rows and batches: the
    encoder gets blocks of one size and runs in one torch thread. `on_rows` gets how many lines became ready
    since its last call.
    """
    if not len(rows):
        raise InputError(f"no rows of {metadata.name} were given: give rows, such as task.rows('train')")
    if cache is not False:
        return _encode(metadata, rows, encoder, cache, on_rows)
    key = encoder.fingerprint, rows.tobytes()
    if metadata not in _in_memory or _in_memory[metadata][0] != key:
        _in_memory[metadata] = key, _encode(metadata, rows, encoder, cache, on_rows)
    else:
        on_rows(len(rows))
    return _in_memory[metadata][1]


def _encode(
    metadata: Metadata,
    rows: IntArray,
    encoder: Encoder,
    cache: bool | str | Path,
    on_rows: Callable[[int], object],
) -> NDArray[Any]:
    """Make the lines that are neither in files nor made by other ranks."""
    lines, ranks = np.unique(metadata.picture[rows]), Ranks.of()
    store, memory = _cache(metadata, encoder, cache), _Memory(len(metadata))
    shared = 0
    if store is not None and ranks.world > 1:
        shared = _share(metadata, lines[ranks.rank :: ranks.world], encoder, store, on_rows)
    lacking = lines if store is None else lines[store.missing(lines)]
    on_rows(len(lines) - len(lacking) - shared)
    for numbers, values in _encoded(metadata, lacking, encoder):
        if store is None or not store.put(numbers, values):
            memory.put(numbers, values)
        on_rows(len(numbers))
    if store is not None:
        lacking = lines[store.missing(lines)] if len(lacking) else lacking
        if store.x is not None and not len(lacking):
            return store.x
        # Into memory go lines that could not be written, those of the file, and those that others threw away.
        present = np.setdiff1d(lines, lacking)
        if store.x is not None and len(present):
            memory.put(present, store.x[present])
        for numbers, values in _encoded(metadata, lacking[~memory.filled[lacking]], encoder):
            memory.put(numbers, values)
    assert memory.array is not None
    return memory.array


def _cache(metadata: Metadata, encoder: Encoder, cache: bool | str | Path) -> FeatureCache | None:
    """Open the files of an encoder's lines of a base, unless they have no identity or nobody wants them."""
    opened = metadata.dataset
    if cache is False or opened is None:
        return None
    about = {
        "content_id": opened.manifest.base(metadata.base).content_id,
        "base": metadata.base,
        "encoder": encoder.fingerprint,
        "size": encoder.size,
        "pillow": PIL.__version__,
    }
    return FeatureCache(None if cache is True else Path(cache), about, len(metadata))


def _share(
    metadata: Metadata,
    lines: IntArray,
    encoder: Encoder,
    store: FeatureCache,
    on_rows: Callable[[int], object],
) -> int:
    """Compute a rank's share of the lines, then wait for the other ranks; return how many were written."""
    written = 0
    for numbers, values in _encoded(metadata, lines[store.missing(lines)], encoder):
        if not store.put(numbers, values):
            break  # this rank needs all lines in memory
        on_rows(len(numbers))
        written += len(numbers)
    sys.modules["torch.distributed"].barrier()
    store.refresh()
    return written


def _encoded(
    metadata: Metadata, lines: IntArray, encoder: Encoder
) -> Iterator[tuple[IntArray, NDArray[Any]]]:
    """Read and encode the examples of some rows, in batches."""
    if not len(lines):
        return
    examples = Examples(metadata, lines, size=encoder.size)
    if examples.modality != encoder.modality:
        raise InputError(
            f"{metadata.name} has examples of the modality {examples.modality}, and {encoder!r} is for "
            f"{encoder.modality}"
        )
    # By one process: the ranks have shared the lines already.
    with Loader(examples, None, batch_size=BATCH, rank=0, world=1) as loader, _one_thread():
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


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch compute in one thread, if it is used: sums depend on the number of threads."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 1
    try:
        if torch:
            torch.set_num_threads(1)
        yield
    finally:
        if torch:
            torch.set_num_threads(threads)


class _Memory:
    """Lines in memory; the system gives room only to those that are written to."""

    def __init__(self, size: int) -> None:
        self.array: NDArray[Any] | None = None
        self.filled = np.zeros(size, bool)

    def put(self, rows: IntArray, values: NDArray[Any]) -> None:
        if self.array is None:
            self.array = np.zeros((len(self.filled), *values.shape[1:]), values.dtype)
        self.array[rows], self.filled[rows] = values, True


class FeatureCache:
    """The lines of one base's rows, as far as they are in a folder.

    It is an aid: where the folder cannot be read or written, or the disk is full, lines are computed as if
    there were none. `about` is all that determines them.
    """

    def __init__(self, root: Path | None, about: Mapping[str, Any], size: int, limit: int = LIMIT) -> None:
        self.root = cache_folder("features") if root is None else absolute(root)
        self.size, self.limit = size, limit
        self.about = json.dumps({**about, "rows": size, "version": CACHE_VERSION}, sort_keys=True)
        self.folder = self.root / content_hash(self.about)[:32]
        self.x: NDArray[Any] | None = None
        self._checks = np.zeros(size, np.uint64)
        self._writable = True
        self.refresh()

    def missing(self, rows: IntArray) -> NDArray[np.bool_]:
        """Return a mask of the rows whose lines are not here whole."""
        if self.x is None:
            return np.ones(len(rows), bool)
        x = np.asarray(self.x)  # lines of a memmap take longer to make
        pairs = zip(rows.tolist(), self._checks[rows].tolist(), strict=True)
        return np.array([not check or _checksum(x[row], row) != check for row, check in pairs], bool)

    def put(self, rows: IntArray, values: NDArray[Any]) -> bool:
        """Write the lines of some rows; return whether all are here now. Lines by other processes stay."""
        if not self._writable:
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.root / LOCK, "it is written to", wait=PATIENCE):
                return self._write(rows, values)
        except StorageError as error:
            self._stop(str(error))
        except OSError as error:
            self._stop(f"{self.folder} cannot be written ({error.strerror or error})")
        return False

    def refresh(self) -> None:
        """Map the files as they are now; throw away what is foreign or torn."""
        if not (self.folder / ABOUT).exists():
            self.x = None
            return
        try:
            if (self.folder / ABOUT).read_text(encoding="utf-8") != self.about:
                raise ValueError("it is of other features")
            self.x = np.lib.format.open_memmap(self.folder / ROWS, mode="r")
            checks = np.load(self.folder / CHECKS)
            if len(self.x) != self.size or checks.shape != (self.size,) or checks.dtype != np.uint64:
                raise ValueError("it has other rows")
            self._checks = checks
            with suppress(OSError):  # it may be another user's
                os.utime(self.folder / ABOUT)
        except (OSError, ValueError, EOFError) as error:
            self._throw_away(str(error))

    def _write(self, rows: IntArray, values: NDArray[Any]) -> bool:
        self.refresh()
        if self.x is not None and (self.x.shape[1:], self.x.dtype) != (values.shape[1:], values.dtype):
            self._throw_away("it has lines of another shape")
        if self.x is None and not self._create(values):
            return False
        assert self.x is not None
        new = self.missing(rows)
        checks = np.array([_checksum(line, row) for row, line in zip(rows, values, strict=True)], np.uint64)
        _write_at(self.folder / ROWS, self.x, rows[new], values[new])
        _write_at(self.folder / CHECKS, self._checks, rows[new], checks[new])
        self._checks[rows[new]] = checks[new]
        return not self.missing(rows).any()

    def _create(self, values: NDArray[Any]) -> bool:
        """Make empty files for lines of that shape, if there is room for all that will come."""
        shape = self.size, *values.shape[1:]
        if not self._room(int(np.prod(shape)) * values.dtype.itemsize):
            self._stop(f"{self.root} has the {self.limit:,} bytes of its limit")
            return False
        for name, dtype, size in ((CHECKS, np.dtype(np.uint64), (self.size,)), (ROWS, values.dtype, shape)):
            with whole_file(self.folder / name) as path:
                np.lib.format.open_memmap(path, "w+", dtype, size)
        with whole_file(self.folder / ABOUT) as path:
            path.write_text(self.about, encoding="utf-8")
        self.refresh()
        return self.x is not None

    def _throw_away(self, reason: str) -> None:
        warnings.warn(f"{self.folder} is thrown away: {reason}", FeatureWarning, stacklevel=2)
        self.x, self._checks = None, np.zeros(self.size, np.uint64)
        # By unlinking: another process may have mapped the files and goes on with them.
        for name in (ABOUT, ROWS, CHECKS):
            with suppress(OSError):
                (self.folder / name).unlink()

    def _stop(self, reason: str) -> None:
        if self._writable:
            warnings.warn(f"features are not kept: {reason}", FeatureWarning, stacklevel=2)
        self._writable = False

    def _room(self, wanted: int) -> bool:
        """Return whether that many bytes fit into the limit, once folders that nobody uses have made room."""
        folders = [path for path in self.root.iterdir() if path.is_dir() and path != self.folder]
        sizes = {folder: _size(folder) for folder in folders}
        left = self.limit - sum(sizes.values())
        for folder in sorted(sizes, key=_last_used):
            if left >= wanted or _last_used(folder) > time.time() - IDLE:
                break
            shutil.rmtree(folder, ignore_errors=True)
            left += sizes[folder]
        return left >= wanted


def _size(folder: Path) -> int:
    """Count the bytes on the disk: the files are sparse."""
    with suppress(OSError):
        return sum(path.stat().st_blocks * 512 for path in folder.iterdir())
    return 0


def _last_used(folder: Path) -> float:
    with suppress(OSError):
        return (folder / ABOUT).stat().st_mtime
    return 0.0


def _checksum(line: NDArray[Any], row: int) -> int:
    """Hash a line and whose it is; never 0."""
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
