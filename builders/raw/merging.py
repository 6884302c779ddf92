"""Several releases of a set as one dataset: what Mini has is a part of Extended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from builders.albums.folder import DIGITS_OF_MANY, hash_digits, slug
from builders.raw.album import Found, Odd, Row
from builders.raw.releases import PARTS, Picture, Read, Release, name_of, plain


def merged(read: Iterable[tuple[Release, Sequence[Read]]]) -> Iterator[Found]:
    """The rows of several releases. What two of them have is one row, and in the base of each.

    What Mini has under another name is known by its bytes.
    """
    first: dict[tuple[str, str | None, str], tuple[Release, Picture]] = {}
    bases: dict[tuple[str, str | None, str], list[str]] = defaultdict(list)
    spellings: dict[str, set[tuple[int, str]]] = defaultdict(set)
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    alike = _Alike()
    copies: Counter[tuple[str, str]] = Counter()
    for release, several in read:
        pictures = [one for one in several if isinstance(one, Picture)]
        yield from (one for one in several if isinstance(one, Odd))
        stems = Counter((plain(one.label), one.style, one.name) for one in pictures)
        for one in pictures:
            label = plain(one.label)
            if stems[label, one.style, one.name] > 1:  # 1.jpg beside 1.png
                one = replace(one, name=name_of(one.path))
            key = label, one.style, one.name
            if release.version in PARTS and key not in first:
                key = label, one.style, alike.find((label, one.style), release, one) or one.name
            if key not in first:
                first[key] = release, one
                alike.add((label, one.style), release, one)
            elif first[key][0].base == release.base:
                copies[release.folder, first[key][0].folder] += 1
            bases[key].append(release.base)
            spellings[label].add((one.rank, one.label))
            names[label, slug(key[2])].add(key[2])
    for (again, counts), number in copies.items():
        yield Odd(file=again, why=f"a second copy of what is already there ({number:,} pictures of {counts})")
    for (label, style, name), (release, one) in first.items():
        several_names = len(names[label, slug(name)]) > 1  # a.jpg beside A.JPG
        stem = f"{name} {hash_digits(name, DIGITS_OF_MANY)}" if several_names else name
        yield Row(
            file=release.files[one.path],
            label=min(spellings[label])[1],
            nuisance=style,
            origin=stem,
            stem=stem,
            bases=tuple(sorted(set(bases[label, style, name]))),
            more=one.more,
        )


class _Alike:
    """Pictures by group and size, to know those again that another release names otherwise."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, int], list[tuple[Release, Picture]]] = defaultdict(list)

    def add(self, group: object, release: Release, one: Picture) -> None:
        self._known[group, release.size(one.path)].append((release, one))

    def find(self, group: object, release: Release, one: Picture) -> str | None:
        """The name of a picture of other releases that has the same bytes."""
        for other, known in self._known[group, release.size(one.path)]:
            if other is not release and other.read(known.path) == release.read(one.path):
                return known.name
        return None
