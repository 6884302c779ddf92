"""`manifest.json`: the only machine truth about a dataset, and its only definition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from shiftdata.errors import IntegrityError, NotFoundError, not_found
from shiftdata.format.schema import Roles

FILE_NAME = "manifest.json"
FORMAT = 1

#: Column, operator, value.
Condition: TypeAlias = tuple[str, str, Any]
#: Conditions that all hold.
Clause: TypeAlias = list[Condition]
#: Alternatives of clauses, as `pyarrow` and `datasets` read them.
Filters: TypeAlias = list[Clause]


@dataclass(frozen=True, kw_only=True)
class Split:
    """How much one split of a base or a config holds.

    `bytes` are those of its cells in memory; `groups` counts those that have a row, and `smallest` and
    `largest` are their sizes (0 where rows have no group, as untouched content).
    """

    rows: int
    bytes: int
    groups: int = 0
    smallest: int = 0
    largest: int = 0


@dataclass(frozen=True, kw_only=True)
class Base:
    """One set of files: `data/<name>/` and `metadata/<name>/`.

    `dropped` counts, by reason, what should be here and could not be used; `dropped.parquet` names it, and
    `dropped_id` is the hash of those names and reasons.
    """

    name: str
    summary: str
    content_id: str
    splits: Mapping[str, Split]
    dropped: Mapping[str, int] = field(default_factory=dict)
    dropped_id: str = ""

    @property
    def rows(self) -> int:
        """Rows of all splits."""
        return sum(split.rows for split in self.splits.values())


@dataclass(frozen=True, kw_only=True)
class Config:
    """A canonical split: rows of a base chosen by filters alone, and frozen as keys.

    A `virtual` one stands with its filters in the card, so that `load_dataset(repo, name)` finds it.
    """

    name: str
    summary: str
    base: str
    protocol: str
    params: Mapping[str, Any]
    filters: Filters
    splits: Mapping[str, Split]
    virtual: bool = True


@dataclass(frozen=True, kw_only=True)
class Credit:
    """One licence with one attribution, and how many rows carry them."""

    license: str
    attribution: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """What a published file must be; a picture has no rows."""

    bytes: int
    sha256: str
    rows: int | None


@dataclass(frozen=True, kw_only=True)
class Part:
    """Of what whole a dataset holds only some rows, and which.

    `manifest` is the sha256 of the whole's `manifest.json`. The rows are those of `config` there, in
    `splits`, that fulfil every one of `conditions`, which are written as in filters.
    """

    manifest: str
    content_id: str
    config: str
    splits: Sequence[str]
    conditions: Sequence[tuple[str, str, Any]] = ()


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything a reader, a card or a check needs to know about a dataset.

    `severities` lists the steps of a continuous shift; it is empty where a nuisance has no scale.
    `credits` are the licences and attributions of the rows, most rows first; of very many only the first
    stand here, and `more_credits` counts the others. `datasheet` holds what the publisher says about where
    the data came from and what it is good for. `sample` is one row as it is loaded, an image left out; in
    WebDataset format, the members of one sample, an image as None. `part` is None for a whole dataset.

    Where the licence of the content forbids publishing, a build says `publish_pixels=False`; the dataset that
    is published then lacks `data/`, whose files it lists as `withheld`: another build makes them again and is
    compared with them.
    """

    name: str
    family: str
    version: str
    released: str
    title: str
    summary: str
    creators: Sequence[str]
    citation: str
    license: str
    credits: Sequence[Credit]
    more_credits: int
    datasheet: Mapping[str, str]
    seed: int
    recipe_id: str
    content_id: str
    roles: Roles
    origins_shared: bool
    labels: Sequence[str]
    nuisances: Sequence[str]
    severities: Sequence[float]
    default_base: str
    bases: Sequence[Base]
    configs: Sequence[Config]
    sample: Mapping[str, Any]
    files: Mapping[str, FileRecord]
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT
    part: Part | None = None
    publish_pixels: bool = True
    withheld: Mapping[str, FileRecord] = field(default_factory=dict)

    @property
    def pixels_included(self) -> bool:
        """Whether the examples are here: pictures, texts or rows of features."""
        return not self.withheld

    @property
    def all_files(self) -> Mapping[str, FileRecord]:
        """Every file of a build, withheld or not."""
        return {**self.files, **self.withheld}

    def require_pixels(self, where: str) -> None:
        """Raise an error that says how to build the examples, if the dataset at `where` lacks them."""
        if self.withheld:
            raise NotFoundError(
                f"{where} has the metadata and splits of {self.name}, but not the examples: {self.license} "
                "does not allow publishing them. Build them on this machine, from a checkout of shiftdata: "
                f"`python -m builders build {self.name}`, then load build/shift/{self.name}. "
                "The config 'metadata' loads without them"
            )

    @property
    def rows(self) -> int:
        """Rows of all bases."""
        return sum(base.rows for base in self.bases)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files.values())

    @property
    def is_webdataset(self) -> bool:
        """Whether its examples are in tars (WebDataset format) and not in Parquet files."""
        return any(path.endswith(".tar") for path in self.files)

    def base(self, name: str) -> Base:
        """The base of that name."""
        found = {base.name: base for base in self.bases}
        if name not in found:
            raise not_found("base", name, found, f"It was asked of {self.name}.")
        return found[name]

    def config_names(self) -> list[str]:
        """Every name that `load_dataset(repo, name)` accepts, the default first."""
        if self.withheld:
            return ["metadata"]
        bases = [base.name for base in self.bases]
        bases.sort(key=lambda name: (name != self.default_base, name))
        if self.is_webdataset:
            return bases
        return [*bases, *(config.name for config in self.configs if config.virtual), "metadata"]

    def config(self, name: str) -> Config | None:
        """The canonical split of that name, if it is one."""
        return next((config for config in self.configs if config.name == name), None)

    def splits_of(self, name: str) -> Mapping[str, Split]:
        """The splits of a base, a canonical split, or `metadata`."""
        of = {base.name: base.splits for base in self.bases} | {c.name: c.splits for c in self.configs}
        of["metadata"] = of[self.default_base]
        if name not in of:
            raise not_found("config", name, of, f"See `shiftdata info {self.name}`.")
        return of[name]

    def to_json(self) -> str:
        """The text of `manifest.json`: equal manifests give equal bytes."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = FILE_NAME) -> Manifest:
        """Read the text of a `manifest.json`; `where` names it in errors."""
        try:
            raw = json.loads(text)
            version = raw["format"]
        except (ValueError, TypeError, KeyError) as error:
            raise IntegrityError(f"{where} is not a shiftdata manifest ({error!r})") from error
        if version != FORMAT:
            raise IntegrityError(
                f"{where} has manifest format {version!r}; this shiftdata reads format {FORMAT}: "
                "install a newer shiftdata"
            )
        try:
            return cls(**{**raw, **_records(raw)})
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise IntegrityError(f"{where} lacks a field or has an unknown one: {error}") from error

    @classmethod
    def read(cls, repo: Path) -> Manifest:
        """Read the manifest of a dataset in a folder."""
        path = repo / FILE_NAME
        if not path.is_file():
            raise NotFoundError(
                f"no {FILE_NAME} in {repo}: not a shiftdata dataset, or its build has not finished"
            )
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise IntegrityError(f"{path} is not a shiftdata manifest ({error})") from error
        return cls.from_json(text, str(path))


def _records(raw: dict[str, Any]) -> dict[str, Any]:
    """The nested records of a manifest, from their JSON form."""
    return {
        "roles": Roles(**raw["roles"]),
        "bases": [Base(**{**base, "splits": _splits(base)}) for base in raw["bases"]],
        "configs": [
            Config(**{**config, "splits": _splits(config), "filters": _filters(config["filters"])})
            for config in raw["configs"]
        ],
        "credits": [Credit(**credit) for credit in raw["credits"]],
        "files": {path: FileRecord(**record) for path, record in raw["files"].items()},
        "withheld": {path: FileRecord(**record) for path, record in raw["withheld"].items()},
        "part": _part(raw["part"]) if raw["part"] is not None else None,
    }


def _part(raw: dict[str, Any]) -> Part:
    (conditions,) = _filters([raw["conditions"]])
    return Part(**{**raw, "conditions": conditions})


def _splits(raw: dict[str, Any]) -> dict[str, Split]:
    return {name: Split(**split) for name, split in raw["splits"].items()}


def _filters(raw: list[list[list[Any]]]) -> Filters:
    return [[(column, operator, value) for column, operator, value in clause] for clause in raw]
