"""The records that a manifest is made of: bases, splits, canonical splits, files, credits, traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from shiftdata.data.format.licenses import PUBLIC_DOMAIN, conjuncts
from shiftdata.data.format.paths import data_pattern

#: Column, operator, value.
Condition: TypeAlias = tuple[str, str, Any]
#: Conditions that all hold.
Clause: TypeAlias = list[Condition]
#: Alternatives of clauses, as `pyarrow` and `datasets` read them.
Filters: TypeAlias = list[Clause]


@dataclass(frozen=True, kw_only=True)
class Split:
    """The size of a split of a base or a set of a canonical split.

    `bytes` are those of its cells in memory. `groups` counts those with rows, `smallest` and `largest` are
    their sizes (0 where rows have no group, as untouched content).
    """

    rows: int
    bytes: int
    groups: int = 0
    smallest: int = 0
    largest: int = 0


@dataclass(frozen=True, kw_only=True)
class Untouched:
    """The untouched rows that begin trajectories; `examples` are distinct, `bytes` those of the copies."""

    rows: int
    examples: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class TaskOf:
    """The task in tars: the base of its rows, the protocol that chose them, the roles of each set."""

    base: str
    protocol: str
    roles: Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Base:
    """A set of files: `data/<name>/`, `metadata/<name>/`; in tars also a `task`, with its sets as `splits`.

    `dropped` counts, by reason, content that could not be used; `dropped.parquet` names it, and `dropped_id`
    is the hash of the names and reasons. `untouched` counts the rows at severity 0, if some of them are the
    same example. `equal_apart` counts the sets of untouched examples that are equal to the byte, of several
    origins and in several splits.
    """

    name: str
    summary: str
    content_id: str
    splits: Mapping[str, Split]
    dropped: Mapping[str, int] = field(default_factory=dict)
    dropped_id: str = ""
    untouched: Untouched | None = None
    equal_apart: int = 0
    task: TaskOf | None = None

    @property
    def rows(self) -> int:
        return sum(split.rows for split in self.splits.values())

    @property
    def protocol(self) -> str:
        """The protocol that chose the rows, as words; empty for a whole base."""
        return self.task.protocol if self.task else ""

    @property
    def roles(self) -> Mapping[str, Sequence[str]]:
        """The roles of each set of a task, its own first; empty for a whole base."""
        return self.task.roles if self.task else {}

    def hides_labels(self, name: str) -> bool:
        """Return True for an unlabelled set: its samples have hashed keys and neither label nor group."""
        return self.roles.get(name, ("",))[0] == "unlabelled"


@dataclass(frozen=True, kw_only=True)
class CanonicalSet:
    """A set of a canonical split: its roles, its size, and the splits of its base that have its rows.

    `filters` keep exactly its rows; None if no filters can, for a `reason`. A row that was drawn twice counts
    twice in `size`. `files` are the data files that have exactly its rows, where the build gave it some.
    """

    roles: Sequence[str]
    size: Split
    splits: Sequence[str]
    filters: Filters | None
    reason: str = ""
    files: Sequence[str] = ()

    def files_in(self, base: str) -> Sequence[str]:
        """Return the files, or patterns of files, from which `filters` keep the rows."""
        return self.files or [data_pattern(base, split) for split in self.splits]


#: The beginning of the note that a set of a canonical split lacks groups.
GAPS = "groups without a row in"


@dataclass(frozen=True, kw_only=True)
class CanonicalSplit:
    """A task that is published with its dataset: `protocol` (as `shiftdata task` reads it) on a base.

    Its rows are frozen as keys in `protocols/<name>.parquet`. `is_config`: plain `datasets` loads it by its
    name, each set as a split; else it is a key file alone. `authors`: the dataset's authors cut it. `notes`
    compare the request with the result; `metrics` are the official figures.
    """

    name: str
    summary: str
    base: str
    protocol: str
    sets: Mapping[str, CanonicalSet]
    is_config: bool = False
    authors: bool = False
    notes: Sequence[str] = ()
    metrics: Sequence[str] = ()

    @property
    def has_files(self) -> bool:
        """True if each set is whole data files, which one config reads without filters."""
        return any(rows.files for rows in self.sets.values())

    @property
    def has_gaps(self) -> bool:
        """True if a set lacks groups, so that the task can be made only with `on_empty="report"`."""
        return any(note.startswith(GAPS) for note in self.notes)


@dataclass(frozen=True, kw_only=True)
class Config:
    """A config of `load_dataset(repo, name)`: each split's size, and the files or patterns of it."""

    name: str
    splits: Mapping[str, Split]
    files: Mapping[str, Sequence[str]]
    filters: Filters | None = None


@dataclass(frozen=True, kw_only=True)
class Credit:
    """A licence of content with an attribution, and the number of rows made from such content."""

    license: str
    attribution: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class Material:
    """A work that the examples of some nuisances were made with, next to their content.

    A "picture" shows in them, a "tool", such as a network, does not. `sha256` are the files of the work.
    """

    kind: Literal["picture", "tool"]
    name: str
    license: str
    attribution: str
    how: str
    nuisances: Sequence[str]
    sha256: Sequence[str] = ()

    @property
    def adds(self) -> list[str]:
        """The licences that rows have by it: of a tool those that restrict what it makes, as RAIL does."""
        names = [name for name in conjuncts(self.license) if name not in PUBLIC_DOMAIN]
        return [name for name in names if self.kind == "picture" or "RAIL" in name.upper()]


