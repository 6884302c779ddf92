"""The table of items: sorted on disk, rows as items, only its own rows in a pickle."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import items as module
from builders.blocks import Block, cut_into_blocks
from builders.items import ItemTable, taken
from builders.sample import Item
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

NAMES = st.sampled_from(["", "a", "bb", "ü", "ccc"])


def item(number: int, **given: object) -> Item:
    fields = {
        "label": f"label{number % 3}",
        "origin": f"o{number // 2}",
        "license": "MIT",
        "attribution": "A",
    }
    return Item(key=f"k{number:04d}", **fields | {"source": {"file": f"{number}.png"}} | given)


MADE = st.builds(
    item,
    st.integers(0, 9999),
    label=NAMES,
    attribution=NAMES,
    nuisance=st.none() | NAMES,
    severity=st.none() | st.sampled_from([0.0, 0.5, 2.0]),
    bases=st.sampled_from([(), ("mini",), ("extended", "mini")]),
    source=st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3) | st.none(), max_size=2),
)


@pytest.mark.parametrize("on_disk", [False, True])
@settings(max_examples=60, deadline=None)
@given(made=st.lists(MADE, max_size=40, unique_by=lambda of: of.key))
def test_a_table_gives_back_its_items_sorted_by_key(tmp_path_factory, on_disk, made):
    folder = tmp_path_factory.mktemp("table") if on_disk else None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "ROWS_OF_RUN", 7)
        patched.setattr(module, "ROWS_OF_BATCH", 3)
        patched.setattr(module, "AT_ONCE", 5)
        table = ItemTable.of(iter(made), folder)
        expected = sorted(made, key=lambda of: of.key)
        assert list(table) == expected
        assert [table[at] for at in range(len(table))] == expected
        assert table[2:5] == tuple(expected[2:5])
        assert pickle.loads(pickle.dumps(table)) == table
        assert table.names("label") == sorted({of.label for of in made})
        names = ["ccc", "a"]
        of_names = [names.index(of.label) if of.label in names else -1 for of in expected]
        assert table.codes("label", names).tolist() == of_names
    if folder:
        assert list(folder.iterdir()) == [], "the file has no name, and goes with the process"


def test_many_runs_are_merged_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS_OF_RUN", 100)
    monkeypatch.setattr(module, "ROWS_OF_BATCH", 10)
    shuffled = random.Random(0).sample([item(number) for number in range(5000)], 5000)
    keys = ItemTable.of(shuffled, tmp_path).columns["key"].to_pylist()
    assert keys == sorted(of.key for of in shuffled)


def test_rows_are_found_by_key_and_unknown_keys_are_named():
    table = ItemTable.of([item(number) for number in range(100)])
    keys = pa.array(["k0042", "k0007"])
    assert table.rows_of(keys).tolist() == [42, 7]
    assert table.find(pa.array(["k0042", "nothing"])).tolist() == [42, -1]
    with pytest.raises(InputError, match="the album has no item nothing: it changed"):
        table.rows_of(pa.array(["nothing"]))


def test_keys_whose_hashes_collide_are_not_taken_for_each_other(monkeypatch):
    monkeypatch.setattr(module, "hashes64", lambda keys, salt: np.zeros(len(keys), np.uint64))
    table = ItemTable.of([item(number) for number in range(3)])
    assert table.find(pa.array(["k0000", "k0002"])).tolist() == [0, -1], "missing rather than wrong"


@pytest.mark.parametrize("collide", [False, True])
def test_origins_are_numbered_by_their_names_even_where_hashes_collide(monkeypatch, collide):
    if collide:
        monkeypatch.setattr(module, "hashes64", lambda texts, salt: np.zeros(len(texts), np.uint64))
    made = [item(number, origin=f"o{number * 7 % 30}") for number in range(100)]
    numbers, rows = ItemTable.of(made).origins
    names = [made[row].origin for row in rows]
    assert len(set(names)) == len(names) == 30
    assert [names[number] for number in numbers] == [of.origin for of in made]


def test_a_block_takes_along_its_own_rows_alone():
    """A worker needs the items of its block; of 14 million others it must get nothing."""
    few, many = (ItemTable.of([item(number) for number in range(count)]) for count in (40, 4000))
    blocks = [cut_into_blocks(table, np.arange(40), "shift", 8, np.ones_like) for table in (few, many)]
    sizes = [len(pickle.dumps(of[1])) for of in blocks]
    assert sizes[1] == sizes[0]
    sent: Block = pickle.loads(pickle.dumps(blocks[1][1]))
    assert [of.key for of in sent.items] == [f"k{number:04d}" for number in range(8, 16)]
    keys = [f"k{number:04d}" for number in range(8, 16)]
    assert sent.id == f"shift-{content_hash(*keys)[:20]}"
    assert sent.weight == 8


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.integers(0, 199), max_size=40), monotonic=st.booleans())
def test_rows_are_taken_in_the_order_asked_for(rows, monotonic):
    table = pa.concat_tables(
        [ItemTable.of(map(item, range(at, at + 40))).columns for at in range(0, 200, 40)]
    )
    asked = np.array(sorted(rows) if monotonic else rows, np.int64)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "ROWS_OF_BATCH", 30)
        assert taken(table, asked).equals(table.take(pa.array(asked)))
