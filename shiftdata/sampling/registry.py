"""Every sampler by its name, and the one function that makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.errors import InputError, not_found
from shiftdata.sampling.cells import Cells, OnEmpty, cells_of
from shiftdata.sampling.group_batches import GroupBatches
from shiftdata.sampling.samplers import Batches, FixedRows, PseudoBalanced, Reweighted, RowSampler
from shiftdata.sampling.subsets import DirichletTarget, DirichletVariant, Subsampled

By: TypeAlias = Literal["label", "group"]

#: What `make_sampler` returns: rows one by one, or lists of them.
Sampler: TypeAlias = RowSampler | Batches | GroupBatches


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What `make_sampler` was asked for; `options` holds what only some rules take and was given."""

    labels: ArrayLike | None
    groups: ArrayLike | None
    label_ids: Sequence[int] | None
    group_ids: Sequence[int] | None
    on_empty: OnEmpty
    seed: int
    names: Sequence[str | int]
    options: Mapping[str, Any]

    def cells(self, by: By) -> Cells:
        if by == "label":
            return cells_of(_given(self.labels), what=by, expected=self.label_ids, on_empty=self.on_empty)
        return cells_of(_given(self.groups), what=by, expected=self.group_ids, on_empty=self.on_empty)

    @property
    def rest(self) -> dict[str, Any]:
        """The arguments that every sampler takes, and the options."""
        return {"seed": self.seed, "names": self.names, **self.options}


@dataclass(frozen=True, kw_only=True)
class SamplerKind:
    """A rule: what it does, which of labels and groups it needs, its options, and how it is made."""

    summary: str
    needs: By | None
    make: Callable[[_Request], RowSampler | GroupBatches]
    options: frozenset[str] = frozenset()
    makes_batches: bool = False


def _shuffle(asked: _Request) -> RowSampler:
    given = asked.labels if asked.labels is not None else asked.groups
    return FixedRows(np.arange(len(np.asarray(_given(given)))), **asked.rest)


def _subsampled(kind: str, by: By) -> Callable[[_Request], RowSampler]:
    return lambda asked: Subsampled(asked.cells(by), kind=kind, **asked.rest)


def _reweighted(kind: str, by: By) -> Callable[[_Request], RowSampler]:
    return lambda asked: Reweighted(asked.cells(by), kind=kind, **asked.rest)


def _dirichlet(asked: _Request) -> RowSampler:
    return DirichletTarget(asked.cells("label"), **asked.rest)


def _pseudo_balanced(asked: _Request) -> RowSampler:
    labels = _given(asked.labels)
    return PseudoBalanced(labels, label_ids=asked.label_ids, on_empty=asked.on_empty, **asked.rest)


def _n_groups(asked: _Request) -> GroupBatches:
    for name in ("batch_size", "n_groups_per_batch"):
        if name not in asked.options:
            raise InputError(f"the sampler 'n-groups' makes batches: give {name}=...")
    return GroupBatches(asked.cells("group"), **asked.rest)


#: The rules by name. "class-balanced" and "uniform-groups" are other papers' names for RWY and RWG.
SAMPLERS: Mapping[str, SamplerKind] = MappingProxyType(
    {
        "class-balanced": SamplerKind(
            summary="every label equally often, with replacement (DomainBed): the same draws as rwy",
            needs="label",
            make=_reweighted("rwy", "label"),
            options=frozenset({"epoch_size"}),
        ),
        "dirichlet": SamplerKind(
            summary="rows whose labels follow a drawn or given marginal (RLSbench)",
            needs="label",
            make=_dirichlet,
            options=frozenset({"alpha", "variant", "marginal", "replacement"}),
        ),
        "n-groups": SamplerKind(
            summary="batches of a few groups with equally many rows of each (WILDS)",
            needs="group",
            make=_n_groups,
            options=frozenset({"n_groups_per_batch", "proportional", "distinct"}),
            makes_batches=True,
        ),
        "pseudo-balanced": SamplerKind(
            summary="every predicted label equally often, renewed each epoch (RS of RLSbench)",
            needs="label",
            make=_pseudo_balanced,
            options=frozenset({"epoch_size"}),
        ),
        "rwg": SamplerKind(
            summary="every group equally often, with replacement (BalancingGroups)",
            needs="group",
            make=_reweighted("rwg", "group"),
            options=frozenset({"epoch_size"}),
        ),
        "rwy": SamplerKind(
            summary="every label equally often, with replacement (BalancingGroups)",
            needs="label",
            make=_reweighted("rwy", "label"),
            options=frozenset({"epoch_size"}),
        ),
        "shuffle": SamplerKind(summary="every row once, in random order (ERM)", needs=None, make=_shuffle),
        "subg": SamplerKind(
            summary="as many rows of every group as the smallest has (BalancingGroups)",
            needs="group",
            make=_subsampled("subg", "group"),
            options=frozenset({"per_cell"}),
        ),
        "suby": SamplerKind(
            summary="as many rows of every label as the smallest has (BalancingGroups)",
            needs="label",
            make=_subsampled("suby", "label"),
            options=frozenset({"per_cell"}),
        ),
        "uniform-groups": SamplerKind(
            summary="every group equally often, with replacement (WILDS): the same draws as rwg",
            needs="group",
            make=_reweighted("rwg", "group"),
            options=frozenset({"epoch_size"}),
        ),
    }
)


