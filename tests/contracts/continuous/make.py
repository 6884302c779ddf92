"""20 shapes a label."""

from pathlib import Path

from tests.contracts.shapes import draw_shapes


def make(folder: Path) -> None:
    draw_shapes(folder / "pictures", per_label=20)
