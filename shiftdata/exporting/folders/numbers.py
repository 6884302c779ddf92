"""The numbers in the CSV files of layouts, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shiftdata.errors import InputError
from shiftdata.exporting.folders.layout import csv_lines
from shiftdata.exporting.folders.plan import Plan
from shiftdata.format.schema import SPLITS


def split_numbers(sets: Iterable[str]) -> dict[str, int]:
    """Train, validation and test are 0, 1 and 2, as everywhere; other sets follow in their order.

    >>> split_numbers(["source_train", "test", "train", "target_test"])
    {'source_train': 3, 'test': 2, 'train': 0, 'target_test': 4}
    """
    names = list(sets)
    others = iter(range(len(SPLITS), len(SPLITS) + len(names)))
    return {name: list(SPLITS).index(name) if name in SPLITS else next(others) for name in names}


def meanings(plan: Plan, domain_column: str) -> Iterator[str]:
    """`names.csv`: what each number means, by column."""
    named = [("y", number, one.name) for number, one in enumerate(plan.classes)]
    named += [(domain_column, number, one.name) for number, one in enumerate(plan.domains)]
    named += [("split", number, name) for name, number in split_numbers(plan.sets).items()]
    return csv_lines(["column", "number", "name"], named)


def check_domains(plan: Plan, layout: str) -> None:
    """Refuse rows that are in no domain, where a layout must put each into one."""
    without = sum(entry.domain < 0 for entry in plan.entries)
    if without:
        raise InputError(
            f"{without:,} rows of {plan.manifest.name}/{plan.base} have no {plan.nuisance}, as untouched "
            f"content has none, and {layout} puts each row into one: take another base or task, or the "
            "layout imagefolder or lists"
        )
