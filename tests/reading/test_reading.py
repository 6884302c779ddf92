"""Examples by row: from folders and URLs, with servers that fail, a cache, and shards written by others."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.build import build
from shiftdata import places
from shiftdata.errors import InputError, IntegrityError, StorageError
from shiftdata.manifest import Manifest
from shiftdata.reading import DiskCache, ExampleReader
from shiftdata.reading.ranges import Wanted, merged
from shiftdata.schema import SPLITS, example_bytes
from tests.contracts.kinds import prepare
from tests.reading.served import serving


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(places, "PAUSES", (0.0, 0.0))


def everything(folder: Path, base: str) -> list[bytes]:
    """Every example as pyarrow reads it, in the order of the metadata."""
    manifest = Manifest.read(folder)
    found: list[bytes] = []
    for split in SPLITS:
        for path in sorted(folder.glob(f"data/{base}/{split}-*.parquet")):
            found += example_bytes(pq.read_table(path), manifest.roles)
    return found


@pytest.fixture(scope="module")
def examples(tiny) -> list[bytes]:
    return everything(tiny, "mini")


@given(rows=st.lists(st.integers(0, 399), max_size=60), tolerance=st.sampled_from([0, 100, 10**6]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows_in_any_order_are_what_the_files_hold(tiny, examples, rows, tolerance):
    with ExampleReader(tiny, "mini", tolerance=tolerance) as reader:
        rows = [row % len(reader) for row in rows]
        assert reader.read(rows) == [examples[row] for row in rows]


@pytest.mark.parametrize("kind", ["text", "table"])
def test_texts_and_tables_are_read_by_row_group(kind, tmp_path):
    folder = build(str(prepare(kind, tmp_path)), tmp_path / "out", workers=1, quiet=True)
    base = Manifest.read(folder).default_base
    expected = everything(folder, base)
    with ExampleReader(folder, base, verify=True) as reader:
        order = np.random.default_rng(0).permutation(len(reader)).tolist()
        assert reader.read(order) == [expected[row] for row in order]
        assert reader.stats.requests == 0
        assert reader.stats.row_groups > 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 500), st.integers(1, 50)), max_size=30))
def test_merged_requests_cover_each_example_once(places_of):
    wanted = [Wanted(row, f"s{shard}", start, size) for row, (shard, start, size) in enumerate(places_of)]
    requests = list(merged(wanted, 20))
    held = [one for request in requests for one in request.examples]
    assert sorted(one.row for one in held) == list(range(len(wanted)))
    for request in requests:
        assert all(one.shard == request.shard for one in request.examples)
        assert request.start <= min(one.offset for one in request.examples)
        assert request.end >= max(one.end for one in request.examples)


def test_over_http_only_what_is_asked_for_is_fetched(tiny_out, tiny, examples):
    with serving(tiny_out) as server, ExampleReader(f"{server.url}/shift/tiny", "mini") as reader:
        reader.read([0, 300])  # and with them the pointers of two splits
        before, already = server.sent, reader.stats.fetched
        rows = [*range(10, 50), 301, 7]
        assert reader.read(rows) == [examples[row] for row in rows]
        fetched = server.sent - before
        assert fetched == reader.stats.fetched - already
        assert fetched < 1.5 * sum(len(examples[row]) for row in rows)
        assert reader.stats.requests < 20


def test_through_memory(tiny, examples):
    system = fsspec.filesystem("memory")
    system.put(str(tiny), "/reading/tiny", recursive=True)
    with ExampleReader("memory://reading/tiny", "mini", verify=True) as reader:
        assert reader.read([3, 1, 3]) == [examples[3], examples[1], examples[3]]


@pytest.mark.parametrize("fault", ["error", "cut", "short"])
def test_a_server_that_fails_twice_is_asked_again(fault, tiny_out, examples):
    with serving(tiny_out) as server, ExampleReader(f"{server.url}/shift/tiny", "mini") as reader:
        server.faults = [fault, fault]
        assert reader.read([5]) == [examples[5]]
        assert server.faults == []


@pytest.mark.parametrize("fault", ["error", "cut", "short", "ignore range"])
def test_a_server_that_goes_on_failing_is_an_error_that_names_shard_and_row(fault, tiny_out):
    with serving(tiny_out) as server, ExampleReader(f"{server.url}/shift/tiny", "mini") as reader:
        server.always = fault
        with pytest.raises(StorageError, match=r"data/mini/train-00000.*row 5 .*download the dataset"):
            reader.read([5])


def test_a_flipped_byte_is_fetched_again_and_then_named(tiny_out, examples):
    with (
        serving(tiny_out) as server,
        ExampleReader(f"{server.url}/shift/tiny", "mini", verify=True) as reader,
    ):
        server.faults = ["flip"]
        assert reader.read([5]) == [examples[5]]
        server.always = "flip"
        with pytest.raises(IntegrityError, match=r"row 6 \(data/mini/train-00000.*sha256"):
            reader.read([6])


def test_requests_go_out_at_once(tiny_out, examples):
    with serving(tiny_out) as server:
        reader = ExampleReader(f"{server.url}/shift/tiny", "mini", tolerance=0, connections=8)
        reader.read([0])
        server.slow = 0.1
        began = time.monotonic()
        rows = list(range(0, 320, 20))  # 16 requests
        assert reader.read(rows) == [examples[row] for row in rows]
        assert time.monotonic() - began < 1.2  # one after another: 1.6 s and more
    assert not [thread for thread in threading.enumerate() if "work" in thread.name]


def test_a_cache_serves_what_was_fetched_and_notices_damage(tiny_out, examples, tmp_path):
    cache = tmp_path / "cache"
    with serving(tiny_out) as server:
        url = f"{server.url}/shift/tiny"
        with ExampleReader(url, "mini", cache=cache) as reader:
            reader.read(list(range(20)))
        with ExampleReader(url, "mini", cache=cache) as again:
            assert again.read([4, 2]) == [examples[4], examples[2]]
            assert (again.stats.cached, again.stats.fetched) == (2, 0)
            for file in cache.glob("*/*"):
                file.write_bytes(file.read_bytes()[:-1] + b"x")
            assert again.read([4, 2]) == [examples[4], examples[2]]
            assert again.stats.fetched > 0


def test_a_cache_keeps_to_its_limit_and_drops_the_oldest(tmp_path):
    cache = DiskCache(tmp_path, limit=10_000)
    for number in range(20):
        cache.put(str(number), bytes(1_000))
    cache.shrink()
    kept = [number for number in range(20) if cache.get(str(number)) is not None]
    assert sum(file.stat().st_size for file in tmp_path.glob("*/*")) <= 10_000
    assert kept


def test_two_processes_share_a_cache(tiny, tmp_path, tiny_out, examples):
    code = textwrap.dedent(
        """
        import sys
        from shiftdata.reading import DiskCache
        from pathlib import Path
        cache = DiskCache(Path(sys.argv[1]), 200_000)
        for number in range(400):
            cache.put(str(number % 50), str(number % 50).encode() * 500)
            data = cache.get(str((number * 7) % 50))
            assert data is None or data == str((number * 7) % 50).encode() * 500
        """
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    assert [one.wait() for one in running] == [0, 0]


def test_a_shard_that_somebody_wrote_again_is_read_by_row_groups(copy, examples):
    (shard,) = copy.glob("data/mini/train-*.parquet")
    pq.write_table(pq.read_table(shard), shard, row_group_size=50)
    reader = ExampleReader(copy, "mini")
    with pytest.warns(UserWarning, match="somebody wrote it again"):
        assert reader.read([9, 120]) == [examples[9], examples[120]]
    assert reader.stats.row_groups == 2
    table = pq.read_table(shard)
    pq.write_table(table.slice(1).append_column("x", table.slice(1)["key"]), shard)
    with (
        pytest.warns(UserWarning, match="somebody wrote it again"),
        pytest.raises(IntegrityError, match="row 9 "),
    ):
        ExampleReader(copy, "mini").read([9])


def test_a_missing_shard_is_said(copy):
    (shard,) = copy.glob("data/mini/train-*.parquet")
    shard.unlink()
    with pytest.raises(StorageError, match=r"cannot read data/mini/train-00000.*FileNotFoundError"):
        ExampleReader(copy, "mini").read([9])


def test_it_goes_to_other_processes_and_opens_again_after_close(tiny, examples):
    reader = ExampleReader(tiny, "mini", verify=True)
    other = pickle.loads(pickle.dumps(reader))
    assert other.read([1]) == reader.read([1]) == [examples[1]]
    reader.close()
    assert reader.read([2]) == [examples[2]]
    reader.close()


def test_many_threads_use_one_reader(tiny, examples):
    reader, wrong = ExampleReader(tiny, "mini"), []

    def work(seed: int) -> None:
        rows = np.random.default_rng(seed).integers(0, len(reader), 200).tolist()
        if reader.read(rows) != [examples[row] for row in rows]:
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"connections": 0}, "1 connection"),
        ({"tolerance": -1}, "tolerance=-1"),
        ({"cache_limit": 0}, "1 byte"),
    ],
)
def test_bad_options_are_refused(options, match, tiny):
    with pytest.raises(InputError, match=match):
        ExampleReader(tiny, "mini", **options)


def test_rows_out_of_range_and_unknown_bases_are_refused(tiny):
    with pytest.raises(InputError, match="rows are 0 to"):
        ExampleReader(tiny, "mini").read([10**6])
    with pytest.raises(LookupError, match="did you mean 'mini'"):
        ExampleReader(tiny, "minni")


def test_ctrl_c_ends_a_slow_read_at_once(tiny_out):
    code = textwrap.dedent(
        """
        import signal, sys
        from shiftdata.reading import ExampleReader
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        reader = ExampleReader(sys.argv[1], "mini", tolerance=0)
        reader._pointers.span(0)
        print("ready", flush=True)
        reader.read(list(range(0, 300, 10)))
        """
    )
    with serving(tiny_out) as server:
        server.slow = 20
        command = [sys.executable, "-c", code, f"{server.url}/shift/tiny"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        process.wait(timeout=10)
        assert time.monotonic() - began < 5
        process.stdout.close()
