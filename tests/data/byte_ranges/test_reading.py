"""Rows in any order are what pyarrow reads, from anywhere, by no more bytes than they need."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS, example_bytes
from shiftdata.data.loading.byte_ranges import ExampleReader, pace
from shiftdata.data.loading.byte_ranges.layout import LONGEST, WASTE, WASTE_FAR, Piece, spans
from shiftdata.data.places import client
from shiftdata.errors import InputError, IntegrityError, StorageError
from tests.data.byte_ranges.server import Served, ranges
from tests.data.test_places import at_once, memory
from tests.properties import share
from tests.shared import dataset_of
from tests.tiny import edit_manifest

__all__ = ["at_once", "memory"]  # fixtures

TEST = "data/mini/test-00000-of-00001.parquet"


def by_pyarrow(folder: Path, base: str) -> list[bytes]:
    """Every example of a base, as pyarrow reads it."""
    files = [path for split in SPLITS for path in sorted((folder / "data" / base).glob(f"{split}-*"))]
    roles = sd.info(folder).roles
    return example_bytes(pa.concat_tables([pq.read_table(path) for path in files]), roles)


@pytest.fixture(scope="module")
def served(tiny):
    with ranges(tiny.parent) as found:
        yield found


@pytest.fixture
def server(served: Served) -> Served:
    """The server of the tiny dataset, behaving well until it is told otherwise."""
    served.faults, served.always, served.most_busy, served.several = [], "well", 0, ""
    served.released.set()
    served.released = threading.Event()
    served.bodies.clear()
    return served


@pytest.fixture
def remote(server):
    reader = ExampleReader(f"{server.url}/tiny", "mini")
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def whole(tiny) -> list[bytes]:
    return by_pyarrow(tiny, "mini")


# What comes


def test_positions_are_those_of_metadata(tiny, whole):
    with_hashes = [pq.read_table(tiny / f"metadata/mini/{split}.parquet") for split in SPLITS]
    metadata = sd.read_metadata(tiny, "mini")
    assert metadata.table["key"].equals(pa.concat_tables(with_hashes)["key"])
    reader = ExampleReader(tiny, "mini", verify=True)
    assert len(reader) == len(metadata) == len(whole)
    read = reader.read(range(len(reader)))
    assert read == whole
    assert [hashlib.sha256(one).digest() for one in read] == [
        one for table in with_hashes for one in table["sha256"].to_pylist()
    ]
    reader.close()


@given(rows=st.lists(st.integers(0, 799), max_size=40))
@share(0.5)
def test_any_rows_in_any_order_are_what_pyarrow_reads(tiny, whole, rows):
    rows = [row % len(whole) for row in rows]
    system = fsspec.filesystem("memory")
    if not system.exists("/reading/tiny"):
        system.put(str(tiny), "/reading/tiny", recursive=True)
    for source in (tiny, "memory://reading/tiny"):
        reader = ExampleReader(source, "mini")
        assert reader.read(rows) == [whole[row] for row in rows]
        assert reader.read(np.array(rows, dtype=np.int32)) == [whole[row] for row in rows]
        reader.close()


@pytest.mark.parametrize("several", ["well", ""])
def test_rows_over_http_cost_what_they_weigh(remote, server, whole, several):
    server.several = several
    remote.read([0, 100])  # here the reader finds out how many ranges a request may have
    remote.stats.clear()
    server.bodies.clear()
    rows = [3, 390, 4, 3, 90]
    assert remote.read(rows) == [whole[row] for row in rows]
    needed = sum(len(whole[row]) for row in set(rows))
    assert needed <= remote.stats["fetched"] <= needed * (1 + WASTE_FAR)
    around = server.fetched("/data/") - remote.stats["fetched"]
    assert 0 < around < 150 * len(rows) if several else around == 0
    assert remote.stats["requests"] == (2 if several else 3)  # a shard each, or a stretch of it
    assert remote.stats["asked"] == sum(len(whole[row]) for row in rows)
    assert remote.stats["requests"] == len([path for path, _ in server.bodies if "/data/" in path])
    assert not [path for path, _ in server.bodies if "validation" in path]  # no pointers of it either


def test_neighbours_are_one_request_and_others_go_side_by_side(server, whole, monkeypatch):
    monkeypatch.setattr(pace, "FIRST", 4)
    reader = ExampleReader(f"{server.url}/tiny", "mini")
    server.always = "slow"
    rows = range(0, len(whole), 7)
    assert reader.read(rows) == [whole[row] for row in rows]
    assert 2 <= server.most_busy <= 4
    close = ExampleReader(f"{server.url}/tiny", "mini")
    assert close.read(range(20)) == whole[:20]
    assert close.stats["requests"] < 6
    reader.close()
    close.close()


@pytest.mark.parametrize("kind", ["text", "table"])
def test_texts_and_tables_read_row_groups(kind, tmp_path, tmp_path_factory):
    folder = Path(shutil.copytree(dataset_of(tmp_path_factory, kind), tmp_path / kind))
    base = sd.info(folder).default_base
    expected = by_pyarrow(folder, base)
    rows = [5, 0, len(expected) - 1, 5]
    system = fsspec.filesystem("memory")
    system.put(str(folder), f"/{kind}/{kind}", recursive=True)
    for source in (folder, f"memory://{kind}/{kind}"):
        reader = ExampleReader(source, base, verify=True)
        assert reader.read(rows) == [expected[row] for row in rows]
        if source == folder:
            for path in folder.rglob("data/*/*.parquet"):
                path.unlink()
            assert reader.read(rows) == [expected[row] for row in rows]  # kept in memory
        reader.close()


@pytest.mark.parametrize("rows", [[-1], [10**6], [0.5], [[1]], ["a"]])
def test_rows_that_are_not_there_are_refused(tiny, rows):
    with pytest.raises(InputError, match="rows are"):
        ExampleReader(tiny, "mini").read(rows)


@given(sizes=st.lists(st.tuples(st.integers(0, 5000), st.integers(1, LONGEST // 9)), min_size=1, max_size=60))
def test_spans_cover_every_piece_once_and_waste_little(sizes):
    pieces, end = [], 0
    for number, (gap, length) in enumerate(sizes):
        pieces.append(Piece(number, number, end + gap, length))
        end += gap + length
    joined = list(spans(pieces[::-1]))
    assert [piece for span in joined for piece in span.pieces] == pieces
    assert all(span.start <= piece.start <= piece.end <= span.end for span in joined for piece in span.pieces)
    asked = sum(piece.length for piece in pieces)
    assert sum(span.end - span.start for span in joined) <= asked * (1 + WASTE)
    assert all(span.end - span.start <= LONGEST for span in joined)


# What goes wrong


@pytest.mark.parametrize("fault", ["cut", "short", "error", "flipped", "slow", "elsewhere", "whole", "stuck"])
def test_what_passes_is_tried_again(server, whole, at_once, fault, monkeypatch):
    for name in ("HEAD", "WINDOW"):
        monkeypatch.setattr(client, name, 0.5)
    reader = ExampleReader(f"{server.url}/tiny", "mini", verify=True)
    reader.read([90])
    server.faults = [fault, fault]
    assert reader.read([7]) == [whole[7]]
    reader.close()


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("cut", StorageError, "cannot be read"),
        ("short", StorageError, r"cannot be read .*bytes came for"),
        ("error", StorageError, "cannot be read .*500"),
        ("flipped", IntegrityError, "row 7 does not have the sha256 .* fetch or build"),
        ("elsewhere", StorageError, "gives another range"),
        ("whole", StorageError, "gives no byte ranges: `shiftdata fetch`"),
    ],
)
def test_what_stays_wrong_names_shard_and_row(server, at_once, fault, kind, said):
    reader = ExampleReader(f"{server.url}/tiny", "mini", verify=True)
    server.always = fault
    with pytest.raises(kind, match=f"data/mini/train-00000-of-00001.parquet.*{said}"):
        reader.read([7])
    assert server.fetched("/data/") < 100_000 or fault == "whole"
    reader.close()


def test_a_damaged_or_missing_local_shard_is_named(copy):
    metadata = pq.read_table(copy / "metadata/mini/test.parquet")
    at = metadata["offset"][3].as_py() + 10
    data = bytearray((copy / TEST).read_bytes())
    data[at] ^= 1
    (copy / TEST).write_bytes(data)
    row = len(sd.read_metadata(copy, "mini")) - len(metadata) + 3
    assert len(ExampleReader(copy, "mini").read([row])) == 1
    with pytest.raises(IntegrityError, match=f"{TEST}: row 3 does not have the sha256"):
        ExampleReader(copy, "mini", verify=True).read([row])
    pq.write_table(pq.read_table(copy / TEST), copy / TEST, row_group_size=30, compression="zstd")
    with pytest.raises(IntegrityError, match=f"{TEST} is not the file that the manifest lists"):
        ExampleReader(copy, "mini").read([row])
    (copy / TEST).unlink()
    with pytest.raises(StorageError, match=f"{TEST} does not exist: fetch or build"):
        ExampleReader(copy, "mini").read([row])


# Threads, processes, ends


def test_a_reader_can_be_pickled_and_shared_by_threads(remote, whole):
    remote.read([1])
    again = pickle.loads(pickle.dumps(remote))
    assert again.read([5, 1]) == [whole[5], whole[1]]
    again.close()
    found: dict[int, list[bytes]] = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: remote.read([n, n + 9])})) for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [whole[n], whole[n + 9]] for n in range(6)}


def test_an_interrupted_read_ends_at_once(server):
    code = (
        "import signal, sys; from shiftdata.data.loading.byte_ranges import ExampleReader\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "reader = ExampleReader(sys.argv[1], 'mini')\n"
        "print('reading', flush=True); reader.read(range(0, 300, 9))"
    )
    server.always = "stuck"
    process = subprocess.Popen(
        [sys.executable, "-c", code, f"{server.url}/tiny"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reading\n"
        while server.busy < 8:  # until every connection waits for its answer
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=50)  # no answer comes before it ends
        assert b"KeyboardInterrupt" in told
    finally:
        process.kill()


def test_a_manifest_with_rows_that_no_file_has_is_refused(copy):
    rows = Manifest.read(copy).files[TEST].rows
    edit_manifest(copy, lambda raw: raw["files"][TEST].update(rows=rows - 1))
    with pytest.raises(IntegrityError, match=r"the manifest lists .* rows in the files of mini/test"):
        ExampleReader(copy, "mini")
