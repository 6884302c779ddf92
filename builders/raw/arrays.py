"""Files of arrays in a raw tree: .npy, .npz, and pickles of which nothing is run."""

from __future__ import annotations

import io
import pickle
import zipfile
from typing import Any

import numpy as np
from numpy.lib import format as npy

from builders.raw.tree import Tree
from shiftdata.errors import InputError

#: More than the header of any array.
HEADER = 4096
#: What a pickle of arrays and lists needs; all else could run code.
ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
}


class _Plain(pickle.Unpickler):
    """Reads arrays and lists, and runs nothing."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def unpickled(tree: Tree, file: str) -> dict[str, Any]:
    """A pickle of arrays by name; one that would run anything else is refused."""
    try:
        stored = _Plain(io.BytesIO(tree.read(file)), encoding="bytes").load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        TypeError,
        IndexError,
        AttributeError,
        KeyError,
    ) as error:
        raise InputError(
            f"{file} in {tree.place} is not a whole pickle of arrays and lists ({error}): get it again, and "
            "from its authors"
        ) from error
    if not isinstance(stored, dict):
        raise InputError(f"{file} in {tree.place} has no arrays by name: it is another file")
    return {name.decode() if isinstance(name, bytes) else str(name): one for name, one in stored.items()}


def npz(tree: Tree, file: str) -> tuple[Any, Any]:
    """Pictures and labels of CIFAR-10.2; its texts, which are pickles, are not read."""
    try:
        with np.load(io.BytesIO(tree.read(file)), allow_pickle=False) as stored:
            return stored["images"], stored["labels"]
    except (KeyError, ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise InputError(
            f"{file} in {tree.place} has no images and labels ({error}): get it again"
        ) from error


def npy_header(tree: Tree, file: str) -> tuple[tuple[int, ...], int, np.dtype[Any]]:
    """The shape of an .npy file's array, where its bytes begin, and what they are."""
    stream = io.BytesIO(tree.read(file, 0, HEADER))
    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
    except ValueError as error:
        raise InputError(
            f"{file} in {tree.place} is not an array of NumPy ({error}): get it again"
        ) from error
    if is_fortran or dtype.hasobject:
        raise InputError(f"{file} in {tree.place} is not an array of numbers in the order of C: another file")
    return shape, stream.tell(), dtype
