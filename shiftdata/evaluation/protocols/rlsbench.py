"""RLSbench's benchmark as data: 14 datasets, 56 pairs of source and target, 560 tasks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from shiftdata.errors import not_found
from shiftdata.evaluation.protocols.halves import IN_CODE, RLSBENCH, Domains
from shiftdata.evaluation.protocols.label_shift import LabelShift
from shiftdata.evaluation.protocols.named import task as make_task

if TYPE_CHECKING:
    from shiftdata.evaluation.tasks import Task

ALPHAS = (None, 10.0, 3.0, 1.0, 0.5)
SEEDS = (0, 1)
CITED = (
    "Label shift: S. Garg, N. Erickson, J. Sharpnack, A. Smola, S. Balakrishnan, Z. C. Lipton. RLSbench: "
    "domain adaptation under relaxed label shift. ICML 2023, arXiv:2302.03020."
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One task of the benchmark: a dataset, its source, one of its targets, a severity and a seed."""

    dataset: str
    source: Domains
    target: Domains
    alpha: float | None
    seed: int
    variant: str = ""

    @property
    def protocol(self) -> LabelShift:
        target = self.target[0] if len(self.target) == 1 else self.target
        return LabelShift(
            rlsbench=self.dataset, target=target, alpha=self.alpha, seed=self.seed, variant=self.variant
        )

    def task(self, dataset: Any = None, **options: Any) -> Task:
        """Make the task, of the dataset of its name or of `dataset`; labels may vanish, and are reported."""
        return make_task(dataset or self.dataset, self.protocol, **{"on_empty": "report", **options})


def rlsbench(
    dataset: str | None = None, *, variant: Literal["", "code", "files"] = "", **where: Any
) -> list[Pair]:
    """Return every task of RLSbench, or those of a dataset; `alpha=` and `seed=` choose among them.

    Targets are the paper's; with `variant="files"` those of the released code, which are others here and
    there (CIFAR-10.2 for 10.1, more years and states).

    >>> len(rlsbench()), len({(pair.dataset, pair.target) for pair in rlsbench()})
    (560, 56)
    >>> [pair.target[0] for pair in rlsbench("visda", alpha=3.0, seed=0)]
    ['train', 'validation', 'test']
    """
    datasets = IN_CODE if variant == "files" else RLSBENCH
    if dataset is not None and dataset not in datasets:
        raise not_found("dataset of RLSbench", dataset, datasets, "rlsbench() lists all of them.")
    if unknown := set(where) - {"alpha", "seed"}:
        raise not_found("condition", min(unknown), ("alpha", "seed"), "They choose among the tasks.")
    pairs = [
        Pair(dataset=name, source=halves.source, target=target, alpha=alpha, seed=seed, variant=variant)
        for name, halves in datasets.items()
        for target, alpha, seed in product(halves.targets, ALPHAS, SEEDS)
        if dataset in (None, name)
    ]
    return [pair for pair in pairs if all(getattr(pair, name) == value for name, value in where.items())]


def canonical(dataset: str) -> tuple[LabelShift, ...]:
    """Return the canonical splits of a dataset: each target, not shifted; `rlsbench` has the others."""
    return tuple(pair.protocol for pair in rlsbench(dataset, alpha=None, seed=0))
