"""Meta-Album: 128-pixel pictures of many sets, on OpenML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from builders.raw.album import Found, Odd, Row
from builders.raw.pictures import merged, pictures
from builders.raw.releases import PARTS, releases
from builders.raw.tree import Tree
from shiftdata.errors import InputError


@dataclass(frozen=True, kw_only=True)
class MetaAlbum:
    """The pictures of one set, of the `largest` classes by pictures.

    Reads Meta-Album's releases, or folders of classes as the source of a set has them on Kaggle
    (`train/<class>/`, `valid/`, `test/`).
    """

    code_version: ClassVar[int] = 2

    set: str
    largest: int = 20

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of Extended, and of Mini; which of them is in Mini stands in its bases."""
        known = releases(tree, self.set, "Meta-Album")
        untouched = [release for release in known if not release.stylized]
        if not untouched:
            raise InputError(
                f"{tree.place} has {self.set} stylized alone: give Meta-Album's {self.set}_Extended"
            )
        found = list(merged((release, list(pictures(release))) for release in untouched))
        counts = Counter(row.label for row in found if isinstance(row, Row))
        if len(counts) > self.largest and all(release.base in PARTS for release in untouched):
            raise InputError(
                f"{tree.place} has the Mini release of {self.set} alone, where all {len(counts)} classes are "
                f"of one size: its {self.largest} largest classes are known from Extended"
            )
        largest = sorted(counts, key=lambda label: (-counts[label], label))[: self.largest]
        yield from (row for row in found if isinstance(row, Odd) or row.label in largest)
