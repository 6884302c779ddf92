"""Which style pictures a person should label, and what each does to twenty pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from PIL import Image

from builders.curate.content import SIDE, Content
from builders.shifts.styles.bank import style_picture
from builders.shifts.styles.listed import StylePicture, read_listed
from builders.shifts.stylizers import Stylizer
from builders.shifts.stylizers.vgg import middle_square
from shiftdata.data.executors import Executor
from shiftdata.errors import InputError
from shiftdata.evaluation.labelling import table
from shiftdata.evaluation.labelling.purposes import STYLES
from shiftdata.evaluation.labelling.styles import LABELS, SHEETS
from shiftdata.evaluation.labelling.writing import open_labels
from shiftdata.files import whole_file
from shiftdata.stable import content_hash, ranks

GOOD, BAD = STYLES.labels
#: As in Stylized Meta-Album: a picture is good if what it paints stays recognisable in each of so many.
STYLIZATIONS = 20
#: Tiles in a row of a sheet: the style picture and its stylizations fill three.
ACROSS = 7
#: Raised when the same pictures make another sheet.
SHEET_VERSION = 1


def sample(out: Path, count: int) -> list[StylePicture]:
    """Write the table of labels to fill in, of pictures drawn evenly over styles; give those without label.

    Fewer are a part of more. Labels that the table has already stay.
    """
    pictures, file = read_listed(out), out / LABELS
    labels, differ = read_labels(out, file) if file.is_file() else ({}, [])
    drawn = [one for one in _drawn(pictures, count) if one.file not in {*labels, *differ}]
    with open_labels(file, STYLES) as labelled:
        labelled.ask_for(one.file for one in drawn)
    return sorted(drawn)


def read_labels(out: Path, file: Path) -> tuple[dict[str, str], list[str]]:
    """The label of each picture on which all agree who labelled it; the pictures on which people differ."""
    known, rows = {one.file for one in read_listed(out)}, table.read_labels(file, STYLES.labels)
    for row in rows:
        if row.key[0] not in known:
            raise InputError(
                f"{file}, line {row.line}: {row.key[0]!r} is not a picture of {out}: remove the row"
            )
    labels, differ = table.settled(rows)
    return {name: label for (name,), label in labels.items()}, [name for (name,) in differ]


def _drawn(pictures: Sequence[StylePicture], count: int) -> list[StylePicture]:
    """One picture of each style, then a second one, and so on; both in the order of their hashes."""
    styles = sorted({one.style for one in pictures})
    turn = dict(zip(styles, ranks(styles, "label", "style").tolist(), strict=True))
    order: list[tuple[int, int, StylePicture]] = []
    for style in styles:
        own = [one for one in pictures if one.style == style]
        places = ranks([one.sha256 for one in own], "label").tolist()
        order += [(place, turn[style], one) for place, one in zip(places, own, strict=True)]
    return [one for *_, one in sorted(order)][:count]


def draw_sheets(
    out: Path,
    pictures: Sequence[StylePicture],
    content: Content,
    executor: Executor,
    on_done: Callable[[int], object],
    stylizer: Stylizer,
) -> Path:
    """Draw what each picture does to content, a sheet each; those that are there already stay."""
    if not content.items:
        raise InputError(f"{content.reference} has no picture to stylize")
    identity = content_hash(content.fingerprint(), stylizer.fingerprint(), str(SHEET_VERSION))
    missing = [one for one in pictures if not _is_drawn(_sheet(out, one), identity)]
    on_done(len(pictures) - len(missing))
    for _ in executor.run(partial(_drawer, out, content, identity, stylizer), missing):
        on_done(1)
    return out / SHEETS


def _sheet(out: Path, picture: StylePicture) -> Path:
    return (out / SHEETS / picture.file).with_suffix(".jpg")


def _is_drawn(file: Path, identity: str) -> bool:
    """Whether a sheet is there, of this content and network."""
    if not file.is_file():
        return False
    try:
        with Image.open(file) as sheet:
            return bool(sheet.info.get("comment") == identity.encode())
    except OSError:
        return False


def _drawer(out: Path, content: Content, identity: str, stylizer: Stylizer) -> Callable[[StylePicture], None]:
    """What draws a sheet, in a process."""
    keys = [item.key for item in content.items]

    def draw(picture: StylePicture) -> None:
        places = ranks(keys, "sheet", picture.sha256).tolist()
        order = [item for _, item in sorted(zip(places, content.items, strict=True), key=lambda one: one[0])]
        source = style_picture(out / picture.file)
        code = stylizer.encode(source)
        tiles = [middle_square(source, SIDE)]
        for _, one in islice(content.pictures(order), STYLIZATIONS):
            tiles += stylizer.stylize(one, [code], [1.0])
        sheet = Image.new("RGB", (ACROSS * SIDE, -(-len(tiles) // ACROSS) * SIDE), "white")
        for number, tile in enumerate(tiles):
            sheet.paste(tile, (number % ACROSS * SIDE, number // ACROSS * SIDE))
        with whole_file(_sheet(out, picture)) as temporary:
            sheet.save(temporary, "JPEG", quality=90, comment=identity)

    return draw
