"""Stylized Meta-Album in small, as the authors' code lays it out and as OpenML does; Meta-Album beside it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from builders.albums.folder import hash_digits
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
    path = f"{name}_STY_{version}/images/{{label}}_{{style}}_{{n}}.jpg"
    columns = {"FILE_NAME": "{file}", "CATEGORY": "{label}_{style}", "SUPER_CATEGORY": "{label}"}
    form = Form(path, columns, f"{name}_STY_{version}/labels.csv")
    form.make(root, LABELS, EACH if version == "Extended" else EACH - 1, styles)


@dataclass(frozen=True)
class Form:
    """A form that the release of SMA may have: paths of pictures, and a table of these columns.

    `{n}` numbers the untouched picture of a class; `{hash}` and `{row}` say nothing of it. `content` is the
    path of untouched pictures, if they are there. The rows are ordered by the keys of `order`.
    """

    path: str
    columns: Mapping[str, str] = field(default_factory=dict)
    table: str = "BRD_STY_Mini/labels.csv"
    content: str = ""
    order: Sequence[str] = ("label", "style", "n")
    zipped: str = ""

    def make(self, root: Path, labels: Sequence[str], each: int, styles: Sequence[str]) -> dict[str, str]:
        """Write it; return class and number of the untouched picture by the hash of each file."""
        names = [""] * bool(self.content) + [*styles]
        rows = [
            {"label": label, "style": style, "n": n}
            for label in labels
            for style in names
            for n in range(each)
        ]
        for row in rows:
            row["hash"] = hash_digits("{label} {n} {style}".format(**row), 12)
        rows.sort(key=lambda row: [row[key] for key in self.order])
        listed, truth = [], {}
        for number, row in enumerate(rows):
            file = (self.path if row["style"] else self.content).format(**row, row=f"{number:06}")
            data = picture("{label} {n} {style}".format(**row))
            truth[hashlib.sha256(data).hexdigest()] = "{label} {n}".format(**row)
            put(root, file, data)
            values = {"file": file.rpartition("/")[2], "path": file, **row}
            listed.append({name: text.format(**values) for name, text in self.columns.items()})
        if self.zipped:
            files = list(root.rglob("*.jpg"))
            with zipfile.ZipFile(root / self.zipped, "w") as archive:
                for path in files:
                    archive.write(path, path.relative_to((root / self.zipped).parent))
                    path.unlink()
        if self.columns and self.table.endswith(".csv"):
            put(root, self.table, table(listed))
        elif self.columns:
            pq.write_table(pa.Table.from_pylist(listed), root / self.table)
        return truth


_FLAT = "BRD_STY_Mini/images/"
_OPAQUE = {"FILE_NAME": "{file}", "CATEGORY": "{label}"}
_AUTHORS = {"FILE_NAME": "{n}.jpg", "CATEGORY": "{label}", "STYLE": "{style}"}
#: Forms in which names or columns say which picture was painted.
NAMED_FORMS = {
    "the authors' tree": Form("stylized/{label}_{style}/{n}.jpg", content="content/{label}/{n}.jpg"),
    "a prefix in the tree": Form(
        "BRD/stylized/{label}_{style}/{style}_{n}.jpg", content="BRD/content/{label}/{n}.jpg"
    ),
    "groups alone": Form("{label}_{style}/{n}.jpg"),
    "styles in classes": Form("data/stylized/{label}/{style}/{n}.jpg"),
    "classes in styles": Form("{style}/{label}/{n}.jpg"),
    "a table of paths": Form(
        "BRD_STY/stylized/{label}_{style}/{n}.jpg",
        {"STYLIZED_PATH": "{label}_{style}/{n}.jpg", "CATEGORY": "{label}", "STYLE": "{style}"},
        "BRD_STY/labels.csv",
    ),
    "a table of names, with content": Form(
        "stylized/{label}_{style}/{n}.jpg",
        {**_AUTHORS, "FILE_PATH": "/home/them/content/{label}/{n}.jpg"},
        "labels.csv",
        content="content/{label}/{n}.jpg",
    ),
    "all examples of the benchmark": Form(
        "plt/stylized/{label}_{style}/{n}.jpg",
        {"class": "{label}", "style": "{style}", "original_name": "{n}.jpg", "filename": "{path}"},
        "plt/ALL_EXAMPLES_plt.csv",
    ),
    "a category a group": Form(
        _FLAT + "{label}_{style}_{n}.jpg",
        {"FILE_NAME": "{file}", "CATEGORY": "{label}_{style}", "SUPER_CATEGORY": "NAN"},
    ),
    "numbers of all, and of a group": Form(
        _FLAT + "{row}_{n}.jpg", {"FILE_NAME": "{file}", "CATEGORY": "{label}_{style}"}
    ),
    "flat, and a column of content": Form(
        _FLAT + "{hash}.jpg", {**_OPAQUE, "STYLE": "{style}", "ORIGINAL_NAME": "img{n}.png"}, order=("hash",)
    ),
    "Parquet next to pictures": Form(
        _FLAT + "{n}-{style}-{label}.jpg",
        {**_OPAQUE, "SUPER_CATEGORY": "{style}"},
        "BRD_STY_Mini/dataset.pq",
    ),
    "a zip next to the table": Form(
        "images/{label}_{n}__{style}.jpg", {**_OPAQUE, "STYLE": "{style}"}, "labels.csv", zipped="images.zip"
    ),
    "a table above the zip": Form(
        _FLAT + "{label}_{n}__{style}.jpg",
        {**_OPAQUE, "STYLE": "{style}"},
        "dataset_46034.pq",
        zipped="BRD_STY_Mini.zip",
    ),
}
#: Forms in which nothing says it but the order of rows.
ORDERED_FORMS = {
    "a group as category": Form(_FLAT + "{row}.jpg", {"FILE_NAME": "{file}", "CATEGORY": "{label}_{style}"}),
    "hashes in stretches": Form(_FLAT + "{hash}.png", {**_OPAQUE, "SUPER_CATEGORY": "{style}"}),
    "numbers in rounds": Form(
        _FLAT + "{row}.jpg", {**_OPAQUE, "STYLE": "{style}"}, order=("label", "n", "style")
    ),
    "folders and columns of other names": Form(
        "BRD/pictures/{row}.jpg", {"image": "{file}", "class": "{label}", "domain": "{style}"}, "BRD/meta.csv"
    ),
    "with content": Form(
        "images/{hash}.jpg", {**_OPAQUE, "STYLE": "{style}"}, "labels.csv", content="images/{hash}.jpg"
    ),
}
#: Forms in which nothing says it.
OPAQUE_FORMS = {
    "hashes in their own order": Form(_FLAT + "{hash}.jpg", {**_OPAQUE, "STYLE": "{style}"}, order=("hash",)),
    "hashes in the order of names": Form(
        _FLAT + "{hash}.jpg", {**_OPAQUE, "STYLE": "{style}"}, order=("label", "style", "hash")
    ),
    "hashes in folders": Form("stylized/{label}_{style}/{hash}.jpg", content="content/{label}/{hash}.jpg"),
}


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
