"""Retiring Adults from the files of the Census: years, states, filters, codes, files that are not whole."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from builders.make.build import build
from shiftdata.errors import InputError
from tests.builders import raw_albums
from tests.builders.replicas import acs as replica

MARYLAND = "2014/1-Year/ss14pmd.csv"
#: Whom ACSIncome keeps.
FILTERS = {"AGEP": 17, "PINCP": 101, "WKHP": 1, "PWGTP": 1}


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
        assert all(row[column].strip() and int(row[column]) >= least for column, least in FILTERS.items())


def test_an_income_of_exactly_50000_is_not_above(raw):
    labels = {
        item.source["row"]: item.label for item in album_of(raw).items() if item.source["file"] == MARYLAND
    }
    assert (labels[0], labels[1]) == ("at_most_50000", "above_50000")


def test_whom_a_filter_leaves_out_is_counted_by_the_first(raw):
    left_out = album_of(raw).left_out
    assert {what: why for what, why in left_out.items() if what.startswith(MARYLAND)} == {
        f"{MARYLAND}, {words}": "left out by a filter"
        for words in ("AGEP > 16: 2 rows", "PINCP > 100: 2 rows", "WKHP > 0: 2 rows", "PWGTP >= 1: 1 rows")
    }
    assert not [what for what in left_out if "5-Year" in what or "ss14pak" in what or "ss14hmd" in what]


def test_every_faulty_file_is_named_and_one_that_is_missing_is_left_out(raw, tmp_path):
    root = Path(shutil.copytree(raw, tmp_path / "raw"))
    (root / "2015/1-Year/ss15pnj.csv").unlink()
    assert [place for place in album_of(root).left_out if "2015" in place and "ss15pnj" in place]
    for file in ("2014/1-Year/ss14pma.csv", "2018/1-Year/psam_p72.csv"):
        (root / file).write_text("RT,SERIALNO\nP,1\n")
    with pytest.raises(InputError, match=r"ss14pma\.csv .* has no column .*psam_p72\.csv"):
        album_of(root).items()


def test_files_are_read_in_the_order_of_the_released_code(raw):
    items = [item for item in album_of(raw).items() if item.nuisance == "2017"]
    order = sorted(items, key=lambda item: item.source["lists"]["files"])
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
