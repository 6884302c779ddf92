"""`styles get` and `styles encode`: what is kept, what is refused and why, codes with their provenance."""

from __future__ import annotations

import csv
import hashlib
import os
import random
import zlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.cli.app import main
from builders.shifts.styles import getting
from builders.shifts.styles.bank import read_bank, style_picture, style_pictures
from builders.shifts.styles.getting import MOST_BYTES, get
from builders.shifts.styles.listed import read_listed
from builders.shifts.stylizers import Arbitrary
from shiftdata.errors import InputError, LockedError
from shiftdata.files import locked
from tests.bombs import png
from tests.builders.stylizers.made import data_of, photographs, texture, tree


def table(
    path: Path, rows: list[dict[str, str]], columns: str = "style file source license attribution title"
) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        separator = "\t" if path.suffix == ".tsv" else ","
        writer = csv.DictWriter(stream, columns.split(), restval="", delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return path


def reasons(out: Path) -> dict[str, str]:
    with (out / "refused.tsv").open(encoding="utf-8", newline="") as stream:
        return {
            row["source"].rpartition("/")[2]: row["reason"] for row in csv.DictReader(stream, delimiter="\t")
        }


def animated(kind: str) -> bytes:
    frames = [texture("waves", n) for n in range(3)]
    return data_of(frames[0], kind, save_all=True, append_images=frames[1:])


def test_a_table_becomes_a_folder_with_its_provenance(tmp_path) -> None:
    kinds = {"a.jpg": ("JPEG", "jpg"), "b.bin": ("PNG", "png"), "c d.webp": ("WEBP", "webp")}
    rows = []
    for number, (name, (kind, _)) in enumerate(kinds.items()):
        (tmp_path / name).write_bytes(data_of(photographs()[number], kind))
        rows.append({"style": "Van Gogh", "file": name, "license": "CC0-1.0", "title": "Stars"})
    texture("waves", 0).save(tmp_path / "d.png")
    place = "https://museum.example/d"
    rows.append(
        {"style": "Größe", "file": "d.png", "source": place, "attribution": "J. Doe", "title": "=1+1"}
    )
    out = tmp_path / "out"
    got = get(table(tmp_path / "list.tsv", rows), out)
    assert not got.refused
    assert got.pictures == read_listed(out)
    listed = {picture.source: picture for picture in got.pictures}
    assert [picture.license for picture in got.pictures if picture.style == "Van Gogh"] == ["CC0-1.0"] * 3
    assert {name: listed[name].file.rpartition(".")[2] for name in kinds} == {
        n: e for n, (_, e) in kinds.items()
    }
    for picture in got.pictures:
        data = (out / picture.file).read_bytes()
        assert picture.sha256 == hashlib.sha256(data).hexdigest()
        assert picture.file == f"{picture.style}/{picture.sha256[:16]}.{picture.file.rpartition('.')[2]}"
    assert listed[place].attribution == "=1+1, J. Doe"  # a spreadsheet sees it behind a quote
    assert "'=1+1, J. Doe" in (out / "styles.tsv").read_text(encoding="utf-8")
    assert list(style_pictures(out)) == ["Größe", "Van Gogh"]


def test_everything_that_is_refused_is_listed_with_its_reason(tmp_path) -> None:
    good = data_of(photographs()[0], "JPEG")
    zeros = (b"IDAT", zlib.compress(bytes(1000)))
    answers = {
        "good.jpg": good,
        "phone.jpg": data_of(photographs()[1], "MPO", save_all=True, append_images=[photographs()[2]]),
        "page.jpg": b"<!doctype html><title>Log in</title>",
        "dot.png": data_of(Image.new("RGB", (1, 1))),
        "thin.png": data_of(Image.new("RGB", (63, 900))),
        "cut.jpg": good[: len(good) // 2],
        "film.png": animated("PNG"),
        "film.webp": animated("WEBP"),
        "film.gif": animated("GIF"),
        "bomb.png": png(30_000, 30_000, zeros),
        "large.png": png(9_000, 9_000, zeros),
        "long.jpg": good + b"\0" * (MOST_BYTES + 1 - len(good)),
        "empty.jpg": b"",
    }
    inside = tmp_path / "in"
    (inside / "a").mkdir(parents=True)
    for name, data in answers.items():
        (inside / name).write_bytes(data)
    photographs()[3].save(tmp_path / "secret.png")
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    os.mkfifo(inside / "pipe.png")
    files = [
        *answers,
        "../secret.png",
        str(tmp_path / "secret.png"),
        "link.png",
        "pipe.png",
        "a",
        "none.png",
        "good.jpg",
    ]
    out = tmp_path / "out"
    get(table(inside / "l.csv", [{"style": "s", "file": file} for file in files]), out)
    assert {picture.source for picture in read_listed(out)} == {"good.jpg", "phone.jpg"}
    refused = reasons(out)
    assert refused.pop("pipe.png").startswith("cannot be read (")
    assert refused.pop("a").startswith("cannot be read (")
    not_one, outside = "not a readable JPEG, PNG or WebP", "it lies outside the folder of the table"
    assert refused == {
        "page.jpg": not_one,
        "dot.png": "a side below 64 pixels (1 x 1)",
        "thin.png": "a side below 64 pixels (63 x 900)",
        "cut.jpg": "not a readable picture",
        "film.png": "it is animated (3 frames)",
        "film.webp": "it is animated (3 frames)",
        "film.gif": not_one,
        "bomb.png": "too many pixels (900,000,000; the most is 64,000,000)",
        "large.png": "too many pixels (81,000,000; the most is 64,000,000)",
        "long.jpg": "more than 20,000,000 bytes",
        "empty.jpg": not_one,
        "none.png": "cannot be read (No such file or directory)",
        "secret.png": outside,
        "link.png": outside,
    }


#: A header of a JPEG that Pillow warns of.
STRANGE = b"Exif\0\0II*\0\x08\0\0\0\x09\0\x12\x01\x03\0\x01"


def folder_of(place: Path) -> Path:
    """Two styles of pictures, two copies among them, and files of other kinds."""
    for style in ("dawn", "waves"):
        (place / style).mkdir(parents=True)
        for number in range(4):
            (place / style / f"{number}.png").write_bytes(data_of(texture(style, number)))
    (place / "waves/copy.png").write_bytes((place / "dawn/0.png").read_bytes())
    (place / "dawn/again.png").write_bytes((place / "dawn/1.png").read_bytes())
    photographs()[14].save(place / "dawn/strange.jpg", exif=STRANGE)  # Pillow warns, and warnings are errors
    (place / "dawn/notes.txt").write_text("where these are from")
    (place / "dawn/.hidden.png").write_bytes(b"")
    photographs()[6].save(place / "flat.png")
    return place


def test_copies_leave_one_whatever_the_order(tmp_path, monkeypatch) -> None:
    place = folder_of(tmp_path / "in")
    get(place, tmp_path / "one")
    first, entries = tree(tmp_path / "one"), getting.read_list(place)
    for number in range(2):
        shuffled = random.Random(number).sample(entries, len(entries))
        monkeypatch.setattr(getting, "read_list", lambda place, shuffled=shuffled: shuffled)
        get(place, tmp_path / f"again{number}")
        assert tree(tmp_path / f"again{number}") == first
    refused = reasons(tmp_path / "one")
    assert refused == {
        "copy.png": "the same file as dawn/0.png of dawn",
        "again.png": "the same file as dawn/1.png of dawn",
        "notes.txt": "not a readable JPEG, PNG or WebP",
        "flat.png": "not in the folder of a style",
    }
    assert len(read_listed(tmp_path / "one")) == 9


def test_a_second_call_adds_what_is_new_and_removes_what_is_not_listed(tmp_path, monkeypatch) -> None:
    for number in range(4):
        photographs()[12 + number].save(tmp_path / f"{number}.png")

    def listed(*numbers: int) -> Path:
        return table(tmp_path / "l.tsv", [{"style": "s", "file": f"{number}.png"} for number in numbers])

    out = tmp_path / "out"
    get(listed(0, 1, 2), out)
    (out / "labels.csv").write_text("mine")
    damaged = next(picture for picture in read_listed(out) if picture.source == "1.png")
    (out / damaged.file).write_bytes(b"damaged")
    with monkeypatch.context() as killed:
        killed.setattr(getting, "write_listed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            get(listed(1, 2, 3), out)
    got = get(listed(1, 2, 3), out)
    assert {picture.source for picture in got.pictures} == {"1.png", "2.png", "3.png"}
    get(listed(1, 2, 3), tmp_path / "fresh")
    assert tree(out) == tree(tmp_path / "fresh") | {"labels.csv": b"mine"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda at: at / "none", "is not a list of style pictures: give a folder <style>/<picture>"),
        (lambda at: at, "lists no style picture"),
        (
            lambda at: table(at / "l.tsv", [], "file license"),
            "has the columns file, license: it needs style and",
        ),
        (lambda at: table(at / "l.tsv", [{"style": "s"}]), r"l.tsv, line 2: the file '' is empty"),
        (lambda at: table(at / "l.tsv", [{"file": "x"}]), "line 2: the style '' is empty"),
        (
            lambda at: table(at / "l.tsv", [{"style": s, "file": "x"} for s in ("Dawn", "dawn")]),
            "cannot keep the styles 'Dawn' and 'dawn' of .* apart: rename one",
        ),
        (
            lambda at: table(at / "l.tsv", [{"style": "../x", "file": "u"}]),
            r"the style '../x' of .* cannot name",
        ),
        (lambda at: table(at / "l.tsv", [{"style": "con", "file": "u"}]), "cannot name a folder"),
        (lambda at: table(at / "l.tsv", [{"style": "a\x1bb", "file": "u"}]), "control character"),
        (lambda at: table(at / "l.tsv", [{"style": "a", "file": "u"}]), "no picture of the list can be used"),
    ],
)
def test_lists_that_cannot_be_used_are_refused(tmp_path, make, message) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(InputError, match=message):
        get(make(tmp_path / "in"), tmp_path / "out")
    assert not (tmp_path / "out/styles.tsv").exists()


def test_nothing_is_written_where_something_else_lies(tmp_path) -> None:
    place = folder_of(tmp_path / "in")
    for out in (place, place / "out", tmp_path):
        with pytest.raises(InputError, match="lie in each other: give another folder"):
            get(place, out)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"has other files \(thesis.txt\): give an empty folder"):
        get(place, tmp_path / "other")
    with pytest.raises(InputError, match="is a file"):
        get(place, tmp_path / "other/thesis.txt")
    out = tmp_path / "out"
    get(place, out)
    with locked(out / getting.LOCK, ""), pytest.raises(LockedError, match="another `styles get` is writing"):
        get(place, out)
    listed = (out / "styles.tsv").read_text()
    file = listed.splitlines()[1].split("\t")[1]
    (out / "styles.tsv").write_text(listed.replace(file, "dawn/../../other/thesis.txt", 1))
    with pytest.raises(InputError, match="is not a file <style>/<picture> of its style"):
        get(place, out)
    assert (tmp_path / "other/thesis.txt").exists()


