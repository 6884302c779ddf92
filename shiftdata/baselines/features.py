"""Inputs of models that were made before: files on this machine, shared by tasks, runs and processes.

A folder for each base of a dataset, way to read it and network has `rows.npy`, a sparse file with a place for
every row of the base, and `checks.npy`, a checksum of each row that is there and 0 for the others. Rows are
written first, under a lock: whoever is killed leaves rows without a checksum. Nothing is synced: each row is
compared with its checksum before it is used, so what a power cut or a bad disk makes of the files costs a
computation and never gives a wrong number.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from shiftdata.errors import StorageError
from shiftdata.files import absolute, cache_folder, locked, whole_file
from shiftdata.metrics.arrays import IntArray
from shiftdata.stable import content_hash

#: Raised where files of before must not be read again: version 1 may have rows with another row's inputs.
CACHE_VERSION = 2
#: Bytes of all folders together; those that nobody used for a while make room.
LIMIT = 20 << 30
#: Seconds for which what was used is left alone.
IDLE = 3600.0
#: Seconds to wait for another process that writes.
PATIENCE = 10.0
ROWS, CHECKS, ABOUT, LOCK = "rows.npy", "checks.npy", "about.json", ".lock"


class FeatureWarning(UserWarning):
    """Features that are not kept, or cannot be used again."""


class FeatureCache:
    """The inputs of the rows of one base, as far as they are in a folder.

    It is an aid: where the folder cannot be read or written, or the disk is full, inputs are computed as if
    there were none. `about` is all that determines them.
    """

    def __init__(self, root: Path | None, about: Mapping[str, Any], size: int, limit: int = LIMIT) -> None:
        self.root = cache_folder("features") if root is None else absolute(root)
        self.size, self.limit = size, limit
        self.about = json.dumps({**about, "rows": size, "version": CACHE_VERSION}, sort_keys=True)
        self.folder = self.root / content_hash(self.about)[:32]
        self.x: NDArray[Any] | None = None
        self._checks = np.zeros(size, np.uint64)
        self._well = True
        self._open()

    def missing(self, rows: IntArray) -> NDArray[np.bool_]:
        """Which of some rows are not here whole."""
        if self.x is None:
            return np.ones(len(rows), bool)
        gone: NDArray[np.bool_] = self._checks[rows] == 0
        for at in np.flatnonzero(~gone):
            gone[at] = _checksum(self.x[rows[at]], rows[at]) != self._checks[rows[at]]
        return gone

    def put(self, rows: IntArray, made: NDArray[Any]) -> bool:
        """Keep the inputs of some rows; whether they are all here now. What another wrote meanwhile stays."""
        if not self._well or made.dtype.hasobject:
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.root / LOCK, "it is written to", wait=PATIENCE):
                return self._write(rows, made)
        except StorageError as error:
            self._stop(str(error))
        except OSError as error:
            self._stop(f"{self.folder} cannot be written ({error.strerror or error})")
        return False

    def _write(self, rows: IntArray, made: NDArray[Any]) -> bool:
        self._open()
        if self.x is None and not self._create(made):
            return False
        assert self.x is not None
        if (self.x.shape[1:], self.x.dtype) != (made.shape[1:], made.dtype):
            self._throw_away("it has rows of another shape")
            return self._write(rows, made)
        new = self.missing(rows)
        checks = np.array([_checksum(one, row) for one, row in zip(made, rows, strict=True)], np.uint64)
        _write_at(self.folder / ROWS, self.x, rows[new], made[new])
        _write_at(self.folder / CHECKS, self._checks, rows[new], checks[new])
        self._checks[rows[new]] = checks[new]
        return not self.missing(rows).any()

    def _create(self, made: NDArray[Any]) -> bool:
        """Empty files for rows of that form, if there is room for the rows that will come."""
        shape = self.size, *made.shape[1:]
        if not self._room(int(np.prod(shape)) * made.dtype.itemsize):
            self._stop(f"{self.root} has the {self.limit:,} bytes of its limit")
            return False
        for name, dtype, size in ((CHECKS, np.dtype(np.uint64), (self.size,)), (ROWS, made.dtype, shape)):
            with whole_file(self.folder / name) as path:
                np.lib.format.open_memmap(path, "w+", dtype, size)
        with whole_file(self.folder / ABOUT) as path:
            path.write_text(self.about, encoding="utf-8")
        self._open()
        return self.x is not None

    def _open(self) -> None:
        """Map what is there; throw away what is not ours, or not whole."""
        if not (self.folder / ABOUT).exists():
            self.x = None
            return
        try:
            if (self.folder / ABOUT).read_text(encoding="utf-8") != self.about:
                raise ValueError("it is of other inputs")
            self.x = np.lib.format.open_memmap(self.folder / ROWS, mode="r")
            checks = np.load(self.folder / CHECKS)
            if len(self.x) != self.size or checks.shape != (self.size,) or checks.dtype != np.uint64:
                raise ValueError("it has other rows")
            self._checks = checks
            with suppress(OSError):  # it may be another user's
                os.utime(self.folder / ABOUT)
        except (OSError, ValueError, EOFError) as error:
            self._throw_away(str(error))

    def _throw_away(self, why: str) -> None:
        warnings.warn(f"{self.folder} is thrown away: {why}", FeatureWarning, stacklevel=2)
        self.x, self._checks = None, np.zeros(self.size, np.uint64)
        # By unlinking: another process may have mapped them, and keeps what it has.
        for name in (ABOUT, ROWS, CHECKS):
            with suppress(OSError):
                (self.folder / name).unlink()

    def _stop(self, why: str) -> None:
        if self._well:
            warnings.warn(f"features are not kept: {why}", FeatureWarning, stacklevel=2)
        self._well = False

    def _room(self, wanted: int) -> bool:
        """Whether so many bytes fit into the limit, once folders that nobody uses have made room."""
        sizes = {one: _size(one) for one in self.root.iterdir() if one.is_dir() and one != self.folder}
        left = self.limit - sum(sizes.values())
        for folder in sorted(sizes, key=_last_used):
            if left >= wanted or _last_used(folder) > time.time() - IDLE:
                break
            shutil.rmtree(folder, ignore_errors=True)
            left += sizes[folder]
        return left >= wanted


def _size(folder: Path) -> int:
    """Bytes on the disk: the files are sparse."""
    with suppress(OSError):
        return sum(one.stat().st_blocks * 512 for one in folder.iterdir())
    return 0


def _last_used(folder: Path) -> float:
    with suppress(OSError):
        return (folder / ABOUT).stat().st_mtime
    return 0.0


def _checksum(row: NDArray[Any], number: int) -> int:
    """Of a row's numbers and of which row they are; never 0."""
    return xxh3_64_intdigest(np.ascontiguousarray(row).data, int(number)) or 1


def _write_at(path: Path, like: NDArray[Any], rows: IntArray, values: NDArray[Any]) -> None:
    """Write rows into a file of numpy's: a full disk is an error here, and in a map the process's end."""
    each = int(np.prod(like.shape[1:], dtype=np.int64)) * like.dtype.itemsize
    with path.open("r+b", buffering=0) as file:
        begins = os.fstat(file.fileno()).st_size - each * len(like)
        for row, value in zip(rows.tolist(), values, strict=True):
            file.seek(begins + row * each)
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
            while data:
                data = data[file.write(data) :]
