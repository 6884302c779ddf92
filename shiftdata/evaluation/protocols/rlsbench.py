"""RLSbench's benchmark as data: 14 datasets, 56 pairs of source and target, 560 tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

from shiftdata.errors import not_found
from shiftdata.evaluation.protocols.halves import IN_CODE, RLSBENCH
from shiftdata.evaluation.protocols.label_shift import LabelShift

ALPHAS = (None, 10.0, 3.0, 1.0, 0.5)
SEEDS = (0, 1)
CITED = (
    "Label shift: S. Garg, N. Erickson, J. Sharpnack, A. Smola, S. Balakrishnan, Z. C. Lipton. RLSbench: "
    "domain adaptation under relaxed label shift. ICML 2023, arXiv:2302.03020."
)


def rlsbench(
    dataset: str | None = None,
    *,
    alphas: Sequence[float | None] = ALPHAS,
    seeds: Sequence[int] = SEEDS,
    variant: Literal["", "code", "files"] = "",
) -> list[LabelShift]:
    """Return the protocol of every task of RLSbench, or of those of a dataset: its field `rlsbench`.

    Targets are the paper's; with `variant="files"` those of the released code, which are others here and
    there (CIFAR-10.2 for 10.1, more years and states). Labels may come to have no row: make tasks with
    `on_empty="report"`.

    >>> len(rlsbench()), len(rlsbench(alphas=[None], seeds=[0]))
    (560, 56)
    >>> [protocol.target for protocol in rlsbench("visda", alphas=[3.0], seeds=[0])]
    ['train', 'validation', 'test']
    """
    datasets = IN_CODE if variant == "files" else RLSBENCH
    if dataset is not None and dataset not in datasets:
        raise not_found("dataset of RLSbench", dataset, datasets, "rlsbench() lists all of them.")
    return [
        LabelShift(
            rlsbench=name,
            target=target[0] if len(target) == 1 else target,
            alpha=alpha,
            seed=seed,
            variant=variant,
        )
        for name, halves in datasets.items()
        for target, alpha, seed in product(halves.targets, alphas, seeds)
        if dataset in (None, name)
    ]


def canonical(dataset: str) -> tuple[LabelShift, ...]:
    """Return the canonical splits of a dataset: each target, not shifted; `rlsbench` has the others."""
    return tuple(rlsbench(dataset, alphas=[None], seeds=[0]))
