"""Draw what the demo's methods reach by group, and letters of the group that ERM reads worst."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

import shiftdata as sd
from shiftdata.evaluation.charts import INK, PADDING, PAPER, font
from shiftdata.evaluation.tasks import Evaluation

BUILD = Path(__file__).resolve().parent.parent / "build"
NAME = "sma_glyphs_k8"
METHODS = {"erm": "ERM", "rwg": "RWG", "group-dro": "GroupDRO"}
SHOWN, LINE = 12, 24


def main() -> None:
    task = sd.task(BUILD / "shift" / NAME, "group-fairness", k=8, mu=0.1)
    files = {name: BUILD / "runs" / method / "predictions-test.parquet" for method, name in METHODS.items()}
    results = {name: task.evaluate(file) for name, file in files.items()}
    maps = [titled(name, result) for name, result in results.items()]
    columns = {name: pq.read_table(file).to_pydict() for name, file in files.items()}
    said = {name: dict(zip(one["key"], one["prediction"], strict=True)) for name, one in columns.items()}
    path = BUILD / f"{NAME}_methods.png"
    above(beside(maps), letters(task, str(results["ERM"].groups.worst_group), said)).save(path)
    print(path.relative_to(BUILD.parent))


def titled(name: str, result: Evaluation) -> Image.Image:
    """A method's accuracy by letter and style, under its name and what it comes to."""
    text = f"{name}: mean {100 * result.mean:.0f} %, worst group {100 * result.worst:.0f} %"
    return above(line(text), result.picture("label", "style"))


def letters(task: sd.Task, group: str, said: dict[str, dict[str, str]]) -> Image.Image:
    """The first test pictures of a group, and what each method takes them for."""
    examples = task.dataset("test", size=64)
    rows = np.flatnonzero(examples.known["group"] == examples.names["group"].index(group))[:SHOWN].tolist()
    columns = []
    for (x, *_), key in zip((examples[row] for row in rows), examples.keys(rows), strict=True):
        column = Image.fromarray(x)
        for read in said.values():
            column = above(column, line(f" {read[key]}" + ("" if read[key] == group[0] else ", wrong")))
        columns.append(column)
    names = above(Image.new("RGB", (64, 64), PAPER), *map(line, said))
    text = f"{SHOWN} test pictures of {group}, ERM's worst group, and what each method takes them for"
    return above(line(text), beside([names, *columns]))


def line(text: str) -> Image.Image:
    picture = Image.new("RGB", (round(font().getlength(text)) + 2 * PADDING, LINE), PAPER)
    ImageDraw.Draw(picture).text((PADDING, LINE // 2), text, INK, font(), anchor="lm")
    return picture


def beside(pictures: list[Image.Image]) -> Image.Image:
    width, height = (
        sum(picture.width + PADDING for picture in pictures),
        max(picture.height for picture in pictures),
    )
    sheet, x = Image.new("RGB", (width, height), PAPER), 0
    for picture in pictures:
        sheet.paste(picture, (x, 0))
        x += picture.width + PADDING
    return sheet


def above(*pictures: Image.Image) -> Image.Image:
    width, height = max(picture.width for picture in pictures), sum(picture.height for picture in pictures)
    sheet, y = Image.new("RGB", (width, height), PAPER), 0
    for picture in pictures:
        sheet.paste(picture, (0, y))
        y += picture.height
    return sheet


if __name__ == "__main__":
    main()
