"""Files of strangers that would fill the memory: refused by what they declare, and by what they give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shiftdata.files import sha256_of
from tests.bombs import growth, write_equal_rows
from tests.tiny import edit_manifest

#: Bytes by which a process may grow that is given a file of equal rows; each took a gigabyte.
MOST_GROWTH = 300 << 20


def with_dropped(folder: Path, rows: int, base: str = "mini") -> Path:
    """Let a dataset list equal rows as dropped, and its manifest count them."""
    path = write_equal_rows(folder / "dropped.parquet", {"base": base, "key": "k", "reason": "r"}, rows)
    record = {"bytes": path.stat().st_size, "sha256": sha256_of(path), "rows": rows}

    def change(raw: dict[str, Any]) -> None:
        raw["files"] = dict(sorted({**raw["files"], path.name: record}.items()))
        (forged,) = (one for one in raw["bases"] if one["name"] == base)
        forged |= {"dropped": {"r": rows}, "dropped_id": "0" * 64}

    edit_manifest(folder, change)
    return path


def test_equal_rows_of_what_was_dropped_do_not_fill_the_memory(tiny, copy):
    assert with_dropped(copy, 12_000_000).stat().st_size < 300_000
    begin = "import shiftdata as sd\nassert sd.verify(sys.argv[2]) == []"
    code = "print(*[one.what for one in sd.verify(sys.argv[1]) if one.path == 'dropped.parquet'])"
    bytes_more, printed = growth(begin, code, copy, tiny)
    assert "would unpack" in printed
    assert "12,000,000 rows" in printed
    assert bytes_more < MOST_GROWTH


def test_equal_rows_of_predictions_do_not_fill_the_memory(tiny, tmp_path):
    bomb = write_equal_rows(tmp_path / "bomb.parquet", {"key": "k", "prediction": "p"}, 30_000_000)
    assert bomb.stat().st_size < 600_000
    begin = """
import shiftdata as sd
from shiftdata.errors import InputError
task = sd.task(sys.argv[1], "group-fairness", k=2, mu=0.2)
"""
    code = """
try:
    task.evaluate(sys.argv[2])
except InputError as error:
    print(error)
"""
    bytes_more, printed = growth(begin, code, tiny, bomb)
    assert "30,000,000 rows" in printed
    assert "at most 1,000,000 rows are read" in printed
    assert bytes_more < MOST_GROWTH
