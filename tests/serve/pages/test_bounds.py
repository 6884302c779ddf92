"""What a stranger's dataset or request can cost a mirror: memory, and the time of those who read files."""

from __future__ import annotations

import hashlib
import io
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageOps

from shiftdata.data.look_alikes import on_white
from shiftdata.files import sha256_of
from shiftdata.serve.pages.sprites import GREY, LargePictureError, sprite, thumbnail
from tests.bombs import write_equal_rows
from tests.serve.serving import Answer, Process, request
from tests.tiny import edit_file, edit_manifest

DATASET = "/datasets/shift/tiny"
ROWS = f"{DATASET}/data/rows.json?base=mini"


def peak(process: Process) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def list_file(folder: Path, path: Path) -> None:
    """List a file in a manifest, as a forger would."""
    record = {"bytes": path.stat().st_size, "sha256": sha256_of(path), "rows": None}

    def change(raw: dict[str, Any]) -> None:
        raw["files"] = dict(sorted({**raw["files"], str(path.relative_to(folder)): record}.items()))

    edit_manifest(folder, change)


def test_equal_rows_of_scores_do_not_fill_the_memory(tiny: Path, tmp_path: Path):
    folder = Path(shutil.copytree(tiny, tmp_path / "shift" / "tiny"))
    bomb = write_equal_rows(folder / "filters/mini.parquet", {"key": "k", "score_a": 0.5}, 4_000_000)
    list_file(folder, bomb)
    assert bomb.stat().st_size < 100_000
    server = Process(tmp_path, "--quiet")
    try:
        assert request(server.port, "GET", ROWS).status == 200
        before = peak(server)
        answer = request(server.port, "GET", f"{ROWS}&full=1")
        assert answer.status == 400
        assert "4,000,000 rows" in answer.json["error"]
        assert peak(server) - before < 100e6
        assert request(server.port, "GET", ROWS).status == 200
    finally:
        server.kill()


def test_who_asks_for_look_alikes_does_not_keep_the_readers_of_files_waiting(tiny: Path, tmp_path: Path):
    """More datasets than stay open, each asked for by several connections at once."""
    names = [f"tiny{number}" for number in range(10)]
    for name in names:
        shutil.copytree(tiny, tmp_path / "shift" / name)
    shard = next(tiny.glob("data/mini/train-*.parquet"))
    server = Process(tmp_path, "--quiet")

    def look(name: str) -> Answer:
        return request(server.port, "GET", f"/datasets/shift/{name}/data/look_alikes.json")

    try:
        with ThreadPoolExecutor(60) as pool:
            asked = [pool.submit(look, name) for name in names * 6]
            waits, start = [], time.monotonic()
            while not all(one.done() for one in asked):
                begin = time.monotonic()
                path = f"/datasets/shift/tiny0/resolve/main/{shard.relative_to(tiny)}"
                assert request(server.port, "GET", path).body == shard.read_bytes()
                waits.append(time.monotonic() - begin)
            spent = time.monotonic() - start
        answers = [one.result() for one in asked]
        busy = [one for one in answers if one.status == 503]
        assert {one.status for one in answers} == {200, 503}
        assert all(int(one.headers["retry-after"]) > 0 and "ask again" in one.json["error"] for one in busy)
        assert max(waits) < spent / 2, (waits, spent)  # else a reader waits until most pages are made
        for name in names:
            assert look(name).json["rows"] == look("tiny0").json["rows"]
        begin = time.monotonic()
        assert {look(name).status for name in names} == {200}
        assert time.monotonic() - begin < spent / 2  # they are kept, though the datasets are not
    finally:
        server.kill()


