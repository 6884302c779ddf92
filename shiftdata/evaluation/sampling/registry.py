"""Every sampler by its name, and the one function that makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.loading.order import Batches, FixedRows, Names, Ranks, RowSampler, Sampler
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.sampling.batches import CellBatches
from shiftdata.evaluation.sampling.cells import OnEmpty, cells_of
from shiftdata.evaluation.sampling.rows import Reweighted, Subsampled


class SamplerRule(NamedTuple):
    """The numbers of rows that a rule needs, if any, and the class that follows it."""

    needs: str | None
    make: Callable[..., RowSampler | CellBatches]

    @property
    def makes_batches(self) -> bool:
        return self.make is CellBatches


#: The rules by name; docs/loading.md says what each draws.
SAMPLERS: Mapping[str, SamplerRule] = MappingProxyType(
    {
        "class-balanced": SamplerRule("label", partial(Reweighted, kind="rwy")),  # DomainBed's name
        "per-domain": SamplerRule("nuisance", CellBatches),
        "pseudo-balanced": SamplerRule("pseudo_label", partial(Reweighted, kind="pseudo-balanced")),
        "rwg": SamplerRule("group", partial(Reweighted, kind="rwg")),
        "rwy": SamplerRule("label", partial(Reweighted, kind="rwy")),
        "shuffle": SamplerRule(None, FixedRows),
        "subg": SamplerRule("group", partial(Subsampled, kind="subg")),
        "suby": SamplerRule("label", partial(Subsampled, kind="suby")),
        "uniform-groups": SamplerRule("group", partial(Reweighted, kind="rwg")),  # WILDS's name
    }
)


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
    ids: Sequence[int] | None = None,
    on_empty: OnEmpty = "error",
) -> Sampler:
    """Make a sampler of `SAMPLERS`: of row numbers, or with `batch_size`, of lists of them.

    >>> sampler = make_sampler("suby", labels=[0, 0, 0, 1], seed=1)
    >>> sorted(sampler)[-1], len(sampler)
    (3, 2)

    Args:
        name: The rule.
        labels, groups: Each row's label and group number.
        nuisances: Each row's nuisance (domain, style) number, for "per-domain".
        pseudo_labels: A classifier's prediction for each row, for "pseudo-balanced".
        seed: Draws depend on this, on `names` (a dataset, a config), the rule and the epoch alone.
        names: More names that key the draws.
        batch_size: Rows in a batch; the result is then for `DataLoader(batch_sampler=...)`.
        drop_last: Leave out a last batch that is not full, and what ranks do not share evenly.
        rank, world: This process among those that share an epoch; default: of `torch.distributed`.
        ids: The labels, groups or nuisances, of which the rule needs one, that should have rows; default: all
            from 0 to the largest.
        on_empty: Those without rows are an "error", or "drop" them.

    """
    if name not in SAMPLERS:
        raise not_found("sampler", name, SAMPLERS)
    rule = SAMPLERS[name]
    numbers = {"label": labels, "group": groups, "nuisance": nuisances, "pseudo_label": pseudo_labels}
    codes = {by: values for by, values in numbers.items() if values is not None}
    _check(name, rule, codes)
    if rule.makes_batches and batch_size is None:
        raise InputError(f"the sampler {name!r} needs batch_size: give batch_size=...")
    if rule.needs is None:
        rows: Any = np.arange(len(np.asarray(next(iter(codes.values())))))
    else:
        kind = rule.needs.removeprefix("pseudo_")
        rows = cells_of(codes[rule.needs], kind=kind, expected=ids, on_empty=on_empty)
    batches = {"batch_size": batch_size} if rule.makes_batches else {}
    sampler: Sampler = rule.make(rows, seed=seed, names=names, **batches)
    if isinstance(sampler, RowSampler) and batch_size is not None:
        sampler = Batches(sampler, batch_size)
    return sampler.among(Ranks.of(rank, world, drop_last=drop_last))


def _check(name: str, rule: SamplerRule, codes: Mapping[str, ArrayLike]) -> None:
    """Refuse a call that lacks what the rule needs, or has what it would ignore."""
    shapes = {f"{by}s": np.shape(values) for by, values in codes.items()}
    if not shapes or (rule.needs is not None and f"{rule.needs}s" not in shapes):
        needed = f"{rule.needs}s=..." if rule.needs else "labels=... or groups=..."
        raise InputError(f"the sampler {name!r} needs {needed}, a number for each row")
    if len(set(shapes.values())) > 1:
        got = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise InputError(f"all need one number for each row, got {got}")
    if "pseudo_labels" in shapes and rule.needs != "pseudo_label":
        raise InputError(
            f"the sampler {name!r} takes no pseudo_labels: leave them out, or use pseudo-balanced"
        )
