"""Stylized Meta-Album in small, as the authors' code lays it out and as OpenML does; Meta-Album beside it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from builders.raw.sma import STYLE_NAMES
from builders.shifts.styles.bank import StyleBank
from tests.builders.replicas.drawing import picture, put, put_odd

#: Both contain `_`, and one ends in the name of a style.
LABELS = ("otter", "polar_bear", "sea_wave", "zebra")
EACH = 5


def make(root: Path, labels: Sequence[str] = LABELS, styles: Sequence[str] = STYLE_NAMES) -> dict[str, int]:
    """What the authors' code reads: content, styles, stylized; a content picture lacks one style."""
    counts, rows = dict.fromkeys(styles, 0), []
    for label in labels:
        for number in range(EACH):
            put(root, f"AWA_STY/content/{label}/{number}.jpg")
            for style in styles:
                place = f"stylized/{label}_{style}/{number}.png"  # the ending may differ
                rows.append(
                    {
                        "FILE_NAME": f"{number}.jpg",
                        "FILE_PATH": f"/home/somebody/AWA_STY/content/{label}/{number}.jpg",
                        "CATEGORY": label,
                        "STYLE": style,
                        "STYLE_PATH": f"/home/somebody/AWA_STY/styles/{style}/{number}.jpg",
                        "STYLIZED_PATH": f"/home/somebody/AWA_STY/{place}",
                    }
                )
                if (label, number, style) != (labels[0], 0, styles[0]):
                    put(root, f"AWA_STY/{place}")
                    counts[style] += 1
    for style in styles:
        put(root, f"AWA_STY/styles/{style}/0.jpg")
        put(root, f"AWA_STY/styles/{style}/0.jpg.pt", b"features")
    odd = put_odd(root, f"AWA_STY/stylized/{labels[1]}_{styles[1]}", ".png").values()
    rows += [
        {"FILE_NAME": Path(file).name, "CATEGORY": labels[1], "STYLE": styles[1], "STYLIZED_PATH": file}
        for file in odd
    ]
    counts[styles[1]] += len(odd)
    put(root, f"AWA_STY/stylized/{labels[0]}_cubism/0.png")
    put(root, "AWA_STY/labels.csv", table(rows))
    return counts


def make_openml(root: Path, name: str, version: str = "Mini", styles: Sequence[str] = STYLE_NAMES) -> None:
    """The form of Meta-Album for stylized pictures, which the release may have: flat, a category a group."""
    rows = []
    for label in LABELS:
        for number in range(EACH if version == "Extended" else EACH - 1):
            for style in styles:
                file = f"{label}_{style}_{number}.jpg"
                put(root, f"{name}_STY_{version}/images/{file}", picture(file))
                rows.append({"FILE_NAME": file, "CATEGORY": f"{label}_{style}", "SUPER_CATEGORY": label})
    put(root, f"{name}_STY_{version}/labels.csv", table(rows))


def make_meta_album(root: Path, labels: int = 2, each: int = 2) -> dict[str, int]:
    """Meta-Album's Mini of one set: renamed columns, endings in both cases, mojibake, a file gone."""
    rows, top = [], "BRD_Mini"
    for label in range(labels):
        for number in range(each):
            file = f"{label}_{number}.{'JPG' if number % 2 else 'jpg'}"
            put(root, f"{top}/images/{file}")
            rows.append({"image": file, "bird": f"Mésange {label}", "family": "NAN" if label else ""})
    odd = put_odd(root, f"{top}/images").values()
    rows += [{"image": Path(file).name, "bird": "MÃ©sange 0", "family": ""} for file in odd]
    rows.append({"image": "gone.jpg", "bird": "Mésange 0", "family": ""})
    put(root, f"{top}/images/unlisted.jpg")
    put(root, f"{top}/labels.csv", table(rows))
    info = {
        "dataset_name": "BRD",
        "total_categories": labels,
        "has_super_categories": False,
        "image_column_name": "image",
        "category_column_name": "bird",
        "super_category_column_name": "family",
    }
    put(root, f"{top}/info.json", json.dumps(info))
    return dict.fromkeys(StyleBank.load().names, len(rows) - 1)


def table(rows: Iterable[Mapping[str, str]]) -> str:
    """The text of a labels.csv."""
    rows = list(rows)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, dict.fromkeys(key for row in rows for key in row), restval="")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
