"""Every sampler by its name, and the one function that makes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.errors import InputError, not_found
from shiftdata.sampling.cells import OnEmpty, cells_of
from shiftdata.sampling.samplers import (
    Batches,
    FixedRows,
    GroupBatches,
    Names,
    PseudoBalanced,
    Reweighted,
    RowSampler,
)
from shiftdata.sampling.subsets import DirichletTarget, Subsampled

#: What `make_sampler` returns: rows one by one, or lists of them.
Sampler: TypeAlias = RowSampler | Batches | GroupBatches

#: What no user chooses as an option: it is given by name, or by the rule itself.
_COMMON = frozenset({"kind", "seed", "names", "dropped", "batch_size"})


@dataclass(frozen=True)
class SamplerRule:
    """A rule: what it does, whether it needs labels or groups, and the class that follows it."""

    summary: str
    needs: str | None
    make: Callable[..., RowSampler | GroupBatches]

    @property
    def parameters(self) -> dict[str, Any]:
        """The keyword arguments of the class, with their defaults."""
        parameters = inspect.signature(self.make).parameters.values()
        return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}

    @property
    def makes_batches(self) -> bool:
        return "batch_size" in self.parameters

    @property
    def options(self) -> frozenset[str]:
        """The options that only some rules take."""
        return frozenset(self.parameters) - _COMMON


#: The rules by name. "class-balanced" and "uniform-groups" are other papers' names for RWY and RWG.
SAMPLERS: Mapping[str, SamplerRule] = MappingProxyType(
    {
        name: SamplerRule(summary, needs, make)
        for name, needs, make, summary in (
            ("class-balanced", "label", partial(Reweighted, kind="rwy"),
             "every label equally often, with replacement (DomainBed): the same draws as rwy"),
            ("dirichlet", "label", DirichletTarget,
             "rows whose labels follow a drawn or given marginal (RLSbench)"),
            ("n-groups", "group", GroupBatches,
             "batches of a few groups with equally many rows of each (WILDS)"),
            ("pseudo-balanced", "label", PseudoBalanced,
             "every predicted label equally often, renewed each epoch (RS of RLSbench)"),
            ("rwg", "group", partial(Reweighted, kind="rwg"),
             "every group equally often, with replacement (BalancingGroups)"),
            ("rwy", "label", partial(Reweighted, kind="rwy"),
             "every label equally often, with replacement (BalancingGroups)"),
            ("shuffle", None, FixedRows,
             "every row once, in random order (ERM)"),
            ("subg", "group", partial(Subsampled, kind="subg"),
             "as many rows of every group as the smallest has (BalancingGroups)"),
            ("suby", "label", partial(Subsampled, kind="suby"),
             "as many rows of every label as the smallest has (BalancingGroups)"),
            ("uniform-groups", "group", partial(Reweighted, kind="rwg"),
             "every group equally often, with replacement (WILDS): the same draws as rwg"),
        )
    }
)  # fmt: skip


def make_sampler(
    name: str,
    *,
    labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    names: Names = (),
    batch_size: int | None = None,
    drop_last: bool = False,
    on_empty: OnEmpty = "error",
    label_ids: Sequence[int] | None = None,
    group_ids: Sequence[int] | None = None,
    **options: Any,
) -> Sampler:
    """Make a sampler of `SAMPLERS`: of row numbers, or with `batch_size`, of lists of them.

    >>> sampler = make_sampler("suby", labels=[0, 0, 0, 1], seed=1)
    >>> sorted(sampler)[-1], len(sampler)
    (3, 2)

    Args:
        name: The rule.
        labels: Each row's label number; pseudo-labels for "pseudo-balanced".
        groups: Each row's group number.
        seed: Draws depend on this, on `names` (a dataset, a config), the rule and the epoch alone.
        names: More names that key the draws.
        batch_size: Rows in a batch; the result is then for `DataLoader(batch_sampler=...)`.
        drop_last: Leave out a last batch that is not full.
        on_empty: Labels or groups without rows are an "error", or a reason to "drop" them.
        label_ids: The labels that should have rows; all from 0 to the largest if not given.
        group_ids: The groups that should have rows, likewise.
        options: Those of the rule's class.

    """
    if name not in SAMPLERS:
        raise not_found("sampler", name, SAMPLERS)
    rule = SAMPLERS[name]
    given = {option: value for option, value in options.items() if value is not None}
    _check(name, rule, {"label": labels, "group": groups}, given)
    if rule.makes_batches and batch_size is not None:
        given["batch_size"] = batch_size
    for option, default in rule.parameters.items():
        if default is inspect.Parameter.empty and option not in given:
            raise InputError(f"the sampler {name!r} needs {option}: give {option}=...")
    codes: Any = groups if rule.needs == "group" or labels is None else labels
    if rule.needs is None:
        rows: Any = np.arange(len(np.asarray(codes)))
    else:
        expected = label_ids if rule.needs == "label" else group_ids
        rows = cells_of(codes, what=rule.needs, expected=expected, on_empty=on_empty)
    made = rule.make(rows, seed=seed, names=names, **given)
    if isinstance(made, GroupBatches) or batch_size is None:
        return made
    return Batches(made, batch_size, drop_last=drop_last)


def _check(
    name: str, rule: SamplerRule, codes: Mapping[str, ArrayLike | None], options: Mapping[str, Any]
) -> None:
    """Refuse a call that lacks what the rule needs, or has what it would ignore."""
    shapes = {by: np.shape(values) for by, values in codes.items() if values is not None}
    if not shapes or (rule.needs is not None and rule.needs not in shapes):
        needed = f"{rule.needs}s=..." if rule.needs else "labels=... or groups=..."
        raise InputError(f"the sampler {name!r} needs {needed}, a number for each row")
    if len(set(shapes.values())) > 1:
        raise InputError(
            f"labels and groups need a number for each row each, got {shapes['label']}, {shapes['group']}"
        )
    for option in sorted(options.keys() - rule.options):
        takers = [other for other in SAMPLERS if option in SAMPLERS[other].options]
        if not takers:
            raise not_found("option", option, set().union(*(one.options for one in SAMPLERS.values())))
        raise InputError(
            f"the sampler {name!r} takes no {option}: leave it out, or use one of {', '.join(takers)}"
        )
