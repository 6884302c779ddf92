"""The layout of most domain datasets: `<domain>/<class>/<file>`, somewhere in the tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import ClassVar, NamedTuple

from builders.albums.folder import ENDINGS
from builders.raw.album import Found, Odd, Row
from builders.raw.tree import Tree
from shiftdata.errors import InputError


class Place(NamedTuple):
    """Of a picture the folder of its domain, and which domain and label it has."""

    folder: str
    domain: str
    label: str


@dataclass(frozen=True, kw_only=True)
class DomainClass:
    """Folders of domains with folders of classes.

    `domains` and `labels` give each name and its other spellings, of which case does not count. `between`
    are folders that may stand between the two, such as `images`. A domain may lie at any depth; one that lies
    at two places, such as unpacked beside packed under another name, is an error.
    """

    code_version: ClassVar[int] = 1

    domains: Mapping[str, Sequence[str]]
    labels: Mapping[str, Sequence[str]]
    between: Sequence[str] = field(default=())

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every file in a folder of a class in a folder of a domain."""
        places: dict[str, set[str]] = defaultdict(set)
        for file in tree.files:
            if place := self.place(file):
                places[place.domain].add(place.folder)
                yield self.row(file, place.label, place.domain)
            elif file.lower().endswith(ENDINGS):
                yield Odd(file=file, why="not in a folder of a class in a folder of a domain")
        for domain, found in places.items():
            if len(found) > 1:
                raise InputError(
                    f"{tree.place} has the domain {domain} {len(found)} times: {', '.join(sorted(found))}. "
                    "Move one of them away, or give the folder above the right one"
                )

    @cached_property
    def _spellings(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return _by_spelling(self.domains), _by_spelling(self.labels)

    def place(self, file: str) -> Place | None:
        """What the folders of a path say, in the tree or in a list; None where they say nothing."""
        domains, labels = self._spellings
        parts = PurePosixPath(file).parts
        for depth, part in enumerate(parts[:-1]):
            if (domain := domains.get(part.lower())) is None:
                continue
            inside = [one for one in parts[depth + 1 : -1] if one.lower() not in self.between]
            label = labels.get(inside[0].lower()) if len(inside) == 1 else None
            if label is not None:
                return Place("/".join(parts[: depth + 1]), domain, label)
        return None

    def row(self, file: str, label: str, domain: str) -> Found:
        """What a file in its place is."""
        if not file.lower().endswith(ENDINGS):
            return Odd(file=file, why="its name does not end as that of a picture")
        return Row(file=file, label=label, nuisance=domain, origin=self.origin(file, label, domain))

    def origin(self, file: str, label: str, domain: str) -> str | None:
        """What a picture was made from, where others were made from it too."""
        return None


def spelled(*names: str, **spellings: Sequence[str]) -> dict[str, Sequence[str]]:
    """Names, each with its other spellings.

    >>> spelled("art", photo=["photos"])
    {'art': (), 'photo': ['photos']}
    """
    return dict.fromkeys(names, ()) | spellings


def _by_spelling(names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {one.lower(): name for name, others in names.items() for one in (name, *others)}
