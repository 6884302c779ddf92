"""`styles get`: what is kept, what is refused and why, the same however it is run."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.cli.app import main
from builders.curate import getting
from builders.curate.getting import get
from builders.curate.pictures import MOST_BYTES, examine
from builders.shifts.styles.bank import style_pictures
from builders.shifts.styles.listed import read_listed
from shiftdata.data.look_alikes import NEAR, difference_hash
from shiftdata.errors import InputError, LockedError
from tests.builders.curate.made import Server, data_of, photographs, serving, texture, tree
from tests.paths import ROOT


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("shiftdata.data.places.store.PAUSES", (0.01, 0.01))
    with serving() as one:
        yield one


def table(
    path: Path, rows: list[dict[str, str]], columns: str = "style url file license attribution title"
) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(
            stream, columns.split(), restval="", delimiter="\t" if path.suffix == ".tsv" else ","
        )
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def reasons(out: Path) -> dict[str, str]:
    return {row["source"].rpartition("/")[2]: row["reason"] for row in rows_of(out / "refused.tsv")}


def bomb(side: int) -> bytes:
    """A small PNG with so many pixels a side."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


def animated(kind: str) -> bytes:
    frames = [texture("waves", n) for n in range(3)]
    return data_of(frames[0], kind, save_all=True, append_images=frames[1:])


def test_a_table_of_addresses_becomes_a_folder_with_its_provenance(server: Server, tmp_path) -> None:
    picture = texture("waves", 0)
    kinds = {"a.jpg": ("JPEG", "jpg"), "b.bin": ("PNG", "png"), "c d.webp?x=1": ("WEBP", "webp")}
    rows = []
    for number, (name, (kind, _)) in enumerate(kinds.items()):
        data = data_of(photographs()[number], kind)
        server.answers[f"/{name.replace(' ', '%20')}"] = (200, "application/octet-stream", data)
        rows.append(
            {"style": "Van Gogh", "url": f"{server.url}/{name}", "license": "CC0-1.0", "title": "Stars"}
        )
    server.answers["/moved"] = (302, "text/html", b"/at-last")
    server.answers["/at-last"] = (200, "image/png", data_of(picture))
    server.broken["/at-last"] = 1
    rows.append(
        {"style": "Größe", "url": f"{server.url}/moved#part", "attribution": "J. Doe", "title": "=1+1"}
    )
    out = tmp_path / "out"
    got = get(table(tmp_path / "list.tsv", rows), out)
    assert not got.refused
    assert server.asked["/at-last"] == 2
    listed = {one.source.rpartition("/")[2]: one for one in read_listed(out)}
    assert [one.license for one in got.pictures if one.style == "Van Gogh"] == ["CC0-1.0"] * 3
    assert {name: listed[name].file.rpartition(".")[2] for name in kinds} == {
        n: e for n, (_, e) in kinds.items()
    }
    for one in listed.values():
        data = (out / one.file).read_bytes()
        assert one.sha256 == hashlib.sha256(data).hexdigest()
        assert one.file == f"{one.style}/{one.sha256[:16]}.{one.file.rpartition('.')[2]}"
        assert (one.bytes, one.width, one.height) == (len(data), *Image.open(io.BytesIO(data)).size)
    assert listed["moved#part"].attribution == "=1+1, J. Doe"  # a spreadsheet sees it behind a quote
    assert "'=1+1, J. Doe" in (out / "styles.tsv").read_text(encoding="utf-8")
    assert list(style_pictures(out)) == ["Größe", "Van Gogh"]
    assert not (out / getting.WORK).exists()


