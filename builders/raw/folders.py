"""The layout of most domain datasets: `<domain>/<class>/<file>`, somewhere in the tree."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from itertools import product
from pathlib import PurePosixPath
from typing import ClassVar, Literal, NamedTuple

from builders.albums.folder import ENDINGS
from builders.raw.album import NAMELESS, Found, Odd, RawAlbum, Row
from builders.raw.lists import LISTS, Lists, Named, name_of, plain, read_list, read_lists
from builders.raw.records import by_name, json_in
from builders.raw.tree import Tree
from shiftdata.errors import InputError
from shiftdata.threads import available_cores, in_threads

#: With so many misplaced pictures to one in its place, the tree is of another dataset.
MOST_MISPLACED = 2
NO_PICTURE = "missing: the tree has no picture of this domain"
NO_PICTURE_OF_CLASS = "missing: this domain has no picture of the class"
MISPLACED = "not in a folder of a class in a folder of a domain"
UNDECIDED = "neither lists nor duplicates are known: every picture of this domain is taken, twice or not"
#: The digits of a hash that name a picture by its bytes.
DIGITS = 16


class Place(NamedTuple):
    """The folder of a picture's domain, its domain and label, and the part that it lies in."""

    folder: str
    domain: str
    label: str
    part: str


@dataclass(frozen=True, kw_only=True)
class Folders:
    r"""Folders of domains with folders of classes.

    Attributes:
        domains, labels: the names, in the order of their numbers.
        spellings: other spellings of names; case, spaces, `_` and `-` do not count.
        between: folders that may stand between domain and class, such as `images`.
        parts: folders among which a domain's pictures are shared out, above or below that of the domain.
        repeats: a part that has the pictures of other parts once more; where all of those are, it is left
            out, and otherwise they are.
        complete: every domain has every class, so that a lack is named.
        origin: a regular expression for each domain, or one for all, that is searched for in the path without
            its ending. Its groups together name what a picture was made from; a group `label` must be the
            picture's label.
        origin_within: pictures with equal origins belong together if they have one label (in any domain), if
            they have one domain, or in any case ("dataset").
        named_by: "bytes" names a picture by its bytes, where copies have other names for equal files.
        lists: ends of the names of list files, `<domain>_<list>.txt`, which rows name; "" is `<domain>.txt`.
        belong: lists that together decide which pictures belong; without them the list of `duplicates`
            decides which do not.
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
    between: tuple[str, ...] = ()
    parts: tuple[str, ...] = ("train", "training", "val", "validation", "test", "testing")
    repeats: Mapping[str, Sequence[str]] = field(default_factory=dict)
    complete: bool = True
    origin: str | Mapping[str, str] = ""
    origin_within: Literal["label", "domain", "dataset"] = "label"
    named_by: Literal["file", "bytes"] = "file"
    lists: tuple[str, ...] = ()
    belong: tuple[str, ...] = ()
    duplicates: str = ""
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
        for name, others in {**self.spellings, **self.repeats}.items():
            if isinstance(others, str):
                raise InputError(f"{name} = {others!r} is a text: write a list, {name} = [{others!r}]")

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture, then what is missing.

        An exact copy of a domain is left out. Of two others it is not known which is right: an error.
        """
        results = list(self.pictures(tree))
        rows = [result for result in results if isinstance(result, Row)]
        copies = self._copies(tree, rows)
        for result in results:
            place = self.place(result.file) if copies and isinstance(result, Row) else None
            if place is None or place.folder not in copies:
                yield result
        yield from (Odd(file=folder, why="an exact copy of another folder of the tree") for folder in copies)
        misplaced = [result.file for result in results if isinstance(result, Odd) and result.why == MISPLACED]
        if rows and len(misplaced) > MOST_MISPLACED * len(rows):
            raise InputError(
                f"{tree.place} seems to be another dataset, or several: {len(rows):,} pictures are in a "
                f"folder of {', '.join(self.labels[:3])}, .. in one of {', '.join(self.domains)}, and "
                f"{len(misplaced):,} are not, such as {misplaced[0]}: give the folder of this dataset alone"
            )
        yield from self._missing(Counter((row.nuisance or "", row.label) for row in rows))

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every file in its place, every picture elsewhere, and the lines of lists that name no picture."""
        lists = read_lists(tree, self._list_files(tree), self._named)
        absent = dict(lists.lines)
        for result in self._belonging(tree, lists, self._by_bytes(tree, self._in_place(tree))):
            if isinstance(result, Row) and lists.lines:
                named = name_of(result)
                absent.pop(named, None)
                if places := lists.of.get(named):
                    result = replace(result, more={**result.more, LISTS: dict(sorted(places.items()))})
            yield result
        yield from lists.odd
        for file, line in absent.values():
            yield Odd(file=line.path, why=f"listed in {PurePosixPath(file).name}, and not there")

    def _in_place(self, tree: Tree) -> Iterator[Found]:
        """Every file in a folder of a class in a folder of a domain or in a flat one; pictures elsewhere."""
        places = {file: self.place(file) for file in tree.files}
        present = {(place.domain, place.part) for place in places.values() if place}
        numbers = self._numbers(tree)
        for file, place in places.items():
            if why := self._why_left_out(file):
                yield Odd(file=file, why=why)
            elif place:
                again = self._again(place, present)
                yield Odd(file=file, why=f"also in {again}") if again else self._row(file, place)
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

    def _again(self, place: Place, present: set[tuple[str, str]]) -> str:
        """The parts that have a picture once more, if it does not count."""
        for whole, others in self.repeats.items():
            parts = {plain(part) for part in others}
            complete = all((place.domain, part) in present for part in parts)
            left_out = {plain(whole)} if complete else parts
            if (place.domain, plain(whole)) in present and place.part in left_out:
                return " or ".join(others) if complete else whole
        return ""

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

    def _elsewhere(self, file: str, numbers: Mapping[tuple[str, str], set[int]]) -> Found:
        """The row of a picture in a flat folder, or why a picture is none."""
        folder, _, name = file.lower().rpartition("/")
        for domain, pattern in self.flat.items():
            if (match := re.search(pattern, f"{folder}/{name}".rpartition(".")[0])) is None:
                continue
            numbered = numbers.get((folder.rpartition("/")[2], name), {-1})
            given = match.groupdict().get("label", "")
            label = self._names[1].get(given) or dict(enumerate(self.labels)).get(max(numbered))
            if label is not None and len(numbered) == 1:
                return self._row(file, Place(folder, domain, label, ""))
            lists = " or ".join(self.label_lists)
            return Odd(file=file, why=f"its class is not known: no {lists} has one number for it")
        return Odd(file=file, why=MISPLACED)

    def _numbers(self, tree: Tree) -> Mapping[tuple[str, str], set[int]]:
        """The numbers that lists give, by folder and name of a picture; the folder may be the list's name."""
        numbers: dict[tuple[str, str], set[int]] = defaultdict(set)
        for file in tree.files if self.label_lists else ():
            path = PurePosixPath(file.lower())
            if not any(fnmatch(path.name, pattern) for pattern in self.label_lists):
                continue
            for line in read_list(tree.read(file)):
                named = PurePosixPath(line.path.lower())
                if line.number is not None:
                    folder = named.parent.name or path.stem.removesuffix("_labels")
                    numbers[folder, named.name].add(line.number)
        return numbers

    def _by_bytes(self, tree: Tree, results: Iterator[Found]) -> Iterator[Found]:
        """Name rows by their bytes; equal pictures have one origin, whatever their classes."""
        if self.named_by == "file":
            yield from results
            return
        rows = list[Row]()
        for result in results:
            if isinstance(result, Row):
                rows.append(result)
            else:
                yield result
        digests = in_threads(lambda row: _digest(tree, row), rows, available_cores())
        for row, digest in zip(rows, digests, strict=True):
            renamed = row.file.split("/")[-2].isdecimal()  # a copy with numbers for classes has its own names
            more = {NAMELESS: True} if renamed else {}
            yield replace(row, stem=digest, origin=digest, across=True, more=more)

    def _belonging(self, tree: Tree, lists: Lists, results: Iterator[Found]) -> Iterator[Found]:
        """The rows that the lists of `belong` name, or that the list of duplicates does not."""
        decided = {domain for domain, read in lists.read.items() if self.belong and {*self.belong} <= {*read}}
        duplicates = self._duplicates(tree) if self.belong else set()
        undecided = set[str]()
        for result in results:
            if not isinstance(result, Row) or not self.belong:
                yield result
                continue
            named, domain = name_of(result), result.nuisance or ""
            if domain not in decided and not duplicates:
                undecided.add(domain)
            listed = any(name in lists.of.get(named, ()) for name in self.belong)
            belongs = listed if domain in decided else named not in duplicates
            yield result if belongs else Odd(file=result.file, why="not in the cleaned version")
        yield from (Odd(file=domain, why=UNDECIDED) for domain in sorted(undecided))

    def _duplicates(self, tree: Tree) -> set[Named]:
        """The pictures that the list of duplicates names, wherever it lies in the tree."""
        files = [file for file in tree.files if file.rpartition("/")[2].lower() == self.duplicates]
        lines = [line.path for file in files for line in read_list(tree.read(file))]
        return {named for path in lines if (named := self._named("", path))}

    def _named(self, domain: str, path: str) -> Named | None:
        """The picture that a line of a domain's list means."""
        place = self.place(path) or self.place(f"{domain}/{path}")
        return place and (place.domain, place.label, path.rpartition("/")[2].lower())

    def _copies(self, tree: Tree, rows: Sequence[Row]) -> set[str]:
        """The folders of domains that are exact copies of others; raises an error for other copies."""
        domains: dict[str, dict[str, set[tuple[str, str, int]]]] = defaultdict(lambda: defaultdict(set))
        for row in rows:
            if place := self.place(row.file):
                name = row.file.rpartition("/")[2]
                domains[place.domain][place.folder].add((place.label, name, tree.files[row.file]))
        copies: set[str] = set()
        for domain, folders in domains.items():
            first, *others = sorted(folders)
            if any(folders[other] != folders[first] for other in others):
                places = ", ".join(sorted(folders))
                raise InputError(
                    f"{tree.place} has {domain} {len(folders)} times, and not the same: {places}. Move one "
                    "of them away, or give the folder above the right one"
                )
            copies |= {*others}
        return copies

    def _missing(self, groups: Counter[tuple[str, str]]) -> Iterator[Odd]:
        present = {domain for domain, _ in groups}
        for domain in self.domains:
            if domain not in present:
                yield Odd(file=domain, why=NO_PICTURE)
                continue
            for label in self.labels if self.complete else ():
                if not groups[domain, label]:
                    yield Odd(file=f"{domain}/{label}", why=NO_PICTURE_OF_CLASS)

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
        domains, labels = (
            {plain(text): name for name in names for text in (name, *self.spellings.get(name, ()))}
            for names in (self.domains, self.labels)
        )
        return domains, labels

    def _place(self, folders: Sequence[str]) -> Place | None:
        domains, labels = self._names
        between, parts = (frozenset(map(plain, names)) for names in (self.between, self.parts))
        for depth, folder in enumerate(folders):
            if (domain := domains.get(plain(folder))) is None:
                continue
            levels = folders[depth + 1 : -1]
            label = labels.get(plain(folders[-1])) if folders[depth + 1 :] else None
            if label is not None and all(plain(level) in between | parts for level in levels):
                above, below = (
                    [level for level in side if plain(level) not in parts]
                    for side in (folders[:depth], levels)
                )
                part = next((plain(level) for level in levels if plain(level) in parts), "")
                return Place("/".join([*above, folder, *below]), domain, label, part)
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
        if file is None:
            return default
        stored, known = json_in(self.tree, file), {plain(label): label for label in default}
        if not isinstance(stored, dict) or not all(isinstance(number, int) for number in stored.values()):
            raise InputError(f"{file} in {self.tree.place} is not a mapping of classes to numbers")
        numbers = {known.get(plain(name), str(name)): number for name, number in stored.items()}
        if all(label in default and default.index(label) == number for label, number in numbers.items()):
            return default
        return tuple(sorted(numbers, key=lambda label: numbers[label]))


def _digest(tree: Tree, row: Row) -> str:
    return hashlib.sha256(tree.read(row.file)).hexdigest()[:DIGITS]
