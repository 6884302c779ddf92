"""The base of every protocol: a frozen record that makes a task from a task, and that composes with `&`."""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import IntEnum
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import by_code_and_key, stretches
from shiftdata.data.format.conditions import NUMBERS, resolve
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.tasks import OnEmpty, Task
from shiftdata.evaluation.tasks.making import ADVICE, check_empty, check_whole, of_trajectories, restrict
from shiftdata.evaluation.tasks.rows import check_leaks
from shiftdata.logs import logger

#: The default of a parameter that must be given.
REQUIRED = "(required)"
LOG = logger(__name__)


class Stage(IntEnum):
    """The effect of a protocol on a task, in the order of a chain."""

    ANY = 0
    CUT = 1  # makes new sets of all rows
    BOUND = 2  # makes new sets of all rows, or of the test that another has cut
    KEEP = 3  # keeps whole trajectories
    THIN = 4  # keeps a share of each group
    DRAW = 5  # draws rows
    SPLIT = 6  # makes several sets of each
    ORDER = 7  # puts the rows of the test in order


#: Properties of the sets of a task. A later protocol of a chain keeps the promise; or gives it up, which the
#: report says; or is refused.
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
    "one-cell": "each set is of one shift at one severity",
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
    #: The differences of each named variant; "" is the default.
    variants: ClassVar[Mapping[str, str]] = {}
    #: The variants that leak as their paper does; they warn where they do.
    leaking: ClassVar[Sequence[str]] = ()
    #: The variants that go by the files of a dataset's authors, as the rows' `params` name them.
    from_files: ClassVar[Sequence[str]] = ()
    #: True if a build packs its sets into files of their own, so that one config of plain `datasets` has all.
    own_files: ClassVar[bool] = False
    #: True if its leaderboard admits only pretraining without labels and texts, and not on the dataset.
    self_supervised: ClassVar[bool] = False
    #: The official metrics of its tasks, of `shiftdata.evaluation.tasks.official`.
    metrics: ClassVar[Sequence[str]] = ()
    #: Its place in a chain; `ANY` is where it is written.
    works: ClassVar[Stage] = Stage.ANY
    #: Its promises besides "apart", of `PROMISES`.
    promises: ClassVar[Sequence[str]] = ()
    #: Promises of others that it gives up; the task says so.
    gives_up: ClassVar[Sequence[str]] = ()
    #: The beginning of the names of its configs, and the parameters that are always in them.
    short: ClassVar[str] = ""
    said: ClassVar[Sequence[str]] = ()

    def __post_init__(self) -> None:
        """Check the variant; let names be given as numbers: `test=15` for the domain "15"."""
        for field in fields(self):
            if "str" in str(field.type):
                object.__setattr__(self, field.name, _as_text(getattr(self, field.name)))
        if self.variant and self.variant not in self.variants:
            raise not_found(f"variant of {self.id}", self.variant, self.variants, "The default has no name.")

    @abstractmethod
    def make(self, task: Task) -> Task:
        """The new task, before it is checked."""

    def __call__(self, task: Task, *, on_empty: OnEmpty = "error") -> Task:
        if on_empty not in get_args(OnEmpty):
            raise InputError(f'on_empty is "error" or "report", got {on_empty!r}')
        try:
            result = self._checked(task, on_empty)
            for name, rows in result.sets.items():
                LOG.info("%s: %d of %d rows are %s", self, len(rows.indices), len(task.metadata), name)
            return result
        except InputError as error:
            steps = task.history.steps
            names = [text.partition("@")[0] for text in (*steps, str(self))]
            if not steps or all(name in str(error) for name in names):
                raise
            raise type(error)(f"{error} (from {self} after {task.describe()})") from error

    def _checked(self, task: Task, on_empty: OnEmpty) -> Task:
        self._check_order(task)
        result = self.make(task)
        before, promises = result.history, dict(result.history.promises)
        lost = {promise: promises.pop(promise) for promise in before.promises if promise in self.given_up}
        given_up = [f"given up by {self}: {PROMISES[promise]} (of {by})" for promise, by in lost.items()]
        history = replace(
            before,
            steps=(*task.history.steps, str(self)),
            metrics=tuple(dict.fromkeys((*task.history.metrics, *self.metrics))),
            notes=tuple(dict.fromkeys([*before.notes, *given_up])),
            stage=max(task.history.stage, self.leaves),
            cut_by=self.id if self.stage in (Stage.CUT, Stage.BOUND) else before.cut_by,
            promises=promises | dict.fromkeys(self.promised, str(self)),
        )
        result = replace(result, history=history)
        if of_trajectories(result):
            check_whole(result, f"{self} after {task.describe()}")
        if not history.leaky and check_leaks(result, warn=self.variant in self.leaking):
            result = replace(result, history=replace(history, leaky=True))
        if on_empty == "error":
            check_empty(result, self.advice)
        return result

    def _check_order(self, task: Task) -> None:
        """Refuse a task on which this protocol, or one that comes later, has worked already."""
        done, stage = " & ".join(task.history.steps), task.history.stage
        if self.stage in (Stage.CUT, Stage.BOUND) and task.history.cut_by and stage <= Stage.BOUND:
            raise InputError(f"{self.id} cuts all rows, and {done} has cut them already: take one of them")
        if self.stage == stage and stage in (Stage.THIN, Stage.DRAW):
            raise InputError(f"{self.id} has chosen rows of this task already: give it once")
        if self.stage and self.stage < stage:
            raise InputError(f"{self.id} would break what {done} promises: put {self.id} first, as `&` does")

    @property
    def advice(self) -> str:
        """Advice where the task that it makes lacks rows of groups."""
        return ADVICE

    def __and__(self, other: Protocol) -> Chain:
        if not isinstance(other, Protocol):
            raise InputError(f"a protocol is joined with a protocol, got {other!r}")
        first, last = (each.steps if isinstance(each, Chain) else (each,) for each in (self, other))
        return Chain((*first, *last))

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in self.parameters()}
        shown = [
            f"{name}={value!r}"  # a parameter that must be given, the seed, and what is not empty
            for name, value in values.items()
            if name == "seed" or value or self.parameters()[name] is REQUIRED
        ]
        return f"{self.name}({', '.join(shown)})"

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Return its parameters with their defaults; `REQUIRED` for those that must be given."""
        defaults = {
            field.name: REQUIRED if field.default is MISSING else field.default for field in fields(cls)
        }
        variant = {"variant": defaults.pop("variant")}
        return defaults | (variant if cls.variants else {})

    @property
    def name(self) -> str:
        """Its name with its version, which keys its draws."""
        return f"{self.id}@{self.version}"

    @property
    def stage(self) -> Stage:
        return self.works

    @property
    def leaves(self) -> Stage:
        """The stage of its task: protocols of earlier stages are refused from then on."""
        return self.stage

    @property
    def promised(self) -> Sequence[str]:
        return self.promises if self.variant in self.leaking else ("apart", *self.promises)

    @property
    def given_up(self) -> Sequence[str]:
        return self.gives_up

    def parts(self) -> tuple[Protocol, ...]:
        """Return the protocols between which others may work."""
        return (self,)

    @property
    def reads_params(self) -> bool:
        return self.variant in self.from_files

    def chosen(self) -> dict[str, Any]:
        """Return the parameters that are not at their defaults, and those that are always printed."""
        return {
            name: getattr(self, name)
            for name, default in self.parameters().items()
            if name != "variant" and (name in self.said or getattr(self, name) != default)
        }

    def words(self) -> str:
        """Return the protocol as `parse_protocol` reads it.

        >>> from shiftdata.evaluation.protocols import protocol
        >>> protocol("uda@paired", source="rock", target="Dim Light", seed=3).words()
        "uda@paired source=rock 'target=Dim Light' seed=3"
        """
        name = f"{self.id}@{self.variant}" if self.variant else self.id
        words = (f"{param}={_word(value)}" for param, value in self.chosen().items())
        return " ".join([name, *map(_in_quotes, words)])

    @property
    def config_name(self) -> str:
        """The name of its split as a config: other parameters give another name."""
        parts = [self.short or self.id, self.variant]
        for param, value in self.chosen().items():
            texts = [] if value is True else _texts(value)
            label = {"seed": "s"}.get(param, param if _numeric(value) else "")
            parts.append(label + "_".join(texts))
        return plain_name("_".join(filter(None, parts)))

    def summary(self, nuisance: str) -> str:
        """Return the split in a sentence or two."""
        shown = ", ".join(f"{name} {' and '.join(_texts(value))}" for name, value in self.chosen().items())
        variant = f"; {self.variants[self.variant]}" if self.variant and self.reads_params else ""
        return f"{self.about[:1].upper()}{self.about[1:]}{f' ({shown})' if shown else ''}{variant}."


@dataclass(frozen=True, repr=False)
class Chain(Protocol):
    """Protocols one after the other, each checked.

    They may be joined in any order: sets are cut first, then their rows are chosen, then drawn. A condition
    works where it is written among those that cut, and before shares and draws.
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
        """Return the parts of a step, where another is to work between them, or the step as it is."""
        first, last = step.parts()[0].stage, step.parts()[-1].stage
        others = [part.stage for other in self.steps if other is not step for part in other.parts()]
        return step.parts() if any(first < stage < last for stage in others) else (step,)

    def make(self, task: Task) -> Task:
        return self(task)

    def __call__(self, task: Task, *, on_empty: OnEmpty = "error") -> Task:
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
        """Refuse it after a share or a marginal, which are of the rows in a set: with fewer they change."""
        for promise in task.history.promises.keys() & {"mu", "marginal"}:
            raise InputError(
                f"{self} would break what {task.history.promises[promise]} promises: {PROMISES[promise]}; "
                "put the condition first, as `&` does"
            )

    def make(self, task: Task) -> Task:
        rows, asked = task.metadata, (self.column, self.operator, self.value)
        nuisance = rows.nuisance_column
        condition = resolve(asked, labels=rows.labels, nuisance=nuisance, nuisances=rows.nuisances)
        if condition[0] not in rows.columns:
            allowed = ", ".join(["label", nuisance, *NUMBERS])
            part = "or fetch the part that it selects, and make the task of that"
            raise InputError(f"a task cannot be restricted by {condition[0]}: use {allowed}, {part}")
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
        return plain_name("_".join([self.column, signs.get(self.operator, ""), *map(str, values)]))

    def summary(self, nuisance: str) -> str:
        return f"Only rows with {str(self)[1:-1]}."


