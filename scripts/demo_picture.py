"""Draw the demo: what a network trains on, what it reads in each group, and where it is wrong.

make demo                                       draws build/sma_glyphs_k8.png
python scripts/demo_picture.py docs/demo.png    another file: the first picture of the README
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image, ImageDraw, ImageFont

import shiftdata as sd

BUILD = Path(__file__).resolve().parent.parent / "build"
NAME = "sma_glyphs_k8"
#: Pixels; pages show the picture at half its size. Its own ground suits light and dark pages.
SIDE, GAP, PADDING, TITLE, ERRORS = 60, 4, 32, 64, 224
GROUND, INK, QUIET = (24, 27, 38), (240, 242, 248), (160, 167, 186)
WRONG, RIGHT = np.array([240, 130, 60]), np.array([38, 62, 110])
LOWEST = 0.7  # the accuracy that has the full colour of an error
FADED = 0.22  # how much is left of a picture whose group is rare in training


def main() -> None:
    task = sd.task(BUILD / "shift" / NAME, "group-fairness", k=8, mu=0.1)
    predictions = BUILD / "runs" / "erm" / "predictions-test.parquet"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / f"{NAME}.png"
    draw(task, predictions).quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)


def draw(task: sd.Task, predictions: Path) -> Image.Image:
    result = task.evaluate(predictions).groups
    matrix = len(task.labels) * (SIDE + GAP) - GAP
    train_left = PADDING + 36
    test_left = train_left + matrix + 32
    errors_left = test_left + matrix + 48
    size = (errors_left + ERRORS + PADDING // 2, 2 * PADDING + TITLE + matrix)
    sheet = Image.new("RGB", size, GROUND)
    pen = ImageDraw.Draw(sheet)
    text(pen, train_left, "Training: each letter mostly in one style")
    draw_training(sheet, task, train_left)
    accuracies = dict(zip(map(str, result.names or ()), result.accuracy, strict=True))
    text(pen, test_left, f"Test: accuracy of ERM, mean {100 * result.mean:.0f} %")
    draw_accuracies(pen, accuracies, str(result.worst_group), test_left)
    text(pen, errors_left, f"Worst: {100 * result.worst:.0f} %")
    draw_errors(sheet, task, predictions, str(result.worst_group), errors_left)
    return sheet


def draw_training(sheet: Image.Image, task: sd.Task, left: int) -> None:
    """A training picture of each letter and style, faded where the group is rare."""
    examples = task.dataset("train", size=SIDE)
    groups = np.asarray(examples.known["group"])
    counts = np.bincount(groups)
    pen = ImageDraw.Draw(sheet)
    names = examples.names["group"]
    for row, label in enumerate(task.labels):
        pen.text((left - 28, top(row) + SIDE // 2), label, QUIET, font(26), anchor="mm")
        mine = [group for group in np.flatnonzero(counts).tolist() if names[group].startswith(f"{label} / ")]
        for column, group in enumerate(mine):
            example, *_ = examples[int(np.flatnonzero(groups == group)[0])]
            picture = Image.fromarray(example)
            if counts[group] < counts.max() / 4:
                picture = Image.blend(Image.new("RGB", picture.size, GROUND), picture, FADED)
            sheet.paste(picture, (left + column * (SIDE + GAP), top(row)))


def draw_accuracies(pen: ImageDraw.ImageDraw, accuracy: dict[str, float], worst: str, left: int) -> None:
    """The accuracy of each group, from blue to orange as it falls; the worst has a frame."""
    labels = list(dict.fromkeys(name.split(" / ")[0] for name in accuracy))
    styles = list(dict.fromkeys(name.split(" / ")[1] for name in accuracy))
    for name, value in accuracy.items():
        label, style = name.split(" / ")
        x, y = left + styles.index(style) * (SIDE + GAP), top(labels.index(label))
        share = np.clip((1 - value) / (1 - LOWEST), 0, 1)
        colour = tuple((share * WRONG + (1 - share) * RIGHT).astype(int).tolist())
        frame = INK if name == worst else colour
        pen.rectangle((x, y, x + SIDE - 1, y + SIDE - 1), colour, frame, width=4)
        ink = GROUND if share > 0.55 else INK
        pen.text((x + SIDE // 2, y + SIDE // 2), f"{100 * value:.0f}", ink, font(26), anchor="mm")


def draw_errors(sheet: Image.Image, task: sd.Task, predictions: Path, group: str, left: int) -> None:
    """The first wrong pictures of a group, and the letter that each is taken for."""
    examples = task.dataset("test", size=2 * SIDE)
    columns = pq.read_table(predictions).to_pydict()
    read = dict(zip(columns["key"], columns["prediction"], strict=True))
    rows = np.flatnonzero(
        np.asarray(examples.known["group"]) == examples.names["group"].index(group)
    ).tolist()
    wrong = [row for row, key in zip(rows, examples.keys(rows), strict=True) if read[key] != group[0]]
    pen = ImageDraw.Draw(sheet)
    pen.text((left, top(0) + 12), group, QUIET, font(22), anchor="lm")
    for place, (row, key) in enumerate(zip(wrong[:3], examples.keys(wrong[:3]), strict=True)):
        y = top(0) + 40 + place * (2 * SIDE + 36)
        example, *_ = examples[row]
        sheet.paste(Image.fromarray(example), (left, y))
        pen.text((left + 2 * SIDE + 14, y + SIDE - 30), "read as", QUIET, font(22), anchor="lm")
        pen.text(
            (left + 2 * SIDE + 14, y + SIDE + 10), read[key], tuple(WRONG.tolist()), font(44), anchor="lm"
        )


def text(pen: ImageDraw.ImageDraw, left: int, words: str) -> None:
    pen.text((left, PADDING + TITLE // 2 - 8), words, INK, font(27), anchor="lm")


def top(row: int) -> int:
    return PADDING + TITLE + row * (SIDE + GAP)


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font that comes with Pillow: the same on every machine."""
    return ImageFont.load_default(size)


if __name__ == "__main__":
    main()
