"""The contract between methods and the trainer: losses over batches, hyper-parameters, stages, state."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, overload

import numpy as np
from torch import Tensor, nn

from shiftdata import __version__
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.sampling import CellBatches, RowSampler
from shiftdata.stable import content_hash

#: `engine.Trainer`; that module imports this one.
Trainer: TypeAlias = Any

#: Of an unknown hyper-parameter, such as lr.
HINT = "Steps, rates and schedules are settings of training=Training(...)."
#: What a task, or a network, must have for a method:
#: - groups: several groups in the training set; domains: several nuisances among them;
#: - target: a set with the role "unlabelled"; select: one with the role "select", with labels;
#: - batch-norm: a network with such layers; maps: one with feature maps; pixels: pictures, not features;
#: - pretrained: a network that does not begin from random weights;
#: - unknown: a target that may have classes of its own. Logits then have a last column for them.
Need: TypeAlias = Literal[
    "groups", "domains", "target", "select", "batch-norm", "maps", "pixels", "pretrained", "unknown"
]


def no_rows() -> IntArray:
    """Return an empty set of rows."""
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of a training, as a method sees them: neither labels nor groups of the target.

    rows, target and select are rows of the base; y, group and domain have a number from 0 for each of `rows`.
    """

    source: Source
    rows: IntArray
    y: IntArray
    classes: int
    group: IntArray
    domain: IntArray
    sampler: RowSampler | CellBatches
    target: IntArray = field(default_factory=no_rows)
    target_sampler: RowSampler | None = None
    select: IntArray = field(default_factory=no_rows)
    select_y: IntArray = field(default_factory=no_rows)
    select_group: IntArray = field(default_factory=no_rows)
    #: Test rows that each evaluation predicts too, for rules that choose a step; methods do not use them.
    tested: IntArray | None = None


@dataclass(frozen=True)
class Hyper:
    """A hyper-parameter: its default, the range that a search draws from, and the source of both.

    As an attribute of a `Method`, or of an adapter, it is a number: the default, or what was given.
    """

    default: float
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[float, ...] = ()
    source: str = ""
    #: Defaults of the variants that differ.
    variants: Mapping[str, float] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "name", name)

    @property
    def range(self) -> str:
        """The range as text."""
        if self.choices:
            return f", one of {', '.join(f'{choice:g}' for choice in self.choices)}"
        if self.low is None:
            return ""
        return f", {self.low:g} to {self.high:g}{' on a log scale' if self.log else ''}"

    @overload
    def __get__(self, instance: None, owner: type) -> Hyper: ...
    @overload
    def __get__(self, instance: Configured, owner: type) -> float: ...
    def __get__(self, instance: Configured | None, owner: type) -> Hyper | float:
        if instance is None:
            return self
        return instance.hyper[self.name]  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Batch:
    """A step's rows: everything but `x` is 1-D, one entry a row.

    y are class numbers from 0, group and domain those of `Data`, row positions in the training set. Labels
    of `target` are not here, by design. `strong` and `target_strong` are further views of the same rows, as
    many as a method asks for by `strong_views` and `target_strong_views`.
    """

    x: Tensor
    y: Tensor
    group: Tensor
    domain: Tensor
    row: Tensor
    #: The share of the stage's steps that is done, from 0 to below 1.
    progress: float = 0.0
    #: Steps done in this stage, and its name.
    step: int = 0
    stage: str = "train"
    target: Tensor | None = None
    target_row: Tensor | None = None
    strong: tuple[Tensor, ...] = ()
    target_strong: tuple[Tensor, ...] = ()

    @property
    def unlabelled(self) -> Tensor:
        """The rows of the target, in batches of methods that need "target"."""
        assert self.target is not None
        return self.target


