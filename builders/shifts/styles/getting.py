"""Take usable and distinct style pictures into a folder; the order of the list changes nothing."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.albums.folder import ENDINGS, picture_of, too_much
from builders.albums.table_file import read_table_file
from builders.sample import BadItem
from builders.shifts.styles.bank import check_style_names
from builders.shifts.styles.listed import LISTED, StylePicture, read_listed, write_listed, write_rows
from shiftdata.data.format.names import DEVICE, line_fault, shown
from shiftdata.errors import InputError, IntegrityError, LimitError
from shiftdata.files import locked, open_regular, remove, write_bytes
from shiftdata.untrusted.pictures import open_picture

#: Characters that the name of a folder cannot have on every system.
NOT_IN_FOLDERS = frozenset('\\/:*?"<>|')
EXPECTED = "a folder <style>/<picture>, or a .tsv or .csv with the columns style and file"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A picture to take; `source` says where it is from, and `fault` why it is not even looked at."""

    style: str
    source: str
    file: Path
    license: str = ""
    attribution: str = ""
    fault: str = ""


def read_list(place: Path) -> list[Entry]:
    """Return every picture that a folder or a table lists."""
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
        if NOT_IN_FOLDERS & set(style) or style[0] == "." or style[-1] in ". " or DEVICE.fullmatch(style):
            raise InputError(
                f"the style {style!r} of {place} cannot name a folder: use none of "
                f"{' '.join(sorted(NOT_IN_FOLDERS))}, no dot in front and none at the end"
            )
    return entries


def _of_folder(folder: Path) -> Iterator[Entry]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            for file in sorted(path.iterdir()):
                if not file.name.startswith("."):
                    name = f"{path.name}/{file.name}"
                    fault = f"its name {line_fault(name)}" if line_fault(name) else ""
                    yield Entry(style=path.name, source=shown(name), file=file, fault=fault)
        elif path.name.lower().endswith(ENDINGS) and not path.name.startswith("."):
            yield Entry(style="", source=shown(path.name), file=path, fault="not in the folder of a style")


def _of_table(path: Path) -> Iterator[Entry]:
    table = read_table_file(path, None)
    if not {"style", "file"} <= set(table.columns):
        raise InputError(
            f"{path} has the columns {', '.join(table.columns)}: it needs style and file; source, license, "
            "attribution and title may follow"
        )
    columns = {name: column.to_pylist() for name, column in table.columns.items()}
    for number, cells in enumerate(zip(*columns.values(), strict=True)):
        row = {name: (cell or "").strip() for name, cell in zip(columns, cells, strict=True)}
        for name, text in row.items():
            if (text or name in ("style", "file")) and (fault := line_fault(text)):
                raise InputError(
                    f"{path}, {table.place(number)}: the {name} {text!r:.100} {fault}: correct it"
                )
        file = path.parent / row["file"]
        inside = file.resolve().is_relative_to(path.parent.resolve())
        yield Entry(
            style=row["style"],
            source=row.get("source") or row["file"],
            file=file,
            license=row.get("license", ""),
            attribution=", ".join(filter(None, (row.get("title"), row.get("attribution")))),
            fault="" if inside else "it lies outside the folder of the table",
        )


MOST_BYTES = 20_000_000
LEAST_SIDE = 64
#: Formats of Pillow, and the endings of files. A photograph of a phone may be an MPO: a JPEG with more of
#: them, such as a preview, behind it.
ENDING_OF = {"JPEG": "jpg", "MPO": "jpg", "PNG": "png", "WEBP": "webp"}


def examine(entry: Entry, data: bytes) -> StylePicture:
    """Describe the picture in some bytes; a `BadItem` says why it cannot be a style picture."""
    if len(data) > MOST_BYTES:
        raise BadItem(f"more than {MOST_BYTES:,} bytes")
    with warnings.catch_warnings(action="ignore"):  # Pillow warns of strange headers
        ending = _ending(data)
        picture_of(io.BytesIO(data))  # decodes it
    sha256 = hashlib.sha256(data).hexdigest()
    return StylePicture(
        style=entry.style,
        file=f"{entry.style}/{sha256[:16]}.{ending}",
        source=entry.source,
        sha256=sha256,
        license=entry.license,
        attribution=entry.attribution,
    )