@pytest.mark.filterwarnings("ignore")  # Pillow's, of a strange header
def test_a_bank_has_codes_and_where_each_is_from_and_no_picture(tmp_path) -> None:
    out, bank = tmp_path / "out", tmp_path / "bank.parquet"
    get(folder_of(tmp_path / "in"), out)
    assert main(["styles", "encode", str(out), str(bank)]) == 0
    pictures, rows = read_listed(out), pq.read_table(bank).to_pylist()
    assert [(row["style"], row["source"], row["sha256"]) for row in rows] == [
        (picture.style, picture.source, picture.sha256) for picture in pictures
    ]
    assert set(rows[0]) == {"style", "index", "code", "source", "sha256", "license", "attribution"}
    code = Arbitrary().encode(style_picture(out / pictures[3].file))
    assert np.array_equal(np.float32(rows[3]["code"]), code)
    assert bank.stat().st_size < 1000 * len(rows)
    (out / pictures[0].file).unlink()
    assert main(["styles", "encode", str(out), str(bank)]) == 1
    (out / "styles.tsv").unlink()  # a folder that somebody made has no provenance
    assert main(["styles", "encode", str(out), str(bank)]) == 0
    assert set(pq.read_table(bank).column_names) == {"style", "index", "code"}
    assert read_bank(bank, Arbitrary()).names == ("dawn", "waves")
