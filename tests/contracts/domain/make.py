"""Shapes on three papers; no picture is on two of them, and one group is missing."""

import shutil
from pathlib import Path

from tests.contracts.shapes import draw_shapes

PAPERS = {"night": (20, 20, 60, 255), "paper": (240, 235, 220, 255), "sand": (220, 190, 120, 255)}


def make(folder: Path) -> None:
    for number, (domain, paper) in enumerate(PAPERS.items()):
        draw_shapes(folder / "pictures" / domain, per_label=20 + number, paper=paper)
    shutil.rmtree(folder / "pictures" / "sand" / "wedge")
