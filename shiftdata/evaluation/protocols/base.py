"""What every protocol is: a frozen record that makes a task from a task, and that composes with `&`."""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import IntEnum
from functools import partialmethod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.format.conditions import NUMBERS, resolve
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.sampling.cells import narrowest
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.making import ADVICE, check_empty, check_whole, restrict

#: What stands for the default of a parameter that must be given.
REQUIRED = "(required)"


class Stage(IntEnum):
    """What a protocol does to a task, in the order of a chain."""

    ANY = 0
    CUT = 1  # makes new sets of all rows
    BOUND = 2  # makes new sets of all rows, or of the test that another has cut
    KEEP = 3  # keeps whole trajectories
    THIN = 4  # keeps a share of each group
    DRAW = 5  # draws rows
    SPLIT = 6  # makes several sets of each


#: What the sets of a task may be promised to be. A later protocol of a chain keeps the promise, gives it up,
#: which the report says, or is refused.
PROMISES: Mapping[str, str] = {
    "apart": "no origin is on two sides",
    "trajectories": "each trajectory of a set has every severity, as often",
    "whole-test": "the test has every row of its domains that leaks nothing",
    "ratio": "the sets have the stated shares of origins",
    "per-cell": "a class keeps a number of rows in each domain",
    "every-row": "no row is left out",
    "mu": "a minority group keeps mu of the share of its class's own group",
    "balanced": "all sets but those to fit have every row of each of their groups",
    "marginal": "the labels of the target's sets follow one marginal",
    "hidden": "unlabelled sets name neither label nor group",
    "one-cell": "each set is of one domain, or of one shift at one severity",
}


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
    #: The variants that go by the files of a dataset's authors, as the rows' `params` name them.
    from_files: ClassVar[Sequence[str]] = ()
    #: The official metrics of its tasks, of `shiftdata.evaluation.tasks.official`.
    metrics: ClassVar[Sequence[str]] = ()
    #: When it works in a chain; `ANY` is wherever it stands.
    works: ClassVar[Stage] = Stage.ANY
    #: What it promises of the sets of its tasks besides "apart", of `PROMISES`.
    promises: ClassVar[Sequence[str]] = ()
    #: What others have promised and it gives up; the task says so.
    gives_up: ClassVar[Sequence[str]] = ()
    #: What the names of its configs begin with, and the parameters that they always have.
    short: ClassVar[str] = ""
    said: ClassVar[Sequence[str]] = ()

    def __post_init__(self) -> None:
        """Check the variant; let names be given as numbers: `test=15` for the domain "15"."""
        for one in fields(self):
            if "str" in str(one.type):
                object.__setattr__(self, one.name, _as_text(getattr(self, one.name)))
        if self.variant and self.variant not in self.variants:
            raise not_found(f"variant of {self.id}", self.variant, self.variants, "The default has no name.")

    @abstractmethod
    def make(self, task: Task) -> Task:
        """The new task, before it is checked."""

    def __call__(self, task: Task, *, on_empty: Literal["error", "report"] = "error") -> Task:
        if on_empty not in ("error", "report"):
            raise InputError(f'on_empty is "error" or "report", got {on_empty!r}')
        try:
            return self._checked(task, on_empty)
        except InputError as error:
            names = [text.partition("@")[0] for text in (*task.history, str(self))]
            if not task.history or all(name in str(error) for name in names):
                raise
            raise type(error)(f"{error} (asked of {self} after {task.describe()})") from error

    def _checked(self, task: Task, on_empty: Literal["error", "report"]) -> Task:
        self._check_order(task)
        made = self.make(task)
        lost = {promise: by for promise, by in made.promises.items() if promise in self.given_up}
        made = replace(
            made,
            history=(*task.history, str(self)),
            metrics=tuple(dict.fromkeys((*task.metrics, *self.metrics))),
            notes=tuple(
                dict.fromkeys(
                    [
                        *made.notes,
                        *(f"given up by {self}: {PROMISES[one]} (of {by})" for one, by in lost.items()),
                    ]
                )
            ),
            stage=max(task.stage, self.leaves),
            cut_by=self.id if self.stage in (Stage.CUT, Stage.BOUND) else made.cut_by,
            promises={promise: by for promise, by in made.promises.items() if promise not in lost}
            | dict.fromkeys(self.promised, str(self)),
        )
        if made.unit == "trajectory":
            check_whole(made, f"{self} after {task.describe()}")
        if not made.leaky:
            made = replace(made, leaky=made.check_leaks(warn=self.variant in self.leaking))
        if on_empty == "error":
            check_empty(made, lambda: self.advice(task))
        return made

    def _check_order(self, task: Task) -> None:
        """Refuse a task on which other protocols have worked that come later, or the same again."""
        done = " & ".join(task.history)
        if self.stage in (Stage.CUT, Stage.BOUND) and task.cut_by and task.stage <= Stage.BOUND:
            raise InputError(f"{self.id} cuts all rows, and {done} has cut them already: take one of them")
        if self.stage == task.stage and self.stage in (Stage.THIN, Stage.DRAW):
            raise InputError(
                f"{self.id} has chosen rows of this task already, and their share would be another: "
                "give it once"
            )
        if self.stage and self.stage < task.stage:
            raise InputError(f"{self.id} would break what {done} promises: {self.in_order(task)}")

    def in_order(self, task: Task) -> str:
        """Say how to join it with the protocols of a task that come later."""
        return f"put {self.id} first, as `&` does"

    def advice(self, task: Task) -> str:
        """Say what to do where the task that is made of `task` lacks rows of groups."""
        return ADVICE

    def __and__(self, other: Protocol) -> Chain:
        if not isinstance(other, Protocol):
            raise InputError(f"a protocol is joined with a protocol or (severity <= 1.5), got {other!r}")
        first, then = (one.steps if isinstance(one, Chain) else (one,) for one in (self, other))
        return Chain((*first, *then))

    def __str__(self) -> str:
        said = {name: getattr(self, name) for name in self.parameters()}
        shown = ", ".join(f"{name}={value!r}" for name, value in said.items() if self._is_said(name, value))
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

    def _is_said(self, name: str, value: Any) -> bool:
        """Whether a parameter stands in the text of a protocol: what is not empty, the seed always."""
        return name == "seed" or bool(value) or self.parameters()[name] is REQUIRED

    @property
    def stage(self) -> Stage:
        return self.works

    @property
    def leaves(self) -> Stage:
        """How far the making of its task is: what comes earlier is refused from then on."""
        return self.stage

    @property
    def promised(self) -> Sequence[str]:
        """What it promises with its parameters."""
        return self.promises if self.variant in self.leaking else ("apart", *self.promises)

    @property
    def given_up(self) -> Sequence[str]:
        return self.gives_up

    def parts(self) -> tuple[Protocol, ...]:
        """The protocols of which it consists, where others are to work between them."""
        return (self,)

    @property
    def reads_params(self) -> bool:
        return self.variant in self.from_files

    def chosen(self) -> dict[str, Any]:
        """The parameters that are not at their defaults, and those that are always said."""
        values = {name: getattr(self, name) for name in self.parameters() if name != "variant"}
        return {
            name: value
            for name, value in values.items()
            if name in self.said or value != self.parameters()[name]
        }

    def words(self) -> str:
        """The protocol as `parse_protocol` reads it.

        >>> from shiftdata.evaluation.protocols import protocol
        >>> protocol("uda@paired", source="rock", target="Dim Light", seed=3).words()
        "uda@paired source=rock 'target=Dim Light' seed=3"
        """
        name = f"{self.id}@{self.variant}" if self.variant else self.id
        words = (f"{param}={_word(value)}" for param, value in self.chosen().items())
        return " ".join([name, *map(_in_quotes, words)])

    @property
    def config_name(self) -> str:
        """The name of this split as a config: other parameters give another name."""
        parts = [self.short or self.id, self.variant]
        for param, value in self.chosen().items():
            texts = [] if value is True else _texts(value)
            said = {"seed": "s"}.get(param, "" if not _numeric(value) else param)
            parts.append(said + "_".join(texts))
        return re.sub(r"[^a-z0-9]+", "_", "_".join(filter(None, parts)).lower()).strip("_")

    def summary(self, nuisance: str) -> str:
        """The split in a sentence or two."""
        shown = ", ".join(f"{name} {' and '.join(_texts(value))}" for name, value in self.chosen().items())
        variant = f"; {self.variants[self.variant]}" if self.variant and self.reads_params else ""
        return f"{self.about[:1].upper()}{self.about[1:]}{f' ({shown})' if shown else ''}{variant}."