def make_sampler(
    name: str,
    *,
    labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    names: Sequence[str | int] = (),
    batch_size: int | None = None,
    drop_last: bool = False,
    on_empty: OnEmpty = "error",
    label_ids: Sequence[int] | None = None,
    group_ids: Sequence[int] | None = None,
    epoch_size: int | None = None,
    per_cell: int | None = None,
    alpha: float | None = None,
    variant: DirichletVariant | None = None,
    marginal: ArrayLike | None = None,
    replacement: bool | None = None,
    n_groups_per_batch: int | None = None,
    proportional: bool | None = None,
    distinct: bool | None = None,
) -> Sampler:
    """Make a sampler of `SAMPLERS`: of row numbers, or with `batch_size`, of lists of them.

    >>> sampler = make_sampler("suby", labels=[0, 0, 0, 1], seed=1)
    >>> sorted(sampler)[-1], len(sampler)
    (3, 2)

    Args:
        name: the rule.
        labels: each row's label number; pseudo-labels for "pseudo-balanced".
        groups: each row's group number.
        seed: draws depend on this, on `names` (a dataset, a config), the rule and the epoch alone.
        names: more names that key the draws.
        batch_size: rows in a batch; the result is then for `DataLoader(batch_sampler=...)`.
        drop_last: leave out a last batch that is not full.
        on_empty: labels or groups without rows are an "error", or a reason to "drop" them.
        label_ids: the labels that should have rows; all from 0 to the largest if not given.
        group_ids: the groups that should have rows, likewise.
        epoch_size: draws in an epoch, where they are with replacement; as many as rows if not given.
        per_cell: rows of each label or group, for "suby" and "subg"; at most those of the smallest.
        alpha: for "dirichlet": the smaller, the stronger the shift. None for none.
        variant: for "dirichlet": the "paper"'s or the "code"'s meaning of alpha.
        marginal: for "dirichlet": the label marginal itself, one share for each of `label_ids`.
        replacement: for "dirichlet": draw labels, then rows, so that no row is left over.
        n_groups_per_batch: for "n-groups", as the next two.
        proportional: draw groups in proportion to their sizes.
        distinct: no group twice in a batch (the default).

    """
    if name not in SAMPLERS:
        raise not_found("sampler", name, SAMPLERS)
    kind = SAMPLERS[name]
    options = {
        "epoch_size": epoch_size,
        "per_cell": per_cell,
        "alpha": alpha,
        "variant": variant,
        "marginal": marginal,
        "replacement": replacement,
        "n_groups_per_batch": n_groups_per_batch,
        "proportional": proportional,
        "distinct": distinct,
    }
    given = {option: value for option, value in options.items() if value is not None}
    _check(name, kind, labels, groups, given)
    if kind.makes_batches and batch_size is not None:
        given["batch_size"] = batch_size
    made = kind.make(
        _Request(
            labels=labels,
            groups=groups,
            label_ids=label_ids,
            group_ids=group_ids,
            on_empty=on_empty,
            seed=seed,
            names=names,
            options=given,
        )
    )
    if isinstance(made, GroupBatches) or batch_size is None:
        return made
    return Batches(made, batch_size, drop_last=drop_last)


def _check(
    name: str,
    kind: SamplerKind,
    labels: ArrayLike | None,
    groups: ArrayLike | None,
    given: Mapping[str, object],
) -> None:
    """Refuse a call that lacks what the rule needs, or has what it would ignore."""
    have = {"label": labels is not None, "group": groups is not None}
    if not any(have.values()) or (kind.needs is not None and not have[kind.needs]):
        needed = f"{kind.needs}s=..." if kind.needs else "labels=... or groups=..."
        raise InputError(f"the sampler {name!r} needs {needed}, a number for each row")
    if labels is not None and groups is not None and np.shape(labels) != np.shape(groups):
        raise InputError(
            f"labels and groups need a number for each row each, got {np.shape(labels)}, {np.shape(groups)}"
        )
    for option in sorted(given.keys() - kind.options):
        takers = ", ".join(other for other in SAMPLERS if option in SAMPLERS[other].options)
        raise InputError(f"the sampler {name!r} takes no {option}: leave it out, or use one of {takers}")


def _given(values: ArrayLike | None) -> ArrayLike:
    if values is None:
        raise InputError("give labels=... or groups=..., a number for each row")
    return values