def _ending(data: bytes) -> str:
    """Return the ending of the file; what is too large, too small or animated is refused by its header."""
    try:
        with open_picture(data, formats=("JPEG", "PNG", "WEBP")) as picture:
            ending, (width, height) = ENDING_OF[picture.format or ""], picture.size
            frames = 1 if ending == "jpg" else getattr(picture, "n_frames", 1)
    except LimitError as error:
        raise too_much(error) from error
    except IntegrityError as error:
        raise BadItem("not a readable JPEG, PNG or WebP") from error
    if min(width, height) < LEAST_SIDE:
        raise BadItem(f"a side below {LEAST_SIDE} pixels ({width} x {height})")
    if frames > 1:
        raise BadItem(f"it is animated ({frames} frames)")
    return ending


REFUSED = "refused.tsv"
LOCK = ".getting.lock"


@dataclass(frozen=True)
class Got:
    """The pictures in the folder, and the refused ones: style, source and reason of each."""

    pictures: tuple[StylePicture, ...]
    refused: tuple[tuple[str, str, str], ...]


def get(place: Path, out: Path, *, on_done: Callable[[int, int], object] = lambda count, total: None) -> Got:
    """Take the pictures of a list into a folder, `<style>/<first digits of its sha256>.<ending>`.

    Pictures that the list no longer names leave the folder. `on_done` is called with how many more of how
    many files were looked at.
    """
    entries = read_list(place)
    _check_folder(place, out)
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / LOCK, f"another `styles get` is writing to {out}: wait for it"):
        before = read_listed(out, whole=False) if (out / LISTED).is_file() else ()
        chosen: dict[str, StylePicture] = {}
        refused: set[tuple[str, str, str]] = set()
        # In the order of their names, so that of equal files the same stays, whatever the order of the list.
        for entry in sorted(entries, key=lambda entry: (entry.style, entry.source)):
            try:
                _take(entry, out, chosen)
            except BadItem as error:
                refused.add((entry.style, entry.source, str(error)))
            on_done(1, len(entries))
        _write_tables(out, list(chosen.values()), sorted(refused), {picture.file for picture in before})
    return Got(tuple(sorted(chosen.values())), tuple(sorted(refused)))


def _check_folder(place: Path, out: Path) -> None:
    """Refuse to write where something else lies."""
    source, target = place.resolve(), out.resolve()
    if place.is_dir() and (source.is_relative_to(target) or target.is_relative_to(source)):
        raise InputError(f"{out} and {place} lie in each other: give another folder to write to")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: give a folder to write to")
    names = sorted(path.name for path in out.iterdir() if path.name[0] != ".") if out.is_dir() else []
    if names and not (out / LISTED).is_file():
        raise InputError(f"{out} has other files ({', '.join(names[:3])}): give an empty folder to write to")


def _take(entry: Entry, out: Path, chosen: dict[str, StylePicture]) -> None:
    """Copy the picture of an entry into the folder, and add it to those chosen by their hash."""
    if entry.fault:
        raise BadItem(entry.fault)
    try:
        with open_regular(entry.file) as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadItem(f"cannot be read ({getattr(error, 'strerror', None) or error})") from error
    picture = examine(entry, data)
    first = chosen.setdefault(picture.sha256, picture)
    if (first.style, first.source) != (entry.style, entry.source):
        raise BadItem(f"the same file as {first.source} of {first.style}")
    write_bytes(out / picture.file, data)


def _write_tables(
    out: Path, chosen: Sequence[StylePicture], refused: Sequence[tuple[str, str, str]], before: set[str]
) -> None:
    """Write the tables, and remove pictures that are listed no more; the next call ends what was killed."""
    write_rows(out / REFUSED, ("style", "source", "reason"), refused)
    if not chosen:
        reasons = "; ".join(f"{source}: {why}" for _, source, why in refused[:3])
        raise InputError(f"no picture of the list can be used ({reasons}): see {out / REFUSED}")
    for name in sorted(before - {picture.file for picture in chosen}):
        remove(out / name)
    write_listed(out, chosen)
