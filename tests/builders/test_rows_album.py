from __future__ import annotations

import csv
import datetime as dt
import math
import random
import textwrap
from collections import Counter
from decimal import Decimal
from itertools import product
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from builders.albums import Album
from builders.albums.rows import Columns, RowsAlbum
from builders.sample import BadItem
from shiftdata.data.format.schema import KEY_PATTERN
from shiftdata.errors import InputError

BY_ID = Columns(label="y", text="x", key="id")
REVIEWS = Columns(label="stars", text="review", domain="shop")


def album(path: Path, columns: Columns = REVIEWS, **options) -> RowsAlbum:
    return RowsAlbum(path, columns, license="CC0-1.0", attribution="made here", **options)


def written(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    rows = """\
        stars,review,shop,note
        1,"Bad, really.
        Two lines.",Books,x
        01,"He said ""hi"" twice",Books,x
        5,Good,Café & Co,x
        5,Good,Books,x
        """
    return written(tmp_path / "reviews.csv", rows)


def test_rows_are_items_with_texts_as_spelled(reviews):
    made = album(reviews)
    assert isinstance(made, Album)
    assert made.labels == ("01", "1", "5")
    items = made.items()
    assert {(item.label, item.nuisance, made.load(item)) for item in items} == {
        ("1", "Books", "Bad, really.\nTwo lines."),
        ("01", "Books", 'He said "hi" twice'),
        ("5", "Café & Co", "Good"),
        ("5", "Books", "Good"),
    }
    assert [item.key for item in items] == sorted(item.key for item in items)
    assert all(KEY_PATTERN.fullmatch(item.key) for item in items)
    assert {(item.license, item.attribution) for item in items} == {("CC0-1.0", "made here")}
    assert items is made.items(), "items are asked for often"


def test_an_example_has_one_origin_in_all_domains_of_a_label(tmp_path):
    text = "stars,review,shop\n5,Good,a\n5,Good,b\n1,Good,a\n5,Bad,a\n"
    origins = {
        (item.label, item.nuisance, item.key): item.origin
        for item in album(written(tmp_path / "a.csv", text)).items()
    }
    of = {(label, domain): set() for label, domain, _ in origins}
    for (label, domain, _), origin in origins.items():
        of[label, domain].add(origin)
    assert of["5", "b"] < of["5", "a"]
    assert not of["1", "a"] & of["5", "a"], "an origin has one label"


ROWS = [
    {"stars": str(n % 3), "review": f"text {n % 7}", "shop": "ab"[n % 2], "by": f"w{n % 4}", "terms": terms}
    for n in range(30)
    for terms in ("MIT", "")
]


@pytest.mark.parametrize("key", [None, "id"])
def test_the_order_of_the_file_changes_nothing(tmp_path, key):
    rows = [{**row, "id": f"Row {n}"} for n, row in enumerate(ROWS)]
    columns = Columns(
        label="stars", text="review", domain="shop", origin="by", license="terms", attribution="by", key=key
    )
    found = []
    for name, order in (("a.csv", rows), ("b.tsv", random.Random(0).sample(rows, len(rows)))):
        with (tmp_path / name).open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t" if name == "b.tsv" else ",")
            writer.writeheader()
            writer.writerows(order)
        found.append(album(tmp_path / name, columns))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    found.append(album(tmp_path / "c.parquet", columns))
    one, *others = found
    for other in others:
        assert one.items() == other.items()
        assert [one.load(item) for item in one.items()] == [other.load(item) for item in other.items()]
        assert one.fingerprint() == other.fingerprint()


def test_columns_give_keys_origins_and_licences(tmp_path):
    text = "y,text,id,author,terms,by\npos,Good,Doc 7,Ann B.,MIT,Ann\npos,Fine,Doc 8,,,\n"
    columns = Columns(label="y", text="text", key="id", origin="author", license="terms", attribution="by")
    first, second = album(written(tmp_path / "a.csv", text), columns).items()
    assert (first.key, first.origin, first.license, first.attribution, dict(first.source)) == (
        *("doc-7", "pos/ann-b", "MIT", "Ann"),
        {"row": "Doc 7"},
    )
    assert (second.key, second.license, second.attribution) == ("doc-8", "CC0-1.0", "made here")
    with pytest.raises(InputError, match=r"line 2 of .*: the licence 'mit' is written 'MIT' in SPDX"):
        album(written(tmp_path / "b.csv", text.replace("MIT", "mit")), columns).items()
    assert second.nuisance is None
    assert second.origin.startswith("pos/")


@pytest.mark.parametrize("cell", ["", "  ", '" \n"'])
def test_a_row_without_a_text_is_named_and_changes_nothing(tmp_path, cell):
    rows = "".join(f"{number % 2 + 1},text {number},a\n" for number in range(20))
    clean = album(written(tmp_path / "a.csv", f"stars,review,shop\n{rows}"))
    made = album(written(tmp_path / "b.csv", f"stars,review,shop\n5,{cell},b\n{rows}1,{cell},a\n"))
    assert (made.labels, made.items()) == (clean.labels, clean.items())
    assert made.fingerprint() == clean.fingerprint()
    assert {made.load(item) for item in made.items()} == {f"text {number}" for number in range(20)}
    assert made.left_out == dict.fromkeys(("line 2", f"line {23 + cell.count(chr(10))}"), "no text")
    assert clean.left_out == {}


PEOPLE = """\
    income,age,hours,job,member,zip,born,note,state
    high,39,40.5,clerk,true,01234,2001-02-03,,CA
    low, 50 ,NA,,False,00501,2002-02-03,,TX
    low,,nan,NA,,99999,2003-02-03,,TX
    """
FEATURES = {
    "age": "int64",
    "hours": "float64",
    "job": ("clerk", "cook"),
    "member": "bool",
    "zip": "string",
    "born": "string",
    "note": "string",
}


def test_the_features_of_a_csv_are_read_as_their_types(tmp_path):
    path = written(tmp_path / "people.csv", PEOPLE)
    made = album(path, Columns(label="income", features=FEATURES, domain="state"))
    by_age = {row["age"]: row for row in map(made.load, made.items())}
    assert list(by_age[39]) == list(FEATURES)
    assert list(by_age[39].values()) == [39, 40.5, "clerk", True, "01234", "2001-02-03", None]
    assert list(by_age[50].values()) == [50, None, None, False, "00501", "2002-02-03", None]
    assert list(by_age[None].values()) == [None, None, None, None, "99999", "2003-02-03", None]
    assert [type(value) for value in by_age[39].values()] == [int, float, str, bool, str, str, type(None)]


def test_a_cell_that_cannot_be_read_drops_its_row_alone_and_is_named(tmp_path):
    text = "y,job,n\n" + "".join(f"a,{job},{n}\n" for n, job in enumerate("1234556789"))
    path = written(tmp_path / "a.csv", text + "a,1,many\nb,5,some\n")
    made = album(path, Columns(label="y", features={"job": ("1", "2", "3", "4"), "n": "int64"}))
    reasons = Counter[str]()
    for item in made.items():
        try:
            made.load(item)
        except BadItem as error:
            reasons[str(error)] += 1
    assert reasons == {
        "job is not one of its categories (1, 2, 3, 4): the file has '5', '6', '7' and 2 others": 7,
        "n is not of the type int64: the file has 'many', 'some'": 1,
    }
    with path.open("a") as stream:
        stream.write("b,2,x\n")
    grown = album(path, made.columns)
    assert {item.key for item in made.items()} < {item.key for item in grown.items()}


def test_a_decimal_comma_is_read_when_asked_for(tmp_path):
    path = written(tmp_path / "a.csv", "y;x;n\na;3,5;1.000\na;-4;7\nb;1,;0\n")
    columns = Columns(label="y", features={"x": "float64"})
    made = album(path, columns, decimal=",")
    assert {made.load(item)["x"] for item in made.items()} == {3.5, -4, 1}
    with pytest.raises(BadItem, match=r"commas.: the file has '1,', '3,5'$"):
        [album(path, columns).load(item) for item in album(path, columns).items()]
    thousands = album(path, Columns(label="y", features={"n": "int64"}), decimal=",")
    with pytest.raises(BadItem, match=r"the file has '1\.000'"):
        [thousands.load(item) for item in thousands.items()]
    with pytest.raises(InputError, match="decimal must be"):
        album(path, columns, decimal=";")


def test_the_features_of_parquet_are_plain_values(tmp_path):
    table = pa.table(
        {
            "y": pa.array(["a", "b"]).dictionary_encode(),
            "int": pa.array([1, None], pa.uint8()),
            "half": pa.array([0.5, math.nan], pa.float16()),
            "single": pa.array([0.25, math.nan], pa.float32()),
            "decimal": pa.array([Decimal("1.50"), None]),
            "bool": [True, None],
            "category": pa.array(["x", None]).dictionary_encode(),
            "text": pa.array(["01", ""], pa.large_string()),
            "nothing": pa.nulls(2),
            "day": pa.array([dt.date(2001, 2, 3), None]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    types = ("int64", "float64", "float64", "float64", "bool", ("x", "y"), "string", "int64", "string")
    columns = Columns(label="y", features=dict(zip(table.column_names[1:], types, strict=True)))
    made = album(tmp_path / "a.parquet", columns)
    first, second = map(made.load, made.items())
    assert list(first.values()) == [1, 0.5, 0.25, 1.5, True, "x", "01", None, "2001-02-03"]
    assert list(second.values()) == [None] * 9
    assert {type(value) for value in first.values()} == {int, float, bool, str, type(None)}


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("stars,review\n5,Good\n", REVIEWS, "unknown column 'shop'.* Known: review, stars. .*a.csv"),
        ("stars,review,shop\n5,Good,a\n,Bad,a\n", REVIEWS, "line 3 of .* has no label: its column 'stars'"),
        ("stars,review,shop\n5,Good,\n", REVIEWS, "line 2 of .* has no domain: its column 'shop'"),
        ("stars,review,shop\n6,Good,a\n", REVIEWS, "unknown label '6'.* Known: 1, 5. It is in line 2 of"),
        ("stars,review,shop\n", REVIEWS, "has a header and no row"),
        ("stars,review,shop\n5,Good\n", REVIEWS, "in line 2: it has 2 cells, and the header 3.*by ','"),
        ('stars,review,shop\n4,x,a\n5,"Good,a\n5,Bad,b\n', REVIEWS, "in line 3: a quote that opens in it is"),
        ("stars,review,shop\n5,Go\0od,a\n", REVIEWS, "line 2: it has a NUL character"),
        ("y,x,id\n5,a,K 1\n5,b,k-1\n", BY_ID, "line 2 and line 3 .* key 'k-1'"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, text, columns, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        album(path, columns, allowed=("5", "1")).items()


GERMAN = "stars,review,shop\n5,Grüße – gut,a\n"


@pytest.mark.parametrize(
    ("name", "data", "options", "message"),
    [
        (
            "a.csv",
            GERMAN.encode("cp1252"),
            {},
            r"not in UTF-8: line 2 has the byte 0xfc\. .*cp1252",
        ),
        (
            "a.csv",
            GERMAN.encode(),
            {"encoding": "latin-1"},
            "is in UTF-8, and encoding='latin-1' would garble",
        ),
        ("a.csv", b"PK\x03\x04 and so on", {}, "a.csv is a spreadsheet.* save it as CSV"),
        ("a.parquet", b"stars,review,shop\n5,Good,a\n", {}, "cannot be read as Parquet"),
    ],
)
def test_bytes_that_cannot_be_read_are_refused(tmp_path, name, data, options, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        album(tmp_path / name, **options).items()


@pytest.mark.parametrize(
    ("encoding", "option"),
    [
        ("utf-8-sig", None),
        ("utf-8", "UTF-8"),
        ("utf-16", None),
        ("utf-16-le", "utf-16-le"),
        ("cp1252", "cp1252"),
    ],
)
def test_files_as_spreadsheets_write_them(tmp_path, encoding, option):
    for separator, end in product([",", ";", "\t", "|"], ["\n", "\r\n", "\r"]):
        lines = ["stars,review,shop", '5,"Grüße – ""gut"";{end},ja",a', "", ",,", "4,x,a", ""]
        lines = [f"sep={separator}", *lines] if separator == ";" else lines
        text = end.join(lines).replace(",", separator).replace("{end}", end)
        (tmp_path / "A.CSV").write_bytes(text.encode(encoding))
        made = album(tmp_path / "A.CSV", encoding=option)
        assert {made.load(item) for item in made.items()} == {f'Grüße – "gut";{end}{separator}ja', "x"}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "name the columns of an example"),
        ({"text": "t", "features": {"f": "int64"}}, "and not both"),
        ({"features": ("age",)}, "features give each column its type"),
        ({"features": {"f": "int64", "y": "int64"}}, "the label 'y' is one of the features"),
    ],
)
def test_columns_that_cannot_be_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        Columns(label="y", **parts)


@pytest.mark.parametrize("change", ["5,Good,b", "4,Good,a", "5,Better,a"])
def test_the_fingerprint_is_of_the_content(tmp_path, change):
    one = album(written(tmp_path / "one.csv", "stars,review,shop\n5,Good,a\n1,Bad,a\n"))
    two = album(written(tmp_path / "two.csv", f"stars,review,shop\n{change}\n1,Bad,a\n"))
    assert one.fingerprint() != two.fingerprint()
    assert one.fingerprint() == album(one.path).fingerprint()
    assert one.fingerprint() != album(one.path, allowed=("5", "1")).fingerprint()
    by_key = Columns(label="stars", text="review", domain="shop", key="review")
    assert one.fingerprint() != album(one.path, by_key).fingerprint()


CELLS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=200)


@given(st.lists(st.tuples(CELLS.filter(bool), CELLS, CELLS.filter(bool), CELLS), min_size=1, max_size=8))
def test_any_rows_give_valid_items(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "a.parquet"
    names = ("stars", "review", "shop", "by")
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), path)
    made = album(path, Columns(label="stars", text="review", domain="shop", origin="by"))
    items = made.items()
    texts = sorted((label, shop, review) for label, review, shop, _ in rows if review.strip())
    assert len({item.key for item in items}) == len(texts) == len(rows) - len(made.left_out)
    assert all(KEY_PATTERN.fullmatch(item.key) and len(item.key) < 80 for item in items)
    places = [made.place(item) for item in items]
    by = [rows[int(place.removeprefix("row ")) - 1][3] for place in places]
    origins: dict[str, str] = {}
    for item, author in zip(items, by, strict=True):
        assert not author or origins.setdefault(author, item.origin) == item.origin
    assert sorted((item.label, str(item.nuisance), made.load(item)) for item in items) == texts
