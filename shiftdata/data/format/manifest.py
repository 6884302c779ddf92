"""`manifest.json`: the only machine truth about a dataset, its only definition, and what is refused of it."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

from shiftdata.data.format.hidden import HIDES
from shiftdata.data.format.names import (
    COLUMN,
    is_path_part,
    is_relative_path,
    line_fault,
    template_fault,
    text_fault,
)
from shiftdata.data.format.paths import data_pattern, is_tar, metadata_file
from shiftdata.data.format.records import (
    Base,
    Calibration,
    CanonicalSplit,
    Config,
    Credit,
    EqualContent,
    FileRecord,
    Hidden,
    Material,
    Part,
    Provenance,
    Shortcuts,
    Split,
)
from shiftdata.data.format.schema import FEATURE_TYPES, RESERVED, SPLITS, Roles, columns
from shiftdata.data.format.typed import record
from shiftdata.errors import IntegrityError, NotFoundError, not_found
from shiftdata.files import open_regular
from shiftdata.notebook import shown
from shiftdata.untrusted.texts import read_json

FILE_NAME = "manifest.json"
FORMAT = 1
MOST_BYTES = 16 << 20
#: The text begins with the hash of everything after this line.
CHECKSUM = re.compile(r'\{\n "checksum": "([0-9a-f]{64})",\n')
#: The columns of examples, where their modality fixes them.
EXAMPLES = {"image": {"image": "image"}, "text": {"text": "string"}}
#: Sets of tasks in tars: parts of paths, and splits for `datasets`. Without a hyphen no name begins another's
#: files.
SET_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
ROLES = ("fit", "unlabelled", "select", "test")
SHA256 = re.compile(r"[0-9a-f]{64}")
#: The fields whose texts are hashes, may have several lines, are shares of 1, or are not checked.
HASHES = ("recipe_id", "content_id", "manifest", "sha256", "parameters")
PROSE = ("summary", "citation", "datasheet", "left_out", "how", "dropped", "notes", "reason", "features")
SHARES = ("accuracy", "chance", "alone", "noise", "mean", "worst", "by_nuisance")
#: The fields that are written only where a dataset has them, with what they are elsewhere.
OPTIONAL: Mapping[str, Any] = {"prompts": [], "hidden": None, "materials": [], "compilation": ""}
UNCHECKED = ("roles", "sample", "severities", "seed", "filters", "conditions")

Text: TypeAlias = str | bytes
#: What may be passed on: the whole dataset; all but the examples; or not even keys and splits.
Publishes: TypeAlias = Literal["all", "splits", "nothing"]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything a reader, a card or a check needs to know about a dataset.

    Attributes:
        severities: the steps of a continuous shift; empty if the nuisance has no scale.
        license: joins the licences of all rows and of the `compilation`.
        credits: the licences and attributions of the content, most rows first; `more_credits` counts those
            that are not listed.
        materials: the other works that examples were made with, and `compilation` the licence under which the
            publisher releases the whole, if it has one of its own; written only where there are any.
        datasheet: the publisher's answers about the origin and the use of the data.
        sample: a row as it is loaded, without its image; in WebDataset format, the members of a sample, an
            image as None.
        part: None for a whole dataset.
        publishes: "splits" if the licence of the content forbids publishing the examples. The published
            dataset then lists the files of `data/` as `withheld`: another build is compared with them.
        left_out: counts, by reason, files and rows that never were examples; no identity depends on them.
        shortcuts: measured by the build on pictures; None for a part, for texts and for tables.
        calibration: the results of a small trainer on the canonical splits, if they were measured.
        provenance: how the recipe makes the examples.
        prompts: templates of captions, such as "a sketch of a {}.", for zero-shot classifiers.
        hidden: what the publisher keeps of some rows, such as their labels, to judge predictions by.

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
    prompts: Sequence[str] = ()
    hidden: Hidden | None = None
    materials: Sequence[Material] = ()
    compilation: str = ""

    @shown
    def _repr_html_(self) -> str:
        from shiftdata.data.loading.showing import manifest_html

        return manifest_html(self)

    @property
    def pixels_included(self) -> bool:
        """True if the examples are included: pictures, texts or rows of features."""
        return not self.withheld

    @property
    def all_files(self) -> Mapping[str, FileRecord]:
        """Every file of a build, withheld or not."""
        return {**self.files, **self.withheld}

    def require_pixels(self, where: str) -> None:
        """Raise `NotFoundError` if the dataset at `where` lacks the examples."""
        if self.withheld:
            raise NotFoundError(
                f"{where} has the metadata and splits of {self.name}, but not the examples: {self.license} "
                "does not allow publishing them. Build them on this machine: "
                f"`shiftdata build {self.name}`, then load build/shift/{self.name}. "
                "The config 'metadata' loads without them"
            )

    @property
    def rows(self) -> int:
        return sum(base.rows for base in self.bases)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())

    @property
    def is_webdataset(self) -> bool:
        """True if the examples are in tars (WebDataset format) and not in Parquet files."""
        return any(map(is_tar, self.files))

    def base(self, name: str) -> Base:
        """Return the base of that name."""
        bases = {base.name: base for base in self.bases}
        if name not in bases:
            raise not_found("base", name, bases, f"The dataset is {self.name}.")
        return bases[name]

    @property
    def ordered_bases(self) -> Sequence[Base]:
        """The bases, the default one first."""
        return sorted(self.bases, key=lambda base: (base.name != self.default_base, base.name))

    @property
    def configs(self) -> Mapping[str, Config]:
        """Every config that `load_dataset(repo, name)` accepts, by name, the default first.

        The default is the authors' split, if the dataset has one, else the default base.
        """
        rows = _of_base(self.base(self.default_base), "metadata", metadata_file)
        if self.withheld:
            return {rows.name: rows}
        configs = [_of_base(base, base.name, data_pattern) for base in self.ordered_bases]
        if not self.is_webdataset:
            configs += [_virtual(split) for split in self.canonical_splits if split.is_config]
            configs.append(rows)
        if authors := self.authors_split:
            configs.sort(key=lambda config: config.name != authors.name)
        return {config.name: config for config in configs}

    @property
    def default_config(self) -> str:
        """The config that `load_dataset(repo)` loads."""
        return next(iter(self.configs))

    @property
    def authors_split(self) -> CanonicalSplit | None:
        """The authors' split, whose sets have files of their own; None if there are none or several."""
        splits = [split for split in self.canonical_splits if split.authors and split.has_files]
        return splits[0] if len(splits) == 1 else None

    def canonical(self, name: str) -> CanonicalSplit | None:
        """Return the canonical split of that name, or None."""
        return next((split for split in self.canonical_splits if split.name == name), None)

    def rows_behind(self, name: str) -> tuple[CanonicalSplit | None, str, list[str]]:
        """Return the canonical split, the base and the split names of a canonical split or a base."""
        if split := self.canonical(name):
            return split, split.base, list(split.sets)
        bases = {base.name: list(base.splits) for base in self.bases}
        if name not in bases:
            known = [*bases, *(split.name for split in self.canonical_splits)]
            raise not_found("config", name, known, f"See `shiftdata info {self.name}`.")
        return None, name, bases[name]

    def splits_of(self, name: str) -> Mapping[str, Split]:
        """Return the splits of a config, or the sets of a canonical split."""
        if name == "metadata":
            return self.base(self.default_base).splits
        split, base, names = self.rows_behind(name)
        sizes = {of: rows.size for of, rows in split.sets.items()} if split else self.base(base).splits
        return {of: sizes[of] for of in names}

    def to_json(self) -> str:
        """Return the text of `manifest.json`: equal manifests give equal bytes."""
        raw = asdict(self)
        return checksummed({key: value for key, value in raw.items() if value or key not in OPTIONAL})

    @classmethod
    def from_json(cls, data: Text, where: str = FILE_NAME) -> Manifest:
        """Read the text of a `manifest.json`; `where` names it in errors."""
        raw = undamaged(data, where)
        try:
            manifest = record(cls, {**OPTIONAL, **raw})
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
        with open_regular(path) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise IntegrityError(f"{path} has more than {MOST_BYTES:,} bytes: it is not a manifest")
        return cls.from_json(data, str(path))


