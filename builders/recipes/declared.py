"""Recipes that are declared: a TOML file says where the files lie, how they are read, and what is cut.

A dataset is a table `[<name>]`. Besides its facts (`sources`), `[<name>.layout]` names a reader and its
options, and `[<name>.recipe]` has the fields of the recipe. Several recipes of one dataset are
`[[<name>.recipe]]`, each with a `name`, and with a `layout` of what is different.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from itertools import permutations, product
from pathlib import Path
from typing import Any, cast

from builders.encode import Encoding, FileEncoding, ImageEncoding, TableEncoding, TextEncoding
from builders.raw.album import RawAlbum
from builders.raw.folders import Folders, NumberedAlbum
from builders.raw.sources import FACTS, Source, read_sources, sources
from builders.recipe import Base, Recipe, Shift
from builders.shifts.steps import Corrupt, CropSquare, Domains, Trajectories
from shiftdata.data.format.front_matter import MOST_VIRTUAL
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols import LeaveOneDomainOut, Protocol, parse_protocol
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

#: The class of each reader. Another reader is another entry: a frozen dataclass with `rows(tree)`, whose
#: fields are the options.
READERS: Mapping[str, str] = {
    "arrays": "builders.raw.arrays:Arrays",
    "camera-traps": "builders.raw.camera_traps:CameraTraps",
    "digits": "builders.raw.digits:Digits",
    "folders": "builders.raw.folders:Folders",
    "imagenet": "builders.raw.imagenet:Photographs",
    "paths": "builders.raw.paths:Paths",
    "mimic": "builders.raw.mimic:MimicReadmission",
    "table": "builders.raw.tables:Table",
}
#: The fields of a recipe's table with their defaults; None is what the facts or the reader say.
FIELDS: Mapping[str, Any] = {
    "family": "domain",
    "version": "1.0.0",
    "released": FACTS,
    "title": None,
    "summary": None,
    "creators": (),
    "citation": "",
    "license": None,
    "attribution": None,
    "domains": None,
    "labels": None,
    "nuisance": "domain",
    "shift": "domains",
    "square": None,
    "per_class": None,
    "every": "Every picture of every domain.",
    "encoding": "files",
    "features": None,
    "protocols": (
        "leave-one-domain-out test={domain}",
        "domainbed test={domain}",
        "uda source={source} target={target}",
    ),
    "virtual": None,
    "publishes": "splits",
}
#: What the words of a protocol may leave open. DomainBed has three trials.
TRIAL_SEEDS = (0, 1, 2)
RLSBENCH = "rlsbench"
#: How the recipe for rows without names is called.
COPY = "hub_"


@cache
def declared_recipes() -> Mapping[str, tuple[Path, Recipe]]:
    """Every declared recipe of this package, by name."""
    known = [source for source in sources().values() if source.recipe]
    return {recipe.name: (source.file, recipe) for source in known for recipe in recipes_of(source)}


def recipe_in(path: Path) -> Recipe:
    """The recipe that a TOML file of somebody's own declares."""
    every = [recipe for source in read_sources(path) for recipe in recipes_of(source)]
    recipes = [recipe for recipe in every if not recipe.name.startswith(COPY)]
    if len(recipes) != 1:
        raise InputError(
            f"{path} must declare one recipe, and declares {len(recipes)}: one table [<name>] with "
            "[<name>.layout] and [<name>.recipe], as the files in builders/raw/facts have"
        )
    return recipes[0]


def recipes_of(source: Source) -> Iterator[Recipe]:
    """The recipes that a dataset declares, and that for rows which have lost the names of its files."""
    tables = [source.recipe] if isinstance(source.recipe, Mapping) else source.recipe
    for table in tables:
        table = {**tables[0], "layout": {}, **table}  # a field of the first holds for all
        layout = {**source.layout, **table.get("layout", {})}
        recipe = _recipe(source, layout, {key: value for key, value in table.items() if key != "layout"})
        yield recipe
        copies = [way.repo for way in source.ways if way.how == "hub"]
        if copies and type(layout := _layout_of(recipe)) is Folders:
            yield _without_names(recipe, layout, copies[0])


def _layout_of(recipe: Recipe) -> Any:
    return recipe.album.layout if isinstance(recipe.album, RawAlbum) else None


