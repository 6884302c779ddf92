"""The body of a commit as a stream, against `json`."""

from __future__ import annotations

import base64
import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.serve.commits import LONGEST_LINE, MOST_LINES, CommitLines, Line
from shiftdata.serve.names import Refusal

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
others = st.dictionaries(texts.filter(lambda key: key != "content"), values, max_size=3)


@st.composite
def operations(draw) -> dict[str, Any]:
    value = draw(others)
    if draw(st.booleans()):
        value["content"] = base64.b64encode(draw(st.binary(max_size=60))).decode()
        value = dict(draw(st.permutations(list(value.items()))))
    return {"key": draw(texts), "value": value}


def parsed(body: bytes, cuts: list[int]) -> list[tuple[str, dict[str, Any], bytes | None]]:
    """What comes of a body in pieces: per line its key, its value without the content, the content."""
    lines = CommitLines()
    found, content = [], b""
    edges = [0, *sorted({cut % (len(body) + 1) for cut in cuts}), len(body)]
    made = [one for start, end in itertools.pairwise(edges) for one in lines.feed(body[start:end])]
    for one in [*made, *lines.close()]:
        if isinstance(one, Line):
            value = {name: held for name, held in one.value.items() if name != "content"}
            found.append((one.key, value, content if one.has_content else None))
            content = b""
        else:
            content += one
    return found


def expected(body: bytes) -> list[tuple[str, dict[str, Any], bytes | None]]:
    found = []
    for line in body.decode().split("\n"):
        if line.strip():
            read = json.loads(line)
            content = read["value"].pop("content", None)
            found.append((read["key"], read["value"], None if content is None else base64.b64decode(content)))
    return found


@given(
    st.lists(operations(), max_size=4),
    st.lists(st.integers(0, 10**6), max_size=40),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_any_body_in_any_pieces_is_what_json_reads(lines, cuts, compact, plain, slashes):
    separators = (",", ":") if compact else (" , ", " : ")
    written = "\n".join(json.dumps(one, separators=separators, ensure_ascii=plain) for one in lines)
    body = (written.replace("/", r"\/") if slashes else written).encode()
    assert parsed(body, cuts) == expected(body)


def test_one_byte_at_a_time_is_the_same():
    body = b'{"key":"file","value":{"content":"aGVsbG8=","path":"a\\"content\\":\\"x"}}\n'
    assert parsed(body, list(range(len(body)))) == [("file", {"path": 'a"content":"x'}, b"hello")]


def test_a_key_that_only_ends_like_content_is_kept():
    body = rb'{"key":"header","value":{"a\"content":"not base64!"}}'
    assert parsed(body, []) == [("header", {'a"content': "not base64!"}, None)]


def test_memory_is_that_of_a_piece():
    lines, piece = CommitLines(), b"QUJD" * (1 << 18)
    list(lines.feed(b'{"key":"file","value":{"content":"'))
    for _ in range(20):
        assert b"".join(lines.feed(piece)) == b"ABC" * (1 << 18)  # handed out at once
        assert len(lines._kept) + len(lines._base64) < 100


@pytest.mark.parametrize(
    "body",
    [
        b"no json\n",
        b"[]\n",
        b'{"key": 1, "value": {}}\n',
        b'{"key": "header"}\n',
        b'{"key": "header", "value": []}\n',
        b'{"key":"file","value":{"content":"@@@@"}}\n',
        b'{"key":"file","value":{"content":"QUI"}}\n',
        b'{"key":"file","value":{"content":"QQ==QUJD"}}\n',
        b'{"key":"file","value":{"content":"Q\\u0041=="}}\n',
        b'{"key":"file","value":{"content":"QUJD","content":"QUJD"}}\n',
        b'{"content":"QUJD","key":"file","value":{}}\n',
        b'{"key":"file","value":{"content":"QU\nJD"}}\n',
        b'{"key":"file","value":{"path":"a\nb"}}\n',
        b'{"key":"file","value":{"content":"QUJD',
        b'{"key":"file","value":{"path":"QUJD',
        b'{"key":"file","value":' + b"[" * 100_000,
        b'{"key":"\xff\xfe","value":{}}\n',
    ],
)
def test_what_is_no_commit_is_refused(body):
    with pytest.raises(Refusal) as raised:
        parsed(body, [])
    assert raised.value.status == 400


def test_a_line_without_end_is_refused():
    lines = CommitLines()
    list(lines.feed(b" " * LONGEST_LINE))
    with pytest.raises(Refusal) as raised:
        list(lines.feed(b" "))
    assert raised.value.status == 413


@pytest.mark.parametrize("size", [1, 4096, 65536])
@pytest.mark.parametrize(
    "body",
    [
        b"\n" * 150_000,
        b" \r\n" * 60_000,
        b'{"key":"file","value":{"content":"QUJD"}}\n' * 5000,
        b'{"key":"header","value":{"summary":"' + b" " * 900_000,
        b'{"key":"file","value":{"content":"' + b"QUJD" * 60_000,
    ],
    ids=["blank", "blank with spaces", "small files", "long", "content"],
)
def test_the_time_grows_with_the_bytes_alone(body: bytes, size: int):
    """Copying what is left of a piece for each of its lines took minutes."""
    body = body[:100_000] if size == 1 else body
    lines, began = CommitLines(), time.process_time()
    for at in range(0, len(body), size):
        for _ in lines.feed(body[at : at + size]):
            pass
    assert time.process_time() - began < 1.5


def test_lines_without_end_are_refused():
    with pytest.raises(Refusal, match="lines at most"):
        list(CommitLines().feed(b"\n" * (MOST_LINES + 1)))
