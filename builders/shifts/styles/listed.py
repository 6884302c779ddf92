"""The table `styles.tsv` of a folder of style pictures: what each is, and where it is from."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from builders.albums.table_file import read_table_file
from shiftdata.errors import InputError
from shiftdata.files import whole_file
from shiftdata.tables import csv_cell, from_csv_cell

LISTED = "styles.tsv"
#: Columns of the table that a bank of codes has too.
PROVENANCE = ("source", "sha256", "license", "attribution")


@dataclass(frozen=True, kw_only=True, order=True)
class StylePicture:
    """A row of the table; `file` is `<style>/<name>`, below the folder of the table."""

    style: str
    file: str
    source: str
    sha256: str
    license: str = ""
    attribution: str = ""


COLUMNS = tuple(field.name for field in fields(StylePicture))


def read_listed(folder: Path, *, whole: bool = True) -> tuple[StylePicture, ...]:
    """The pictures that the table of a folder lists, by style and file; if `whole`, each must be there."""
    table, pictures = folder / LISTED, []
    if not table.is_file():
        raise InputError(
            f"{folder} has no {LISTED}: make such a folder by `python -m builders styles get LIST {folder}`"
        )
    for place, row in read_rows(table, COLUMNS):
        name = row["file"].removeprefix(f"{row['style']}/")
        if row["file"] == name or name != Path(name).name or name == ".." or "/" in row["style"]:
            raise InputError(
                f"{table}, {place}: {row['file']!r} is not a file <style>/<picture> of its style"
            )
        if whole and not (folder / row["file"]).is_file():
            raise InputError(f"{table}, {place}: there is no {row['file']}: run `styles get` again")
        pictures.append(StylePicture(**row))
    if not pictures:
        raise InputError(f"{table} lists no picture: run `styles get` again")
    return tuple(sorted(pictures))


def write_listed(folder: Path, pictures: Iterable[StylePicture]) -> None:
    """Write the table of a folder."""
    write_rows(folder / LISTED, COLUMNS, map(astuple, sorted(pictures)))


def provenance_of(folder: Path) -> dict[str, list[str]]:
    """Return the columns that say where the pictures of a folder are from; none without the table."""
    pictures = read_listed(folder) if (folder / LISTED).is_file() else ()
    return {name: [getattr(picture, name) for picture in pictures] for name in PROVENANCE if pictures}


def read_rows(path: Path, needed: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """The rows of a table that `write_rows` wrote, or a person in a spreadsheet, each with its place."""
    table = read_table_file(path, needed)
    cells = zip(*(column.to_pylist() for column in table.columns.values()), strict=True)
    return [
        (table.place(number), {name: from_csv_cell(cell) for name, cell in zip(needed, row, strict=True)})
        for number, row in enumerate(cells)
    ]


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, tab-separated if its name says so; a spreadsheet takes no cell of it for a formula."""
    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as stream,
    ):
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([csv_cell(cell) for cell in row] for row in rows)
