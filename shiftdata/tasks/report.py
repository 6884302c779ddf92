"""What is in a task, as a record, a text table and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shiftdata.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Report", "SetReport"]

MOST_CELLS = 40  # along a side of a picture or a table: more could not be read
SIDE, MARGIN = 34, 150


@dataclass(frozen=True, kw_only=True)
class SetReport:
    """One set: examples (rows as often as they were drawn), origins, examples by label and nuisance."""

    examples: int
    rows: int
    origins: int
    counts: tuple[tuple[int, ...], ...]
    empty: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        """The sizes of the groups that have an example."""
        return [count for row in self.counts for count in row if count]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is in a task; `str` makes a table of it.

    `empty` of a set names the groups that its protocol promises and that have no row.
    """

    task: str
    dataset: str
    sets: Mapping[str, SetReport]
    leaks: int
    labels: tuple[str, ...]
    nuisances: tuple[str, ...]

    def __str__(self) -> str:
        head = ("set", "examples", "rows", "origins", "groups", "smallest", "largest", "empty")
        lines = [self.task, f"of {self.dataset}", ""]
        lines.append(f"{head[0]:<16}" + "".join(f"{name:>10}" for name in head[1:]))
        for name, one in self.sets.items():
            sizes = one.sizes or [0]
            numbers = (
                one.examples,
                one.rows,
                one.origins,
                len(one.sizes),
                min(sizes),
                max(sizes),
                len(one.empty),
            )
            lines.append(f"{name:<16}" + "".join(f"{number:>10,}" for number in numbers))
        for name, one in self.sets.items():
            if one.empty:
                more = f" and {len(one.empty) - 8} more" if len(one.empty) > 8 else ""
                lines.append(f"empty in {name}: {', '.join(one.empty[:8])}{more}")
        lines.append(f"{self.leaks:,} origins leak" if self.leaks else "no origin is on two sides")
        return "\n".join(lines)

    def picture(self) -> Image.Image:
        """A heat map of each set, one below the other; labels and nuisances without examples are left out."""
        from PIL import Image

        parts = [self._drawn(name, one) for name, one in self.sets.items()]
        sheet = Image.new("RGB", (max(p.width for p in parts), sum(p.height for p in parts)), "white")
        y = 0
        for part in parts:
            sheet.paste(part, (0, y))
            y += part.height
        return sheet

    def _drawn(self, name: str, one: SetReport) -> Image.Image:
        from PIL import Image, ImageDraw

        rows = [y for y, row in enumerate(one.counts) if any(row)]
        columns = [x for x in range(len(self.nuisances)) if any(row[x] for row in one.counts)]
        if max(len(rows), len(columns)) > MOST_CELLS:
            raise InputError(
                f"{name} has {len(rows)} x {len(columns)} groups; a picture shows {MOST_CELLS} a side"
            )
        picture = Image.new("RGB", (MARGIN + len(columns) * SIDE, MARGIN + len(rows) * SIDE), "white")
        draw = ImageDraw.Draw(picture)
        draw.text((4, 4), f"{name}: {one.examples:,}", "black")
        for at, x in enumerate(columns):
            upright = Image.new("RGB", (MARGIN - 24, 12), "white")
            ImageDraw.Draw(upright).text((2, 0), self.nuisances[x][:20], "black")
            picture.paste(upright.rotate(90, expand=True), (MARGIN + at * SIDE + 10, 20))
        most = max(one.sizes, default=1)
        for down, y in enumerate(rows):
            draw.text((4, MARGIN + down * SIDE + 10), self.labels[y][:22], "black")
            for at, x in enumerate(columns):
                count = one.counts[y][x]
                left, top = MARGIN + at * SIDE, MARGIN + down * SIDE
                share = count / most
                fill = (round(222 - 214 * share), round(235 - 166 * share), round(247 - 99 * share))
                draw.rectangle(
                    (left, top, left + SIDE - 2, top + SIDE - 2), fill if count else (233, 233, 233)
                )
                shown = f"{count}" if count < 10_000 else f"{count // 1000}k"
                draw.text(
                    (left + SIDE // 2, top + SIDE // 2),
                    shown,
                    "white" if share > 0.5 else "black",
                    anchor="mm",
                )
        return picture
