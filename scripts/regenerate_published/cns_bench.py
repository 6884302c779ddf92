"""The tables of CNS-Bench's appendix."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reading import Cell, Table, Text, cells_of, name_of, said

from shiftdata.bench.papers.numbers import TEXT


def tables(text: Text) -> Iterator[Table]:
    """Every table."""
    yield _models(text)
    yield _accuracy(text)
    yield _failures(text)
    yield _filtering(text)
    yield _weather(text)
    yield said(text, STATED)


STATED = [
    ("images", r"dataset contains ([\d,]+) images in total", "images", "count"),
    ("images per scale", r"with ([\d,]+) for each of the six scales", "images", "count"),
    ("shifts", r"averaged over the following (\d+) shifts", "shifts", "count"),
    ("images before filtering", r"Originally, ([\d,]+) images were", "images", "count"),
    ("classes", r"(\d+) classes, 50 seeds, and 6 scales", "classes", "count"),
    ("seeds", r"100 classes, (\d+) seeds, and 6 scales", "seeds", "count"),
    ("scales", r"50 seeds, and (\d+) scales", "scales", "count"),
    ("images to label, thousands", r"step \(iii\), ([\d.]+)k images remain", "thousand images", "count"),
]


def _models(text: Text) -> Table:
    """Table 1 describes models; the sizes that it lists are counted."""
    table = Table("1", "Models: architecture, supervision, dataset", "A.3")
    (_, header), *rows = text.below(text.find("Table 1:"))
    for line, row in rows:
        model, *cells = cells_of(row)
        for column, cell in zip(cells_of(header)[1:], cells, strict=True):
            table.add([cell], [column], Cell("", model, "", column.lower(), "", TEXT, line))
        sizes = re.search(r"\((.*)\)", cells[0])
        count = len(sizes[1].split(",")) if sizes else 1
        table.add([str(count)], ["models, counted"], Cell("", model, "", "count", "", "models", line))
        if patch := re.search(r"/(\d+)$", cells[0]):
            table.add([patch[1]], ["patch"], Cell("", model, "", "patch size", "", "pixels", line))
    return table


def _accuracy(text: Text) -> Table:
    table = Table("2", "Accuracy and its drop at each scale, over 14 shifts", "A.3")
    _, _, (_, scales), *rows = text.below(text.find("Table 2:"))
    columns = cells_of(scales)[1:]
    cut = columns.index("avg") + 1
    for line, row in rows:
        model, *cells = cells_of(row)
        make = Cell("accuracy", model, "", "accuracy", "", "share", line, model)
        table.add(cells[:cut], columns[:cut], make)
        make = Cell("accuracy drop", model, "", "accuracy drop", "", "share", line, model)
        table.add(cells[cut:], columns[cut:], make)
    return table


def _failures(text: Text) -> Table:
    table = Table("3", "Share of failure points at each scale", "A.3")
    _, (_, scales), *rows = text.below(text.find("Table 3:"))
    for line, row in rows:
        model, *cells = cells_of(row)
        make = Cell("", model, "", "failure share", "", "share", line, model)
        table.add(cells, cells_of(scales)[1:], make)
    return table


def _filtering(text: Text) -> Table:
    table = Table("4", "Images left after each stage of filtering the labelling set", "A.5.1")
    (_, header), *rows = text.below(text.find("Table 4:"))
    for line, row in rows:
        scale, *cells = cells_of(row)
        make = Cell("", f"scale {scale}", "", "images", "", "images", line)
        table.add(cells, [name_of(cell) for cell in cells_of(header)[1:]], make)
    return table


def _weather(text: Text) -> Table:
    table = Table("5", "Images and accuracy of the weather subset of OOD-CV", "A.7")
    _, *rows = text.below(text.find("Table 5:"))
    for line, row in rows:
        shift, images, accuracy = cells_of(row)
        table.add([images], ["#images"], Cell("", shift, "", "images", "", "images", line))
        table.add([accuracy], ["Accuracy"], Cell("", shift, "", "accuracy", "", "%", line))
    return table