@dataclass(frozen=True)
class Stage:
    """A part of a training, with an optimiser and a schedule of its own.

    It takes a `share` of the training's steps, or `passes` over the unlabelled rows; with neither, only
    `Method.begin` is called. A `fresh` stage begins from the network's first weights; the network before it
    is thrown away and is no checkpoint. A stage that `adapts` the trained network to the target belongs to
    the end of the training: every evaluation before it takes its steps on a copy of the state.
    """

    name: str
    share: float = 1.0
    passes: float = 0.0
    fresh: bool = False
    adapts: bool = False


class Configured:
    """An algorithm with hyper-parameters and variants."""

    #: "fixed" is what the sources mean; "paper" and "code" what they say and what they do, if it differs.
    variants: ClassVar[tuple[str, ...]] = ("fixed",)
    #: Raised with every change that changes a result: it is in the record of each run. Of a method of your
    #: own the source counts too.
    code_version: ClassVar[int] = 1
    #: Of an unknown hyper-parameter, what it may be instead.
    hint: ClassVar[str] = ""

    def __init__(self, *, variant: str = "fixed", **given: float) -> None:
        super().__init__()
        space = self.space()
        if variant not in self.variants:
            raise not_found(f"variant of {type(self).__name__}", variant, self.variants)
        for name in given:
            if name not in space:
                raise not_found(f"hyper-parameter of {type(self).__name__}", name, space, self.hint)
        defaults = {name: (hyper.variants or {}).get(variant, hyper.default) for name, hyper in space.items()}
        self.variant, self.hyper = variant, defaults | {name: float(value) for name, value in given.items()}

    @classmethod
    def space(cls) -> dict[str, Hyper]:
        """Return its hyper-parameters by name."""
        attributes = {name: value for kind in reversed(cls.__mro__) for name, value in vars(kind).items()}
        return {name: value for name, value in attributes.items() if isinstance(value, Hyper)}


class Method(Configured, nn.Module):
    """A training algorithm. A method of your own is a subclass with a `loss`.

        @method("focal")
        class Focal(Method):
            '''Cross-entropy with less weight on rows that are right already.'''

            gamma = Hyper(2.0, low=0.5, high=5.0)

            def loss(self, batch):
                losses = cross_entropy(self.network(batch.x), batch.y, reduction="none")
                return ((1 - torch.exp(-losses)) ** self.gamma * losses).mean()

    It is a torch module: its modules, parameters and buffers are saved, resumed and moved with it. Each step
    has a torch seed of its own, so that a resumed run draws what an uninterrupted one does.
    """

    needs: frozenset[Need] = frozenset()
    #: The rule that draws the training set: a name of `sampling.SAMPLERS`.
    sampler: str = "shuffle"
    #: Strongly augmented views of each row of a batch, and of each row of the target.
    strong_views: int = 0
    target_strong_views: int = 0
    #: It fits the validation set, whose score then cannot choose between runs.
    trains_on_select: bool = False
    hint = HINT

    network: Network

    def setup(self, network: Network, data: Data) -> None:
        """Take the network, and make what else is trained or saved. Extend it: call it first."""
        self.network, self.data = network, data

    def stages(self) -> Sequence[Stage]:
        """Return the parts of the training, in order."""
        return [Stage("train")]

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        """Before the first step of a stage: mark rows, fit a head, freeze a part. Not called on resuming."""

    def trained(self, stage: Stage) -> list[nn.Parameter]:
        """Return the parameters that the optimiser of a stage moves."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def loss(self, batch: Batch) -> Tensor:
        """Return the number to minimise."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        """Take one step and return its loss. Methods with several moves replace it."""
        loss: Tensor = trainer.descend(self.loss(batch))
        return loss

    def after_step(self, batch: Batch) -> None:
        """After the optimiser's move: average weights, say."""

    def evaluated(self, loss: float) -> None:
        """After an evaluation on the validation set, with the mean loss there."""

    def finish(self, trainer: Trainer) -> None:
        """After the last step: put averaged weights in place, fit a last layer.

        Every evaluation calls it too, and `correct`, for predictions as if the training ended there. The
        parameters and buffers are put back afterwards; change nothing else.
        """

    def correct(self, trainer: Trainer) -> None:
        """After `finish`: fit to the target what `predict` adds and `predict_source` does not have."""

    def report(self) -> dict[str, Any]:
        """Return what else a record should say of the training, as JSON can say it."""
        return {}

    def target_rows(self, trainer: Trainer, shuffled: RowSampler, epoch: int, begins: bool) -> IntArray:
        """Return the positions of an epoch's unlabelled rows; `begins` is false where an epoch is resumed."""
        return shuffled.rows_of(epoch)

    def reads_target(self, stage: Stage) -> bool:
        """Return True if the batches of a stage bring rows of the target."""
        return "target" in self.needs

    def predict(self, x: Tensor) -> Tensor:
        """Return logits, rows x classes; called in eval mode, without gradients."""
        logits: Tensor = self.network(x)
        return logits

    def predict_source(self, x: Tensor) -> Tensor:
        """Return logits of source rows: those of `predict` without what adapts to the target alone.

        Models are selected by these on the validation set.
        """
        return self.predict(x)


