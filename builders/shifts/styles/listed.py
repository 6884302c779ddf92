"""The table `styles.tsv` of a folder of style pictures: what each is, and where it is from."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

import pyarrow as pa

from builders.albums.table_file import read_table_file
from shiftdata.data.format.records import Material
from shiftdata.errors import InputError
from shiftdata.files import whole_file
from shiftdata.tables import csv_cell, from_csv_cell
from shiftdata.untrusted.parquet import read_parquet

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
            f"{folder} has no {LISTED}: make such a folder by `shiftdata styles get LIST {folder}`"
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


def style_works(place: Path, styles: Sequence[str], license_: str, attribution: str) -> list[Material]:
    """Return the style pictures of a folder, or behind a file of codes; those with equal terms are one work.

    `license_` and `attribution` are for pictures of which neither says more; without them that is an error.
    """
    names = ("style", "sha256", "license", "attribution")
    works: dict[tuple[str, str], dict[str, list[str]]] = {}
    listed = read_listed(place) if (place / LISTED).is_file() else ()
    table = pa.Table.from_pylist(list(map(asdict, listed))) if place.is_dir() else read_parquet(place)
    if not set(names) <= set(table.column_names):
        table = pa.table({"style": list(styles)} | dict.fromkeys(names[1:], [""] * len(styles)))
    for style, digest, terms, who in zip(*(table[name].to_pylist() for name in names), strict=True):
        key = terms or license_, who or attribution
        if not all(key):
            raise InputError(
                f"nobody says under which terms the pictures of {style!r} of {place} are: give "
                "Stylize(..., license='CC-BY-4.0', attribution='J. Doe'), or the list of `shiftdata "
                "styles get` the columns license and attribution"
            )
        works.setdefault(key, {}).setdefault(style, []).extend(filter(None, [digest]))
    return [
        Material(
            kind="picture",
            name="Style pictures",
            license=terms,
            attribution=who,
            how="Their style was taken, not what they show.",
            nuisances=list(of_style),
            sha256=[digest for digests in of_style.values() for digest in digests],
        )
        for (terms, who), of_style in sorted(works.items())
    ]


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