@dataclass(frozen=True, repr=False)
class Chain(Protocol):
    """Protocols one after the other, each checked.

    They may be joined in any order: sets are cut first, then their rows are chosen, then drawn. A condition
    works where it stands among those that cut, and before shares and draws.
    """

    steps: tuple[Protocol, ...]
    id: ClassVar[str] = "chain"

    def __post_init__(self) -> None:
        """Bring the steps into the order in which they work: sets are cut before their rows are chosen."""
        steps = tuple(part for step in self.steps for part in self._between(step))
        staged = iter(sorted((step for step in steps if step.stage), key=lambda step: step.stage))
        ordered = [next(staged) if step.stage else step for step in steps]
        first = next((n for n, step in enumerate(ordered) if step.leaves >= Stage.THIN), len(ordered))
        late = [step for step in ordered[first:] if not step.stage]
        rest = [step for step in ordered[first:] if step.stage]
        object.__setattr__(self, "steps", (*ordered[:first], *late, *rest))

    def _between(self, step: Protocol) -> tuple[Protocol, ...]:
        """The parts of a step, where another is to work between them, or the step as it is."""
        first, last = (part.stage for part in (step.parts()[0], step.parts()[-1]))
        others = [part.stage for other in self.steps if other is not step for part in other.parts()]
        return step.parts() if any(first < stage < last for stage in others) else (step,)

    def make(self, task: Task) -> Task:
        return self(task)

    def __call__(self, task: Task, *, on_empty: Literal["error", "report"] = "error") -> Task:
        for step in self.steps:
            task = step(task, on_empty=on_empty)
        return task

    def __str__(self) -> str:
        return " & ".join(map(str, self.steps))

    @property
    def reads_params(self) -> bool:
        return any(step.reads_params for step in self.steps)

    def words(self) -> str:
        return " ".join(step.words() for step in self.steps)

    @property
    def config_name(self) -> str:
        return "_".join(step.config_name for step in self.steps)

    def summary(self, nuisance: str) -> str:
        return " ".join(step.summary(nuisance) for step in self.steps)