class Wrapper(Method):
    """Something that goes around any method: other draws, averaged weights, other predictions.

    Written before the method's name: "rs+rw+dann". Everything is the inner method's unless it is replaced.
    """

    def __init__(self, inner: Method, **given: float) -> None:
        super().__init__(variant="fixed", **given)
        self.inner, self.variant = inner, inner.variant
        self.hyper = inner.hyper | self.hyper
        self.needs, self.sampler = inner.needs, inner.sampler
        self.strong_views, self.target_strong_views = inner.strong_views, inner.target_strong_views
        self.trains_on_select = inner.trains_on_select

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.inner.setup(network, data)


def _handed_on(name: str) -> Callable[..., Any]:
    """Make the method of a wrapper that calls the inner method's."""

    def call(self: Wrapper, *arguments: Any) -> Any:
        return getattr(self.inner, name)(*arguments)

    return wraps(getattr(Method, name))(call)


for _name in (
    *("stages", "begin", "trained", "loss", "step", "after_step", "evaluated", "finish", "correct", "report"),
    *("target_rows", "reads_target", "predict", "predict_source"),
):
    setattr(Wrapper, _name, _handed_on(_name))


def by_network(method: Method) -> bool:
    """Return True if a method predicts by its network alone."""
    while isinstance(method, Wrapper) and type(method).predict is Wrapper.predict:
        method = method.inner
    return type(method).predict is Method.predict


#: Methods of one's own, by name.
_OWN: dict[str, type[Method]] = {}


def method(name: str) -> Callable[[type[Method]], type[Method]]:
    """Give a method of your own a name: `train(task, "focal")` and records know it by that."""

    def register(kind: type[Method]) -> type[Method]:
        if name in _OWN and _OWN[name].__qualname__ != kind.__qualname__:
            raise InputError(f"there is a method {name!r} already: {_OWN[name].__qualname__}")
        _OWN[name] = kind
        return kind

    return register


def code_of(method: Method) -> dict[str, Any]:
    """Return the version of the code of a method and its parts, for records.

    The methods that ship have a `code_version`; of one's own the source of the module counts too, as parsed,
    so that comments do not.
    """
    parts = [part for part in method.modules() if isinstance(part, Method)]
    modules = {kind.__module__ for part in parts for kind in type(part).__mro__ if issubclass(kind, Method)}
    own = sorted(module for module in modules if module.partition(".")[0] != "shiftdata")
    source = {module: text for module in own if (text := _source_hash(module))}
    versions = {"code_version": [part.code_version for part in parts]}
    return versions | ({"own_code": source} if source else {})


@cache
def _source_hash(module: str) -> str:
    """Hash a module's source as it is at the first call; empty where it has none, as in a notebook."""
    try:
        return content_hash(ast.dump(ast.parse(inspect.getsource(sys.modules[module]))))[:32]
    except (OSError, TypeError, KeyError, SyntaxError):
        return ""


@cache
def code_commit() -> str:
    """Return the commit of this checkout, with "+" if files differ; of an installed package the version."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"shiftdata {__version__}"
