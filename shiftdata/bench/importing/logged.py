"""The files of authors, the runs in them, and what an accuracy says about rows that nobody published."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np

from shiftdata.bench.records import IMPORTED
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.tasks import Evaluation, Role
from shiftdata.evaluation.tasks.cells import Cells
from shiftdata.evaluation.tasks.official import Figure
from shiftdata.files import open_regular
from shiftdata.untrusted.archives import open_zip
from shiftdata.untrusted.limits import check, most

Parsed = TypeVar("Parsed")
#: The largest number of rows that is inferred from an accuracy.
MOST_ROWS = 10**6


class Files:
    """Every file that is read counts in `content_id`, by name and content; `name` is the one being read."""

    def __init__(self, path: Path, on_file: Callable[[], object]) -> None:
        if not path.exists():
            raise NotFoundError(f"there is no {path}: give the folder or the zip that the authors published")
        self.path, self.name, self._on_file, self._hash = path, "", on_file, hashlib.sha256()

    @property
    def content_id(self) -> str:
        return f"{IMPORTED}{self._hash.hexdigest()}"

    def parsed(
        self, pattern: str, parse: Callable[[str, bytes], Parsed], *, optional: bool = False
    ) -> Iterator[Parsed]:
        """Yield what `parse` makes of each file that matches, in the order of names."""
        self.name = ""
        for name, data in self._contents(pattern):
            self.name = name
            self._hash.update(f"{name}\0{len(data)}\0".encode() + data)
            yield parse(name, data)
            self._on_file()
        if not self.name and not optional:
            raise InputError(f"{self.path} has no {pattern}: give the folder or the zip that has these files")
        self.name = ""

    def _contents(self, pattern: str) -> Iterator[tuple[str, bytes]]:
        if self.path.is_dir():
            for path in sorted(self.path.rglob(pattern)):
                with open_regular(path) as stream:
                    data = stream.read(most("csv_bytes") + 1)
                check("csv_bytes", len(data), path.name)
                yield path.relative_to(self.path).as_posix(), data
            return
        try:
            with open_zip(self.path) as archive:
                for name in sorted(archive.namelist()):
                    if PurePosixPath(name).match(pattern) and not name.startswith("__MACOSX/"):
                        yield name, archive.read(name)
        except BadZipFile as error:
            raise InputError(f"{self.path} is neither a folder nor a whole zip") from error


@dataclass(frozen=True)
class Logged:
    """A run: the evaluations of each step, and the labels that they predict where authors gave them.

    `task` is what `Task.describe` would say, so that reports know its kind; a seed that changes the rows is
    in it.
    """

    dataset: str
    task: str
    method: str
    trial: int
    seed: int
    results: Mapping[int, Sequence[Evaluation]]
    hyper: Mapping[str, Any] = field(default_factory=dict)
    predicted: Sequence[IntArray] | None = None


def rows_of(accuracies: Iterable[float], of: object) -> int:
    """Return the fewest rows of which every accuracy is a whole share; logs have no other trace of them.

    >>> rows_of([0.5, 2 / 3, 1.0], "env0")
    6
    """
    rows = 1
    for accuracy in accuracies:
        share = Fraction(accuracy).limit_denominator(MOST_ROWS)
        rows = math.lcm(rows, share.denominator)
        if abs(share - Fraction(accuracy)) > 1e-15 or rows > MOST_ROWS or not 0 <= share <= 1:
            raise InputError(f"{of}: {accuracy} is not a share of the rows of the other accuracies there")
    return rows


def counted(
    name: str,
    role: Role,
    domains: Mapping[str, tuple[float, int]],
    figures: Mapping[str, Figure] | None = None,
) -> Evaluation:
    """Make the evaluation of a set from the accuracy and the rows of each of its domains."""
    n = np.array([rows for _, rows in domains.values()], np.int64)
    correct = np.rint([share * rows for share, rows in domains.values()]).astype(np.int64)
    codes = {"label": np.zeros(len(n), np.int64), "domain": np.arange(len(n))}
    cells = Cells({"label": ("all",), "domain": tuple(domains)}, codes, n, correct, 0)
    return Evaluation("", "", name, role, int(n.sum()), figures or {}, (), "domain", cells)
