"""Pictures in arrays: CIFAR-10 and -100, their corruptions, CIFAR-10.1 and 10.2, and files like MNIST's."""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from PIL import Image

from builders.raw.album import Found, Odd, Row
from builders.raw.digits import idx, unpacked
from builders.raw.lists import LISTS
from builders.raw.tree import Tree
from builders.sample import BadItem, Json
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError

SHAPE = (32, 32, 3)
BYTES = 32 * 32 * 3
#: More than the header of any array.
HEADER = 4096
SEVERITIES = 5
#: How files of MNIST's form are named.
IMAGES, LABELS = "images-idx3", "labels-idx1"
#: What a pickle of arrays and lists needs; all else could run code.
ALLOWED = re.compile(r"numpy\.(ndarray|dtype|_?core\.multiarray\._reconstruct)|_codecs\.encode")
#: What a file that is damaged, or another one, raises.
FAULTS = (
    *(pickle.UnpicklingError, zipfile.BadZipFile, OSError, EOFError),
    *(ValueError, TypeError, LookupError, AttributeError),
)


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
        each = len(stack.labels) // SEVERITIES
        if not np.array_equal(stack.labels, np.tile(stack.labels[:each], SEVERITIES)):
            raise InputError(
                f"labels.npy in {tree.place} has {len(stack.labels):,} labels, and not the same in each of "
                "five severities: get it again"
            )
        for step in [int(severity)] if severity else range(1, SEVERITIES + 1):
            part = stack._replace(first=each * (step - 1), labels=stack.labels[:each])
            yield part if severity else part._replace(severity=step)

    def _stack(self, tree: Tree, name: str) -> Stack | Odd:
        """The pictures of a file, in either version of CIFAR, with labels in it or in another."""
        files = (path for path in tree.files if not self.outside or self.outside not in path.lower())
        paths = {path.rpartition("/")[2].lower(): path for path in files}
        data = next((paths[name + ending] for ending in ("", ".bin", ".gz") if name + ending in paths), None)
        if data is None:
            return Odd(file=name, why="missing: the tree has no such file")
        if not name.endswith(".npy"):
            listed = name[:-4].rpartition("_")[2] if name.endswith(".npz") else ""
            return Stack(data, 0, self._arrays(tree, data)[1], listed)
        above, of_one, _ = name.partition("_data")
        known = f"{above}_labels.npy" if of_one else "labels.npy"
        if known not in paths:
            return Odd(file=known, why="missing: the tree has no such file")
        shape, offset, dtype = npy_header(tree, data)
        if shape[1:] != SHAPE or dtype != np.uint8 or tree.files[data] != offset + shape[0] * BYTES:
            raise InputError(
                f"{data} in {tree.place} is not a whole array of n x 32 x 32 x 3 bytes ({shape} of {dtype}, "
                f"{tree.files[data]:,} bytes): it is half a download or another file, get it again"
            )
        _, offset, dtype = npy_header(tree, paths[known])
        stored = tree.read(paths[known])[offset:]
        labels = np.frombuffer(stored[: len(stored) // dtype.itemsize * dtype.itemsize], dtype)
        return Stack(data, 0, self._checked(tree, paths[known], labels, shape[0]))

    def example(self, tree: Tree, file: str, part: int) -> Image.Image:
        """A picture of an array."""
        if not file.lower().endswith(".npy"):
            return Image.fromarray(self._arrays(tree, file)[0][part])
        _, offset, _ = tree.keep("header", file, lambda: npy_header(tree, file))
        data = tree.read(file, offset + part * BYTES, BYTES)
        if len(data) < BYTES:
            raise BadItem("the array ends before it")
        return Image.fromarray(np.frombuffer(data, np.uint8).reshape(SHAPE))

    def _arrays(self, tree: Tree, file: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All pictures and labels of a file that has both, read once."""
        return tree.keep("arrays", file, lambda: self._loaded(tree, file))

    def _loaded(self, tree: Tree, file: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        try:
            if IMAGES in file:
                pictures, labels = (
                    idx(unpacked(tree.read(path))) for path in (file, file.replace(IMAGES, LABELS))
                )
            else:
                pictures, labels = _stored(tree.read(file), file.lower(), len(self.labels))
        except FAULTS as error:
            raise InputError(
                f"{file} in {tree.place} has no whole arrays of pictures and labels ({error}): get it again, "
                "and from its authors"
            ) from error
        if isinstance(pictures, np.ndarray) and pictures.ndim == 2 and pictures.shape[1] == BYTES:
            pictures = pictures.reshape(-1, 3, *SHAPE[:2]).transpose(0, 2, 3, 1)
        shape = (28, 28) if IMAGES in file else SHAPE
        if not isinstance(pictures, np.ndarray) or pictures.dtype != np.uint8 or pictures.shape[1:] != shape:
            raise InputError(f"{file} in {tree.place} has no pictures of {shape} bytes: it is another file")
        return np.ascontiguousarray(pictures), self._checked(tree, file, np.asarray(labels), len(pictures))

    def _checked(self, tree: Tree, file: str, labels: NDArray[Any], pictures: int) -> NDArray[np.int64]:
        if labels.dtype.kind not in "iu" or labels.shape != (pictures,):
            raise InputError(
                f"{file} in {tree.place} has {pictures:,} pictures and labels of shape {labels.shape}"
            )
        if pictures and not 0 <= labels.min() <= labels.max() < len(self.labels):
            raise InputError(
                f"{file} in {tree.place} has labels from {labels.min()} to {labels.max()}, and there are "
                f"{len(self.labels)} classes: it is of another dataset"
            )
        return labels.astype(np.int64)


class _Plain(pickle.Unpickler):
    """Reads arrays and lists, and runs nothing."""

    def find_class(self, module: str, name: str) -> Any:
        if not ALLOWED.fullmatch(f"{module}.{name}"):
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _stored(data: bytes, file: str, classes: int) -> tuple[Any, Any]:
    """Pictures and labels, as they are stored in the binary version, in CIFAR-10.2 or in a pickle."""
    if file.endswith(".bin"):  # a row: in CIFAR-100 the coarse label, the label, the pixels
        rows = np.frombuffer(data, np.uint8).reshape(-1, BYTES + (1 if classes == 10 else 2))
        return rows[:, -BYTES:], rows[:, -BYTES - 1]
    if file.endswith(".npz"):  # its texts, which are pickles, are not read
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return arrays["images"], arrays["labels"]
    pickled = _Plain(io.BytesIO(data), encoding="bytes").load()
    named = {name.decode() if isinstance(name, bytes) else name: pickled[name] for name in pickled}
    return named["data"], named["labels" if "labels" in named else "fine_labels"]


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
