"""Labels of style pictures: of a folder that `python -m builders styles` wrote, or `<style>/<picture>`."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

from shiftdata.data.format.names import line_fault
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.labelling.purposes import STYLES
from shiftdata.evaluation.labelling.table import Key, read_labels
from shiftdata.evaluation.labelling.work import Item, Shown
from shiftdata.files import open_regular
from shiftdata.stable import ranks
from shiftdata.tables import from_csv_cell

LISTED, LABELS, SHEETS = "styles.tsv", "labels.csv", "sheets"
ENDINGS = (".jpg", ".jpeg", ".png", ".webp")
#: Bytes of a picture at most.
MOST_BYTES = 20_000_000


class StylePictures:
    """Style pictures in an order by stable hash, each beside the sheet of what it paints, if there is one.

    Of a folder whose `labels.csv` names pictures, as `styles sample` writes it, those; else all.
    """

    purpose = STYLES

    def __init__(self, folder: Path, *, seed: int = 0) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder of style pictures, <style>/<picture>")
        self.folder = folder
        self._files = frozenset(_listed(folder) if (folder / LISTED).is_file() else _walked(folder))
        if not self._files:
            raise InputError(f"{folder} has no pictures <style>/<picture> ({', '.join(ENDINGS)})")
        table = folder / LABELS
        named = {row.key[0] for row in read_labels(table, self.purpose.labels)} if table.is_file() else set()
        chosen = sorted(named & self._files or self._files)
        places = ranks(chosen, "label", seed).tolist()
        self._order = [file for _, file in sorted(zip(places, chosen, strict=True))]
        self.keys: list[Key] = [(file,) for file in self._order]
        self.title = f"Style pictures of {folder.absolute().name}"

    def item(self, number: int) -> Item:
        file = self._order[number]
        style = file.partition("/")[0]
        pictures = [Shown(style)]
        if self._sheet(file).is_file():
            pictures = [Shown("what it paints; the style picture comes first")]
        return Item(title=file, facts={"style": style}, pictures=pictures)

    def picture(self, number: int, place: int) -> bytes:
        if place:
            raise NotFoundError(f"picture {place} does not exist here")
        file = self._order[number]
        sheet = self._sheet(file)
        with open_regular(sheet if sheet.is_file() else self.folder / file) as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"{file} has more than {MOST_BYTES:,} bytes")
        return data

    def knows(self, key: Key) -> bool:
        return key[0] in self._files

    def _sheet(self, file: str) -> Path:
        return (self.folder / SHEETS / file).with_suffix(".jpg")


def _listed(folder: Path) -> Sequence[str]:
    """The files that a table names, each below the folder of its style."""
    with (folder / LISTED).open(encoding="utf-8-sig", newline="") as stream:
        cells = [one.get("file") for one in csv.DictReader(stream, delimiter="\t")]
    files = [from_csv_cell(one or "") for one in cells]
    for file in files:
        if (
            line_fault(file)
            or len(parts := file.split("/")) != 2
            or not all(part.strip(".") for part in parts)
        ):
            raise InputError(f"{folder / LISTED}: {file!r:.100} is not a file <style>/<picture>")
        if not (folder / file).is_file():
            raise InputError(f"{folder / LISTED}: there is no {file}: run `styles get` again")
    return files


def _walked(folder: Path) -> Sequence[str]:
    """The pictures that lie in the folders of styles."""
    files = []
    for style in sorted(os.listdir(folder)):
        if style == SHEETS or style.startswith(".") or not (folder / style).is_dir():
            continue
        for name in sorted(os.listdir(folder / style)):
            file = f"{style}/{name}"
            if not name.startswith(".") and name.lower().endswith(ENDINGS):
                if fault := line_fault(file):
                    raise InputError(f"the file {file!r:.100} of {folder} {fault}: rename it")
                files.append(file)
    return files
