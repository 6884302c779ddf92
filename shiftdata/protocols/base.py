"""What every protocol is: a frozen record that makes a task from a task, and that composes with `&`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import partialmethod
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.format.conditions import NUMBERS, resolve
from shiftdata.format.manifest import Clause
from shiftdata.metadata import Metadata
from shiftdata.metadata.folds import cut, hashes64
from shiftdata.tasks import Task

#: What stands for the default of a parameter that must be given.
REQUIRED = "(required)"


@dataclass(frozen=True, kw_only=True)
class Protocol(ABC):
    """A named, versioned rule from a task to a task; `(a & b)(task)` is `b(a(task))`.

    Everything it does comes from keys, folds, quantiles and names by stable hash: the order of rows never
    matters. After it, no origin may be on two sides of the task.
    """

    variant: str = ""

    id: ClassVar[str]
    version: ClassVar[int] = 1
    paper: ClassVar[str] = ""
    about: ClassVar[str] = ""
    #: What each named variant does differently; "" is the default.
    variants: ClassVar[Mapping[str, str]] = {}
    #: The variants that leak as their paper does; they warn where they do.
    leaking: ClassVar[Sequence[str]] = ()

    def __post_init__(self) -> None:
        if self.variant and self.variant not in self.variants:
            raise not_found(f"variant of {self.id}", self.variant, self.variants, "The default has no name.")

    @abstractmethod
    def make(self, task: Task) -> Task:
        """The new task, before it is checked."""

    def __call__(self, task: Task, *, on_empty: Literal["error", "report"] = "error") -> Task:
        if on_empty not in ("error", "report"):
            raise InputError(f'on_empty is "error" or "report", got {on_empty!r}')
        made = replace(self.make(task), history=(*task.history, str(self)))
        if not made.leaky:
            made = replace(made, leaky=made.check_leaks(warn=self.variant in self.leaking))
        if on_empty == "error":
            made.check_empty()
        return made

    def __and__(self, other: Protocol) -> Chain:
        if not isinstance(other, Protocol):
            raise InputError(f"a protocol is joined with a protocol or (severity <= 1.5), got {other!r}")
        first, then = (one.steps if isinstance(one, Chain) else (one,) for one in (self, other))
        return Chain((*first, *then))

    def __str__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.parameters())
        shown = ", ".join(f"{name}={value!r}" for name, value in values if value not in ("", None, ()))
        return f"{self.name}({shown})"

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Its parameters with their defaults; `REQUIRED` for those that must be given."""
        known = {one.name: REQUIRED if one.default is MISSING else one.default for one in fields(cls)}
        variant = {"variant": known.pop("variant")}
        return known | (variant if cls.variants else {})

    @property
    def name(self) -> str:
        """Its name with its version, by which its draws are keyed."""
        return f"{self.id}@{self.version}"


@dataclass(frozen=True, repr=False)
class Chain(Protocol):
    """Protocols one after the other, each checked."""

    steps: tuple[Protocol, ...]
    id: ClassVar[str] = "chain"

    def make(self, task: Task) -> Task:
        return self(task)

    def __call__(self, task: Task, *, on_empty: Literal["error", "report"] = "error") -> Task:
        for step in self.steps:
            task = step(task, on_empty=on_empty)
        return task

    def __str__(self) -> str:
        return " & ".join(map(str, self.steps))


@dataclass(frozen=True)
class Where(Protocol):
    """A condition on a column as a protocol: every set keeps the rows that fulfil it."""

    column: str
    operator: str
    value: Any
    id: ClassVar[str] = "where"

    def make(self, task: Task) -> Task:
        rows = task.metadata
        asked, nuisance = (self.column, self.operator, self.value), rows.nuisance_column
        condition = resolve(asked, labels=rows.labels, nuisance=nuisance, nuisances=rows.nuisances)
        if condition[0] not in rows.columns:
            allowed = ", ".join(["label", nuisance, *NUMBERS])
            raise InputError(f"a task cannot be restricted by {condition[0]}: use {allowed}")
        return task.restrict([[condition]])

    def __str__(self) -> str:
        sign = {"in": "==", "not in": "!="}.get(self.operator, self.operator)
        value = ", ".join(map(str, self.value)) if isinstance(self.value, list) else self.value
        return f"({self.column} {sign} {value})"


@dataclass(frozen=True, eq=False)
class Column:
    """A column to compare: `severity <= 1.5` is a protocol, which needs its parentheses before `&`."""

    name: str

    def _where(self, operator: str, value: object) -> Where:
        return Where(self.name, operator, value)

    __lt__ = partialmethod(_where, "<")
    __le__ = partialmethod(_where, "<=")
    __gt__ = partialmethod(_where, ">")
    __ge__ = partialmethod(_where, ">=")
    __eq__ = partialmethod(_where, "==")  # type: ignore[assignment]
    __ne__ = partialmethod(_where, "!=")  # type: ignore[assignment]

    def isin(self, values: Iterable[float]) -> Where:
        return Where(self.name, "in", list(values))

    __hash__ = None  # type: ignore[assignment]


#: The strength of a continuous shift: `GroupFairness(k=8, mu=0.1) & (severity <= 1.5)`.
severity = Column("severity")


def train_folds(task: Task, seed: int, *, whole: bool = False) -> dict[str, Clause]:
    """The folds that train and validate; and those that test, where origins occur under several nuisances.

    `whole` gives every fold to training and validation, though origins then leak into the test.
    """
    apart = task.metadata.origins_shared and not whole
    shares = {"train": 50, "validation": 20, "test": 30} if apart else {"train": 80, "validation": 20}
    return cut(shares, seed)


def named(names: str | Sequence[str]) -> list[str]:
    """One name or some names, as a list."""
    return [names] if isinstance(names, str) else list(names)


def hashes(metadata: Metadata, rows: NDArray[np.int64], *salt: str | int) -> NDArray[np.uint64]:
    """A stable number for each of some rows, keyed by its key."""
    result = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), 100_000):  # text takes much room in Python
        part = slice(start, start + 100_000)
        result[part] = hashes64(metadata.table["key"].take(pa.array(rows[part])).to_pylist(), *salt)
    return result


def first_of_each(
    cells: NDArray[np.int64], order: NDArray[np.uint64], limits: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which rows are among the first `limits[cell]` of their cell, in some order.

    >>> first_of_each(np.array([0, 0, 1, 0]), np.array([3, 1, 9, 2], np.uint64), np.array([2, 5])).tolist()
    [False, True, True, True]
    """
    by_cell = np.lexsort((order, cells))
    counts = np.bincount(cells, minlength=len(limits))
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.empty(len(cells), dtype=bool)
    kept[by_cell] = np.arange(len(cells)) - starts < limits[cells[by_cell]]
    return kept
