"""Digits: pictures in folders, MNIST's own files, and USPS as HDF5 or in the form of libsvm."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.raw.album import Found, Odd, Row
from builders.raw.folders import Folders
from builders.raw.tree import Tree
from builders.sample import Example
from shiftdata.errors import InputError

#: More pictures than any of the files has, and the bytes of the largest when unpacked.
MOST, LARGEST = 100_000, 1 << 26


class Arrays(NamedTuple):
    """The pictures of a file and their digits, in the order of the file."""

    pictures: NDArray[np.uint8]
    digits: NDArray[np.int64]


#: Files by name, with their domain and part; MNIST's come packed or not.
FILES: Mapping[str, tuple[str, str]] = {
    **{f"train-images-idx3-ubyte{ending}": ("mnist", "train") for ending in ("", ".gz")},
    **{f"t10k-images-idx3-ubyte{ending}": ("mnist", "test") for ending in ("", ".gz")},
    "usps.bz2": ("usps", "train"),
    "usps.t.bz2": ("usps", "test"),
    "usps.h5": ("usps", ""),
}


@dataclass(frozen=True, kw_only=True)
class Digits(Folders):
    """Folders of digits; a domain that has no pictures in folders may have a file of arrays instead.

    The origin of a picture of MNIST is its part and place, which MNIST-M keeps.
    """

    code_version: ClassVar[int] = 1

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every picture in a folder, then those in arrays."""
        in_folders = set[str | None]()
        for result in super().pictures(tree):
            if isinstance(result, Row):
                in_folders.add(result.nuisance)
            yield result
        read = set[tuple[str, str]]()
        for file in tree.files:
            domain, part = FILES.get(PurePosixPath(file).name.lower(), ("", ""))
            if domain not in self.domains:
                continue
            if domain in in_folders or (domain, part) in read:
                yield Odd(file=file, why=f"the pictures of {domain} are there in another form, which is read")
                continue
            read.add((domain, part))
            for number, digit in enumerate(_arrays(tree, file).digits.tolist()):
                origin = f"{part} {number}" if domain == "mnist" else None
                yield Row(file=file, label=str(digit), nuisance=domain, part=number, origin=origin)

    def example(self, tree: Tree, file: str, part: int) -> Example:
        """A picture in an array."""
        return Image.fromarray(_arrays(tree, file).pictures[part])


def _arrays(tree: Tree, file: str) -> Arrays:
    return tree.keep("digits", file, lambda: _read(tree, file))


def _read(tree: Tree, file: str) -> Arrays:
    name = PurePosixPath(file).name.lower()
    try:
        if name.endswith(".h5"):
            arrays = _hdf5(tree.read(file))
        elif name.endswith(".bz2"):
            arrays = _libsvm(unpacked(tree.read(file)))
        else:
            labels = file.replace("images-idx3", "labels-idx1")
            arrays = Arrays(idx(unpacked(tree.read(file))), idx(unpacked(tree.read(labels))).astype(int))
    except (ValueError, KeyError, OSError, EOFError, struct.error) as error:
        raise InputError(f"{file} in {tree.place} is not a whole file of digits ({error})") from error
    if len(arrays.pictures) != len(arrays.digits) or not {*arrays.digits.tolist()} <= {*range(10)}:
        raise InputError(f"{file} in {tree.place} has other pictures than digits: is it another dataset?")
    return arrays


def unpacked(data: bytes) -> bytes:
    """The bytes of a file, packed or not, as far as any file of pictures goes."""
    if data[:2] == b"BZ":
        return bz2.open(io.BytesIO(data)).read(LARGEST)
    return gzip.open(io.BytesIO(data)).read(LARGEST) if data[:2] == b"\x1f\x8b" else data


def idx(data: bytes) -> NDArray[np.uint8]:
    """An array in the form of MNIST's files: two zero bytes, type and dimensions, sizes, values."""
    zero, kind, dimensions = struct.unpack(">HBB", data[:4])
    sizes = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    if zero or kind != 8 or dimensions not in (1, 3) or sizes[0] > MOST:
        raise ValueError("its beginning is not that of such a file")
    return np.frombuffer(data[4 + 4 * dimensions :], np.uint8).reshape(sizes)


def _libsvm(data: bytes) -> Arrays:
    """USPS as torchvision gets it: the digit plus 1, then 256 values from -1 to 1."""
    rows = [line.split() for line in data.decode().splitlines()]
    values = np.array([[float(pair.split(":")[1]) for pair in row[1:]] for row in rows], np.float32)
    digits = np.array([int(row[0]) - 1 for row in rows])
    return Arrays(_eight_bits((values + 1) / 2), digits)


def _hdf5(data: bytes) -> Arrays:
    """USPS with the groups train and test, values from 0 to 1."""
    try:
        import h5py
    except ImportError as error:
        raise InputError("usps.h5 is read by h5py: pip install 'shiftdata[raw]'") from error
    with h5py.File(io.BytesIO(data), "r") as stored:
        parts = [stored[part] for part in ("train", "test")]
        if any(len(part["data"]) > MOST for part in parts):
            raise ValueError("too many pictures")
        values, digits = (np.concatenate([part[name][:] for part in parts]) for name in ("data", "target"))
    return Arrays(_eight_bits(values), digits.astype(int))


def _eight_bits(values: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Values from 0 to 1 as torchvision stores them: cut off, not rounded."""
    return (values * 255).astype(np.uint8).reshape(-1, 16, 16)
