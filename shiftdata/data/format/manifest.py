"""`manifest.json`: the only machine truth about a dataset, and its only definition."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from shiftdata.data.format.faults import faults
from shiftdata.data.format.paths import is_tar
from shiftdata.data.format.records import (
    Base,
    Calibration,
    CanonicalSplit,
    Config,
    Credit,
    EqualContent,
    FileRecord,
    Part,
    Provenance,
    Shortcuts,
    Split,
)
from shiftdata.data.format.schema import Roles
from shiftdata.data.format.typed import read_json, record
from shiftdata.errors import IntegrityError, NotFoundError, not_found
from shiftdata.files import open_regular

FILE_NAME = "manifest.json"
FORMAT = 1
MOST_BYTES = 16 << 20
#: How the text begins: with the hash of everything after this line.
CHECKSUM = re.compile(r'\{\n "checksum": "([0-9a-f]{64})",\n')


#: What may be passed on: the whole dataset; all but the examples; or not even keys and splits.
Publishes: TypeAlias = Literal["all", "splits", "nothing"]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything a reader, a card or a check needs to know about a dataset.

    `severities` lists the steps of a continuous shift; it is empty where a nuisance has no scale.
    `credits` are the licences and attributions of the rows, most rows first; of very many only the first
    stand here, and `more_credits` counts the others. `datasheet` holds what the publisher says about where
    the data came from and what it is good for. `sample` is one row as it is loaded, an image left out; in
    WebDataset format, the members of one sample, an image as None. `part` is None for a whole dataset.

    Where the licence of the content forbids publishing, a build says `publishes="splits"`; the dataset that
    is published then lacks `data/`, whose files it lists as `withheld`: another build makes them again and is
    compared with them. With "nothing" it is not published at all. `left_out` counts, by reason, files and
    rows that never were examples: no identity knows them.

    `shortcuts` is what the build measured of pictures; None for a part, for texts and for tables.
    `calibration` is what a small trainer reaches on the canonical splits, where somebody measured it.
    `provenance` is how the recipe makes the examples.
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
    canonical_splits: Sequence[CanonicalSplit]
    sample: Mapping[str, Any]
    files: Mapping[str, FileRecord]
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT
    part: Part | None = None
    publishes: Publishes = "all"
    withheld: Mapping[str, FileRecord] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    equal_content: EqualContent | None = None
    shortcuts: Shortcuts | None = None
    calibration: Calibration | None = None
    provenance: Provenance | None = None

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
        return any(map(is_tar, self.files))

    def base(self, name: str) -> Base:
        """The base of that name."""
        found = {base.name: base for base in self.bases}
        if name not in found:
            raise not_found("base", name, found, f"It was asked of {self.name}.")
        return found[name]

    @property
    def configs(self) -> Mapping[str, Config]:
        """Every config that `load_dataset(repo, name)` accepts, by name, the default first."""
        rows = _of_base(self.base(self.default_base), "metadata")
        if self.withheld:
            return {rows.name: rows}
        bases = sorted(self.bases, key=lambda base: (base.name != self.default_base, base.name))
        configs = [_of_base(base, base.name) for base in bases]
        if not self.is_webdataset:
            configs += [
                _virtual(split, name, sets)
                for split in self.canonical_splits
                for name, sets in split.configs.items()
            ]
            configs.append(rows)
        return {config.name: config for config in configs}

    def canonical(self, name: str) -> CanonicalSplit | None:
        """The canonical split of that name, if it is one."""
        return next((split for split in self.canonical_splits if split.name == name), None)

    def rows_behind(self, name: str) -> tuple[CanonicalSplit | None, str, list[str]]:
        """The canonical split, the base and the names of the splits of a config (or of a canonical split)."""
        for split in self.canonical_splits:
            for config, sets in {**split.configs, split.name: split.sets}.items():
                if config == name:
                    return split, split.base, list(sets)
        bases = {base.name: list(base.splits) for base in self.bases}
        if name not in bases:
            known = dict.fromkeys(bases)
            for split in self.canonical_splits:
                known |= dict.fromkeys([split.name, *split.configs])
            raise not_found("config", name, known, f"See `shiftdata info {self.name}`.")
        return None, name, bases[name]

    def splits_of(self, name: str) -> Mapping[str, Split]:
        """The splits of a config, or the sets of a canonical split."""
        if name == "metadata":
            return self.base(self.default_base).splits
        split, base, names = self.rows_behind(name)
        sizes = {one: of.size for one, of in split.sets.items()} if split else self.base(base).splits
        return {one: sizes[one] for one in names}

    def to_json(self) -> str:
        """The text of `manifest.json`: equal manifests give equal bytes."""
        return checksummed(asdict(self))

    @classmethod
    def from_json(cls, text: str, where: str = FILE_NAME) -> Manifest:
        """Read the text of a `manifest.json`; `where` names it in errors."""
        try:
            raw = read_json(text)
            version = raw["format"]
        except (ValueError, TypeError, KeyError) as error:
            raise IntegrityError(f"{where} is not a shiftdata manifest ({error!r:.300})") from error
        if version != FORMAT:
            raise IntegrityError(
                f"{where} has manifest format {ascii(version)[:60]}; this shiftdata reads format {FORMAT}: "
                "install a newer shiftdata"
            )
        found = CHECKSUM.match(text)
        if not found or _sha256(text[found.end() :]) != raw.pop("checksum", None):
            raise IntegrityError(
                f"{where} is damaged, was edited, or had its line endings converted: it does not have the "
                "checksum that its first line names; fetch or build the dataset again"
            )
        try:
            manifest = record(cls, raw)
        except ValueError as error:
            raise IntegrityError(f"{where} is not a shiftdata manifest: {error}") from error
        for fault in faults(manifest):
            raise IntegrityError(f"{where} {fault}: fetch or build it again")
        return manifest

    @classmethod
    def read(cls, repo: Path) -> Manifest:
        """Read the manifest of a dataset in a folder."""
        path = repo / FILE_NAME
        if not path.is_file():
            raise NotFoundError(
                f"no {FILE_NAME} in {repo}: not a shiftdata dataset, or its build has not finished"
            )
        try:
            with open_regular(path) as file:
                written = file.read(MOST_BYTES + 1)
            if len(written) > MOST_BYTES:
                raise IntegrityError(f"{path} has more than {MOST_BYTES:,} bytes: it is not a manifest")
            text = written.decode()
        except UnicodeDecodeError as error:
            raise IntegrityError(f"{path} is not a shiftdata manifest ({error})") from error
        return cls.from_json(text, str(path))


def checksummed(raw: Mapping[str, Any]) -> str:
    """The text of a `manifest.json` with these fields, behind its checksum.

    The checksum shows every accidental change. Whoever forges a manifest computes it anew: against that, pin
    the hash of the whole file, as catalogs do.
    """
    text = json.dumps(raw, indent=1, ensure_ascii=False).removeprefix("{\n") + "\n"
    return f'{{\n "checksum": "{_sha256(text)}",\n{text}'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _of_base(base: Base, name: str) -> Config:
    read = {split: [split] for split in base.splits}
    return Config(name=name, base=base.name, splits=base.splits, read=read)


def _virtual(split: CanonicalSplit, name: str, sets: Sequence[str]) -> Config:
    """Some sets of a canonical split as one config: no two are read from one split of the base."""
    chosen = {one: split.sets[one] for one in sets}
    return Config(
        name=name,
        base=split.base,
        splits={one: of.size for one, of in chosen.items()},
        read={one: of.splits for one, of in chosen.items()},
        filters=[clause for of in chosen.values() for clause in of.filters or ()],
    )
