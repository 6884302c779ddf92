"""CIFAR-10 and CIFAR-100, their corruptions, and CIFAR-10.1 and 10.2: pictures in arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.raw.album import Found, Odd, Row
from builders.raw.arrays import npy_header, npz, unpickled
from builders.raw.imagenet import CORRUPTIONS
from builders.raw.lists import LISTS
from builders.raw.tree import Tree
from builders.sample import BadItem, Json
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import InputError

TERMS = "LicenseRef-CIFAR-none-stated"
#: In the order of their numbers.
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel
can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion
lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100 = tuple(_NAMES.split())

SIDE = 32
SHAPE = (SIDE, SIDE, 3)
BYTES = SIDE * SIDE * 3
SEVERITIES = 5
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
CORRUPTED = re.compile(rf"({'|'.join(CORRUPTIONS)})_([1-5])")
TRAIN, TEST = "train", "test"
#: CIFAR-10.1 in the version that papers use, else in the first; and CIFAR-10.2, whose halves are lists.
FIRST, SECOND = "cifar10_1", "cifar10_2"
VERSIONS = ("v6", "v4")


class Stack(NamedTuple):
    """The pictures of a file, some of its rows: which file, which row is the first, and their labels."""

    file: str
    first: int
    labels: NDArray[np.int64]
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Cifar:
    """The arrays of CIFAR-10 or CIFAR-100; which of them, the number of labels says.

    `domains` are among train, test, cifar10_1, cifar10_2 and `<corruption>_<severity>`. A corrupted picture
    has the origin of the test picture that it was made from. With `content` the rows have no domain.
    """

    code_version: ClassVar[int] = 1

    labels: Sequence[str]
    domains: Sequence[str]
    content: bool = False

    @property
    def _is_100(self) -> bool:
        return len(self.labels) > len(CIFAR10)

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of each domain; then the domains whose files are not there."""
        files = self._files(tree)
        for domain in self.domains:
            number, of = 0, TEST if CORRUPTED.fullmatch(domain) else domain
            for found in self._stacks(tree, files, domain):
                if isinstance(found, Odd):
                    yield found
                    continue
                for row, label in enumerate(found.labels.tolist()):
                    lists: dict[str, Json] = {ORDER: number}
                    if found.name:
                        lists[found.name] = row
                    origin = f"{of} {found.name} {number:05}"
                    yield Row(
                        file=found.file,
                        part=found.first + row,
                        label=self.labels[label],
                        nuisance=None if self.content else domain,
                        origin=origin,
                        stem=origin,
                        more={LISTS: lists},
                    )
                    number += 1

    def _stacks(self, tree: Tree, files: Mapping[str, str], domain: str) -> Iterator[Stack | Odd]:
        """The arrays of a domain."""
        corrupted = CORRUPTED.fullmatch(domain)
        if corrupted:
            yield self._corrupted(tree, files, corrupted[1], int(corrupted[2]))
        elif domain == FIRST:
            yield self._first(tree, files)
        elif domain == SECOND:
            for part in (TRAIN, TEST):
                yield self._known(tree, files, f"cifar102_{part}.npz", part)
        else:
            train, test = (("train",), ("test",)) if self._is_100 else (BATCHES, ("test_batch",))
            for name in train if domain == TRAIN else test:
                yield self._known(tree, files, name)

    def _known(self, tree: Tree, files: Mapping[str, str], name: str, part: str = "") -> Stack | Odd:
        """The pictures of a pickle or an .npz file."""
        if name not in files:
            return Odd(file=name, why="missing: the tree has no such file")
        return Stack(files[name], 0, self._arrays(tree, files[name])[1], part)

    def _first(self, tree: Tree, files: Mapping[str, str]) -> Stack | Odd:
        """CIFAR-10.1, in the first of its versions that is there."""
        for version in VERSIONS:
            data, labels = (f"cifar10.1_{version}_{what}.npy" for what in ("data", "labels"))
            if data in files and labels in files:
                known = self._labels(tree, files[labels])
                _check_pictures(tree, files[data], len(known))
                return Stack(files[data], 0, known)
        why = "missing: the tree has not both CIFAR-10.1's data and labels"
        return Odd(file="cifar10.1_v6_data.npy", why=why)

    def _corrupted(self, tree: Tree, files: Mapping[str, str], name: str, severity: int = 1) -> Stack | Odd:
        """The rows of a corruption in a severity; `labels.npy` has the labels of all five."""
        if f"{name}.npy" not in files or "labels.npy" not in files:
            return Odd(file=f"{name}.npy", why="missing: the tree has not both this file and labels.npy")
        labels = self._labels(tree, files["labels.npy"])
        each = _check_pictures(tree, files[f"{name}.npy"], len(labels)) // SEVERITIES
        if len(labels) % SEVERITIES or (labels.reshape(SEVERITIES, each) != labels[:each]).any():
            raise InputError(
                f"{files['labels.npy']} in {tree.place} has {len(labels):,} labels that are not five times "
                "the same, one time a severity: get it again"
            )
        return Stack(files[f"{name}.npy"], each * (severity - 1), labels[:each])

    def _files(self, tree: Tree) -> dict[str, str]:
        """The path of each file by its name: of two, that in a folder of this dataset."""
        ours, other = ("cifar-100", "cifar-10-") if self._is_100 else ("cifar-10-", "cifar-100")
        files: dict[str, str] = {}
        for file in sorted(tree.files, key=lambda file: (ours in file.lower(), file)):
            if other not in file.lower():
                files[file.rpartition("/")[2].lower()] = file
        return files

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
        """All pictures and labels of a pickle or an .npz file."""
        return tree.keep("arrays", file, lambda: self._loaded(tree, file))

    def _loaded(self, tree: Tree, file: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        if file.lower().endswith(".npz"):
            pictures, labels = npz(tree, file)
        else:
            stored = unpickled(tree, file)
            name = "labels" if "labels" in stored else "fine_labels"
            pictures, labels = stored.get("data"), stored.get(name)
            if isinstance(pictures, np.ndarray) and pictures.ndim == 2 and pictures.shape[1] == BYTES:
                pictures = pictures.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
        if not isinstance(pictures, np.ndarray) or pictures.dtype != np.uint8 or pictures.shape[1:] != SHAPE:
            raise InputError(
                f"{file} in {tree.place} has no array of bytes with {SIDE} x {SIDE} pictures: another file"
            )
        return np.ascontiguousarray(pictures), self._checked(tree, file, np.asarray(labels), len(pictures))

    def _labels(self, tree: Tree, file: str) -> NDArray[np.int64]:
        """The labels of an .npy file."""
        shape, offset, dtype = npy_header(tree, file)
        data = tree.read(file)[offset:]
        if len(shape) != 1 or dtype.kind not in "iu" or len(data) != shape[0] * dtype.itemsize:
            raise InputError(
                f"{file} in {tree.place} is not a whole list of numbers of classes: get it again"
            )
        return self._checked(tree, file, np.frombuffer(data, dtype), shape[0])

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


@dataclass(frozen=True, kw_only=True)
class CifarC(Cifar):
    """Every corruption of CIFAR-10-C or CIFAR-100-C that is there, in five severities."""

    code_version: ClassVar[int] = 1

    domains: Sequence[str] = field(default=CORRUPTIONS)

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture; a test picture is the origin of all its corruptions."""
        files = self._files(tree)
        for corruption in self.domains:
            found = self._corrupted(tree, files, corruption)
            if isinstance(found, Odd):
                yield found
                continue
            each = len(found.labels)
            for part, label in enumerate(np.tile(found.labels, SEVERITIES).tolist()):
                severity, row = part // each + 1, part % each
                yield Row(
                    file=found.file,
                    part=part,
                    label=self.labels[label],
                    nuisance=corruption,
                    severity=float(severity),
                    origin=f"test {row:05}",
                    stem=f"{row:05} {severity}",
                )


def _check_pictures(tree: Tree, file: str, labels: int) -> int:
    """How many pictures an .npy file has: as many as there are labels."""
    shape, offset, dtype = npy_header(tree, file)
    if shape[1:] != SHAPE or dtype != np.uint8 or shape[0] != labels:
        raise InputError(
            f"{file} in {tree.place} has the shape {shape} of {dtype}, and {labels:,} x 32 x 32 x 3 bytes "
            "are wanted, one picture a label: it is another file"
        )
    if tree.files[file] != offset + labels * BYTES:
        raise InputError(f"{file} in {tree.place} ends too soon: it is half a download, get it again")
    return shape[0]
