"""Pages of forged datasets: whatever is in one, an answer says so, and every other page is as before."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from tests.serve.serving import request, serving
from tests.tiny import edit_file, edit_manifest

DATASET = "/datasets/shift/tiny"
DATA = (
    "rows.json?full=1",
    "picture/{base}/0",
    "picture/{base}/0?side=32",
    "covers/{base}-0-0.webp",
    "counts.json",
)
PAGES = ("", "/example.html", "/severity.html", "/card.webp", *(f"/data/{name}" for name in DATA))


def column(name: str, value: Any) -> Callable[[Path], None]:
    """Set a column of every row, in metadata and data."""

    def forge(folder: Path) -> None:
        def change(data: bytes) -> bytes:
            table = pq.read_table(io.BytesIO(data))
            at = table.schema.get_field_index(name)
            if at < 0:
                return data
            kind = table.schema.field(at).type
            table = table.set_column(at, table.schema.field(at), pa.array([value] * len(table), kind))
            buffer = io.BytesIO()
            pq.write_table(table, buffer)
            return buffer.getvalue()

        for path in sorted(folder.rglob("*.parquet")):
            edit_file(folder, path.relative_to(folder).as_posix(), change)

    return forge


def no_pictures(folder: Path) -> None:
    """Write texts over the pictures, each as long as before."""
    for path in sorted((folder / "data").rglob("*.parquet")):
        for marker in (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"):
            path.write_bytes(path.read_bytes().replace(marker, b"no image"[: len(marker)]))


def manifest(**fields: Any) -> Callable[[Path], None]:
    return lambda folder: edit_manifest(folder, lambda raw: raw.update(fields))


FORGED = {
    "infinite severity": column("severity", float("inf")),
    "params with NaN": column("params", '{"a": NaN}'),
    "nested params": column("params", "[" * 3000 + "]" * 3000),
    "a surrogate in params": column("params", '{"a": "\\ud800"}'),
    "params that are no JSON": column("params", "{"),
    "labels that are not there": column("label", 99),
    "texts instead of pictures": no_pictures,
    "infinite severities": manifest(severities=[0.0, float("inf")]),
    "a text for a card picture": lambda folder: edit_file(folder, "preview.jpg", lambda _: b"a text"),
    "a card of NUL": lambda folder: edit_file(folder, "README.md", lambda _: b"\0" * 1000),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_dataset_is_an_answer_with_a_reason(tiny: Path, tmp_path: Path, capfd, name: str):
    base = sd.open_dataset(tiny).manifest.default_base
    shutil.copytree(tiny, tmp_path / "tiny")
    shutil.copytree(tiny, tmp_path / "fine")
    FORGED[name](tmp_path / "tiny")
    with serving(tmp_path) as running:
        assert b"shift/fine" in request(running.port, "GET", "/").body
        for page in PAGES:
            answer = request(running.port, "GET", f"{DATASET}{page.format(base=base)}")
            assert answer.status == 200 or 400 <= answer.status < 500, (page, answer.body)
            if answer.status != 200:
                assert len(json.loads(answer.body)["error"]) > 10, page
            assert b"Traceback" not in answer.body
        assert request(running.port, "GET", "/datasets/shift/fine").status == 200
    assert "Traceback" not in capfd.readouterr().err
