"""Pictures in arrays: CIFAR-10 and -100, what was made after them, files of MNIST's form, and USPS."""

from __future__ import annotations

import io
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from PIL import Image

from builders.raw.found import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.tree import Tree
from builders.sample import Json
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError, MissingExtraError
from shiftdata.untrusted.archives import unpack
from shiftdata.untrusted.arrays import read_arrays

#: Pictures of CIFAR, of MNIST and of USPS.
CIFAR, MNIST, USPS = (32, 32, 3), (28, 28), (16, 16)
BYTES = 32 * 32 * 3
#: More than the header of any array, and than the pictures of any HDF5 file.
HEADER, MOST = 4096, 100_000
SEVERITIES = 5
#: How files of MNIST's form are named.
IMAGES, LABELS = "images-idx3", "labels-idx1"
MISSING = "missing: the tree has no such file"
#: What a pickle of arrays and lists needs; all else could run code.
ALLOWED = re.compile(r"numpy\.(ndarray|dtype|_?core\.multiarray\._reconstruct)|_codecs\.encode")
#: What a file that is damaged, or another one, raises.
FAULTS = (
    *(pickle.UnpicklingError, zipfile.BadZipFile, struct.error, zlib.error, OSError, EOFError),
    *(ValueError, TypeError, LookupError, AttributeError),
)

#: Pictures of a file and their labels.
Pictures: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]


class Stack(NamedTuple):
    """Some pictures of a file, from `first` on, and their labels; `name` is the list that they make up."""

    file: str
    first: int
    labels: NDArray[np.int64]
    name: str = ""
    severity: int | None = None


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """Arrays of pictures, each the files of a domain.

    Attributes:
        labels: their names, in the order of their numbers.
        domains: names in `files`, `<corruption>_<severity>`, and `<corruption>` for a trajectory of all five.
            A corrupted picture has the origin of the test picture that it was made from.
        files: the files of a domain: CIFAR's pickles, or their binary version `<name>.bin`; .npz files, which
            are lists of their own; .npy files and those of MNIST's form, packed or not, which have their
            labels in another.
        outside: part of the name of folders in which another dataset lies.
        content: rows have no domain; the names of domains are those of lists.

    """

    code_version: ClassVar[int] = 1

    labels: Sequence[str]
    domains: Sequence[str]
    files: Mapping[str, Sequence[str]]
    outside: str = ""
    content: bool = False

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of each domain; then the files that are not there."""
        for domain in self.domains:
            number, of = 0, domain if domain in self.files else "test"
            for stack in self._stacks(tree, domain):
                if isinstance(stack, Odd):
                    yield stack
                    continue
                for row, label in enumerate(stack.labels.tolist()):
                    lists: dict[str, Json] = {domain if self.content else ORDER: number}
                    if stack.name:
                        lists[stack.name] = row
                    origin = f"{of} {stack.name} {row if stack.severity else number:05}"
                    yield Row(
                        file=stack.file,
                        part=stack.first + row,
                        label=self.labels[label],
                        nuisance=None if self.content else domain,
                        severity=stack.severity,
                        origin=origin,
                        stem=f"{row:05} {stack.severity}" if stack.severity else origin,
                        more={LISTS: lists},
                    )
                    number += 1

    def _stacks(self, tree: Tree, domain: str) -> Iterator[Stack | Odd]:
        """The arrays of a domain."""
        if domain in self.files:
            yield from (self._stack(tree, file) for file in self.files[domain])
            return
        corruption, _, severity = domain.rpartition("_") if domain[-1].isdigit() else (domain, "", "")
        stack = self._stack(tree, f"{corruption}.npy")
        if isinstance(stack, Odd):
            yield stack
            return
        with whole(tree, "labels.npy"):
            labels = stack.labels.reshape(SEVERITIES, -1)
            if (labels != labels[0]).any():
                raise ValueError("not the same labels in each of five severities")
        for step in [int(severity)] if severity else range(1, SEVERITIES + 1):
            first = (step - 1) * len(labels[0])
            yield Stack(stack.file, first, labels[0], severity=None if severity else step)

    def _stack(self, tree: Tree, name: str) -> Stack | Odd:
        """The pictures of a file, in either version of CIFAR, with labels in it or in another."""
        files = (path for path in tree.files if not self.outside or self.outside not in path.lower())
        paths = {path.rpartition("/")[2].lower(): path for path in files}
        data = next((paths[name + ending] for ending in ("", ".bin", ".gz") if name + ending in paths), None)
        if data is None:
            return Odd(file=name, why=MISSING)
        if not name.endswith(".npy"):
            listed = name[:-4].rpartition("_")[2] if name.endswith(".npz") else ""
            return Stack(data, 0, pictures_in(tree, data, len(self.labels))[1], listed)
        above, of_one, _ = name.partition("_data")
        known = f"{above}_labels.npy" if of_one else "labels.npy"
        if known not in paths:
            return Odd(file=known, why=MISSING)
        with whole(tree, data):
            shape, offset, dtype = _npy_header(tree, data)
            if shape[1:] != CIFAR or dtype != np.uint8 or tree.files[data] != offset + shape[0] * BYTES:
                raise ValueError(f"{tree.files[data]:,} bytes for {shape} of {dtype}")
        with whole(tree, paths[known]):
            _, offset, dtype = _npy_header(tree, paths[known])
            labels = np.frombuffer(tree.read(paths[known], offset), dtype)
            return Stack(data, 0, _checked(labels, shape[0], len(self.labels)))

    def example(self, tree: Tree, file: str, part: int) -> Image.Image:
        """A picture of an array; those of .npy files, which are large, are read one by one."""
        if not file.lower().endswith(".npy"):
            return Image.fromarray(pictures_in(tree, file, len(self.labels))[0][part])
        _, offset, _ = tree.keep("header", file, lambda: _npy_header(tree, file))
        data = tree.read(file, offset + part * BYTES, BYTES)
        return Image.fromarray(np.frombuffer(data, np.uint8).reshape(CIFAR))


def pictures_in(tree: Tree, file: str, classes: int) -> Pictures:
    """All pictures and labels of a file, or of two of MNIST's form, read once."""
    return tree.keep("arrays", file, lambda: _loaded(tree, file, classes))


