"""What every protocol is: a frozen record that makes a task from a task, and that composes with `&`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.format.conditions import NUMBERS, resolve
from shiftdata.metadata import Metadata
from shiftdata.metadata.folds import hashes64
from shiftdata.tasks import Task

#: What stands for the default of a parameter that must be given.
REQUIRED = "(required)"


class Protocol(ABC):
    """A named, versioned rule from a task to a task; `(a & b)(task)` is `b(a(task))`.

    Everything it does comes from keys, folds, quantiles and names by stable hash: the order of rows never
    matters. After it, no origin may be on two sides of the task.
    """

    id: ClassVar[str]
    version: ClassVar[int] = 1
    paper: ClassVar[str] = ""
    about: ClassVar[str] = ""
    #: What each named variant does otherwise; "" is the default.
    variants: ClassVar[Mapping[str, str]] = {}
    #: The variants that leak as their paper does; they warn where they do.
    leaking: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def make(self, task: Task) -> Task:
        """The new task, before it is checked."""

    def __call__(self, task: Task, *, on_empty: Literal["error", "report"] = "error") -> Task:
        """Make the new task and check it for leaks and for groups without rows."""
        if on_empty not in ("error", "report"):
            raise InputError(f'on_empty is "error" or "report", got {on_empty!r}')
        made = replace(self.make(task), history=(*task.history, str(self)))
        if not made.leaky:
            warn = getattr(self, "variant", None) in self.leaking
            made = replace(made, leaky=made.check_leaks(warn=warn))
        if on_empty == "error":
            made.check_empty()
        return made

    def __and__(self, other: Protocol) -> Chain:
        """Do this, then another protocol."""
        if not isinstance(other, Protocol):
            raise InputError(f"a protocol is joined with a protocol or (severity <= 1.5), got {other!r}")
        return Chain((*_steps(self), *_steps(other)))

    def __str__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.parameters())
        shown = ", ".join(f"{name}={value!r}" for name, value in values if value not in ("", None, ()))
        return f"{self.name}({shown})"

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Its parameters with their defaults; `REQUIRED` for those that must be given."""
        every = fields(cls)  # type: ignore[arg-type]  # each protocol is a dataclass
        return {one.name: REQUIRED if one.default is MISSING else one.default for one in every}

    @property
    def name(self) -> str:
        """Its name with its version, by which its draws are keyed."""
        return f"{self.id}@{self.version}"

    def check_variant(self, variant: str) -> None:
        """Refuse a variant that there is not."""
        if variant and variant not in self.variants:
            raise not_found(f"variant of {self.id}", variant, self.variants, "The default has no name.")


@dataclass(frozen=True, repr=False)
class Chain(Protocol):
    """Protocols one after the other."""

    steps: tuple[Protocol, ...]
    id: ClassVar[str] = "chain"

    def make(self, task: Task) -> Task:
        """Never asked for: each step is called, so that each is checked."""
        raise NotImplementedError

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
        """Restrict every set."""
        rows = task.metadata
        found = resolve(
            (self.column, self.operator, self.value),
            labels=rows.labels,
            nuisance=rows.nuisance_column,
            nuisances=rows.nuisances,
        )
        if found[0] not in rows.columns:
            allowed = ", ".join(["label", rows.nuisance_column, *NUMBERS])
            raise InputError(f"a task cannot be restricted by {found[0]}: use {allowed}")
        return task.restrict([[found]])

    def __str__(self) -> str:
        sign = {"in": "==", "not in": "!="}.get(self.operator, self.operator)
        value = ", ".join(map(str, self.value)) if isinstance(self.value, list) else self.value
        return f"({self.column} {sign} {value})"


@dataclass(frozen=True, eq=False)
class Column:
    """A column to compare: `severity <= 1.5` is a protocol, which needs its parentheses before `&`."""

    name: str

    def __lt__(self, value: float) -> Where:
        return Where(self.name, "<", value)

    def __le__(self, value: float) -> Where:
        return Where(self.name, "<=", value)

    def __gt__(self, value: float) -> Where:
        return Where(self.name, ">", value)

    def __ge__(self, value: float) -> Where:
        return Where(self.name, ">=", value)

    def __eq__(self, value: object) -> Where:  # type: ignore[override]
        return Where(self.name, "==", value)

    def __ne__(self, value: object) -> Where:  # type: ignore[override]
        return Where(self.name, "!=", value)

    def isin(self, values: Iterable[float]) -> Where:
        """One of some values."""
        return Where(self.name, "in", list(values))

    __hash__ = None  # type: ignore[assignment]


#: The strength of a continuous shift: `GroupFairness(k=8, mu=0.1) & (severity <= 1.5)`.
severity = Column("severity")


def named(names: str | Sequence[str]) -> list[str]:
    """One name or some names, as a list."""
    return [names] if isinstance(names, str) else list(names)


def hashes(metadata: Metadata, rows: NDArray[np.int64], *salt: str | int) -> NDArray[np.uint64]:
    """A stable number for each of some rows, keyed by its key."""
    found = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), 100_000):  # text takes much room in Python
        part = slice(start, start + 100_000)
        found[part] = hashes64(metadata.table["key"].take(pa.array(rows[part])).to_pylist(), *salt)
    return found


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


def _steps(one: Protocol) -> tuple[Protocol, ...]:
    return one.steps if isinstance(one, Chain) else (one,)
