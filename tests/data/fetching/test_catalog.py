"""Catalogs: read from files and URLs, written alike, and clear about what is wrong in them."""

from __future__ import annotations

import json

import fsspec
import pytest

from shiftdata.data.places.catalog import Catalog, Entry, addresses, look_up
from shiftdata.errors import InputError, NotFoundError

DIGEST = "ab" * 32
GOOD = {"manifest": DIGEST, "places": ["hf://datasets/shift/toy", "/data/toy"]}


def test_a_catalog_is_written_in_one_way_and_read_again(tmp_path):
    toys = Catalog({"b": Entry(DIGEST, ("/b",)), "a": Entry(DIGEST, ("/a", "https://host/a"))})
    toys.write(tmp_path / "one.json")
    Catalog(dict(reversed(toys.entries.items()))).write(tmp_path / "other.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "other.json").read_bytes()
    assert list(json.loads((tmp_path / "one.json").read_text())) == ["a", "b"]
    assert Catalog.read(tmp_path / "one.json").entries == toys.entries


def test_a_catalog_at_a_url():
    system = fsspec.filesystem("memory")
    system.pipe("/lab/catalog.json", json.dumps({"toy": GOOD}).encode())
    try:
        assert Catalog.read("memory://lab/catalog.json").entries["toy"].places == tuple(GOOD["places"])
    finally:
        system.rm("/lab", recursive=True)
    with pytest.raises(NotFoundError, match=r"memory://lab/catalog\.json does not exist"):
        Catalog.read("memory://lab/catalog.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"toy":\n oops}', "is not JSON: .*line 2 column 2"),
        ("[]", "is not a catalog"),
        (json.dumps({"a/b/c": GOOD}), "a name is <name> or <owner>/<name>"),
        (json.dumps({"toy": ["x"]}), "the entry 'toy': it must be an object"),
        (json.dumps({"toy": {**GOOD, "size": 3}}), "it needs exactly"),
        (json.dumps({"toy": {"places": ["/x"]}}), "it needs exactly manifest and places"),
        (json.dumps({"toy": {**GOOD, "manifest": "AB" * 32}}), "64 digits of 0-9a-f"),
        (json.dumps({"toy": {**GOOD, "places": []}}), "a list of at least one folder or URL"),
        (json.dumps({"toy": {**GOOD, "places": "/x"}}), "places is '/x', not a"),
    ],
)
def test_what_is_wrong_in_a_catalog_is_said(text, said):
    with pytest.raises(InputError, match=said):
        Catalog.from_json(text, "mine.json")


def test_catalogs_are_looked_up_in_order_and_one_that_is_away_hides_none(tmp_path, monkeypatch):
    own = tmp_path / "config" / "shiftdata" / "catalog.json"
    Catalog({"toy": Entry(DIGEST, ("/own",)), "mine": Entry(DIGEST, ("/mine",))}).write(own)
    Catalog({"toy": Entry(DIGEST, ("/lab",))}).write(tmp_path / "lab.json")
    assert look_up("toy") == (Entry(DIGEST, ("/own",)), [])
    monkeypatch.setenv("SHIFTDATA_CATALOG", f"http://127.0.0.1:9/catalog.json, {tmp_path / 'lab.json'}")
    assert addresses() == ["http://127.0.0.1:9/catalog.json", str(tmp_path / "lab.json"), str(own)]
    entry, notes = look_up("toy")
    assert entry is not None
    assert entry.places == ("/lab",)
    assert len(notes) == 1
    assert "127.0.0.1:9" in notes[0]
    assert look_up("mine", offline=True) == (
        Entry(DIGEST, ("/mine",)),
        ["http://127.0.0.1:9/catalog.json: not asked (offline)"],
    )
    assert look_up("nobody")[0] is None
