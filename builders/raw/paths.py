"""Pictures whose paths say everything, by one pattern: classes, styles, trajectories of severities."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import ClassVar, Literal

import numpy as np

from builders.albums.folder import ENDINGS
from builders.raw.found import Found, Odd, Results, Row
from builders.raw.imagenet import TWICE, labels, nodes
from builders.raw.lists import LISTS, plain, spelled
from builders.raw.records import decoded
from builders.raw.tree import Tree
from builders.sample import Json
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.stable import hash64

GROUPS = ("label", "domain", "severity", "origin", "list")
#: A path of a picture in JSON.
PATH = re.compile(r'"([^"\n]+\.(?:jpe?g|png))"', re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Pictures whose paths end in one pattern.

    Pictures of one origin in several severities are a trajectory. One that lacks a severity which others
    have is left out.

    Attributes:
        pattern: a regular expression with the group `label`, and any of `domain`, `severity`, `origin` and
            `list`, the authors' list that a picture is in, such as `train`.
        form: the pattern in words.
        labels, domains: their names; without them, as the paths spell them.
        spellings: other spellings of names; case, spaces, `_` and `-` do not count.
        wordnet: labels in paths are WordNet ids of ImageNet classes, and become such as `022_bald eagle`;
            there are "all" 1,000, or "some": `labels`, or those that are there.
        unit: how much a severity of 1 in a path is.
        listed: a JSON file of the authors; where it is there, only pictures count whose last levels it has.
        stem: what keys are made of: groups, and `name`, that of the file.

    """

    code_version: ClassVar[int] = 1

    pattern: str
    form: str
    labels: Sequence[str] = ()
    domains: Sequence[str] = ()
    spellings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    wordnet: Literal["", "all", "some"] = ""
    unit: float = 1
    listed: str = ""
    stem: str = "{name}"

    def __post_init__(self) -> None:
        """Refuse what a declaration cannot mean, before any file is read."""
        try:
            groups = {*self._pattern.groupindex}
            self.stem.format(name="", **dict.fromkeys(groups, ""))
        except (re.error, LookupError, ValueError) as error:
            raise InputError(
                f"pattern {self.pattern!r} with stem {self.stem!r} cannot be used: {error}"
            ) from error
        if "label" not in groups or not groups <= {*GROUPS}:
            raise InputError(
                f"pattern {self.pattern!r} has the groups {', '.join(sorted(groups)) or 'none'}: name "
                f"(?P<label>..), and others among {', '.join(GROUPS)}"
            )
        if self.wordnet == "all":
            object.__setattr__(self, "labels", labels())

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of a path that says what it shows, if its trajectory is whole."""
        rows, known, hashes, numbers = Results(self._in_lists(tree)), dict[str, int](), array("Q"), array("I")
        yield from (Odd(file=file, why=why) for file, why in rows.odd.items())
        for row in rows:
            hashes.append(hash64(str((row.nuisance, row.label, row.origin or row.stem))))
            numbers.append(known.setdefault(f"{row.severity or 0:g}", len(known)))
        trajectory = np.unique(np.frombuffer(hashes, np.uint64), return_inverse=True)[1]
        step = trajectory * len(known) + np.frombuffer(numbers, np.uint32)
        steps, firsts = np.unique(step, return_index=True)
        is_first = np.zeros(len(rows), bool)
        is_first[firsts] = True
        for row, begin, first in zip(
            rows, (trajectory * len(known)).tolist(), is_first.tolist(), strict=True
        ):
            lacking = {*range(begin, begin + len(known))}.difference(
                _between(steps, begin, begin + len(known))
            )
            if not first:
                yield Odd(file=row.file, why=TWICE)
            elif lacking:
                names = ", ".join(sorted(name for name, number in known.items() if begin + number in lacking))
                yield Odd(file=row.file, why=f"its trajectory lacks severity {names}")
            else:
                yield row

    def _in_lists(self, tree: Tree) -> Iterator[Found]:
        """Every picture of a path that says what it shows, if the authors' list has it."""
        places = Counter[str]()
        lists = [file for file in tree.files if self.listed and file.rpartition("/")[2] == self.listed]
        paths = (path for file in lists for path in PATH.findall(decoded(tree.read(file))))
        named = {tuple(path.split("/")[-3:]) for path in paths}
        for file in (file for file in tree.files if file.lower().endswith(ENDINGS)):
            row = self._row(file, places)
            if named and tuple(file.split("/")[-3:]) not in named:
                row = Odd(file=file, why=f"{self.listed} does not list it")
            yield row

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?:.*/)?{self.pattern}", re.IGNORECASE)

    @cached_property
    def _names(self) -> Mapping[str, Mapping[str, str]]:
        """The names of labels and of domains, where they are known, by their spellings."""
        known = {group: spelled(getattr(self, f"{group}s"), self.spellings) for group in ("label", "domain")}
        if self.wordnet:
            allowed = {*(self.labels or labels())}
            known["label"] = {node: name for node, n in nodes().items() if (name := labels()[n]) in allowed}
        return {group: names for group, names in known.items() if names}

    def _row(self, file: str, places: Counter[str]) -> Row | Odd:
        match = self._pattern.fullmatch(file)
        if match is None:
            return Odd(file=file, why=f"its path does not end in {self.form}")
        groups = {name: word for name, word in match.groupdict().items() if word is not None}
        if not groups.get("severity", "0").replace(".", "", 1).isdecimal():
            return Odd(file=file, why=f"its severity {groups['severity']} is not a number")
        for group in self._names.keys() & groups.keys():
            if (known := self._names[group].get(plain(groups[group]))) is None:
                return Odd(file=file, why=f"{groups[group]} is not a {group} of this dataset")
            groups[group] = known
        more: dict[str, Json] = {}
        if "list" in groups:
            more = {LISTS: {groups["list"]: places[groups["list"]]}}
            places[groups["list"]] += 1
        return Row(
            file=file,
            label=groups["label"],
            nuisance=groups.get("domain"),
            severity=float(groups["severity"]) * self.unit if "severity" in groups else None,
            origin=groups.get("origin"),
            stem=self.stem.format(name=PurePosixPath(file).stem, **groups),
            more=more,
        )


def _between(values: IntArray, begin: int, end: int) -> list[int]:
    """The sorted values from `begin` to below `end`."""
    first, last = np.searchsorted(values, (begin, end))
    found: list[int] = values[first:last].tolist()
    return found
