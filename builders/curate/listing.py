"""What to get: a folder `<style>/<picture>`, or a table of addresses and files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from builders.albums.folder import ENDINGS
from builders.albums.table_file import TableFile, read_table_file
from builders.shifts.styles.bank import check_style_names
from shiftdata.data.format.names import DEVICE, line_fault, shown
from shiftdata.data.places.store import is_url
from shiftdata.errors import InputError

#: Signs that the name of a folder cannot have on every system.
NOT_IN_FOLDERS = frozenset('\\/:*?"<>|')
EXPECTED = "a folder <style>/<picture>, or a .tsv or .csv with the columns style and url or file"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One picture to get: from a file of this machine, else from the address `source`.

    `fault` says why it is not even looked at.
    """

    style: str
    source: str
    file: Path | None = None
    license: str = ""
    attribution: str = ""
    fault: str = ""


def read_list(place: Path) -> list[Entry]:
    """Every picture that a folder or a table lists."""
    if place.is_dir():
        entries = list(_of_folder(place))
    elif place.is_file() and place.suffix.lower() in (".tsv", ".csv"):
        entries = list(_of_table(place))
    else:
        raise InputError(f"{place} is not a list of style pictures: give {EXPECTED}")
    styles = sorted({entry.style for entry in entries if entry.style})
    if not styles:
        raise InputError(f"{place} lists no style picture: give {EXPECTED}")
    check_style_names(styles, str(place))
    for style in styles:
        last = style[-1] in ". "
        if NOT_IN_FOLDERS & set(style) or style.startswith(".") or last or DEVICE.fullmatch(style):
            raise InputError(
                f"the style {style!r} of {place} cannot name a folder: use none of "
                f"{' '.join(sorted(NOT_IN_FOLDERS))}, no dot in front and none at the end"
            )
    return entries


def _of_folder(folder: Path) -> Iterator[Entry]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if not path.is_dir():
            if path.name.lower().endswith(ENDINGS):
                yield Entry(style="", source=shown(path.name), fault="not in the folder of a style")
            continue
        for file in sorted(path.iterdir()):
            if not file.name.startswith("."):
                source, fault = f"{path.name}/{file.name}", ""
                if file.is_dir():
                    fault = "a folder in the folder of a style, which is not read"
                elif line_fault(source):
                    fault = f"its name {line_fault(source)}"
                yield Entry(style=path.name, source=shown(source), file=file, fault=fault)


def _of_table(path: Path) -> Iterator[Entry]:
    table = read_table_file(path, None)
    if "style" not in table.columns or not {"url", "file"} & set(table.columns):
        raise InputError(
            f"{path} has the columns {', '.join(table.columns)}: it needs style, and url or file; license, "
            "attribution and title may follow"
        )
    columns = {
        name: [(cell or "").strip() for cell in column.to_pylist()] for name, column in table.columns.items()
    }
    for number in range(len(columns["style"])):
        row = {name: cells[number] for name, cells in columns.items()}
        yield _of_row(path, table, number, row)


def _of_row(path: Path, table: TableFile, number: int, row: dict[str, str]) -> Entry:
    url, name, where = row.get("url", ""), row.get("file", ""), f"{path}, {table.place(number)}"
    if not row["style"] or bool(url) == bool(name):
        raise InputError(
            f"{where}: a row has a style and one of url and file, got {row['style']!r}, {url or name!r}"
        )
    attribution = ", ".join(filter(None, (row.get("title"), row.get("attribution"))))
    entry = Entry(
        style=row["style"], source=url or name, license=row.get("license", ""), attribution=attribution
    )
    for column in ("style", "source", "license", "attribution"):
        text = getattr(entry, column)
        if text and (fault := line_fault(text)):
            raise InputError(f"{where}: the {column} {text!r:.100} {fault}: correct it")
    if url:
        parts = urlsplit(url) if is_url(url) else None
        web = parts is not None and parts.scheme.lower() in ("http", "https")
        fault = "" if web else "an address begins with http:// or https://; files stand in the column file"
        return replace(entry, fault=fault)
    file = path.parent / name
    if not file.resolve().is_relative_to(path.parent.resolve()):
        return replace(entry, fault="it lies outside the folder of the table")
    return replace(entry, file=file)