@contextmanager
def whole(tree: Tree, file: str) -> Iterator[None]:
    """Raise an error that names the file if it is damaged or another one."""
    try:
        yield
    except FAULTS as error:
        raise InputError(
            f"{file} in {tree.place} has no whole arrays of pictures or labels ({error}): it is half a "
            "download or of another dataset, get it again from its authors"
        ) from error


def _loaded(tree: Tree, file: str, classes: int) -> Pictures:
    with whole(tree, file):
        pictures, labels = map(np.asarray, _stored(tree, file, classes))
        if pictures.shape[1:] == (BYTES,):
            pictures = pictures.reshape(-1, 3, *CIFAR[:2]).transpose(0, 2, 3, 1)
        if pictures.dtype != np.uint8 or pictures.shape[1:] not in (CIFAR, MNIST, USPS):
            raise ValueError(f"pictures of shape {pictures.shape[1:]} of {pictures.dtype}")
        return np.ascontiguousarray(pictures), _checked(labels, len(pictures), classes)


def _checked(labels: NDArray[Any], pictures: int, classes: int) -> NDArray[np.int64]:
    if labels.dtype.kind not in "iu" or labels.shape != (pictures,):
        raise ValueError(f"{pictures:,} pictures, and labels of shape {labels.shape} of {labels.dtype}")
    if pictures and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(f"labels from {labels.min()} to {labels.max()}, and there are {classes} classes")
    return labels.astype(np.int64)


def _stored(tree: Tree, file: str, classes: int) -> tuple[Any, Any]:
    """Pictures and labels by the ending of a file; a file of CIFAR without one is a pickle."""
    if IMAGES in file:
        return _idx(tree.read(file)), _idx(tree.read(file.replace(IMAGES, LABELS)))
    data, name = tree.read(file), file.lower()
    if name.endswith(".h5"):
        return _hdf5(data)
    if name.endswith(".bz2"):
        return _libsvm(data)
    if name.endswith(".bin"):  # a row: in CIFAR-100 the coarse label, the label, the pixels
        rows = np.frombuffer(data, np.uint8).reshape(-1, BYTES + (1 if classes == 10 else 2))
        return rows[:, -BYTES:], rows[:, -BYTES - 1]
    if name.endswith(".npz"):  # its texts, which are pickles, are not read
        images, labels = read_arrays(data, file, ["images", "labels"])
        return images, labels
    pickled = _Plain(io.BytesIO(data), encoding="bytes").load()
    named = {name.decode() if isinstance(name, bytes) else name: pickled[name] for name in pickled}
    return named["data"], named["labels" if "labels" in named else "fine_labels"]


class _Plain(pickle.Unpickler):
    """Reads arrays and lists, and runs nothing."""

    def find_class(self, module: str, name: str) -> Any:
        if not ALLOWED.fullmatch(f"{module}.{name}"):
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _idx(data: bytes) -> NDArray[np.uint8]:
    """An array in the form of MNIST's files: two zero bytes, type and dimensions, sizes, values."""
    if data[:2] == b"\x1f\x8b":
        data = unpack(data, "it")
    zero, kind, dimensions = struct.unpack(">HBB", data[:4])
    if zero or kind != 8:
        raise ValueError("its beginning is not that of such a file")
    sizes = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    return np.frombuffer(data[4 + 4 * dimensions :], np.uint8).reshape(sizes)


def _libsvm(data: bytes) -> tuple[Any, Any]:
    """USPS as torchvision gets it: the digit plus 1, then 256 values from -1 to 1."""
    lines = unpack(data, "it").decode().splitlines()
    rows = [line.split() for line in lines]
    values = np.array([[float(pair.split(":")[1]) for pair in row[1:]] for row in rows], np.float32)
    return _eight_bits((values + 1) / 2), [int(row[0]) - 1 for row in rows]


def _hdf5(data: bytes) -> tuple[Any, Any]:
    """USPS with the groups train and test, values from 0 to 1."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError("usps.h5 is read by h5py: pip install 'shiftdata[raw]'") from error
    with h5py.File(io.BytesIO(data), "r") as stored:
        parts = [stored[part] for part in ("train", "test")]
        if any(len(part["data"]) > MOST for part in parts):
            raise ValueError("too many pictures")
        values, digits = (np.concatenate([part[name][:] for part in parts]) for name in ("data", "target"))
    return _eight_bits(values), digits


def _eight_bits(values: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Values from 0 to 1 as torchvision stores them: cut off, not rounded."""
    return (values * 255).astype(np.uint8).reshape(-1, *USPS)


def _npy_header(tree: Tree, file: str) -> tuple[tuple[int, ...], int, np.dtype[Any]]:
    """The shape of an .npy file's array, where its bytes begin, and what they are."""
    stream = io.BytesIO(tree.read(file, 0, HEADER))
    npy.read_magic(stream)
    shape, is_fortran, dtype = npy.read_array_header_1_0(stream)
    if is_fortran or dtype.hasobject:
        raise ValueError("no numbers in the order of C")
    return shape, stream.tell(), dtype
