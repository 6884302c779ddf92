"""Digits: pictures in folders, MNIST's own files, and USPS as HDF5 or in the form of libsvm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from PIL import Image

from builders.raw.arrays import pictures_in
from builders.raw.folders import Folders
from builders.raw.found import Found, Odd, Row
from builders.raw.tree import Tree

#: Files by name, packed by gzip or not, with their domain and part.
FILES: Mapping[str, tuple[str, str]] = {
    "train-images-idx3-ubyte": ("mnist", "train"),
    "t10k-images-idx3-ubyte": ("mnist", "test"),
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
        in_folders = list(super().pictures(tree))
        yield from in_folders
        domains = {row.nuisance for row in in_folders if isinstance(row, Row)}
        read = {place for place in FILES.values() if place[0] in domains}
        for file in tree.files:
            domain, part = FILES.get(file.rpartition("/")[2].lower().removesuffix(".gz"), ("", ""))
            if (domain, part) in read:
                yield Odd(file=file, why=f"the pictures of {domain} are there in another form, which is read")
            elif domain:
                read.add((domain, part))
                for number, digit in enumerate(pictures_in(tree, file, len(self.labels))[1].tolist()):
                    origin = f"{part} {number}" if domain == "mnist" else None
                    yield Row(file=file, label=str(digit), nuisance=domain, part=number, origin=origin)

    def example(self, tree: Tree, file: str, part: int) -> Image.Image:
        """A picture in an array."""
        return Image.fromarray(pictures_in(tree, file, len(self.labels))[0][part])
