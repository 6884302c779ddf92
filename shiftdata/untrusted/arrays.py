"""Arrays of NumPy in files of anybody: a header may promise any size, and an archive of arrays unpacks."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from shiftdata.files import open_regular
from shiftdata.untrusted.archives import open_zip


def read_array(path: Path) -> NDArray[Any]:
    """Read a .npy file without objects; its bytes must be those that its header says (a `ValueError`)."""
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


def read_arrays(data: bytes, name: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file, but for those of objects."""
    with open_zip(data, name) as archive:
        arrays = {}
        for member in archive.infolist():
            with archive.open(member) as file:
                arrays[member.filename.removesuffix(".npy")] = _array(file, member.file_size)
    return arrays