def test_everything_that_is_refused_is_listed_with_its_reason(server: Server, tmp_path) -> None:
    good = data_of(photographs()[0], "JPEG")
    mpo = data_of(photographs()[1], "MPO", save_all=True, append_images=[photographs()[2]])
    answers = {
        "good.jpg": ("image/jpeg", good),
        "phone.jpg": ("image/jpeg", mpo),
        "page.jpg": ("text/html; charset=utf-8", b"<!doctype html><title>Log in</title>"),
        "lies.jpg": ("image/jpeg", b"<!doctype html><title>Log in</title>"),
        "dot.png": ("image/png", data_of(Image.new("RGB", (1, 1)))),
        "thin.png": ("image/png", data_of(Image.new("RGB", (63, 900)))),
        "cut.jpg": ("image/jpeg", good[: len(good) // 2]),
        "cut.png": ("image/png", data_of(photographs()[3])[:9000]),
        "film.png": ("image/png", animated("PNG")),
        "film.webp": ("image/webp", animated("WEBP")),
        "film.gif": ("image/gif", animated("GIF")),
        "bomb.png": ("image/png", bomb(30_000)),
        "large.png": ("image/png", bomb(9_000)),
        "long.jpg": ("image/jpeg", good + b"\0" * (MOST_BYTES + 1 - len(good))),
        "empty.jpg": ("image/jpeg", b""),
    }
    server.answers |= {f"/{name}": (200, *answer) for name, answer in answers.items()}
    server.answers["/down.jpg"] = (500, "text/html", b"")
    urls = [f"{server.url}/{name}" for name in [*answers, "gone.jpg", "down.jpg"]]
    urls += [
        "file:///etc/passwd",
        "/etc/passwd",
        "ftp://a.example/x.jpg",
        "http://127.0.0.1:9/closed.jpg",
        "http://",
    ]
    out = tmp_path / "out"
    assert (
        main(
            [
                "styles",
                "get",
                str(table(tmp_path / "l.csv", [{"style": "s", "url": u} for u in urls])),
                str(out),
            ]
        )
        == 0
    )
    assert [one.source.rpartition("/")[2] for one in read_listed(out)] in (
        ["good.jpg", "phone.jpg"],
        ["phone.jpg", "good.jpg"],
    )
    assert server.asked["/down.jpg"] == 3
    assert server.asked["/gone.jpg"] == server.asked["/page.jpg"] == 1
    web = "an address begins with http:// or https://; files stand in the column file"
    closed = reasons(out)
    assert closed.pop("closed.jpg").startswith("cannot be reached (ConnectionRefusedError")
    assert closed.pop("").startswith("'http://' is not the address of a server")
    assert closed == {
        "page.jpg": "answered text/html, not a picture",
        "lies.jpg": "not a JPEG, PNG or WebP by its content",
        "dot.png": "a side below 64 pixels (1 x 1)",
        "thin.png": "a side below 64 pixels (63 x 900)",
        "cut.jpg": "not a readable picture",
        "cut.png": "not a readable picture",
        "film.png": "it is animated (3 frames)",
        "film.webp": "it is animated (3 frames)",
        "film.gif": "not a JPEG, PNG or WebP by its content",
        "bomb.png": "too many pixels (the most is 64 million)",
        "large.png": "too many pixels (9000 x 9000; the most is 64 million)",
        "long.jpg": "gives 20,000,001 bytes, and at most 20,000,000 are allowed",
        "empty.jpg": "not a JPEG, PNG or WebP by its content",
        "gone.jpg": "answered 404 Not Found",
        "down.jpg": "answered 500 Internal Server Error",
        "passwd": web,
        "x.jpg": web,
    }


def test_files_of_a_table_lie_below_its_folder(tmp_path) -> None:
    inside, secret = tmp_path / "in", tmp_path / "secret.png"
    (inside / "a").mkdir(parents=True)
    photographs()[0].save(secret)
    photographs()[1].save(inside / "a/x.png")
    (inside / "link.png").symlink_to(secret)
    os.mkfifo(inside / "pipe.png")
    with (inside / "long.png").open("wb") as stream:
        stream.write(data_of(photographs()[14]))
        stream.truncate(MOST_BYTES + 1)
    files = [
        "a/x.png",
        "../secret.png",
        str(secret),
        "link.png",
        "pipe.png",
        "a",
        "none.png",
        "long.png",
        "a/x.png",
    ]
    get(table(inside / "list.tsv", [{"style": "s", "file": file} for file in files]), tmp_path / "out")
    outside = "it lies outside the folder of the table"
    found = {row["source"]: row["reason"] for row in rows_of(tmp_path / "out/refused.tsv")}
    assert found.pop("pipe.png").startswith("cannot be read (")
    assert found.pop("a").startswith("cannot be read (")
    assert found.pop("none.png") == "cannot be read (No such file or directory)"
    assert found.pop("long.png") == "more than 20,000,000 bytes"
    assert found == {"../secret.png": outside, str(secret): outside, "link.png": outside}


def folder_of(place: Path) -> Path:
    """Two styles: pictures, two copies, and two that are nearly another."""
    for style in ("dawn", "waves"):
        (place / style).mkdir(parents=True)
        for number in range(4):
            (place / style / f"{number}.png").write_bytes(data_of(texture(style, number)))
    (place / "waves/copy.png").write_bytes((place / "dawn/0.png").read_bytes())
    (place / "dawn/again.png").write_bytes((place / "dawn/1.png").read_bytes())
    photographs()[4].save(place / "dawn/photo.jpg", quality=95)
    photographs()[4].resize((75, 65)).save(place / "waves/small.jpg", quality=40)
    twin = photographs()[5].copy()
    twin.save(place / "dawn/left.png")
    twin.putpixel((3, 3), (0, 0, 0))
    twin.save(place / "dawn/right.png")
    (place / "dawn/notes.txt").write_text("where these are from")
    (place / "dawn/.hidden.png").write_bytes(b"")
    (place / "dawn/more").mkdir()
    photographs()[6].save(place / "flat.png")
    return place


def test_copies_leave_one_whatever_the_order_and_the_threads(tmp_path, monkeypatch) -> None:
    place = folder_of(tmp_path / "in")
    get(place, tmp_path / "one", threads=1)
    first, entries = tree(tmp_path / "one"), getting.read_list(place)
    for number, threads in enumerate((2, 8, 3)):
        shuffled = random.Random(number).sample(entries, len(entries))
        monkeypatch.setattr(getting, "read_list", lambda place, shuffled=shuffled: shuffled)
        get(place, tmp_path / f"again{number}", threads=threads)
        assert tree(tmp_path / f"again{number}") == first
    found = reasons(tmp_path / "one")
    assert found.pop("copy.png") == "the same file as dawn/0.png of dawn"
    assert found.pop("again.png") == "the same file as dawn/1.png of dawn"
    assert found.pop("small.jpg") == "nearly the same picture as dawn/photo.jpg of dawn"  # it has more pixels
    assert found.pop("notes.txt") == "not a JPEG, PNG or WebP by its content"
    assert found.pop("more") == "a folder in the folder of a style, which is not read"
    assert found.pop("flat.png") == "not in the folder of a style"
    (gone,) = found
    other = {"left.png": "right.png", "right.png": "left.png"}[gone]
    assert found[gone] == f"nearly the same picture as dawn/{other} of dawn"
    sha256 = {
        name: hashlib.sha256((place / "dawn" / name).read_bytes()).hexdigest() for name in (gone, other)
    }
    assert sha256[other] < sha256[gone]
    assert len(read_listed(tmp_path / "one")) == 10


def test_the_difference_hash_keeps_apart_what_differs() -> None:
    """Pictures that are saved again, smaller or larger are the same; other parts of a photograph are not."""
    every = [*photographs(), *(texture(style, n) for style in ("dawn", "waves", "thunder") for n in range(8))]
    hashes, same = [difference_hash(one) for one in every], []
    for picture, own in zip(every, hashes, strict=True):
        copies = [
            Image.open(io.BytesIO(data_of(picture, "JPEG", quality=quality))) for quality in (40, 60, 90)
        ]
        copies += [
            picture.resize((round(picture.width * by), round(picture.height * by))) for by in (0.67, 2)
        ]
        same += [(difference_hash(one) ^ own).bit_count() for one in copies]
    apart = [(a ^ b).bit_count() for n, a in enumerate(hashes) for b in hashes[:n]]
    assert np.mean(np.array(same) <= NEAR) > 0.97
    assert np.mean(np.array(apart) <= NEAR) < 0.002  # two parts of a plain sky
    assert np.median(apart) == pytest.approx(32, abs=2)
    clear = Image.new("RGBA", (80, 80))
    clear.paste(texture("dawn", 0).crop((0, 0, 40, 80)), (20, 0))
    flat = Image.new("RGB", (80, 80), "white")
    flat.paste(texture("dawn", 0).crop((0, 0, 40, 80)), (20, 0))
    assert difference_hash(clear) == difference_hash(flat)


def test_a_picture_with_a_strange_header_is_a_picture_like_others() -> None:
    """Pillow warns of it, and warnings are errors here."""
    data = data_of(photographs()[14], "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x09\0\x12\x01\x03\0\x01")
    with pytest.warns(UserWarning, match="Corrupt EXIF"):
        Image.open(io.BytesIO(data)).getexif()
    assert (examine(data).width, examine(data).ending) == (150, "jpg")


def test_a_call_that_is_killed_goes_on(server: Server, tmp_path) -> None:
    names = [f"{number}.png" for number in range(6)]
    server.answers |= {
        f"/{n}": (200, "image/png", data_of(photographs()[12 + i])) for i, n in enumerate(names)
    }
    server.answers["/held.png"] = (200, "image/png", data_of(photographs()[9]))
    place = table(
        tmp_path / "l.tsv", [{"style": "s", "url": f"{server.url}/{n}"} for n in [*names, "held.png"]]
    )
    get(place, tmp_path / "whole")

    server.asked.clear()
    server.hold = threading.Event()
    out = tmp_path / "out"
    run = [sys.executable, "-m", "builders", "styles", "get", str(place), str(out), "--threads", "2"]
    with subprocess.Popen(run, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 20
        # A file that is still being written has a name that begins with a dot.
        while not server.asked["/held.png"] or len(list((out / getting.WORK).glob("[!.]*"))) < 6:
            assert time.monotonic() < until
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    server.hold.set()
    assert not (out / "styles.tsv").exists()
    get(place, out)
    assert tree(out) == tree(tmp_path / "whole")
    assert {server.asked[f"/{name}"] for name in names} == {1}


def test_a_second_call_adds_what_is_new_and_removes_what_is_not_listed(server: Server, tmp_path) -> None:
    names = [f"{number}.png" for number in range(4)]
    server.answers |= {
        f"/{n}": (200, "image/png", data_of(photographs()[12 + i])) for i, n in enumerate(names)
    }

    def listed(*names: str) -> Path:
        return table(tmp_path / "l.tsv", [{"style": "s", "url": f"{server.url}/{n}"} for n in names])

    out = tmp_path / "out"
    get(listed(*names[:3]), out)
    (out / "labels.csv").write_text("mine")
    damaged = next(one for one in read_listed(out) if one.source.endswith("1.png"))
    (out / damaged.file).write_bytes(b"")
    get(listed(*names[1:]), out)
    assert server.asked == {"/0.png": 1, "/1.png": 2, "/2.png": 1, "/3.png": 1}
    assert sorted(one.source[-5:] for one in read_listed(out)) == ["1.png", "2.png", "3.png"]
    assert len(list((out / "s").iterdir())) == 3
    assert (out / damaged.file).read_bytes() == data_of(photographs()[13])
    assert (out / "labels.csv").read_text() == "mine"


def test_two_calls_at_once_are_refused(tmp_path) -> None:
    from shiftdata.files import locked

    place = folder_of(tmp_path / "in")
    (tmp_path / "out").mkdir()
    with (
        locked(tmp_path / "out" / getting.LOCK, ""),
        pytest.raises(LockedError, match="another `styles get` is writing"),
    ):
        get(place, tmp_path / "out")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda at: at / "none", "is not a list of style pictures: give a folder <style>/<picture>"),
        (lambda at: at, "lists no style picture"),
        (lambda at: table(at / "l.tsv", []), "lists no style picture"),
        (
            lambda at: table(at / "l.tsv", [], "url license"),
            "has the columns url, license: it needs style, and url",
        ),
        (
            lambda at: table(at / "l.tsv", [{"style": "s"}]),
            r"l.tsv, line 2: a row has a style and one of url and",
        ),
        (lambda at: table(at / "l.tsv", [{"style": "s", "url": "u", "file": "f"}]), "one of url and file"),
        (lambda at: table(at / "l.tsv", [{"url": "http://a/x"}]), "line 2: a row has a style"),
        (
            lambda at: table(at / "l.tsv", [{"style": s, "url": "http://a/x"} for s in ("Dawn", "dawn")]),
            "cannot keep the styles 'Dawn' and 'dawn' of .* apart: rename one",
        ),
        (
            lambda at: table(at / "l.tsv", [{"style": "../x", "url": "u"}]),
            r"the style '../x' of .* cannot name",
        ),
        (lambda at: table(at / "l.tsv", [{"style": "..", "url": "u"}]), "cannot name a folder"),
        (lambda at: table(at / "l.tsv", [{"style": "con", "url": "u"}]), "cannot name a folder"),
        (lambda at: table(at / "l.tsv", [{"style": "a\x1bb", "url": "u"}]), "control character"),
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
    get(place, tmp_path / "out")
    listed = (tmp_path / "out/styles.tsv").read_text()
    row = listed.splitlines()[1].split("\t")
    hostile = listed.replace(row[1], "dawn/../../other/thesis.txt", 1)
    (tmp_path / "out/styles.tsv").write_text(hostile)
    with pytest.raises(InputError, match="is not a file <style>/<picture> of its style"):
        get(place, tmp_path / "out")
    assert (tmp_path / "other/thesis.txt").exists()