def undamaged(data: Text, where: str = FILE_NAME) -> dict[str, Any]:
    """Return the fields of a `manifest.json` that has its checksum; what they are is not checked."""
    try:
        text = data if isinstance(data, str) else data.decode()
        raw: dict[str, Any] = read_json(text)
        version = raw["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise IntegrityError(f"{where} is not a shiftdata manifest ({error!r:.300})") from error
    if version != FORMAT:
        raise IntegrityError(
            f"{where} has manifest format {ascii(version)[:60]}; this shiftdata reads format {FORMAT}: "
            "install a newer shiftdata"
        )
    match = CHECKSUM.match(text)
    if not match or _sha256(text[match.end() :]) != raw.pop("checksum", None):
        raise IntegrityError(
            f"{where} is damaged, was edited, or had its line endings converted: it does not have the "
            "checksum in its first line; fetch or build the dataset again"
        )
    return raw


def checksummed(raw: Mapping[str, Any]) -> str:
    """Return the text of a `manifest.json` with these fields, behind its checksum.

    The checksum shows every accidental change. A forger computes it again: against that, pin the hash of the
    whole file, as catalogs do.
    """
    text = json.dumps(raw, indent=1, ensure_ascii=False).removeprefix("{\n") + "\n"
    return f'{{\n "checksum": "{_sha256(text)}",\n{text}'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _of_base(base: Base, name: str, path: Callable[[str, str], str]) -> Config:
    splits = base.splits or SPLITS  # a card may be drawn before anything is built
    return Config(name=name, splits=base.splits, files={split: [path(base.name, split)] for split in splits})


def _virtual(split: CanonicalSplit) -> Config:
    """Make the config of a canonical split: whole files, or filters on splits that no two sets share."""
    clauses = [clause for rows in split.sets.values() for clause in rows.filters or ()]
    return Config(
        name=split.name,
        splits={of: rows.size for of, rows in split.sets.items()},
        files={of: rows.files_in(split.base) for of, rows in split.sets.items()},
        filters=None if split.has_files else clauses,
    )


def faults(manifest: Manifest) -> Iterator[str]:
    """Yield each reason to refuse a manifest, as words that follow its name.

    No row can be read by such a manifest, or its names would mislead a page, a path or a terminal.
    """
    for name, value in _leaves(manifest, ""):
        if fault := _leaf_fault(name, value):
            yield fault
    yield from _name_faults(manifest)
    for prompt in manifest.prompts:
        if fault := template_fault(prompt):
            yield f"has the prompt {prompt[:60]!a}, which {fault}"
    yield from _column_faults(manifest.roles)
    if manifest.hidden is not None:
        yield from _unknown("bases with hidden rows", manifest.hidden.rows, [b.name for b in manifest.bases])
        yield from _unknown("hidden columns", manifest.hidden.columns, [*HIDES, manifest.roles.nuisance])
    for base in manifest.bases:
        yield from _base_faults(manifest, base)
    for split in manifest.canonical_splits:
        for name, rows in split.sets.items():
            yield from _unknown(f"splits of {split.name}/{name}", rows.splits, SPLITS)
            yield from _unknown(f"files of {split.name}/{name}", rows.files, manifest.all_files)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the name of the field and the value of every text and number, keys included."""
    if isinstance(value, str | float | int):  # most are
        yield name, value
    elif is_dataclass(value):
        for inner in fields(value):
            if inner.name not in UNCHECKED:
                yield from _leaves(getattr(value, inner.name), inner.name)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield "key" if name in SHARES else name, key
            yield from _leaves(entry, name)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _leaves(entry, name)
    else:
        yield name, value


def _leaf_fault(name: str, value: Any) -> str | None:
    if isinstance(value, str) and name in HASHES:
        is_id = SHA256.fullmatch(value)
        return None if is_id else f"gives the id {value[:70]!a}; ids are 64 digits of 0-9a-f"
    if isinstance(value, str) and (value or name not in ("dropped_id", "compilation")):
        fault = text_fault(value) if name in PROSE else line_fault(value)
        return f"has a name that {fault}: {value[:60]!a}" if fault else None
    if isinstance(value, float | int) and not 0 <= value <= (1 if name in SHARES else math.inf):
        return f"has the {name} {value}, which is {'not between 0 and 1' if name in SHARES else 'below 0'}"
    return None


def _name_faults(manifest: Manifest) -> Iterator[str]:
    lists: dict[str, Sequence[str]] = {
        "base": [base.name for base in manifest.bases],
        "canonical split": [split.name for split in manifest.canonical_splits],
    }
    parts = [("name", manifest.name), ("version", manifest.version)]
    for kind, name in [*parts, *((kind, name) for kind, names in lists.items() for name in names)]:
        if not is_path_part(name):
            yield f"gives the {kind} {name[:60]!a}; use letters, digits, '_', '-' and '.'"
    lists |= {"label": manifest.labels, manifest.roles.nuisance: manifest.nuisances}
    for kind, names in lists.items():
        if len(set(names)) < len(names):
            yield f"gives one {kind[:60]} twice: give each a name of its own"
    folders = {str(parent) for path in manifest.all_files for parent in PurePosixPath(path).parents}
    for path in manifest.all_files:
        if not is_relative_path(path) or path in folders or path.casefold() == FILE_NAME:
            yield f"names {path[:200]!a}, which leads out of the dataset's folder, is hidden, or no file"


def _column_faults(roles: Roles) -> Iterator[str]:
    modality, example = roles.modality, dict(roles.example)
    taken = {*columns("nuisance"), *RESERVED} - {"nuisance"}
    for name in (roles.nuisance, *example):
        if not COLUMN.fullmatch(name) or name in taken or (name in example and name == roles.nuisance):
            yield f"has a column {name[:60]!a}, which cannot be one"
    if example != EXAMPLES.get(modality, example):
        yield (
            f"gives examples the columns {example}; of the modality {modality} they are {EXAMPLES[modality]}"
        )
    types = [feature for feature in example.values() if isinstance(feature, str)]
    yield from _unknown("types of features", types, FEATURE_TYPES)


def _base_faults(manifest: Manifest, base: Base) -> Iterator[str]:
    splits = set(base.splits)
    if base.task is None:
        yield from _unknown(f"splits of the base {base.name}", splits, SPLITS)
        if not splits or (manifest.part is None and splits != set(SPLITS)):
            yield f"lacks splits of the base {base.name!r}; they are {', '.join(SPLITS)}"
        return
    if not manifest.is_webdataset:
        yield f"gives the base {base.name!r} a task, which only tars have"
    if not splits or set(base.roles) != splits or not all(base.roles.values()):
        yield f"does not give each set of the task {base.name!r} its roles"
    for name in base.splits:
        if not SET_NAME.fullmatch(name):
            yield f"gives the task {base.name!r} the set {name[:60]!a}; use letters, digits, '_' and '.'"
    yield from _unknown("roles", (role for roles in base.roles.values() for role in roles), ROLES)


def _unknown(kind: str, given: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    if unknown := ", ".join(sorted(map(ascii, set(given) - set(known)))):
        yield f"has the {kind} {unknown[:200]}; they are {', '.join(known)}"
