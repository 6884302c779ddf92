"""NICO++: classes in contexts, of which a part is public."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from builders.raw.album import Found, Odd, RawAlbum
from builders.raw.domain_class import plain
from builders.raw.lists import ListedClass
from builders.raw.tree import Tree
from shiftdata.errors import InputError

NUMBERS = "dg_label_id_mapping.json"
#: Folders of the release whose pictures have no label, or no context.
WITHOUT = {
    "public_test_flat": "the pictures of the public test have no labels",
    "public_ood_0412_nodomainlabel": "the pictures of track 2 have no contexts",
}


@dataclass(frozen=True, kw_only=True)
class Nico(ListedClass):
    """`public_dg_0416/train/<context>/<class>/<file>`, however deep; its `lists` were never released."""

    code_version: ClassVar[int] = 1

    lists: Sequence[str] = ("train", "val", "test", "")
    complete: bool = False

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every picture with class and context; of the others, why they have none."""
        for found in super().pictures(tree):
            folders = {folder.lower() for folder in found.file.split("/")[:-1]} & set(WITHOUT)
            without = isinstance(found, Odd) and folders
            yield Odd(file=found.file, why=WITHOUT[folders.pop()]) if without else found


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
