"""What a method is: a loss over batches, its hyper-parameters, what it needs of a task, and its state."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, overload

from torch import Tensor, nn

from shiftdata.baselines.losses.reduce import check_1d as check_1d
from shiftdata.baselines.losses.reduce import mean as mean
from shiftdata.baselines.training import setting_hint
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError, not_found
from shiftdata.stable import content_hash

if TYPE_CHECKING:
    from shiftdata.baselines.engine import Trainer
    from shiftdata.baselines.networks import Network
    from shiftdata.evaluation.sampling import RowSampler

#: What a task, or a network, must have for a method:
#: - groups: several groups in the training set; domains: several nuisances among them;
#: - target: a set with the role "unlabelled"; select: one with the role "select", with labels;
#: - batch-norm: a network with such layers; maps: one with feature maps; pixels: pictures, not features;
#: - unknown: a target that may have classes of its own. Scores then have one column more, the last, for them.
Need: TypeAlias = Literal["groups", "domains", "target", "select", "batch-norm", "maps", "pixels", "unknown"]


@dataclass(frozen=True)
class Hyper:
    """A hyper-parameter: its default and the range that a search draws from, and who says so.

    As an attribute of a `Method` it is a number: the default, or what was given.
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

    @overload
    def __get__(self, instance: None, owner: type) -> Hyper: ...
    @overload
    def __get__(self, instance: Method, owner: type) -> float: ...
    def __get__(self, instance: Method | None, owner: type) -> Hyper | float:
        if instance is None:
            return self
        return instance.hyper[self.name]  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Batch:
    """What a method gets for a step: everything 1-D but `x`, one entry a row.

    y are class numbers from 0, group and domain those of `Setup`, row positions in the training set.
    `weight` is 1 but where all rows are one batch: there it is what the sampler would draw a row by. Labels
    of `target` are not here, by design. `strong` and `target_strong` are other views of the same rows, as
    many as a method asks for by `strong_views` and `target_strong_views`.
    """

    x: Tensor
    y: Tensor
    group: Tensor
    domain: Tensor
    row: Tensor
    weight: Tensor
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
        """The rows of the target; the engine gives them to methods that need "target"."""
        assert self.target is not None
        return self.target


@dataclass(frozen=True, eq=False)
class Setup:
    """What is known before the first step: sizes of the problem, never a row."""

    classes: int
    groups: int
    domains: int
    rows: int
    target_rows: int
    features: int  # numbers that the encoder gives
    #: Rows to fit of each class, group and domain.
    class_counts: Tensor
    group_counts: Tensor
    domain_counts: Tensor
    #: The class and the domain of each group.
    group_class: Tensor
    group_domain: Tensor


@dataclass(frozen=True)
class Stage:
    """A part of a training, with an optimiser and a schedule of its own.

    `share` of the steps that a training has, or `passes` over the unlabelled rows; with neither, only
    `Method.begin` is called. `fresh` begins from the network's first weights. Batches are of the training
    set, and of the target where a method needs it.

    A stage that `adapts` the trained network to the target belongs to the end of the training: every
    evaluation before it takes its steps on a copy of the state. The network of a stage that a fresh one
    follows is thrown away: it is not a checkpoint.
    """

    name: str
    share: float = 1.0
    passes: float = 0.0
    fresh: bool = False
    adapts: bool = False