@dataclass(frozen=True)
class Where(Protocol):
    """A condition on a column as a protocol: every set keeps the rows that fulfil it."""

    column: str
    operator: str
    value: Any
    id: ClassVar[str] = "where"

    @property
    def promised(self) -> Sequence[str]:
        return ()

    def _check_order(self, task: Task) -> None:
        """A share, or a marginal, is of the rows in a set: with fewer rows it would be another."""
        for promise in ("mu", "marginal"):
            if promise in task.promises:
                raise InputError(
                    f"{self} would break what {task.promises[promise]} promises: {PROMISES[promise]}; "
                    "put the condition first, as `&` does"
                )

    def make(self, task: Task) -> Task:
        rows = task.metadata
        asked, nuisance = (self.column, self.operator, self.value), rows.nuisance_column
        condition = resolve(asked, labels=rows.labels, nuisance=nuisance, nuisances=rows.nuisances)
        if condition[0] not in rows.columns:
            allowed = ", ".join(["label", nuisance, *NUMBERS])
            raise InputError(f"a task cannot be restricted by {condition[0]}: use {allowed}")
        return restrict(task, [[condition]])

    def __str__(self) -> str:
        sign = {"in": "==", "not in": "!="}.get(self.operator, self.operator)
        value = ", ".join(map(str, self.value)) if isinstance(self.value, list) else self.value
        return f"({self.column} {sign} {value})"

    def words(self) -> str:
        column, sign, value = str(self)[1:-1].split(" ", 2)
        return _in_quotes(f"{column}{sign}{value.replace(', ', ',')}")

    @property
    def config_name(self) -> str:
        signs = {"<=": "to", "<": "below", ">=": "from", ">": "above", "not in": "not", "!=": "not"}
        values = self.value if isinstance(self.value, list) else [self.value]
        said = "_".join([self.column, signs.get(self.operator, ""), *map(str, values)])
        return re.sub(r"[^a-z0-9]+", "_", said.lower()).strip("_")

    def summary(self, nuisance: str) -> str:
        return f"Only rows with {str(self)[1:-1]}."


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


def _as_text(names: Any) -> Any:
    if isinstance(names, tuple | list):
        return tuple(map(_as_text, names))
    return str(names) if isinstance(names, int | float) else names


def _numeric(value: Any) -> bool:
    one = value[0] if isinstance(value, tuple | list) and value else value
    return not isinstance(one, str | tuple | list)


def _texts(value: Any) -> list[str]:
    """The names or numbers in a parameter, nested ones too."""
    if isinstance(value, tuple | list):
        return [text for one in value for text in _texts(one)]
    return [f"{value:g}" if isinstance(value, float) else str(value).lower() if value is None else str(value)]


def _word(value: Any) -> str:
    """A parameter as `parse_value` reads it."""
    if isinstance(value, tuple | list):
        text = ",".join(":".join(_texts(one)) for one in value)
        return text if len(value) > 1 else f"{text},"
    return _texts(value)[0]


def _in_quotes(word: str) -> str:
    """A word of a protocol's text, quoted as in a shell where it has a space or a quote."""
    return shlex.quote(word) if re.search(r"[\s'\"\\\\]", word) else word


def named(names: str | Sequence[str]) -> list[str]:
    """One name or some names, as a list."""
    return [names] if isinstance(names, str) else list(names)


def places(
    cells: NDArray[np.int64], orders: tuple[NDArray[Any], ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The place of each row in its cell, by some orders of which the last counts first, and the cell's size.

    >>> places(np.array([0, 0, 1, 0]), (np.array([3, 1, 9, 2]),))
    (array([2, 0, 0, 1]), array([3, 3, 1, 3]))
    """
    counts = np.bincount(cells)
    order = np.lexsort((*orders, cells.astype(narrowest(len(counts)))))
    sizes, place = np.empty(len(cells), np.int64), np.empty(len(cells), np.int64)
    sizes[order] = np.repeat(counts, counts)
    place[order] = np.arange(len(cells)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, sizes


def first_of_each(
    cells: NDArray[np.int64], order: NDArray[np.uint64], limits: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which rows are among the first `limits[cell]` of their cell, in some order.

    >>> first_of_each(np.array([0, 0, 1, 0]), np.array([3, 1, 9, 2], np.uint64), np.array([2, 5])).tolist()
    [False, True, True, True]
    """
    kept: NDArray[np.bool_] = places(cells, (order,))[0] < limits[cells]
    return kept
