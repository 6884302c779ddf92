"""Several ranges by one request: whatever a server answers, the bytes are right, and it is remembered."""

from __future__ import annotations

import random
from http.server import BaseHTTPRequestHandler

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.places.http import MOST_RANGES, Http
from shiftdata.data.places.multipart import NoPartsError, Parts
from shiftdata.data.places.remote import POOL
from shiftdata.errors import StorageError
from tests.data.byte_ranges.server import PARTS, ranges
from tests.data.byte_ranges.test_reading import at_once, remote, served, server, whole
from tests.web import answering

__all__ = ["at_once", "remote", "served", "server", "whole"]  # fixtures

GIVES = ("well", "reordered", "fewer", "joined", "quoted")


@pytest.mark.parametrize("several", ["", *PARTS])
def test_whatever_a_server_answers_the_images_are_right(remote, server, whole, several):
    server.several = several
    rows = range(0, len(whole), 9)
    for _ in range(4):
        assert remote.read(rows) == [whole[row] for row in rows]
    assert remote.gives_several is (several in GIVES)
    server.bodies.clear()
    assert remote.read(rows) == [whole[row] for row in rows]
    asked = [path for path, _ in server.bodies if "/data/" in path]
    if several == "well":
        assert len(asked) == 3  # a shard each
    if not remote.gives_several:
        assert len(asked) > 10
        assert server.fetched("/data/") < sum(map(len, whole)) / 4  # no whole files


@pytest.mark.parametrize("fault", ["cut", "short", "error", "flipped"])
def test_what_passes_is_asked_for_again(remote, server, whole, at_once, fault):
    server.several = "well"
    rows = range(0, 200, 9)
    reader = ExampleReader(remote.dataset, "mini", verify=True)
    reader.read([0, 100])
    server.bodies.clear()
    server.faults = [fault]
    assert reader.read(rows) == [whole[row] for row in rows]
    assert reader.gives_several
    asked = [size for path, size in server.bodies if "/data/" in path]
    assert len(asked) == 2
    if fault != "error":
        assert asked[1] < sum(len(whole[row]) for row in rows)  # those alone that had not come, or were wrong
    reader.close()


@pytest.mark.parametrize("fault", ["cut", "short"])
def test_a_range_goes_on_at_the_byte_where_the_connection_was_lost(tmp_path, at_once, fault):
    content = random.Random(3).randbytes(1 << 20)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.tar").write_bytes(content)
    with ranges(tmp_path) as own:
        store = Http(own.url)
        own.faults = [fault, fault]
        assert store.range("data/a.tar", 1000, 900_000) == content[1000:900_000]
        assert sum(size for _, size in own.bodies) < 1_000_000
        store.close()


def test_a_request_has_no_more_ranges_than_servers_take(tmp_path):
    content = random.Random(4).randbytes(10_000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_bytes(content)
    with ranges(tmp_path) as own:
        own.several = "well"
        store = Http(own.url)
        wanted = [(start, 3) for start in range(0, 10_000, 10)] + [(5, 0)]
        assert store.ranges("data/a", wanted) == [content[start : start + size] for start, size in wanted]
        assert len(own.bodies) == -(-len(wanted) // MOST_RANGES)
        assert store.ranges("data/a", []) == []
        store.close()


def test_rows_come_from_s3_many_at_once(tiny, bucket, whole):
    fsspec.filesystem("s3").put(str(tiny), f"{bucket}/tiny", recursive=True)
    rows = range(0, len(whole), 5)
    with ExampleReader(f"s3://{bucket}/tiny", "mini", verify=True) as reader:
        assert reader.read(rows) == [whole[row] for row in rows]
        assert reader.gives_several
        assert reader.stats["requests"] <= 6  # of 32 ranges, of three shards
        (system, root), path = reader._store._system(), reader._layout.shards[0].path
        assert system.config_kwargs["max_pool_connections"] == POOL
        with pytest.raises(StorageError, match=r"missing .*does not exist"):
            reader._store.ranges("missing", [(0, 5), (7, 5)])
        size = system.size(f"{root}/{path}")
        with pytest.raises(StorageError, match="cannot be read"):
            reader._store.ranges(path, [(0, 5), (size - 3, 9)])


class Redirecting(BaseHTTPRequestHandler):
    """Redirects each request to a signed address elsewhere, which ends."""

    protocol_version = "HTTP/1.1"
    elsewhere, signature, asked = "", 0, list[str]()

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(302)
        self.send_header("Location", f"{self.elsewhere}{self.path}?{self.signature}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.mark.parametrize("several", ["well", ""])
def test_ranges_are_asked_for_where_a_redirect_led_until_that_ends(tmp_path, several):
    content = random.Random(5).randbytes(10_000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_bytes(content)
    wanted = [(start, 3) for start in range(0, 10_000, 1000)]
    asked: list[str] = []
    with ranges(tmp_path) as own:
        own.several = several
        handler = type("Own", (Redirecting,), {"elsewhere": own.url, "asked": asked})
        with answering(handler) as url:
            store = Http(url)
            for _ in range(2):
                assert store.ranges("data/a", wanted) == [content[at : at + size] for at, size in wanted]
            assert len(asked) == (1 if several else 2)  # the answer without several ranges is not followed
            own.faults = ["refused"]
            assert store.range("data/a", 7, 9) == content[7:9]
            assert len(asked) == (2 if several else 3)
            store.close()


RANGES = [(0, 5), (10, 20), (40, 1), (50, 30)]
CONTENT = bytes(range(100, 200))


def answered(body: bytes, said: str) -> dict[tuple[int, int], bytes]:
    parts = Parts(RANGES)
    parts.begin(206, {"content-type": said})
    for start in range(0, len(body), 7):
        parts.take(body[start : start + 7])
    return parts.found()


@given(st.data())
def test_a_body_that_was_cut_or_changed_gives_no_range_of_another_place(data):
    heads, body = PARTS["well"](CONTENT, [(start, start + size) for start, size in RANGES])
    right = {(start, size): CONTENT[start : start + size] for start, size in RANGES}
    assert answered(body, heads["Content-Type"]) == right
    cut = data.draw(st.integers(0, len(body)))
    came = answered(body[:cut], heads["Content-Type"])
    assert came.items() <= right.items()
    at, byte = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 255))
    try:
        came = answered(body[:at] + bytes([byte]) + body[at + 1 :], heads["Content-Type"])
    except NoPartsError:
        return
    assert all(len(came[start, size]) == size for start, size in came)


@pytest.mark.parametrize(
    "said",
    [
        "multipart/byteranges",
        "multipart/byteranges; boundary=",
        "multipart/byteranges; boundary=" + "x" * 71,
        'multipart/byteranges; boundary="of-parts',
        "multipart/mixed; boundary=of-parts",
        "multipart/byteranges; boundary=of\u00e9parts",
    ],
)
def test_a_head_that_is_not_of_parts_is_refused(said):
    with pytest.raises(NoPartsError):
        answered(b"", said)


def test_an_answer_of_more_bytes_is_refused_by_its_head():
    parts = Parts(RANGES)
    length = {"content-length": str(parts.most + 1), "content-type": "multipart/byteranges; boundary=b"}
    with pytest.raises(NoPartsError):
        parts.begin(206, length)
    with pytest.raises(NoPartsError):
        parts.begin(200, {})
