"""Arrays of NumPy in files of anybody: a header may promise any size, and an archive of arrays unpacks."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from shiftdata.files import open_regular
from shiftdata.untrusted.archives import open_zip


def read_array(path: Path | bytes, *, mapped: bool = False) -> NDArray[Any]:
    """Read or map a .npy file without objects; fewer bytes than its header says are a `ValueError`."""
    if isinstance(path, bytes):
        return _array(io.BytesIO(path), len(path))
    if mapped:  # which compares them too
        return npy.open_memmap(path, "r")
    with open_regular(path) as file:
        return _array(file, os.fstat(file.fileno()).st_size)


def _array(file: IO[bytes], size: int) -> NDArray[Any]:
    header = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    shape, _, kind = header(file)
    stated, given = math.prod(shape) * kind.itemsize, size - file.tell()
    if stated > given and not kind.hasobject:
        raise ValueError(f"it has {given:,} bytes of values, and its header says {stated:,}")
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def read_arrays(data: bytes, file: str, names: Sequence[str]) -> list[NDArray[Any]]:
    """Read arrays of an .npz file, by name."""
    arrays = []
    with open_zip(data, file) as archive:
        for name in names:
            with archive.open(f"{name}.npy") as stream:
                arrays.append(_array(stream, archive.getinfo(f"{name}.npy").file_size))
    return arrays
