"""The spool gives back what was put into it, in a folder and in object storage."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from builders.spool import FIRST_BYTES, ROW, Spool
from shiftdata.errors import IntegrityError


@pytest.fixture(params=["folder", "s3", "file"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    """A spool that is not there yet."""
    if request.param == "s3":
        return Spool(f"s3://{request.getfixturevalue('bucket')}/deep/spool")
    return Spool(tmp_path / "spool" if request.param == "folder" else f"file://{tmp_path}/spool")


def rows_of(block: str, params: str = "{}") -> list[dict[str, object]]:
    made = []
    for number in range(3):
        row: dict[str, object] = dict.fromkeys(ROW.names)
        example = f"{block} {number} ".encode() * 1000
        row |= {"key": f"{block}-{number}", "params": params, "size": len(example), "example": example}
        made.append(row)
    return made


def test_blocks_come_back_whole_in_order_and_without_their_examples(spool):
    ids = [f"shift-{number:03}" for number in range(40)]
    for block in ids:
        spool.write(block, rows_of(block), {f"dropped-{block}": "why"})
    spool = pickle.loads(pickle.dumps(spool))
    assert spool.listing() == {"": set(ids)}
    for block, (rows, drops), (whole, again) in zip(ids, spool.rows(ids), spool.blocks(ids), strict=True):
        assert drops == again == {f"dropped-{block}": "why"}
        assert whole.to_pylist() == rows_of(block)
        assert rows.equals(whole.drop_columns(["example"]))
    assert ids[0] in spool
    assert "shift-100" not in spool


def test_a_block_is_asked_for_in_object_storage_by_one_request_that_lists_nothing(bucket, caplog):
    spool = Spool(f"s3://{bucket}/spool")
    spool.write("done", rows_of("done"), {})
    with caplog.at_level(logging.INFO, "werkzeug"):
        assert [block in spool for block in ("done", "left")] == [True, False]
    asked = [record.getMessage() for record in caplog.records if record.name == "werkzeug"]
    assert len(asked) == 2
    assert not any("list-type" in line for line in asked)


def test_rows_longer_than_the_first_read_are_read_whole(spool):
    rows = rows_of("long", params="x" * FIRST_BYTES * 2)
    spool.write("long", rows, {})
    spool.write("empty", [], {})
    assert spool.read("long")[0]["params"].to_pylist() == [row["params"] for row in rows]
    assert [len(table) for table, _ in spool.rows(["empty", "long"])] == [0, 3]


def test_a_spool_is_in_use_until_it_is_cleared(spool):
    assert not spool.is_open()
    assert spool.listing() == {}
    spool.clear()  # of nothing
    spool.open({"dataset": "tiny"})
    spool.write("one", rows_of("one"), {})
    assert spool.is_open()
    spool.clear()
    assert (spool.is_open(), spool.listing()) == (False, {})


def test_tables_beside_blocks_are_listed_by_folder(spool):
    spool.write("one", rows_of("one"), {})
    spool.write_beside("scores-1", "two", pa.table({"score": [0.5]}))
    assert spool.listing() == {"": {"one"}, "scores-1": {"two"}}
    assert spool.has_beside("scores-1", "two")
    assert spool.read_beside("scores-1", "two") == pa.table({"score": [0.5]})
    assert spool.read_beside("scores-1", "one") is None
    spool.delete_beside("scores-1", "two")
    assert not spool.has_beside("scores-1", "two")


def test_a_damaged_block_and_one_that_has_gone_are_said_with_the_remedy(spool):
    spool.write("one", rows_of("one"), {})
    (name,) = spool.files.listed()
    data = spool.files.start(name)
    for left in (1, 10, 500, len(data) - 2000):
        spool.files.write(name, data[:left])
        with pytest.raises(IntegrityError, match=r"one.arrow is damaged .* delete it and run the same"):
            list(spool.blocks(["one"]))
    spool.files.delete(name)
    with pytest.raises(IntegrityError, match=r"one.arrow has gone: run the same command again"):
        list(spool.rows(["one"]))
