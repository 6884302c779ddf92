"""Conditions as text, and as filters."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shiftdata.data.format.conditions import condition_text, parse_condition, resolve, rows_matching
from shiftdata.errors import InputError, NotFoundError

NAMES = {"labels": ["bird", "dog"], "nuisance": "style", "nuisances": ["ink blots", "oil", "rust"]}


@pytest.mark.parametrize(
    ("text", "parsed", "filters"),
    [
        ("style=Ink-Blots, rust", ("style", "in", ["Ink-Blots", "rust"]), ("style", "in", [0, 2])),
        ("nuisance == 2", ("nuisance", "in", ["2"]), ("style", "in", [2])),
        ("style!=oil", ("style", "not in", ["oil"]), ("style", "in", [0, 2])),
        ("label=dog,bird,dog", ("label", "in", ["dog", "bird", "dog"]), ("label", "in", [0, 1])),
        ("severity == 1", ("severity", "in", ["1"]), ("severity", "in", [1.0])),
        ("severity!=1,0.5", ("severity", "not in", ["1", "0.5"]), ("severity", "not in", [0.5, 1.0])),
        ("quantile>=0.5", ("quantile", ">=", 0.5), ("quantile", ">=", 0.5)),
        ("fold<20", ("fold", "<", 20), ("fold", "<", 20)),
        ("use=commercial", ("use", "in", ["commercial"]), ("use", "in", ["commercial"])),
        ("license!=MIT", ("license", "not in", ["MIT"]), ("license", "not in", ["MIT"])),
    ],
)
def test_a_text_becomes_filters(text, parsed, filters):
    assert parse_condition(text) == parsed
    assert resolve(parsed, **NAMES) == filters
    names = {"label": NAMES["labels"], "style": NAMES["nuisances"]}
    again = parse_condition(condition_text(filters, names))
    assert resolve(again, **NAMES) == filters


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("style", "'style' is not a condition: write COLUMN=VALUE"),
        ("style=,", "is not a condition"),
        ("style=oyl", "unknown style 'oyl'; did you mean 'oil'"),
        ("stile=oil", "unknown column 'stile'; did you mean 'style'"),
        ("use=comercial", "unknown use 'comercial'; did you mean 'commercial'"),
        ("label=2", "unknown label '2'"),
        ("label<=1", "only severity, quantile, fold can be compared"),
        ("severity<=much", "severity is compared with a number, and 'much' is not one"),
        ("fold=x", "fold is compared with a number"),
    ],
)
def test_a_bad_condition_is_answered(text, message):
    with pytest.raises(InputError, match=message) as error:
        resolve(parse_condition(text), **NAMES)
    assert isinstance(error.value, NotFoundError) == message.startswith("unknown")


def test_rows_of_severity_zero_are_read_from_row_groups_of_zeros(tmp_path):
    """Arrow skips a row group of zeros alone where it is asked for 0.0 in a list."""
    table = pa.table({"severity": [0.0] * 30 + [0.5] * 30 + [0.0, 0.5] * 15})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=30)
    for text, rows in (
        ("severity=0,0.5", 90),
        ("severity=0", 45),
        ("severity!=0", 45),
        ("severity!=0.5", 45),
    ):
        asked = resolve(parse_condition(text), labels=[], nuisance="shift", nuisances=[])
        assert len(pq.read_table(tmp_path / "rows.parquet", filters=[[asked]])) == rows
        assert len(rows_matching(table, [[asked]])) == rows
        assert condition_text(asked) == text