def encoded(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def patterns(mode: str, size: tuple[int, int] = (90, 60)) -> Image.Image:
    red, green = Image.linear_gradient("L").resize(size), Image.radial_gradient("L").resize(size)
    return Image.merge("RGB", [red, green, red.rotate(180)]).convert(mode)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_a_thumbnail_is_that_of_the_whole_picture(mode):
    picture = patterns("L").convert("I;16") if mode == "I;16" else patterns(mode)
    if mode in ("LA", "RGBA"):
        picture.putalpha(patterns("L").rotate(90))
    kind = "TIFF" if mode == "CMYK" else "PNG"
    exif = Image.Exif()
    exif[0x0112] = 6  # turned to the right
    whole = ImageOps.exif_transpose(Image.open(io.BytesIO(data := encoded(picture, kind, exif=exif))))
    whole = whole.convert("RGBA")
    whole.thumbnail((24, 24), Image.Resampling.LANCZOS)
    small = thumbnail(data, 24)
    assert (small.mode, small.size) == ("RGBA", (16, 24))
    seen, wanted = (np.asarray(on_white(one), float) for one in (small, whole))
    np.testing.assert_allclose(seen, wanted, atol=8 if mode == "1" else 3)  # dots differ by the turn


def test_a_colour_that_stands_for_transparent_stays_so():
    picture = Image.new("RGB", (64, 64), "red")
    picture.paste("blue", (0, 0, 32, 64))
    small = np.asarray(thumbnail(encoded(picture, transparency=(255, 0, 0)), 16))
    assert small[:, :6, 3].min() > 250
    assert small[:, 10:, 3].max() < 5


@pytest.mark.parametrize(
    ("kind", "size", "options", "is_shown"),
    [
        ("JPEG", (6_000, 4_000), {}, True),
        ("PNG", (6_000, 4_000), {"compress_level": 1}, True),
        ("JPEG", (8_000, 7_000), {}, True),
        ("JPEG", (8_000, 7_000), {"progressive": True}, False),
        ("PNG", (8_000, 7_000), {"compress_level": 1}, False),
        ("JPEG", (8_000, 8_000), {}, False),
    ],
)
def test_photographs_are_shown_and_larger_pictures_are_not(kind, size, options, is_shown):
    data = encoded(Image.new("L", size, 128), kind, **options)
    if is_shown:
        assert thumbnail(data, 64).size[0] == 64
    else:
        with pytest.raises(LargePictureError, match=rf"{size[0]:,} x {size[1]:,} pixels is not shown"):
            thumbnail(data, 64)
    tile = np.asarray(Image.open(io.BytesIO(sprite([data], 64, 1))).convert("RGBA"))
    assert bool(tile[32, 32, 3] == 255) is is_shown  # what cannot be shown is a pale square


def test_what_is_no_picture_is_a_grey_square_among_the_others():
    data = encoded(Image.new("RGB", (40, 40), "red"))
    tiles = np.asarray(Image.open(io.BytesIO(sprite([b"a text", data, data[:50]], 40, 3))).convert("RGBA"))
    assert tiles[20, [20, 60, 100], 3].tolist() == [GREY[3], 255, GREY[3]]


def with_picture(folder: Path, picture: bytes) -> str:
    """Put a picture in the place of the first of the training set; give its key."""
    path, known = "data/mini/train-00000-of-00001.parquet", "metadata/mini/train.parquet"
    shard, metadata = pq.read_table(folder / path), pq.read_table(folder / known)
    pictures = [picture, *(one["bytes"] for one in shard["image"].to_pylist()[1:])]
    images = pa.array([{"bytes": one, "path": None} for one in pictures], shard.schema.field("image").type)
    changed = shard.set_column(shard.schema.get_field_index("image"), shard.schema.field("image"), images)
    pq.write_table(changed, folder / path, compression="none", use_dictionary=False)
    written = (folder / path).read_bytes()
    values = {
        "offset": [written.index(one) for one in pictures],
        "length": [len(one) for one in pictures],
        "sha256": [hashlib.sha256(one).digest() for one in pictures],
    }
    for name, column in values.items():
        field = metadata.schema.field(name)
        place = metadata.schema.get_field_index(name)
        metadata = metadata.set_column(place, field, pa.array(column, field.type))
    pq.write_table(metadata, folder / known)
    for changed_file in (path, known):
        edit_file(folder, changed_file, bytes)
    return str(metadata["key"][0])


def test_large_pictures_do_not_fill_the_memory(tiny: Path, tmp_path: Path):
    """A picture of 230 KB takes 240 MB when it is decoded, and as much for each copy."""
    folder = Path(shutil.copytree(tiny, tmp_path / "shift" / "tiny"))
    key = with_picture(folder, encoded(Image.new("RGBA", (7_700, 7_700))))
    server = Process(tmp_path, "--quiet")
    try:
        row = request(server.port, "GET", f"{DATASET}/data/example.json?base=mini&key={key}").json["row"]
        first = f"{DATASET}/data/picture/mini/{row}?side=64"
        assert request(server.port, "GET", first.replace(f"/{row}?", f"/{row + 1}?")).status == 200
        before = peak(server)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: request(server.port, "GET", first), range(8)))
        assert {answer.status for answer in answers} == {413}
        assert "7,700 x 7,700 pixels" in answers[0].json["error"]
        label = request(server.port, "GET", f"{DATASET}/data/example.json?base=mini&key={key}").json["label"]
        assert request(server.port, "GET", f"{DATASET}/data/covers/mini-{label}-0.webp").status == 200
        assert request(server.port, "GET", f"{DATASET}/data/look_alikes.json").status == 200
        assert peak(server) - before < 150e6
    finally:
        server.kill()
