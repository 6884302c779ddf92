"""Recipes that are declared: a TOML file says where the files lie, how they are read, and what is cut.

A dataset is a table `[<name>]`. Besides its facts (`sources`), `[<name>.layout]` names a reader and its
options, and `[<name>.recipe]` has the fields of the recipe. Several recipes of one dataset are
`[[<name>.recipe]]`, each with a `name`, and with a `layout` of what is different.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from importlib import import_module
from itertools import permutations, product
from pathlib import Path
from typing import Any, TypeVar

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

T = TypeVar("T")

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
    "nuisance": "domain",
    "shift": "domains",
    "square": None,
    "per_class": None,
    "every": "Every picture of every domain.",
    "encoding": "files",
    "protocols": (
        "leave-one-domain-out test={domain}",
        "domainbed test={domain}",
        "uda source={source} target={target}",
    ),
    "virtual": None,
    "publishes": "splits",
    "prompts": (),
}
ENCODINGS: Mapping[str, Encoding] = {
    "files": FileEncoding(),
    "jpeg": ImageEncoding(format="jpeg"),
    "png": ImageEncoding(format="png"),
    "text": TextEncoding(),
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
        if copies and isinstance(recipe.album, RawAlbum) and type(recipe.album.layout) is Folders:
            yield _without_names(recipe, recipe.album, recipe.album.layout, copies[0])


def _recipe(source: Source, layout: Mapping[str, Any], table: Mapping[str, Any]) -> Recipe:
    where = f"[{source.name}.recipe] in {source.file.name}"
    for key in table:
        _known("field", key, {**FIELDS, "name": None}, f"It stands in {where}.")
    values = {**FIELDS, **table}
    reader = _reader(source, layout)
    name = str(table.get("name", source.name))
    shift = _shift(values["shift"], name, tuple(getattr(reader, "domains", ())), where)
    protocols = tuple(_protocols(values["protocols"], name, shift.nuisances))
    last = max((at for at, each in enumerate(protocols, 1) if isinstance(each, LeaveOneDomainOut)), default=0)
    title = values["title"] or source.title
    citation = values["citation"] or f"{title}."
    bases: tuple[Base, ...] = (Base(name="all", summary=values["every"]),)
    if count := values["per_class"]:  # listed: or as many as there are
        summary = f"{count} pictures a class, each under every shift in every severity."
        bases = (
            Base(name="content", summary="Every untouched picture.", layer="content"),
            Base(name="mini", summary=summary, per_group=count, listed=True),
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
        album=(NumberedAlbum if getattr(reader, "numbers", "") else RawAlbum)(
            name=source.name,
            layout=reader,
            allowed=tuple(getattr(reader, "labels", ())) or None,
            license=values["license"] or source.license,
            attribution=values["attribution"] or title,
        ),
        nuisance=values["nuisance"],
        prepare=(CropSquare(size=values["square"]),) if values["square"] else (),
        shift=shift,
        encoding=_encoding(values["encoding"], reader, where),
        bases=bases,
        default_base=bases[-1].name,
        protocols=protocols,
        virtual=values["virtual"] or (min(last, MOST_VIRTUAL) if last else None),
        on_empty="report",
        publishes=values["publishes"],
        prompts=tuple(values["prompts"]),
    )


def _shift(kind: str, name: str, domains: tuple[str, ...], where: str) -> Shift:
    """Domains or trajectories as the files have them, or corruptions that are made here."""
    known: Mapping[str, Callable[[], Shift]] = {
        "domains": partial(Domains, names=domains),
        "trajectories": partial(Trajectories, names=domains),
        "corruptions": partial(Corrupt, seed=0, dataset=name),
    }
    shift = _known("shift", kind, known, f"It stands in {where}.")
    if kind != "corruptions" and not domains:
        raise InputError(f"{where} needs the names of the domains: domains = [..] in the layout")
    return shift()


def _reader(source: Source, layout: Mapping[str, Any]) -> Any:
    where = f"[{source.name}.layout] in {source.file.name}"
    name = layout.get("reader", "folders")
    module, _, kind = _known("reader", name, READERS, f"It stands in {where}.").partition(":")
    reader = getattr(import_module(module), kind)
    defaults = {field.name: field.default for field in fields(reader)}
    options = {key: value for key, value in layout.items() if key != "reader"}
    for key, value in options.items():
        hint = f"The reader {name} of {source.name} has no such option."
        if key in ("domains", "labels") or isinstance(_known("option", key, defaults, hint), tuple):
            options[key] = tuple(value.split() if isinstance(value, str) else value)
    try:
        return reader(**options)
    except TypeError as error:
        raise InputError(f"{where}: {error}") from error


def _known(kind: str, name: str, known: Mapping[str, T], hint: str) -> T:
    if name not in known:
        raise not_found(kind, name, known, hint)
    return known[name]


def _encoding(name: str, reader: Any, where: str) -> Encoding:
    if features := getattr(reader, "features", None):
        return TableEncoding(features=features)
    name = "text" if getattr(reader, "text", "") else name
    return _known("encoding", name, ENCODINGS, f"{where}; tables have `features` instead.")


def _protocols(templates: Sequence[str], name: str, domains: Sequence[str]) -> Iterator[Protocol]:
    """The protocols in words, each for every domain, pair of domains or seed that its words leave open."""
    every: Mapping[str, list[dict[str, Any]]] = {
        "{domain}": [{"domain": domain} for domain in domains],
        "{source}": [{"source": source, "target": target} for source, target in permutations(domains, 2)],
        "{seed}": [{"seed": seed} for seed in TRIAL_SEEDS],
    }
    for template in templates:
        if template == RLSBENCH:
            yield from canonical(name)
            continue
        for choices in product(*(choices for word, choices in every.items() if word in template)):
            given = {key: value for choice in choices for key, value in choice.items()}
            try:
                words = [word.format(**given) for word in shlex.split(template)]
            except (LookupError, ValueError) as error:
                known = "{domain}, {source} and {target}, {seed}"
                raise InputError(f"{template!r} has braces around something else than {known}") from error
            if (protocol := parse_protocol(words)) is not None:
                yield protocol


def _without_names(recipe: Recipe, album: RawAlbum, layout: Folders, copy: str) -> Recipe:
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
        album=replace(album, layout=names_only, by_content=True),
        protocols=tuple(
            protocol for protocol in recipe.protocols if protocol.variant not in protocol.from_files
        ),
    )
