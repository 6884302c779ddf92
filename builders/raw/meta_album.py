"""Meta-Album: 128-pixel pictures of many sets, on OpenML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from builders.albums.folder import ENDINGS
from builders.raw.album import Found, Odd, Row
from builders.raw.merging import merged
from builders.raw.releases import PARTS, UNLISTED, Read, Release, listed, releases, unusable
from builders.raw.tree import Tree
from shiftdata.errors import InputError


@dataclass(frozen=True, kw_only=True)
class MetaAlbum:
    """The pictures of one set, of the `largest` classes by pictures."""

    code_version: ClassVar[int] = 1

    set: str
    largest: int = 20

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of Extended, and of Mini; which of them is in Mini stands in its bases."""
        known, odd = releases(tree, self.set, "Meta-Album")
        yield from odd
        mine = [one for one in known if not one.stylized]
        if not mine:
            raise InputError(
                f"{tree.place} has {self.set} stylized alone: give Meta-Album's {self.set}_Extended"
            )
        found = list(merged((one, list(_all(one))) for one in mine))
        counts = Counter(one.label for one in found if isinstance(one, Row))
        if len(counts) > self.largest and all(one.version in PARTS for one in mine):
            raise InputError(
                f"{tree.place} has the Mini release of {self.set} alone, where all {len(counts)} classes are "
                f"of one size: its {self.largest} largest classes are known from Extended"
            )
        ordered = sorted(counts, key=lambda label: (-counts[label], label))
        kept = set(ordered[: self.largest])
        yield from (one for one in found if isinstance(one, Odd) or one.label in kept)


def _all(release: Release) -> Iterator[Read]:
    """What the table lists, and by name what it should list or does."""
    used: dict[str, str] = {}
    yield from unusable(release)
    yield from listed(release, release.rows, used)
    for path, file in release.files.items():
        if path not in used and path.lower().endswith(ENDINGS):
            yield Odd(file=file, why=UNLISTED)