class Method(nn.Module):
    """A training algorithm. A method of your own is a subclass with a `loss`.

        @method("focal")
        class Focal(Method):
            '''Cross-entropy with less weight on rows that are right already.'''

            gamma = Hyper(2.0, low=0.5, high=5.0)

            def loss(self, batch):
                losses = cross_entropy(self.network(batch.x), batch.y, reduction="none")
                return mean((1 - torch.exp(-losses)) ** self.gamma * losses, batch.weight)

    It is a torch module: what it keeps as a module, parameter or buffer is saved, resumed and moved with it.
    Each step has a torch seed of its own, so that a resumed run draws what an uninterrupted one does.
    """

    needs: frozenset[Need] = frozenset()
    #: The rule that draws the training set: a name of `sampling.SAMPLERS`.
    sampler: str = "shuffle"
    #: "fixed" is what the sources mean; "paper" and "code" what they say and what they do, if it differs.
    variants: ClassVar[tuple[str, ...]] = ("fixed",)
    #: How many strongly augmented views of each row batches bring, and of each row of the target.
    strong_views: int = 0
    target_strong_views: int = 0
    #: Whether a step has several moves of the optimiser: then it cannot accumulate batches.
    several_moves: bool = False
    #: Whether it fits the rows to select by: then its score there cannot choose between runs.
    trains_on_select: bool = False
    #: Raised with every change that changes a result: it is in the record of each run. Of a method of your
    #: own the source counts too.
    code_version: ClassVar[int] = 1

    network: Network

    def __init__(self, *, variant: str = "fixed", **given: float) -> None:
        super().__init__()
        space = self.space()
        if variant not in self.variants:
            raise not_found(f"variant of {type(self).__name__}", variant, self.variants)
        for name in given:
            if name not in space:
                what = f"hyper-parameter of {type(self).__name__}"
                raise not_found(what, name, space, setting_hint(name))
        defaults = {name: (one.variants or {}).get(variant, one.default) for name, one in space.items()}
        self.variant, self.hyper = variant, defaults | {name: float(value) for name, value in given.items()}

    @classmethod
    def space(cls) -> dict[str, Hyper]:
        """Its hyper-parameters by name."""
        every = {name: one for part in reversed(cls.__mro__) for name, one in vars(part).items()}
        return {name: one for name, one in every.items() if isinstance(one, Hyper)}

    def setup(self, network: Network, known: Setup) -> None:
        """Take the network, and make what else is trained or kept. Extend it: call it first."""
        self.network, self.known = network, known

    def stages(self) -> Sequence[Stage]:
        """What the training consists of, in order."""
        return [Stage("train")]

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        """Before the first step of a stage: mark rows, fit a head, freeze a part. Not called on resuming."""

    def trained(self, stage: Stage) -> list[nn.Parameter]:
        """What the optimiser of a stage moves."""
        return [one for one in self.parameters() if one.requires_grad]

    def loss(self, batch: Batch) -> Tensor:
        """A number to make smaller."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        """Take one step and return its loss. Methods with several moves replace it."""
        return trainer.descend(self.loss(batch))

    def after_step(self, batch: Batch) -> None:
        """After the optimiser's move: averages of weights, say."""

    def evaluated(self, step: int, loss: float) -> None:
        """After an evaluation on the validation set, with the mean loss there."""

    def finish(self, trainer: Trainer) -> None:
        """After the last step: put averaged weights in place, fit a last layer.

        Every evaluation calls it too, and `correct`, for predictions as if the training ended there. The
        parameters and buffers are put back afterwards; keep nothing that it changes elsewhere.
        """

    def correct(self, trainer: Trainer) -> None:
        """After `finish`: fit to the target what `predict` adds and `predict_source` does not have."""

    def report(self) -> dict[str, Any]:
        """Return what else a record should say of the training, in numbers and words."""
        return {}

    def target_rows(self, trainer: Trainer, shuffled: RowSampler, epoch: int, begins: bool) -> IntArray:
        """The positions of an epoch's unlabelled rows; `begins` is false where a stopped epoch goes on."""
        return shuffled.rows_of(epoch)

    def reads_target(self, stage: Stage) -> bool:
        """Whether the batches of a stage bring rows of the target."""
        return "target" in self.needs

    def predict(self, x: Tensor) -> Tensor:
        """Scores, one row a row of x and one column a class; called in eval mode, without gradients."""
        scores: Tensor = self.network(x)
        return scores

    def predict_source(self, x: Tensor) -> Tensor:
        """Scores of rows of the source: those of `predict` without what adapts to the target alone.

        Models are selected by these on the validation set.
        """
        return self.predict(x)


class Wrapper(Method):
    """Something that goes around any method: other draws, averaged weights, other predictions.

    Written before the method's name: "rs+rw+dann". Everything is the inner method's unless it is replaced.
    """

    def __init__(self, inner: Method, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(variant=variant, **given)
        self.inner, self.own_variant = inner, variant
        if inner.variant != inner.variants[0]:
            self.variant = inner.variant  # what a record says: the one that is not the default
        self.hyper = inner.hyper | self.hyper
        for name in (
            "needs",
            "sampler",
            "strong_views",
            "target_strong_views",
            "trains_on_select",
            "several_moves",
        ):
            setattr(self, name, getattr(inner, name))

    def setup(self, network: Network, known: Setup) -> None:
        super().setup(network, known)
        self.inner.setup(network, known)


def _handed_on(name: str) -> Callable[..., Any]:
    """Make the method of a wrapper that calls the inner method's."""

    def call(self: Wrapper, *given: Any) -> Any:
        return getattr(self.inner, name)(*given)

    return wraps(getattr(Method, name))(call)


for _name in (
    *("stages", "begin", "trained", "loss", "step", "after_step", "evaluated", "finish", "correct", "report"),
    *("target_rows", "reads_target", "predict", "predict_source"),
):
    setattr(Wrapper, _name, _handed_on(_name))

#: Methods of one's own, by name.
_OWN: dict[str, type[Method]] = {}


def method(name: str) -> Callable[[type[Method]], type[Method]]:
    """Give a method of your own a name: `train(task, "focal")` and records know it by that."""

    def named(one: type[Method]) -> type[Method]:
        if name in _OWN and _OWN[name].__qualname__ != one.__qualname__:
            raise InputError(f"there is a method {name!r} already: {_OWN[name].__qualname__}")
        _OWN[name] = one
        return one

    return named


def code_of(method: Method) -> dict[str, Any]:
    """Return what tells the code of a method and its parts from that of another time.

    The methods that ship have a `code_version`; of one's own the source of the module counts too, as parsed,
    so that comments do not.
    """
    parts = [one for one in method.modules() if isinstance(one, Method)]
    own = {kind for one in parts for kind in type(one).__mro__ if issubclass(kind, Method)}
    modules = {kind.__module__ for kind in own if kind.__module__.partition(".")[0] != "shiftdata"}
    source = {name: text for name in sorted(modules) if (text := _source_hash(name))}
    versions = {"code_version": [one.code_version for one in parts]}
    return versions | ({"own_code": source} if source else {})


@cache
def _source_hash(module: str) -> str:
    """A hash of a module's source when it was first asked for; empty where it has none, as in a notebook."""
    try:
        return content_hash(ast.dump(ast.parse(inspect.getsource(sys.modules[module]))))[:32]
    except (OSError, TypeError, KeyError, SyntaxError):
        return ""
