"""Arrays on disk with a line for each row of a base, shared by runs and processes.

A folder for each array has `rows.npy`, a sparse file with a line for every row of the base, and `checks.npy`,
a checksum of each line that is present and 0 for the others. Lines are written first, under a lock: a process
that is killed leaves lines without a checksum. Nothing is synced: each line is compared with its checksum
before it is used, so damage by a power cut or a bad disk costs a computation and never gives a wrong number.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.paths import data_files, in_order
from shiftdata.errors import StorageError
from shiftdata.files import absolute, cache_folder, locked, whole_file
from shiftdata.stable import content_hash

#: Raised where earlier files must not be read again.
CACHE_VERSION = 4
#: Seconds to wait for another process that writes.
LOCK_TIMEOUT = 10.0
ROWS, CHECKS, ABOUT, LOCK = "rows.npy", "checks.npy", "about.json", ".lock"


class CacheWarning(UserWarning):
    """Lines cannot be kept, or files of them cannot be used."""


class LineCache:
    """The lines of one base's rows, as far as they are in a folder.

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
            x, checks = (np.load(self.folder / name, mmap_mode="r") for name in (ROWS, CHECKS))
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
        """Make empty files for lines of that shape."""
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
