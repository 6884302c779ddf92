"""The style pictures that a person should label, and a sheet of what each does to twenty pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

from builders.curate.content import SIDE, Content
from builders.shifts.styles.bank import style_picture
from builders.shifts.styles.listed import StylePicture, read_listed
from builders.shifts.stylizers import Stylizer
from builders.shifts.stylizers.vgg import middle_square
from shiftdata.data.executors import Executor
from shiftdata.errors import InputError
from shiftdata.evaluation import labels as tables
from shiftdata.evaluation.label_studio import task_of, write_project
from shiftdata.evaluation.labels import Label
from shiftdata.files import whole_file
from shiftdata.stable import ranks

GOOD, BAD = "good", "bad"
LABELS, SHEETS = "labels.csv", "sheets"
#: As in Stylized Meta-Album: a picture is good if what it paints stays recognisable in each of these.
STYLIZATIONS = 20
#: Tiles in a row of a sheet: the style picture and its stylizations fill three.
ACROSS = 7


def sample(out: Path, count: int) -> list[StylePicture]:
    """Write the table of labels to fill in, of pictures drawn evenly over styles; return those without label.

    Fewer are a part of more. Labels that the table has already stay.
    """
    file = out / LABELS
    given = [row for row in tables.read_labels(file) if row.label or row.who] if file.is_file() else []
    labelled = {row.key for row in given if row.label}
    drawn = sorted(picture for picture in _drawn(read_listed(out), count) if picture.file not in labelled)
    tables.write_labels(file, [*given, *(Label(picture.file, "") for picture in drawn)])
    return drawn


def read_labels(out: Path, file: Path) -> tuple[dict[str, str], list[str]]:
    """Return the label of each picture on which all agree, and the pictures on which people differ."""
    pictures, rows = {picture.file for picture in read_listed(out)}, tables.read_labels(file, (GOOD, BAD))
    for row in rows:
        if row.key not in pictures:
            raise InputError(f"{file}: {row.key!r} is not a picture of {out}: remove the row")
    return tables.settled(rows)


def _drawn(pictures: Sequence[StylePicture], count: int) -> list[StylePicture]:
    """One picture of each style, then a second picture, and so on; both in the order of their hashes."""
    styles = sorted({picture.style for picture in pictures})
    turn = dict(zip(styles, ranks(styles, "label", "style").tolist(), strict=True))
    order: list[tuple[int, int, StylePicture]] = []
    for style in styles:
        own = [picture for picture in pictures if picture.style == style]
        places = ranks([picture.sha256 for picture in own], "label").tolist()
        order += [(place, turn[style], picture) for place, picture in zip(places, own, strict=True)]
    return [picture for *_, picture in sorted(order)][:count]


def draw_sheets(
    out: Path,
    pictures: Sequence[StylePicture],
    content: Content,
    executor: Executor,
    on_done: Callable[[int], object],
    stylizer: Stylizer,
) -> Path:
    """Draw what each picture does to content, a sheet each, and write them as a project of Label Studio."""
    if not content.items:
        raise InputError(f"{content.reference} has no picture to stylize")
    for _ in executor.run(partial(_drawer, out, content, stylizer), pictures):
        on_done(1)
    tasks = [
        task_of(picture.file, sheet_of(out, picture).read_bytes(), picture.style) for picture in pictures
    ]
    write_project(out / SHEETS, tasks, (GOOD, BAD))
    return out / SHEETS


def sheet_of(out: Path, picture: StylePicture) -> Path:
    """Return the path of the sheet of a picture."""
    return (out / SHEETS / picture.file).with_suffix(".jpg")


def _drawer(out: Path, content: Content, stylizer: Stylizer) -> Callable[[StylePicture], None]:
    """Return a function that draws a sheet; made in the process that draws."""
    keys = [item.key for item in content.items]

    def draw(picture: StylePicture) -> None:
        order = [content.items[at] for at in np.argsort(ranks(keys, "sheet", picture.sha256))]
        source = style_picture(out / picture.file)
        code = stylizer.encode(source)
        tiles = [middle_square(source, SIDE)]
        for _, part in islice(content.pictures(order), STYLIZATIONS):
            tiles += stylizer.stylize(part, [code], [1.0])
        sheet = Image.new("RGB", (ACROSS * SIDE, -(-len(tiles) // ACROSS) * SIDE), "white")
        for number, tile in enumerate(tiles):
            sheet.paste(tile, (number % ACROSS * SIDE, number // ACROSS * SIDE))
        with whole_file(sheet_of(out, picture)) as temporary:
            sheet.save(temporary, "JPEG", quality=90)

    return draw