def _recipe(source: Source, layout: Mapping[str, Any], table: Mapping[str, Any]) -> Recipe:
    where = f"[{source.name}.recipe] in {source.file.name}"
    for key in table:
        if key != "name" and key not in FIELDS:
            raise not_found("field", key, FIELDS, f"It stands in {where}.")
    values = {**FIELDS, **table}
    reader = _reader(source, layout)
    name = str(table.get("name", source.name))
    shift = _shift(values["shift"], name, _names(values["domains"] or getattr(reader, "domains", ())), where)
    protocols = list(_protocols(values["protocols"], name, shift.nuisances))
    last = max((at for at, each in enumerate(protocols, 1) if isinstance(each, LeaveOneDomainOut)), default=0)
    whole = sum(protocol.own_files for protocol in protocols)
    album = NumberedAlbum if getattr(reader, "numbers", "") else RawAlbum
    labels = _names(values["labels"] or getattr(reader, "labels", ()))
    title = values["title"] or source.title
    citation = values["citation"] or f"{title}."
    bases: tuple[Base, ...] = (Base(name="all", summary=values["every"]),)
    if count := values["per_class"]:
        summary = f"{count} pictures a class, each under every shift in every severity."
        bases = (
            Base(name="content", summary="Every untouched picture.", layer="content"),
            Base(
                name="mini", summary=summary, per_group=count, listed=True
            ),  # listed: or as many as there are
        )
    return Recipe(
        name=name,
        family=values["family"],
        version=values["version"],
        released=values["released"],
        title=title,
        summary=values["summary"] or f"{title}.",
        creators=tuple(values["creators"]),
        citation=f"{citation} {CITED}" if RLSBENCH in values["protocols"] else citation,
        album=album(
            name=source.name,
            layout=reader,
            allowed=labels or None,
            license=values["license"] or source.license,
            attribution=values["attribution"] or title,
        ),
        nuisance=values["nuisance"],
        prepare=(CropSquare(size=values["square"]),) if values["square"] else (),
        shift=shift,
        encoding=_encoding(values, reader, where),
        bases=bases,
        default_base=bases[-1].name,
        protocols=tuple(protocols),
        # A set of each of three is a config; a split whose sets have files of their own is one.
        virtual=values["virtual"] or (min(last, whole + (MOST_VIRTUAL - whole) // 3) if last else None),
        on_empty="report",
        publishes=values["publishes"],
    )


def _shift(kind: str, name: str, domains: Sequence[str], where: str) -> Shift:
    """Domains or trajectories as the files have them, or corruptions that are made here."""
    if kind == "corruptions":
        return Corrupt(seed=0, dataset=name)
    known = {"domains": Domains, "trajectories": Trajectories}
    if kind not in known:
        raise not_found("shift", kind, [*known, "corruptions"], f"It stands in {where}.")
    if not domains:
        raise InputError(f"{where} needs the names of the domains: domains = [..], there or in the layout")
    return known[kind](names=tuple(domains))


def _reader(source: Source, layout: Mapping[str, Any]) -> Any:
    options = dict(layout)
    name = options.pop("reader", "folders")
    if name not in READERS:
        raise not_found(
            "reader", name, READERS, f"It stands in [{source.name}.layout] of {source.file.name}."
        )
    module, _, kind = READERS[name].partition(":")
    reader = getattr(import_module(module), kind)
    allowed = [field.name for field in fields(reader)]
    for key in options:
        if key not in allowed:
            raise not_found("option", key, allowed, f"The reader {name} of {source.name} has no such option.")
    for field in fields(reader):
        if field.name in options and (
            field.name in ("domains", "labels") or isinstance(field.default, tuple)
        ):
            options[field.name] = _names(options[field.name])
    try:
        return reader(**{key: _frozen(value) for key, value in options.items()})
    except TypeError as error:
        raise InputError(f"[{source.name}.layout] in {source.file.name}: {error}") from error


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names in a list, or in a text between spaces."""
    return tuple(given.split()) if isinstance(given, str) else tuple(given)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _encoding(values: Mapping[str, Any], reader: Any, where: str) -> Encoding:
    if features := values["features"] or getattr(reader, "features", None):
        return TableEncoding(features=features)
    if getattr(reader, "text", ""):
        return TextEncoding()
    known: Mapping[str, Encoding] = {
        "files": FileEncoding(),
        "jpeg": ImageEncoding(format="jpeg"),
        "png": ImageEncoding(format="png"),
        "text": TextEncoding(),
    }
    if values["encoding"] not in known:
        raise not_found("encoding", values["encoding"], known, f"{where}; tables have `features` instead.")
    return known[values["encoding"]]


def _protocols(templates: Sequence[str], name: str, domains: Sequence[str]) -> Iterator[Protocol]:
    """The protocols in words, each for every domain, pair of domains or seed that its words leave open."""
    for template in templates:
        if template == RLSBENCH:
            yield from canonical(name)
            continue
        pairs = list(permutations(domains, 2)) if "{source}" in template else [("", "")]
        for domain, (source, target), seed in product(
            domains if "{domain}" in template else [""], pairs, TRIAL_SEEDS if "{seed}" in template else [0]
        ):
            quoted = [shlex.quote(text) for text in (domain, source, target)]
            choice = dict(zip(("domain", "source", "target"), quoted, strict=True))
            try:
                words = template.format(**choice, seed=seed)
            except (LookupError, ValueError) as error:
                known = "{domain}, {source} and {target}, {seed}"
                raise InputError(f"{template!r} has braces around something else than {known}") from error
            if (protocol := parse_protocol(words)) is not None:
                yield protocol


def _without_names(recipe: Recipe, layout: Folders, copy: str) -> Recipe:
    """The recipe for rows instead of files; what follows from names is left out."""
    shown = re.split(r"[;.]", recipe.summary)[0]
    names_only = Folders(domains=layout.domains, labels=layout.labels, spellings=layout.spellings)
    return replace(
        recipe,
        name=f"{COPY}{recipe.name}",
        title=f"{recipe.title}, from rows without names",
        summary=(
            f"{shown}. Made from rows, such as those of {copy}, that have lost the names of the files: which "
            "pictures come from one origin is not known, and splits that go by names are left out."
        ),
        album=replace(cast("RawAlbum", recipe.album), layout=names_only, by_content=True),
        protocols=tuple(
            protocol for protocol in recipe.protocols if protocol.variant not in protocol.from_files
        ),
    )
