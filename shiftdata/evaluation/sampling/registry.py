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
from shiftdata.evaluation.sampling.batches import Batches, CellBatches, DomainBatches, GroupBatches
from shiftdata.evaluation.sampling.cells import OnEmpty, cells_of
from shiftdata.evaluation.sampling.ranks import Ranks
from shiftdata.evaluation.sampling.samplers import FixedRows, Names, PseudoBalanced, Reweighted, RowSampler
from shiftdata.evaluation.sampling.subsets import DirichletTarget, Subsampled

#: What `make_sampler` returns: rows one by one, or lists of them.
Sampler: TypeAlias = RowSampler | Batches | CellBatches

#: What no user chooses as an option: it is given by name, or by the rule itself.
_COMMON = frozenset({"kind", "seed", "names", "dropped", "batch_size"})


@dataclass(frozen=True)
class SamplerRule:
    """A rule: what it does, the numbers of rows that it needs, if any, and the class that follows it."""

    summary: str
    needs: str | None
    make: Callable[..., RowSampler | CellBatches]

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
            ("per-domain", "nuisance", DomainBatches,
             "batches of equally many rows of each domain (DomainBed)"),
            ("pseudo-balanced", "pseudo_label", PseudoBalanced,
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
    nuisances: ArrayLike | None = None,
    pseudo_labels: ArrayLike | None = None,
    seed: int = 0,
    names: Names = (),
    batch_size: int | None = None,
    drop_last: bool = False,
    rank: int | None = None,
    world: int | None = None,
    on_empty: OnEmpty = "error",
    label_ids: Sequence[int] | None = None,
    group_ids: Sequence[int] | None = None,
    nuisance_ids: Sequence[int] | None = None,
    **options: Any,
) -> Sampler:
    """Make a sampler of `SAMPLERS`: of row numbers, or with `batch_size`, of lists of them.

    >>> sampler = make_sampler("suby", labels=[0, 0, 0, 1], seed=1)
    >>> sorted(sampler)[-1], len(sampler)
    (3, 2)

    Args:
        name: The rule.
        labels: Each row's label number.
        groups: Each row's group number.
        nuisances: Each row's nuisance (domain, style) number, for "per-domain".
        pseudo_labels: A classifier's first prediction for each row, for "pseudo-balanced".
        seed: Draws depend on this, on `names` (a dataset, a config), the rule and the epoch alone.
        names: More names that key the draws.
        batch_size: Rows in a batch; the result is then for `DataLoader(batch_sampler=...)`.
        drop_last: Leave out a last batch that is not full, and what ranks do not share evenly.
        rank, world: This process among those that share an epoch; default: of `torch.distributed`.
        on_empty: Labels or groups without rows are an "error", or a reason to "drop" them.
        label_ids: The labels that should have rows; all from 0 to the largest if not given.
        group_ids: The groups that should have rows, likewise.
        nuisance_ids: The nuisances that should have rows, likewise.
        options: Those of the rule's class.

    """
    if name not in SAMPLERS:
        raise not_found("sampler", name, SAMPLERS)
    rule = SAMPLERS[name]
    given = {option: value for option, value in options.items() if value is not None}
    numbers = {"label": labels, "group": groups, "nuisance": nuisances, "pseudo_label": pseudo_labels}
    codes = {by: values for by, values in numbers.items() if values is not None}
    _check(name, rule, codes, given)
    if rule.makes_batches and batch_size is not None:
        given["batch_size"] = batch_size
    for option, default in rule.parameters.items():
        if default is inspect.Parameter.empty and option not in given:
            raise InputError(f"the sampler {name!r} needs {option}: give {option}=...")
    if rule.needs is None:
        rows: Any = np.arange(len(np.asarray(next(iter(codes.values())))))
    else:
        expected = {"group": group_ids, "nuisance": nuisance_ids}.get(rule.needs, label_ids)
        what = rule.needs.removeprefix("pseudo_")
        rows = cells_of(codes[rule.needs], what=what, expected=expected, on_empty=on_empty)
    made: Sampler = rule.make(rows, seed=seed, names=names, **given)
    if isinstance(made, RowSampler) and batch_size is not None:
        made = Batches(made, batch_size, drop_last=drop_last)
    return made.among(Ranks.of(rank, world, drop_last=drop_last))


def _check(name: str, rule: SamplerRule, codes: Mapping[str, ArrayLike], options: Mapping[str, Any]) -> None:
    """Refuse a call that lacks what the rule needs, or has what it would ignore."""
    shapes = {f"{by}s": np.shape(values) for by, values in codes.items()}
    if not shapes or (rule.needs is not None and f"{rule.needs}s" not in shapes):
        needed = f"{rule.needs}s=..." if rule.needs else "labels=... or groups=..."
        raise InputError(f"the sampler {name!r} needs {needed}, a number for each row")
    if len(set(shapes.values())) > 1:
        got = ", ".join(f"{what} of shape {shape}" for what, shape in shapes.items())
        raise InputError(f"all need one number for each row, got {got}")
    if "pseudo_labels" in shapes and rule.needs != "pseudo_label":
        raise InputError(
            f"the sampler {name!r} takes no pseudo_labels: leave them out, or use pseudo-balanced"
        )
    for option in sorted(options.keys() - rule.options):
        takers = [other for other in SAMPLERS if option in SAMPLERS[other].options]
        if not takers:
            raise not_found("option", option, set().union(*(one.options for one in SAMPLERS.values())))
        raise InputError(
            f"the sampler {name!r} takes no {option}: leave it out, or use one of {', '.join(takers)}"
        )
