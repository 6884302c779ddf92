"""NICO++: classes in contexts; the public part, and the paper's whole for whoever has it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import ClassVar, Self

from builders.raw.album import Found, Odd, RawAlbum
from builders.raw.domain_class import Place, plain
from builders.raw.lists import ListedClass
from builders.raw.tree import Tree
from builders.shifts.steps import Domains
from shiftdata.errors import InputError

NUMBERS = "dg_label_id_mapping.json"
#: Folders of the release whose pictures have no label, or no context.
WITHOUT = {
    "public_test_flat": "the pictures of the public test have no labels",
    "public_ood_0412_nodomainlabel": "the pictures of track 2 have no contexts",
}


@dataclass(frozen=True, kw_only=True)
class Nico(ListedClass):
    """`public_dg_0416/train/<context>/<class>/<file>`, however deep; its `lists` were never released.

    `any_context` takes every folder above one of a class for a context, as of the paper's unique ones.
    """

    code_version: ClassVar[int] = 1

    lists: Sequence[str] = ("train", "val", "test", "")
    complete: bool = False
    any_context: bool = False

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every picture with class and context; of the others, why they have none."""
        for found in super().pictures(tree):
            folders = {folder.lower() for folder in found.file.split("/")[:-1]} & set(WITHOUT)
            without = isinstance(found, Odd) and folders
            yield Odd(file=found.file, why=WITHOUT[folders.pop()]) if without else found

    def place(self, file: str) -> Place | None:
        """By the known contexts, or else by the folder above that of the class."""
        place = super().place(file)
        folders = PurePosixPath(file).parts[:-1]
        if place is not None or not self.any_context or len(folders) < 2:
            return place
        if any(folder.lower() in WITHOUT for folder in folders):
            return None
        known = {plain(label): label for label in self.labels}
        label = known.get(plain(folders[-1]))
        return Place("/".join(folders[:-1]), folders[-2], label) if label else None


class NicoAlbum(RawAlbum):
    """The album whose labels are numbered as in the authors' file, if that is there."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Every class by its number."""
        default = super().labels
        file = next((one for one in self.tree.files if PurePosixPath(one).name.lower() == NUMBERS), None)
        if file is None:
            return default
        known = {plain(label): label for label in default}
        try:
            numbers = {
                known.get(plain(name), name): int(one)
                for name, one in json.loads(self.tree.read(file)).items()
            }
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(
                f"{file} in {self.tree.place} is not a mapping of classes to numbers: {error}"
            ) from error
        if all(name in default and default.index(name) == number for name, number in numbers.items()):
            return default
        more = {item.label for item in self.items()} - set(numbers)
        return (*sorted(numbers, key=lambda name: numbers[name]), *sorted(more))


@dataclass(frozen=True, kw_only=True)
class AlbumDomains(Domains):
    """All domains of an album: `names` first, then those that are known only from its folders, sorted."""

    code_version: ClassVar[int] = 1

    album: RawAlbum

    def of(self, album: RawAlbum) -> Self:
        return replace(self, album=album)

    @cached_property
    def _every(self) -> tuple[str, ...]:
        others = {item.nuisance for item in self.album.items() if item.nuisance} - {*self.names}
        return (*self.names, *sorted(others))

    @property
    def nuisances(self) -> tuple[str, ...]:
        return self._every
