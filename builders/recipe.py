"""Recipes: frozen records of everything that determines a dataset, a file each or a table of rows a file."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from builders.albums import Album
from builders.datasheet import Datasheet
from builders.encode import Encoding
from builders.filters import Filters
from builders.parts import check_part, identity_of, part_identity
from builders.sample import Item, Sample, Step
from builders.terms import check_license
from shiftdata.data.format.manifest import Publishes
from shiftdata.data.format.names import check_names, is_path_part, template_fault, text_fault
from shiftdata.data.format.records import Calibration, Material
from shiftdata.data.format.schema import RESERVED, Roles, columns
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols import Protocol as TaskProtocol
from shiftdata.evaluation.tasks import OnEmpty
from shiftdata.stable import content_hash

#: The fields that determine no row and no pixel: they can change without building anything again.
DESCRIPTION = (
    "version",
    "title",
    "summary",
    "creators",
    "citation",
    "released",
    "datasheet",
    "calibration",
    "expected",
    "publishes",
    "prompts",
)

#: Libraries whose version can change a pixel; the spool of one set is never mixed with that of another.
PIXEL_LIBRARIES = ("numpy", "onnxruntime", "pillow", "resvg_py")

#: Part of every identity: raise it when a build itself (folds, bases, what steps are given) gives other rows.
BUILD_VERSION = 2

#: The fields whose code makes rows and pixels: each needs a `code_version`.
PARTS = ("album", "prepare", "shift", "encoding", "filters")


class Shift(Protocol):
    """The step that makes the shift: it turns a content sample into one sample a nuisance."""

    #: Raise it whenever the step makes other examples of the same content.
    code_version: ClassVar[int]

    @property
    def nuisances(self) -> tuple[str, ...]:
        """Every nuisance, in the order that fixes the integer of each."""

    def __call__(self, samples: Iterator[Sample], /) -> Iterator[Sample]:
        """The samples of each content sample in its nuisances, with a key of its own for each."""


@runtime_checkable
class Scaled(Protocol):
    """A shift that makes each nuisance in several severities."""

    @cached_property
    def severities(self) -> tuple[float, ...]:
        """Every severity, ascending."""


@runtime_checkable
class ScaledByItems(Protocol):
    """A shift that passes items on in the severities that their album gives."""

    def severities_of(self, items: Sequence[Item], /) -> tuple[float, ...]:
        """Every severity, ascending."""


@runtime_checkable
class SomeNuisances(Protocol):
    """A shift that gives an item only some of its nuisances."""

    def nuisances_of(self, item: Item, /) -> tuple[str, ...]:
        """Those of one item."""


@runtime_checkable
class Threaded(Protocol):
    """A shift that works on several items of a process at once, for it waits for a device."""

    @property
    def threads(self) -> int:
        """The number of threads; 0 works on one item after the other."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """One set of files: untouched content or shifted examples, and how many of each group (or label).

    A `listed` base takes the items that the album lists under its name. Where it lists none, a listed base
    with `per_group` takes that many of each group or as many as there are, and one without is not built.
    """

    name: str
    summary: str
    layer: Literal["content", "shift"] = "shift"
    per_group: int | None = None
    listed: bool = False


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The requirements of `check` on a built base: rows of each split, and of the smallest group."""

    base: str
    rows: Mapping[str, int]
    smallest_group: int = 1


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that determines a dataset: content, steps, seed, bases and canonical splits.

    `released` is the day of this version, written in the file: nothing published may depend on a clock.
    `nuisance` names the column of what shifts. `filters` say which samples of a continuous shift are kept.
    `protocols` make the canonical splits, the most important first. The first `virtual` of them (default:
    all) are configs of the card where filters or files can say them; the others are key files. `on_empty`
    says what to do about a group that a protocol promises and that has no row, as in `sd.task`.
    `expected` is not part of the dataset's identity: it says what `check` requires. `publishes="splits"`
    is for content whose licence forbids publishing: everything but `data/` is published, users build that.
    With "nothing", as for data that is given to named persons, `publish` refuses.
    `prompts` are templates of captions, such as "a sketch of a {}.", for zero-shot classifiers.
    `compilation` is the licence under which the publisher releases the selection and arrangement, if it has
    one of its own; the licences of all parts apply in any case.
    `calibration` is read from `<name>.calibration.json` next to the recipe's file, if it is there.
    """

    name: str
    family: str
    version: str
    released: str
    title: str
    summary: str
    creators: tuple[str, ...]
    citation: str
    album: Album
    shift: Shift
    encoding: Encoding
    bases: tuple[Base, ...]
    default_base: str
    nuisance: str
    prepare: tuple[Step, ...] = ()
    filters: Filters | None = None
    protocols: tuple[TaskProtocol, ...] = ()
    virtual: int | None = None
    on_empty: OnEmpty = "error"
    datasheet: Datasheet = field(default_factory=Datasheet)
    calibration: Calibration | None = None
    seed: int = 0
    expected: tuple[Expected, ...] = ()
    publishes: Publishes = "all"
    prompts: tuple[str, ...] = ()
    compilation: str = ""

    def __post_init__(self) -> None:
        self._check_parts()
        names = [base.name for base in self.bases] + [protocol.config_name for protocol in self.protocols]
        taken = {"metadata", "splits", "labels", f"{self.nuisance}s"}  # configs, and sets of croissant.json
        lower = [name.lower() for name in names]  # Windows and macOS have one folder for Mini and mini
        repeated = sorted({name for name in names if lower.count(name.lower()) > 1} | taken & set(names))
        if repeated:
            raise InputError(
                f"the recipe {self.name} has two configs named {', '.join(repeated)}: give each base its "
                f"own name, and none of {', '.join(sorted(taken))}"
            )
        if self.default_base not in {base.name for base in self.bases}:
            raise InputError(f"the default base {self.default_base!r} is not among the bases of {self.name}")
        if not re.fullmatch(r"[a-z0-9_]+", self.name) or not is_path_part(self.name):
            raise InputError(f"a recipe's name is made of [a-z0-9_], and is not con, aux, ..: {self.name!r}")
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", self.released):
            raise InputError(f"released is a day such as 2026-11-21, got {self.released!r}")
        if self.seed < 0:
            raise InputError(f"a seed is a whole number from 0, got {self.seed}")
        self._check_texts()
        self._check_columns()
        self._check_filters()

    def _check_parts(self) -> None:
        for name in ("creators", "bases", "prepare", "protocols", "expected", "prompts"):
            if not isinstance(value := getattr(self, name), tuple | list):
                raise InputError(f"{name} is a tuple, got {value!r:.80}: write {name}=(..., ) with a comma")
        for step in self.prepare:
            check_part("step", step, "__call__")
        check_part("shift", self.shift, "__call__", "nuisances")
        check_part("album", self.album, "labels", "items", "load", "fingerprint")
        check_part("encoding", self.encoding, "modality", "columns", "encode")

    def _check_texts(self) -> None:
        if self.compilation:
            check_license(self.compilation, f"the compilation of {self.name}")
        for name in (self.version, *(base.name for base in self.bases)):
            if not is_path_part(name):
                raise InputError(f"a version or base is named by letters, digits, '_', '-', '.': {name!r}")
        for kind, name in (("title", self.title), ("family", self.family)):
            check_names(kind, [name], f"the recipe {self.name}")
        check_names("creator", self.creators, f"the recipe {self.name}")
        for text in (self.summary, self.citation, *(base.summary for base in self.bases)):
            if fault := text_fault(text):
                raise InputError(f"the recipe {self.name} has a text that {fault}: {text[:60]!a}")
        for prompt in self.prompts:
            if fault := template_fault(prompt):
                raise InputError(f"the recipe {self.name} has the prompt {prompt[:60]!a}, which {fault}")

    def _check_columns(self) -> None:
        taken = [*columns("nuisance"), *RESERVED]
        names = [self.nuisance, *self.encoding.columns]
        for name in names:
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in taken or names.count(name) > 1:
                raise InputError(
                    f"a column cannot be named {name!r}: use letters, digits and _, each name once, "
                    f"and none of {', '.join(taken)}"
                )

    def _check_filters(self) -> None:
        if self.filters is None:
            return
        for scorer in self.filters.scorers:
            check_part("scorer", scorer, "__call__", "name", "fingerprint")
        steps = self.severities
        if len(steps) < 2 or steps[0] != 0 or self.encoding.modality != "image":
            raise InputError(
                f"the recipe {self.name} filters {self.encoding.modality} examples in the severities "
                f"{steps or 'none'}: filters are for pictures in severities from 0 on"
            )

    @property
    def roles(self) -> Roles:
        """The role of each column."""
        return Roles(nuisance=self.nuisance, modality=self.encoding.modality, example=self.encoding.columns)

    @cached_property
    def severities(self) -> tuple[float, ...]:
        """Every severity of the shift, ascending; empty where its nuisances have no scale."""
        if isinstance(self.shift, ScaledByItems):
            return self.shift.severities_of(self.album.items())
        return tuple(self.shift.severities) if isinstance(self.shift, Scaled) else ()

    @cached_property
    def materials(self) -> tuple[Material, ...]:
        """The works behind its examples next to the content, as the `materials` of its shift list them."""
        return tuple(getattr(self.shift, "materials", ()))

    def base(self, name: str) -> Base:
        """The base of that name."""
        bases = {base.name: base for base in self.bases}
        if name not in bases:
            raise not_found("base", name, bases, f"The recipe {self.name} does not make it.")
        return bases[name]

    def recipe_id(self) -> str:
        """Hash every field but the description, with the code versions."""
        identity = {
            entry.name: identity_of(getattr(self, entry.name))
            for entry in dataclasses.fields(self)
            if entry.name not in (*DESCRIPTION, *PARTS, "bases", "protocols", "compilation")
        }
        terms = {"materials": identity_of(self.materials), "compilation": self.compilation}
        identity |= {name: value for name, value in terms.items() if value}
        identity |= {name: part_identity(getattr(self, name)) for name in PARTS}
        identity["bases"] = [
            [base.name, base.layer, base.per_group, *(["listed"] if base.listed else [])]
            for base in self.bases
        ]
        identity["protocols"] = [protocol.words() for protocol in self.protocols]
        if self.filters is not None:
            identity["scorers"] = [part_identity(scorer) for scorer in self.filters.scorers]
        return _hash_of(identity)

    def pixels_id(self) -> str:
        """Hash what determines the examples, whatever bases and splits are cut: the key of the spool."""
        made_by = [part_identity(getattr(self, name)) for name in ("album", "prepare", "shift", "encoding")]
        return _hash_of([made_by, library_versions()])


def library_versions() -> dict[str, str]:
    """The installed version of each library that can change a pixel."""
    return {name: version(name) for name in PIXEL_LIBRARIES}


def file_versions() -> dict[str, str]:
    """The version of everything that can change a byte of a published file."""
    return library_versions() | {name: version(name) for name in ("pyarrow", "shiftdata")}


def _hash_of(identity: Any) -> str:
    return content_hash(json.dumps([BUILD_VERSION, identity], sort_keys=True))
