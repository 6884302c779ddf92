"""What is in a task, as a record, a text table and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shiftdata.errors import InputError
from shiftdata.tasks.sets import Role

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, kw_only=True)
class SetReport:
    """One set: its roles, examples (rows as often as they were drawn), origins, examples by group."""

    roles: tuple[Role, ...]
    examples: int
    rows: int
    origins: int
    counts: tuple[tuple[int, ...], ...]
    empty: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        return [count for row in self.counts for count in row if count]


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """What is in a task; `str` makes a table of it.

    `empty` of a set names the groups that its protocol promises and that have no row, `notes` are what the
    protocols asked for and met.
    """

    task: str
    dataset: str
    sets: Mapping[str, SetReport]
    leaks: int
    notes: tuple[str, ...]
    labels: tuple[str, ...]
    nuisances: tuple[str, ...]

    def __str__(self) -> str:
        head = ("set", "examples", "rows", "origins", "groups", "smallest", "largest", "empty")
        lines = [self.task, f"of {self.dataset}", ""]
        roles = {name: ", ".join(one.roles) for name, one in self.sets.items()}
        width, wide = max(map(len, [*roles, "validation"])) + 2, max(map(len, [*roles.values(), "role"]))
        lines.append(f"{head[0]:<{width}}{'role':<{wide}}" + "".join(f"{name:>10}" for name in head[1:]))
        for name, one in self.sets.items():
            sizes = one.sizes or [0]
            numbers = [one.examples, one.rows, one.origins, len(one.sizes)]
            numbers += [min(sizes), max(sizes), len(one.empty)]
            figures = "".join(f"{number:>10,}" for number in numbers)
            lines.append(f"{name:<{width}}{roles[name]:<{wide}}{figures}")
        for name, one in self.sets.items():
            if one.empty:
                more = f" and {len(one.empty) - 8} more" if len(one.empty) > 8 else ""
                lines.append(f"empty in {name}: {', '.join(one.empty[:8])}{more}")
        lines += self.notes
        lines.append(f"{self.leaks:,} origins leak" if self.leaks else "no origin is on two sides")
        return "\n".join(lines)

    __repr__ = __str__

    def picture(self) -> Image.Image:
        """Draw a heat map of each set, side by side on one scale.

        Labels and nuisances without examples are left out.
        """
        import numpy as np

        from shiftdata.pictures import draw, panel_of

        counts = {name: np.array(one.counts) for name, one in self.sets.items()}
        most = max((int(of.max(initial=0)) for of in counts.values()), default=0)
        every = (
            panel_of(f"{name}: {one.examples:,}, darkest {most:,}", self.labels, self.nuisances, of, most)
            for (name, one), of in zip(self.sets.items(), counts.values(), strict=True)
        )
        panels = [panel for panel in every if panel is not None]
        if not panels:
            raise InputError(f"{self.task} has no set of few enough groups to draw: see the report instead")
        return draw(panels)
