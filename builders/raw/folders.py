"""The layout of most domain datasets: `<domain>/<class>/<file>`, somewhere in the tree."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from itertools import product
from pathlib import PurePosixPath
from typing import ClassVar, Literal, NamedTuple

from builders.albums.folder import ENDINGS
from builders.raw.album import NAMELESS, RawAlbum
from builders.raw.found import Found, Odd, Results, Row
from builders.raw.lists import LISTS, Named, plain, read_list, read_lists, spelled
from builders.raw.records import by_name, json_in
from builders.raw.tree import Tree
from shiftdata.errors import InputError
from shiftdata.stable import hash64
from shiftdata.threads import ahead, available_cores

#: With so many misplaced pictures to one in its place, the tree is of another dataset.
MOST_MISPLACED = 2
NO_PICTURE = "missing: the tree has no picture of this domain"
NO_PICTURE_OF_CLASS = "missing: this domain has no picture of the class"
MISPLACED = "not in a folder of a class in a folder of a domain"
UNDECIDED = "its lists are not there: every picture of this domain is taken, twice or not"
#: The digits of a hash that name a picture by its bytes.
DIGITS = 16


class Place(NamedTuple):
    """The folder of a picture's domain, without parts; its domain and label."""

    folder: str
    domain: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Folders:
    r"""Folders of domains with folders of classes.

    Attributes:
        domains, labels: the names, in the order of their numbers.
        spellings: other spellings of names; case, spaces, `_` and `-` do not count.
        parts: folders that may stand above a domain or between it and a class, such as `images`; those among
            which a domain's pictures are shared out.
        complete: every domain has every class, so that a lack is named.
        origin: a regular expression for each domain, or one for all, that is searched for in the path without
            its ending. Its groups together name what a picture was made from; a group `label` must be the
            picture's label.
        origin_within: pictures with equal origins belong together if they have one label (in any domain), if
            they have one domain, or in any case ("dataset").
        named_by: "bytes" names a picture by its bytes, where copies have other names for equal files.
        lists: ends of the names of list files, `<domain>_<list>.txt`, which rows name; "" is `<domain>.txt`.
        belong: lists that together decide which pictures belong.
        flat: of pictures without a folder of their class, a regular expression for each domain that is
            searched for in the path without its ending. Their labels are its group `label`, or the numbers
            that the files `label_lists` give.
        left_out: folders of which nothing is read, and why.
        numbers: the authors' JSON file of class numbers, which counts if it is there.

    """

    code_version: ClassVar[int] = 2

    domains: tuple[str, ...]
    labels: tuple[str, ...]
    spellings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parts: tuple[str, ...] = ("train", "training", "val", "validation", "test", "testing")
    complete: bool = True
    origin: str | Mapping[str, str] = ""
    origin_within: Literal["label", "domain", "dataset"] = "label"
    named_by: Literal["file", "bytes"] = "file"
    lists: tuple[str, ...] = ()
    belong: tuple[str, ...] = ()
    flat: Mapping[str, str] = field(default_factory=dict)
    label_lists: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    numbers: str = ""

    def __post_init__(self) -> None:
        """Refuse what a declaration cannot mean, before any file is read."""
        origins = [self.origin] if isinstance(self.origin, str) else self.origin.values()
        for pattern in (*origins, *self.flat.values()):
            try:
                re.compile(pattern)
            except re.error as error:
                raise InputError(f"{pattern!r} is not a regular expression: {error}") from error
        for name, others in self.spellings.items():
            if isinstance(others, str):
                raise InputError(f"{name} = {others!r} is a text: write a list, {name} = [{others!r}]")

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture, then what is missing.

        An exact copy of a domain is left out. Of two others it is not known which is right: an error.
        """
        results = Results(self.pictures(tree))
        misplaced = [file for file, why in results.odd.items() if why == MISPLACED]
        if len(results) and len(misplaced) > MOST_MISPLACED * len(results):
            raise InputError(
                f"{tree.place} seems to be another dataset, or several: {len(results):,} pictures are in a "
                f"folder of {', '.join(self.labels[:3])}, .. in one of {', '.join(self.domains)}, and "
                f"{len(misplaced):,} are not, such as {misplaced[0]}: give the folder of this dataset alone"
            )
        yield from (Odd(file=file, why=why) for file, why in results.odd.items())
        copies, groups = self._copies(tree, results), set[tuple[str | None, str]]()
        for row in results:
            place = self.place(row.file)
            if place is None or place.folder not in copies:
                yield row
            groups.add((row.nuisance, row.label))
        yield from (Odd(file=folder, why="an exact copy of another folder of the tree") for folder in copies)
        for domain in self.domains:
            missing = [label for label in self.labels if (domain, label) not in groups]
            if len(missing) == len(self.labels):
                yield Odd(file=domain, why=NO_PICTURE)
            elif self.complete:
                yield from (Odd(file=f"{domain}/{label}", why=NO_PICTURE_OF_CLASS) for label in missing)

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every file in its place, every picture elsewhere, and the lines of lists that name no picture."""
        lists = read_lists(tree, self._list_files(tree), self._named)
        absent, belong = dict(lists.lines), {*self.belong}
        for result in self._by_bytes(tree, self._in_place(tree)):
            if isinstance(result, Row) and lists.lines:
                domain = result.nuisance or ""
                named = domain, result.label, _name(result.file)
                absent.pop(named, None)
                places = lists.places.get(named, {})
                if belong and belong <= lists.read.get(domain, set()) and not belong & {*places}:
                    result = Odd(file=result.file, why="not in the cleaned version")
                elif places:
                    result = replace(result, more={**result.more, LISTS: dict(sorted(places.items()))})
            yield result
        yield from (*lists.odd, *absent.values())
        undecided = (name for name in self.domains if not belong <= lists.read.get(name, set()))
        yield from (Odd(file=domain, why=UNDECIDED) for domain in undecided)

    def _in_place(self, tree: Tree) -> Iterator[Found]:
        """Every file in a folder of a class in a folder of a domain or in a flat one; pictures elsewhere."""
        numbers = self._numbers(tree)
        for file in tree.files:
            if why := self._why_left_out(file):
                yield Odd(file=file, why=why)
            elif place := self.place(file):
                yield self._row(file, place)
            elif file.lower().endswith(ENDINGS):
                yield self._elsewhere(file, numbers)

    def _why_left_out(self, file: str) -> str:
        return next((why for folder, why in self.left_out.items() if f"/{folder}/" in f"/{file.lower()}"), "")

    def _list_files(self, tree: Tree) -> Iterator[tuple[str, str, str]]:
        """The list files of a tree, each with its domain and the name of the list."""
        known = {
            plain(f"{spelling}{name}"): (domain, name)
            for domain, name in product(self.domains, self.lists)
            for spelling in (domain, *self.spellings.get(domain, ()))
        }
        for file in tree.files if known else ():
            stem, _, ending = file.rpartition("/")[2].rpartition(".")
            if ending.lower() == "txt" and plain(stem) in known and not self._why_left_out(file):
                yield (*known[plain(stem)], file)

    def _row(self, file: str, place: Place) -> Found:
        """The row of a file in its place."""
        if not file.lower().endswith(ENDINGS):
            return Odd(file=file, why="its name does not end as that of a picture")
        row = Row(file=file, label=place.label, nuisance=place.domain)
        pattern = self.origin if isinstance(self.origin, str) else self.origin.get(place.domain, "")
        match = re.search(pattern, file.rpartition(".")[0], re.IGNORECASE) if pattern else None
        if match is None:
            return row
        groups = match.groupdict()
        label = groups.pop("label", place.label)
        if label != place.label:
            return Odd(file=file, why=f"its folder says another class than its name ({label})")
        origin = " ".join(filter(None, groups.values() if groups else match.groups()))
        within = f"{place.domain} {origin}" if self.origin_within == "domain" else origin
        return replace(row, origin=within, across=self.origin_within != "label")

    def _elsewhere(self, file: str, numbers: Mapping[tuple[str, ...], set[int]]) -> Found:
        """The row of a picture in a flat folder, or why a picture is none."""
        path = PurePosixPath(file.lower())
        for domain, pattern in self.flat.items():
            if match := re.search(pattern, str(path.with_suffix(""))):
                numbered = numbers.get(path.parts[-2:], {-1})
                given = match.groupdict().get("label", "")
                label = self._names[1].get(given) or dict(enumerate(self.labels)).get(max(numbered))
                if label is not None and len(numbered) == 1:
                    return self._row(file, Place("", domain, label))
                lists = " or ".join(self.label_lists)
                return Odd(file=file, why=f"its class is not known: no {lists} has one number for it")
        return Odd(file=file, why=MISPLACED)

    def _numbers(self, tree: Tree) -> Mapping[tuple[str, ...], set[int]]:
        """The numbers that lists give, by folder and name of a picture; the folder may be the list's name."""
        numbers: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for file in tree.files if self.label_lists else ():
            path = PurePosixPath(file.lower())
            if any(fnmatch(path.name, pattern) for pattern in self.label_lists):
                folder = path.stem.removesuffix("_labels")
                for line, number in read_list(tree.read(file)):
                    if number is not None:
                        numbers[PurePosixPath(folder, line.lower()).parts[-2:]].add(number)
        return numbers

    def _by_bytes(self, tree: Tree, found: Iterator[Found]) -> Iterator[Found]:
        """Name rows by their bytes; equal pictures have one origin, whatever their classes."""
        if self.named_by != "bytes":
            yield from found
            return
        rows = Results(found)
        yield from (Odd(file=file, why=why) for file, why in rows.odd.items())
        digests = ahead(lambda row: hashlib.sha256(tree.read(row.file)).hexdigest(), rows, available_cores())
        for row, digest in zip(rows, digests, strict=True):
            renamed = row.file.split("/")[-2].isdecimal()  # a copy with numbers for classes has its own names
            name, more = digest[:DIGITS], {NAMELESS: True} if renamed else {}
            yield replace(row, stem=name, origin=name, across=True, more=more)

    def _named(self, domain: str, path: str) -> Named | None:
        """The picture that a line of a domain's list means."""
        place = self.place(path) or self.place(f"{domain}/{path}")
        return place and (place.domain, place.label, _name(path))

    def _copies(self, tree: Tree, rows: Results) -> set[str]:
        """The folders of domains that are exact copies of others; raises an error for other copies."""
        folders = defaultdict[str, set[str]](set)
        for found in filter(None, (self.place(row.file) for row in rows)):
            folders[found.domain].add(found.folder)
        several = {domain for domain, of in folders.items() if len(of) > 1}
        pictures: dict[tuple[str, str], array[int]] = defaultdict(lambda: array("Q"))
        for row in rows if several else ():
            if (place := self.place(row.file)) and place.domain in several:
                picture = place.label, row.file.rpartition("/")[2], tree.files[row.file]
                pictures[place.domain, place.folder].append(hash64(*picture))
        originals: dict[str, str] = {}
        for domain, folder in sorted(pictures):
            original = originals.setdefault(domain, folder)
            if {*pictures[domain, folder]} != {*pictures[domain, original]}:
                raise InputError(
                    f"{tree.place} has {domain} twice, and not the same: {original}, {folder}. Move one of "
                    "them away, or give the folder above the right one"
                )
        return {folder for _, folder in pictures} - {*originals.values()}

    def place(self, file: str) -> Place | None:
        """The place that the folders of a path name, in the tree or in a list, if they name any."""
        above = file.rpartition("/")[0]
        if above not in self._places:
            self._places[above] = self._place(PurePosixPath(above).parts)
        return self._places[above]

    @cached_property
    def _places(self) -> dict[str, Place | None]:
        """The places of folders: they are few, and their files many."""
        return {}

    @cached_property
    def _names(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Domains and labels by each of their spellings."""
        return spelled(self.domains, self.spellings), spelled(self.labels, self.spellings)

    def _place(self, folders: Sequence[str]) -> Place | None:
        (domains, labels), parts = self._names, {*map(plain, self.parts)}
        for depth, folder in enumerate(folders[:-1]):
            domain, label = domains.get(plain(folder)), labels.get(plain(folders[-1]))
            if domain and label and parts.issuperset(map(plain, folders[depth + 1 : -1])):
                above = [level for level in folders[:depth] if plain(level) not in parts]
                return Place("/".join([*above, folder]), domain, label)
        return None


@dataclass(frozen=True, kw_only=True)
class NumberedAlbum(RawAlbum):
    """An album whose labels are numbered as in the authors' file, if that is there."""

    code_version: ClassVar[int] = 2

    @property
    def labels(self) -> tuple[str, ...]:
        """Every class by its number."""
        default = super().labels
        file = by_name(self.tree).get(str(getattr(self.layout, "numbers", "")))
        stored = json_in(self.tree, file) if file else {}
        if not isinstance(stored, dict) or not all(isinstance(number, int) for number in stored.values()):
            raise InputError(f"{file} in {self.tree.place} is not a mapping of classes to numbers")
        known = {plain(label): label for label in default}
        numbers = {known.get(plain(name), str(name)): number for name, number in stored.items()}
        if all(label in default and default.index(label) == number for label, number in numbers.items()):
            return default
        return tuple(sorted(numbers, key=lambda label: numbers[label]))


def _name(file: str) -> str:
    return file.rpartition("/")[2].lower()
