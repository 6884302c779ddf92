"""`styles sample`: which pictures are labelled, and their sheets."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.curate.content import SIDE, Content
from builders.curate.labelling import LABELS, draw_sheets, read_labels, sample, sheet_of
from builders.shifts.styles.bank import style_picture, style_pictures
from builders.shifts.styles.listed import read_listed, write_listed
from builders.shifts.stylizers import Arbitrary
from shiftdata.data.executors import Here
from shiftdata.errors import InputError
from tests.builders.curate.conftest import EACH, STYLES


def rows(out: Path) -> list[dict[str, str]]:
    with (out / LABELS).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def fill(out: Path, labels: dict[str, str]) -> None:
    """As a person does, in a spreadsheet that separates by semicolons and begins with a mark."""
    lines = [f"{row['key']};{labels.get(row['key'], '')};;" for row in rows(out)]
    (out / LABELS).write_text("\ufeffkey;label;who;when\n" + "\n".join(lines), encoding="utf-8")


def test_pictures_are_drawn_evenly_over_styles_and_fewer_are_part_of_more(out: Path) -> None:
    drawn = {}
    for count in (1, 4, 10, 22, 99):
        (out / LABELS).unlink(missing_ok=True)
        drawn[count] = {one.file for one in sample(out, count)}
        sizes = Counter(file.partition("/")[0] for file in drawn[count])
        assert max(sizes.values()) - min(sizes.get(style, 0) for style in STYLES) <= 1
        assert [row["key"] for row in rows(out)] == sorted(drawn[count])
        assert {row["label"] for row in rows(out)} == {""}
    assert [len(one) for one in drawn.values()] == [1, 4, 10, 22, len(STYLES) * EACH]
    assert drawn[1] < drawn[4] < drawn[10] < drawn[22] < drawn[99]


def test_a_style_with_few_pictures_leaves_its_share_to_the_others(out: Path) -> None:
    write_listed(out, [one for n, one in enumerate(read_listed(out)) if n < 2 or n >= EACH])
    sizes = Counter(one.style for one in sample(out, 20))
    assert sizes == {"aurora": 2, "dawn": 6, "swamp": 6, "waves": 6}


def test_labels_that_are_there_stay(out: Path) -> None:
    first = sorted(one.file for one in sample(out, 12))
    fill(out, {first[0]: "good", first[5]: " Bad "})
    todo = {one.file for one in sample(out, 16)}
    assert {row["key"]: row["label"] for row in rows(out) if row["label"]} == {
        first[0]: "good",
        first[5]: "bad",
    }
    assert len(rows(out)) == 16
    assert todo == {row["key"] for row in rows(out)} - {first[0], first[5]}
    sample(out, 1)
    assert {first[0], first[5]} <= {row["key"] for row in rows(out)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "dawn/none.png,good,,",
            r"labels.csv: 'dawn/none.png' is not a picture of .*: remove the row",
        ),
        ("{file},fine,,", "labels.csv, line 2: the label 'fine' is not one of good, bad"),
        ("{file}", "labels.csv, line 2: 1 cells, and the header has 4"),
    ],
)
def test_labels_that_cannot_be_used_name_their_row(out: Path, line: str, message: str) -> None:
    file = read_listed(out)[0].file
    (out / LABELS).write_text(f"key,label,who,when\n{line.format(file=file)}\n")
    with pytest.raises(InputError, match=message.format(file=file)):
        read_labels(out, out / LABELS)


def tiles(file: Path) -> list[np.ndarray]:
    with Image.open(file) as sheet:
        assert sheet.size == (7 * SIDE, 3 * SIDE)
        corners = [(x, y) for y in range(0, 3 * SIDE, SIDE) for x in range(0, 7 * SIDE, SIDE)]
        return [np.asarray(sheet.crop((x, y, x + SIDE, y + SIDE)), float) for x, y in corners]


def test_a_sheet_has_the_picture_and_twenty_stylizations(out: Path, shapes: Path) -> None:
    picture, other = sample(out, 2)
    content, stylizer, done = Content(str(shapes)), Arbitrary(), []
    draw_sheets(out, [picture, other], content, Here(), done.append, Arbitrary())
    assert done == [1, 1]
    drawn = []
    for one in (picture, other):
        code = stylizer.encode(style_picture(out / one.file))
        made = [stylizer.stylize(part, [code], [1.0])[0] for _, part in content.pictures(content.items)]
        painted = np.stack([np.asarray(part, float) for part in made])
        apart = [np.abs(painted - tile).mean(axis=(1, 2, 3)) for tile in tiles(sheet_of(out, one))[1:]]
        assert max(row.min() for row in apart) < 6  # what JPEG leaves of it
        drawn.append({int(row.argmin()) for row in apart})
    assert [len(one) for one in drawn] == [20, 20]
    assert drawn[0] != drawn[1]  # of 32
    assert list(style_pictures(out)) == list(STYLES)  # sheets are not style pictures
