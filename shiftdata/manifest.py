"""`manifest.json`: the only machine truth about a dataset, and its only definition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from shiftdata.errors import IntegrityError, NotFoundError, not_found
from shiftdata.schema import Roles

__all__ = ["FILE_NAME", "Base", "Config", "FileRecord", "Filters", "Manifest", "Split"]

FILE_NAME = "manifest.json"
FORMAT = 1

#: Alternatives of conditions, as `pyarrow` and `datasets` read them: [[(column, operator, value), ...], ...]
Filters: TypeAlias = list[list[tuple[str, str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Split:
    """How much one split of a base or a config holds; `bytes` are those of its cells in memory."""

    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Base:
    """One set of files: `data/<name>/` and `metadata/<name>/`."""

    name: str
    summary: str
    content_id: str
    splits: Mapping[str, Split]


@dataclass(frozen=True, kw_only=True)
class Config:
    """A canonical split: rows of a base chosen by filters alone."""

    name: str
    base: str
    protocol: str
    params: Mapping[str, Any]
    filters: Filters
    splits: Mapping[str, Split]


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """What a published file must be."""

    bytes: int
    sha256: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything a reader, a card or a check needs to know about a dataset."""

    name: str
    family: str
    version: str
    title: str
    summary: str
    license: str
    citation: str
    seed: int
    recipe_id: str
    content_id: str
    roles: Roles
    origins_shared: bool
    labels: Sequence[str]
    nuisances: Sequence[str]
    default_base: str
    bases: Sequence[Base]
    configs: Sequence[Config]
    dropped: Mapping[str, Mapping[str, int]]
    files: Mapping[str, FileRecord]
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def base(self, name: str) -> Base:
        """The base of that name."""
        found = {base.name: base for base in self.bases}
        if name not in found:
            raise not_found("base", name, found, f"It was asked of {self.name}.")
        return found[name]

    def config_names(self) -> list[str]:
        """Every name that `load_dataset(repo, name)` accepts, the default first."""
        bases = [base.name for base in self.bases]
        bases.sort(key=lambda name: (name != self.default_base, name))
        return [*bases, *(config.name for config in self.configs), "metadata"]

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
        except (TypeError, KeyError, AttributeError) as error:
            raise IntegrityError(f"{where} lacks a field or has an unknown one: {error}") from error

    @classmethod
    def read(cls, repo: Path) -> Manifest:
        """Read the manifest of a dataset in a folder."""
        path = repo / FILE_NAME
        if not path.is_file():
            raise NotFoundError(
                f"no {FILE_NAME} in {repo}: not a shiftdata dataset, or its build has not finished"
            )
        return cls.from_json(path.read_text(encoding="utf-8"), str(path))


def _records(raw: dict[str, Any]) -> dict[str, Any]:
    """The nested records of a manifest, from their JSON form."""
    return {
        "roles": Roles(**raw["roles"]),
        "bases": [Base(**{**base, "splits": _splits(base)}) for base in raw["bases"]],
        "configs": [
            Config(**{**config, "splits": _splits(config), "filters": _filters(config["filters"])})
            for config in raw["configs"]
        ],
        "files": {path: FileRecord(**record) for path, record in raw["files"].items()},
    }


def _splits(raw: dict[str, Any]) -> dict[str, Split]:
    return {name: Split(**split) for name, split in raw["splits"].items()}


def _filters(raw: list[list[list[Any]]]) -> Filters:
    return [[(column, operator, value) for column, operator, value in clause] for clause in raw]