@dataclass(frozen=True, kw_only=True)
class EqualContent:
    """Content items that are equal to another to the byte: each set of them is one origin.

    `labels` counts the sets whose items have several labels, `nuisances` those of several nuisances.
    """

    items: int
    sets: int
    labels: int
    nuisances: int


@dataclass(frozen=True, kw_only=True)
class UsedFile:
    """A file that a step reads, such as weights or an archive; `hash` is `<algorithm>:<digits>`."""

    name: str
    hash: str | None = None
    url: str | None = None


@dataclass(frozen=True, kw_only=True)
class Activity:
    """A step that made the examples: its kind, its details, the version of its code, the files it reads.

    `parameters` is the hash of all that determines what it makes, the content of an album included.
    """

    name: str
    how: str
    code_version: int
    parameters: str
    used: Sequence[UsedFile] = ()


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The steps that made the examples; `synthetic` if a program drew or changed any of them."""

    synthetic: bool
    activities: Sequence[Activity]


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """The size and the hash of a published file; a picture has no rows."""

    bytes: int
    sha256: str
    rows: int | None


@dataclass(frozen=True, kw_only=True)
class Part:
    """The whole of a part, which has the rows of its `config`, in `splits`, that meet all `conditions`.

    `manifest` is the sha256 of the whole's `manifest.json`.
    """

    manifest: str
    content_id: str
    config: str
    splits: Sequence[str]
    conditions: Sequence[tuple[str, str, Any]] = ()


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """The columns of the rows without a label, which are null here, and only in a file of the publisher's.

    `rows` counts these rows of each base. `sha256` identifies the file's answers; it is salted, so that
    nobody finds them by trying.
    """

    rows: Mapping[str, int]
    columns: Sequence[str]
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The accuracy with which a trivial trace of pictures, such as their corners, predicts label or nuisance.

    `accuracy` is balanced, on rows of held-out origins; `chance` is that of a guess. `alone` is the balanced
    accuracy of one class against all others, for the class that is predicted best, `plainest`; a guess has
    0.5, with `noise` as its standard error.
    """

    name: str
    target: Literal["label", "nuisance"]
    accuracy: float
    chance: float
    plainest: str
    alone: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class Shortcuts:
    """The traces that a build measured on a sample of its pictures: `fit` training rows, `tested` test rows.

    `made`: the recipe made the nuisance; otherwise it came with the content. `files` are traces of the files
    that the pictures were made from.
    """

    base: str
    fit: int
    tested: int
    made: bool
    traces: Sequence[Trace]
    files: Sequence[Trace] = ()


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The accuracy of one training run on one set of a canonical split.

    `trained` names the method (on `fit` rows): "ceiling", "ERM", "RWG", ...; `network` and `seed` what was
    trained: from scratch, or on the features of a frozen network. `mean` is the accuracy over `cells`
    (groups, or nuisances where each is a trajectory), the smallest of which has `smallest` rows, and `worst`
    that of `worst_cell`; both with the ends of their 95 % interval over origins. `seconds` of one core.
    """

    split: str
    trained: str
    network: str
    seed: int
    mode: Literal["scratch", "frozen"]
    fit: int
    set: str
    rows: int
    cells: int
    smallest: int
    chance: float
    mean: tuple[float, float, float]
    worst: tuple[float, float, float]
    worst_cell: str
    by_nuisance: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The results of small networks on the canonical splits of a base, of the build `content_id`.

    Each model was trained for `steps` of `batch` rows, from scratch on pictures of `side` pixels.
    `left_out` lists what was not measured, and the reasons.
    """

    base: str
    content_id: str
    steps: int
    batch: int
    side: int
    versions: Mapping[str, str]
    measures: Sequence[Measure]
    left_out: Sequence[str] = ()

    @property
    def first(self) -> Sequence[Measure]:
        """The trainings, on the first canonical split, of the networks that were trained by ERM.

        Of splits by severity those on untouched examples, judged at the greatest severity. None if nothing
        was measured.
        """
        for name in ("ERM", "untouched"):
            if chosen := [measure for measure in self.measures if measure.trained == name]:
                last = next(by for by in reversed(chosen) if by.split == chosen[0].split)
                return [by for by in chosen if (by.split, by.set) == (last.split, last.set)]
        return []

    def __str__(self) -> str:
        """Say in a line what small networks reach on the first canonical split that was measured."""
        if not (first := self.first):
            return ""
        networks = ", ".join(dict.fromkeys(by.network for by in first))
        mean, worst = (span([getattr(by, name)[0] for by in first]) for name in ("mean", "worst"))
        return (
            f"{first[0].trained} on {first[0].split} ({networks}): "
            f"mean {mean}, worst {worst}, chance {first[0].chance:.2f}"
        )


def span(shares: Sequence[float]) -> str:
    """Return the least and the largest share in words.

    >>> span([0.31, 0.5, 0.47]), span([0.5])
    ('0.31 to 0.50', '0.50')
    """
    low, high = f"{min(shares):.2f}", f"{max(shares):.2f}"
    return low if low == high else f"{low} to {high}"


def by_reason(counts: Mapping[str, int]) -> dict[str, int]:
    """Add up the counts of reasons that differ only in their parentheses.

    >>> by_reason({"too many pixels (9000 x 9000)": 1, "too many pixels (9000 x 8000)": 2, "empty (0)": 4})
    {'too many pixels': 3, 'empty (0)': 4}
    """
    spellings: dict[str, list[str]] = {}
    for reason in counts:
        spellings.setdefault(reason.split(" (")[0], []).append(reason)
    return {
        same[0] if len(same) == 1 else short: sum(counts[reason] for reason in same)
        for short, same in spellings.items()
    }