def _as_text(names: Any) -> Any:
    if isinstance(names, tuple | list):
        return tuple(map(_as_text, names))
    return str(names) if isinstance(names, int | float) else names


def plain_name(text: str) -> str:
    """Return a text as a name of letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _numeric(value: Any) -> bool:
    first = value[0] if isinstance(value, tuple | list) and value else value
    return not isinstance(first, str | tuple | list)


def _texts(value: Any) -> list[str]:
    """Return the names or numbers in a parameter, nested ones too."""
    if isinstance(value, tuple | list):
        return [text for item in value for text in _texts(item)]
    return [f"{value:g}" if isinstance(value, float) else str(value).lower() if value is None else str(value)]


def _word(value: Any) -> str:
    """Return a parameter as `parse_value` reads it."""
    if isinstance(value, tuple | list):
        text = ",".join(":".join(_texts(item)) for item in value)
        return text if len(value) > 1 else f"{text},"
    return _texts(value)[0]


def _in_quotes(word: str) -> str:
    """Quote a word of a protocol's text as in a shell if it has a space or a quote."""
    return shlex.quote(word) if re.search(r"[\s'\"\\\\]", word) else word


def named(names: str | Sequence[str]) -> list[str]:
    """Return one name or several as a list."""
    return [names] if isinstance(names, str) else list(names)


def places(cells: NDArray[np.int64], order: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the place of each row in its cell by some order, and the cell's size.

    >>> places(np.array([0, 0, 1, 0]), np.array([3, 1, 9, 2]))
    (array([2, 0, 0, 1]), array([3, 3, 1, 3]))
    """
    order, counts = by_code_and_key(cells, order, int(cells.max(initial=-1)) + 1)
    starts, place = np.cumsum(counts) - counts, np.empty(len(cells), np.int64)
    for at in stretches(len(cells)):
        rows = order[at]
        place[rows] = np.arange(at.start, at.stop) - starts[cells[rows]]
    return place, counts[cells]


def first_of_each(
    cells: NDArray[np.int64], order: NDArray[np.uint64], limits: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Mark the rows that are among the first `limits[cell]` of their cell, in some order.

    >>> first_of_each(np.array([0, 0, 1, 0]), np.array([3, 1, 9, 2], np.uint64), np.array([2, 5])).tolist()
    [False, True, True, True]
    """
    mask: NDArray[np.bool_] = places(cells, order)[0] < limits[cells]
    return mask
