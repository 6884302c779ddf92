"""What is in a task, as a record, a text table and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shiftdata.errors import InputError
from shiftdata.evaluation.tasks.sets import Role

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


#: How notes begin that a report says first: a task is not what was asked for.
CAUTION = "caution: "
BAR = 20  # characters of the longest bar


@dataclass(frozen=True, kw_only=True)
class MarginalDraw:
    """A drawn marginal of labels: by which law, around what, and what each set has of it.

    `source` and `before` are the shares of the labels in the set to fit and in the target before the draw,
    `drawn` those that were drawn, `rows` the examples of each label in each set.
    """

    law: str
    labels: tuple[str, ...]
    source: tuple[float, ...]
    before: tuple[float, ...]
    drawn: tuple[float, ...]
    rows: Mapping[str, tuple[int, ...]]

    def note(self) -> str:
        """Say which law it is, and how many labels have rows."""
        of = sum(share > 0 for share in self.before)
        left = [
            f"{sum(count > 0 for count in counts)} of {of} in {name}" for name, counts in self.rows.items()
        ]
        return f"labels from {self.law}; labels that have rows: {', '.join(left)}"

    def explain(self) -> str:
        """A table of the labels: the shares in the source, in the target before the draw, and as drawn."""
        width, most = max(map(len, [*self.labels, "label"])) + 2, max(self.drawn, default=0) or 1
        heads = [*("source", "before", "drawn"), *self.rows]
        widths = [max(8, len(head) + 2) for head in heads]
        lines = [
            self.law,
            f"{'label':<{width}}"
            + "".join(f"{head:>{wide}}" for head, wide in zip(heads, widths, strict=True)),
        ]
        for number, label in enumerate(self.labels):
            shares = [f"{100 * of[number]:.1f} %" for of in (self.source, self.before, self.drawn)]
            cells = [*shares, *(f"{counts[number]:,}" for counts in self.rows.values())]
            figures = "".join(f"{cell:>{wide}}" for cell, wide in zip(cells, widths, strict=True))
            bar = "#" * round(BAR * self.drawn[number] / most)
            lines.append(f"{label:<{width}}{figures}  {bar}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """What is in a task; `str` makes a table of it.

    `empty` of a set names the groups that its protocol promises and that have no row, `notes` are what the
    protocols asked for and met; those that begin with "caution" are said first. `draws` are the marginals of
    labels that were drawn, which `explain` prints.
    """

    task: str
    dataset: str
    sets: Mapping[str, SetReport]
    leaks: int
    notes: tuple[str, ...]
    labels: tuple[str, ...]
    nuisances: tuple[str, ...]
    draws: tuple[MarginalDraw, ...] = ()

    def __str__(self) -> str:
        head = ("set", "examples", "rows", "origins", "groups", "smallest", "largest", "empty")
        cautions = [note for note in self.notes if note.startswith(CAUTION)]
        lines = [self.task, f"of {self.dataset}", *cautions, ""]
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
        lines += [note for note in self.notes if note not in cautions]
        lines.append(f"{self.leaks:,} origins leak" if self.leaks else "no origin is on two sides")
        return "\n".join(lines)

    __repr__ = __str__

    def explain(self) -> str:
        """The marginals of labels that were drawn, label by label."""
        return "\n\n".join(draw.explain() for draw in self.draws) or "no marginal of labels was drawn"

    def picture(self) -> Image.Image:
        """Draw a heat map of each set, side by side on one scale.

        Labels and nuisances without examples are left out.
        """
        import numpy as np

        from shiftdata.evaluation.charts import draw_panels, panel_of

        counts = {name: np.array(one.counts) for name, one in self.sets.items()}
        most = max((int(of.max(initial=0)) for of in counts.values()), default=0)
        every = (
            panel_of(f"{name}: {one.examples:,}, darkest {most:,}", self.labels, self.nuisances, of, most)
            for (name, one), of in zip(self.sets.items(), counts.values(), strict=True)
        )
        panels = [panel for panel in every if panel is not None]
        if not panels:
            raise InputError(f"{self.task} has no set of few enough groups to draw: see the report instead")
        return draw_panels(panels)
