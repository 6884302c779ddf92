"""Facts of each raw dataset: files, licence, terms, where it still is, and how many examples it has.

They are in `facts/`, a TOML file for each dataset, or for a table of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from builders.raw.archives import RAW, RAW_VARIABLE
from shiftdata.errors import InputError, not_found
from shiftdata.untrusted.texts import read_csv, read_toml

FOLDER = Path(__file__).parent / "facts"
#: What was run on real files, and the words for it, the best first.
STATES = FOLDER / "real.tsv"
READ_ON = ("real files", "part", "replica")
#: The day of the facts. Nothing was opened then: whether an address still answers is known from reports.
FACTS = "2026-11-22"
#: Domains by which layers are counted: rows without a nuisance, and all others.
CONTENT = "content"
#: What an example is called if the facts say nothing else: one, and several.
NOUN = ("picture", "pictures")

How: TypeAlias = Literal["http", "hub", "openml", "hand"]


@dataclass(frozen=True, kw_only=True)
class RawFile:
    """A file of a raw dataset; `hash` is `<algorithm>:<digits>`. An optional one may come in other forms."""

    name: str
    bytes: int | None = None
    hash: str = ""
    url: str = ""
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to get a dataset, and what is known of whether it still works."""

    how: How
    state: str
    repo: str = ""
    bytes: int | None = None
    steps: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The numbers of examples that a source gives; sources may disagree.

    `base` is the part of a release that they are of, `recipe` the recipe, where several read one dataset
    differently; "" is every other. `groups` are counts by domain and class, `each` the smallest and the
    largest of all groups.
    """

    source: str
    base: str = ""
    recipe: str = ""
    verified: bool = True
    total: int | None = None
    content: int | None = None
    stylized: int | None = None
    domains: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    each: Sequence[int] = ()

    @classmethod
    def of(cls, *, classes: Sequence[str] = (), groups: Any = None, **known: Any) -> Counts:
        """The counts of a table in TOML, where those of a group stand in the order of its `classes`."""
        by_class = {domain: dict(zip(classes, row, strict=True)) for domain, row in (groups or {}).items()}
        domains = {domain: sum(row.values()) for domain, row in by_class.items()}
        return cls(**{"domains": domains, **known}, groups=by_class)

    @property
    def all(self) -> int:
        """All examples."""
        return self.total or (self.content or 0) + (self.stylized or 0) or sum(self.domains.values())

    def __str__(self) -> str:
        named = f"{self.source}, {self.base}" if self.base else self.source
        return named if self.verified else f"{named} [not verified]"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A raw dataset, by the name of its folder in `build/raw` and of the recipes that read it.

    `noun` is what one of its examples is called, and several. `layout` and `recipe` are what `declared` makes
    recipes of.
    """

    name: str
    title: str
    license: str
    recipes: Sequence[str]
    ways: Sequence[Way] = ()
    file: Path = FOLDER
    layout: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    noun: Sequence[str] = NOUN
    terms: str = ""
    page: str = ""
    source: str = ""
    bytes: int | None = None
    bytes_by: str = ""
    files: Sequence[RawFile] = ()
    openml: Mapping[str, int] = field(default_factory=dict)
    counts: Sequence[Counts] = ()
    notes: Sequence[str] = ()
    more: Sequence[str] = ()

    @classmethod
    def of(cls, name: str, table: Mapping[str, Any], file: Path) -> Source:
        """The source of a table in a TOML file."""
        given = {"title": name, "license": "LicenseRef-not-stated", "recipes": [name], **table}
        for key, kind in (("ways", Way), ("files", RawFile), ("counts", Counts.of)):
            given[key] = [kind(**entry) for entry in table.get(key, ())]
        return cls(name=name, file=file, **given)

    @property
    def place(self) -> Path:
        """The place where it lies if nothing else is said."""
        return Path(os.environ.get(RAW_VARIABLE, RAW)) / self.name

    @property
    def states(self) -> list[Mapping[str, str]]:
        """The recipes that were run on its real files."""
        return [state for state in states() if state["raw"] == self.name]

    @property
    def read_on(self) -> str:
        """Say which files its recipes were run on: real ones, a part of them, or replicas only."""
        return min((state["state"] for state in self.states), key=READ_ON.index, default=READ_ON[-1])

    @property
    def size(self) -> int | None:
        """The bytes of its files, or about as many; None where they are not known."""
        sizes = [file.bytes for file in self.files if not file.optional]
        return sum(filter(None, sizes)) if sizes and None not in sizes else self.bytes

    @property
    def holds(self) -> str:
        """The contents of a place with it: paths of a form, folders of its domains, files, or its title."""
        folders = self.layout.get("reader", "folders") in ("folders", "digits") and self.counts[:1]
        domains = [f"{name}/" for counts in folders or () for name in counts.domains]
        names = ", ".join(domains or [file.name for file in self.files])
        return str(self.layout.get("form", "")) or names or self.title

    def way(self, how: str | None) -> Way:
        """The way that is asked for, or the first."""
        ways = {way.how: way for way in self.ways}
        if how is not None and how not in ways:
            raise not_found("way", how, ways, f"{self.name} cannot be got by it.")
        return next(way for way in self.ways if how in (None, way.how))


@cache
def states() -> Sequence[Mapping[str, str]]:
    """Every recipe that was run on real files, which, and what came out; `make real` writes them."""
    return tuple(read_csv(STATES, delimiter="\t"))


@cache
def sources() -> Mapping[str, Source]:
    """Every raw dataset, by name."""
    every = [source for file in sorted(FOLDER.glob("*.toml")) for source in read_sources(file)]
    return {source.name: source for source in sorted(every, key=lambda source: source.name)}


def read_sources(file: Path) -> list[Source]:
    """The raw datasets of a TOML file."""
    try:
        tables = read_toml(file)
        common = tables.pop("common", {})
        return [Source.of(name, common | table, file) for name, table in tables.items()]
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{file} does not declare raw datasets: {error}") from error


def source(name: str) -> Source:
    """The raw dataset of that name or TOML file, or of a recipe of that name with the recipe's counts."""
    if name.endswith(".toml"):
        return replace(read_sources(Path(name))[0], recipes=[name])
    known = next((known for known in sources().values() if name in (known.name, *known.recipes)), None)
    if known is None:
        raise not_found("raw dataset", name, sources(), "`shiftdata raw list` shows them.")
    own = [counts for counts in known.counts if counts.recipe == name]
    return replace(known, counts=own or [counts for counts in known.counts if not counts.recipe])
