"""Retiring Adults from the files of the Census: years, states, filters, codes, files that are not whole."""

from __future__ import annotations

import csv
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from builders.make.build import build
from builders.raw.acs import FILTERS
from tests.builders import raw_albums
from tests.builders.replicas import acs as replica

MARYLAND = "2014/1-Year/ss14pmd.csv"


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("acs")
    replica.make(root)
    return root


album_of = partial(raw_albums.album_of, "retiring_adults")


def test_persons_are_those_of_their_rows(raw):
    album = album_of(raw)
    files = {
        path.relative_to(raw).as_posix(): list(csv.DictReader(path.read_text().splitlines()))
        for path in raw.rglob("*.csv")
    }
    for item in album.items():
        row, features = files[str(item.source["file"])][item.source["row"]], album.load(item)
        assert features == {
            name: int(cell) if (cell := row[name].strip()) else None for name in replica.FEATURES
        }
        assert item.label == ("above_50000" if int(row["PINCP"]) > 50_000 else "at_most_50000")
        assert all(row[column].strip() and int(row[column]) >= least for column, least, _ in FILTERS)


def test_an_income_of_exactly_50000_is_not_above(raw):
    labels = {
        item.source["row"]: item.label for item in album_of(raw).items() if item.source["file"] == MARYLAND
    }
    assert (labels[0], labels[1]) == ("at_most_50000", "above_50000")


def test_whom_a_filter_leaves_out_is_counted_by_the_first(raw):
    left_out = album_of(raw).left_out
    assert {what: why for what, why in left_out.items() if what.startswith(MARYLAND)} == {
        f"{MARYLAND}, AGEP > 16: 2 persons": "left out by a filter of ACSIncome",
        f"{MARYLAND}, PINCP > 100: 2 persons": "left out by a filter of ACSIncome",
        f"{MARYLAND}, WKHP > 0: 2 persons": "left out by a filter of ACSIncome",
        f"{MARYLAND}, PWGTP >= 1: 1 persons": "left out by a filter of ACSIncome",
    }
    assert left_out["2017/5-Year/psam_p24.csv"].startswith("of five years together")
    assert not [what for what in left_out if "ss14pak" in what or "ss14hmd" in what]


def test_files_are_read_in_the_order_of_the_released_code(raw):
    items = [item for item in album_of(raw).items() if item.nuisance == "2017"]
    order = sorted(items, key=lambda item: item.source["lists"]["files"])
    assert [item.source["lists"]["files"] for item in order] == list(range(len(items)))
    assert list(dict.fromkeys(item.source["file"] for item in order)) == [
        f"2017/1-Year/psam_p{number}.csv" for number in ("24", "34", "25")
    ]
    assert all(
        one.source["row"] < other.source["row"]
        for one, other in pairwise(order)
        if one.source["file"] == other.source["file"]
    )


def test_what_is_not_known_is_null_and_codes_are_whole_numbers(raw, tmp_path):
    folder = build(f"retiring_adults={raw}", tmp_path, workers=1, quiet=True)
    rows = pq.read_table(folder / "data/all")
    assert Counter(rows["OCCP"].is_null().to_pylist())[True] == sum(map(len, replica.FILES.values()))
    assert rows["WKHP"].null_count == 0
    assert {str(rows.schema.field(name).type) for name in replica.FEATURES} == {"int64"}
