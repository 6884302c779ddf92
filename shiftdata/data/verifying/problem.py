"""What a verification reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shiftdata.data.format.names import shown


@dataclass(frozen=True)
class Problem:
    """One thing at a path of the dataset, maybe in the row `key`, that is not as the manifest says.

    Problems of one `kind` in one file are alike, so that a list of them can be cut short.
    """

    path: str
    what: str
    kind: str = ""
    key: str | None = None

    def __str__(self) -> str:
        row = "" if self.key is None else f"row {self.key!r} "
        return f"{shown(self.path)}: {row}{self.what}"


def shortened(problems: Sequence[Problem], most: int = 10, hint: str = "") -> Iterator[str]:
    r"""A line for each problem; of many of one kind in one file, only the first ones.

    >>> problems = [Problem(path="a", what=f"is {n}", kind="x") for n in range(5)]
    >>> print(*shortened(problems, most=2, hint="--all shows them"), sep="\n")
    a: is 0
    a: is 1
    a: ... and 3 more like it (--all shows them)
    """
    totals = Counter((problem.path, problem.kind) for problem in problems)
    shown: Counter[tuple[str, str]] = Counter()
    for problem in problems:
        sort = (problem.path, problem.kind)
        shown[sort] += 1
        # One more line is no longer than the line that would stand for it.
        if shown[sort] <= most or totals[sort] == most + 1:
            yield str(problem)
        elif shown[sort] == totals[sort]:
            more = f" ({hint})" if hint else ""
            yield f"{problem.path}: ... and {totals[sort] - most:,} more like it{more}"
