"""A part of the embedded emoji, for recipes that paint each picture with a network."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

from builders.albums.emoji import ASSETS


def few_classes(folder: Path, labels: Collection[str]) -> Path:
    """The assets of an `EmojiAlbum` that has these classes alone."""
    folder.mkdir()
    for path in ASSETS.iterdir():
        if path.name != "concepts.tsv":
            (folder / path.name).symlink_to(path)
    with (ASSETS / "concepts.tsv").open(encoding="utf-8", newline="") as every:
        rows = csv.DictReader(every, delimiter="\t")
        with (folder / "concepts.tsv").open("w", encoding="utf-8", newline="") as few:
            table = csv.DictWriter(few, rows.fieldnames or (), delimiter="\t", lineterminator="\n")
            table.writeheader()
            table.writerows(row for row in rows if row["label"] in labels)
    return folder
