from __future__ import annotations

import csv
import math
import random
import textwrap
from decimal import Decimal
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from builders.albums import Album
from builders.albums.rows import Columns, RowsAlbum
from builders.make import assign
from builders.make.build import build
from builders.recipe import load_recipe
from shiftdata.errors import InputError, NotFoundError
from shiftdata.format.schema import KEY_PATTERN

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


def test_equal_rows_are_numbered_and_share_an_origin(tmp_path):
    made = album(written(tmp_path / "a.csv", "stars,review,shop\n" + "5,Good,a\n" * 3))
    first, second, third = made.items()
    assert [second.key, third.key] == [f"{first.key}-2", f"{first.key}-3"]
    assert first.origin == second.origin == third.origin
    assert [made.load(item) for item in made.items()] == ["Good"] * 3


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
    with pytest.raises(InputError, match=r"row 1 of .*: the licence 'mit' is written 'MIT' in SPDX"):
        album(written(tmp_path / "b.csv", text.replace("MIT", "mit")), columns).items()
    assert second.nuisance is None
    assert second.origin.startswith("pos/")


def test_labels_that_differ_in_signs_have_origins_of_their_own(tmp_path):
    text = "y,text,author\n+1,same,ann\n-1,same,ann\n-1,same,\n+1,same,\n"
    made = album(written(tmp_path / "a.csv", text), Columns(label="y", text="text", origin="author"))
    assert made.labels == ("+1", "-1")
    labels = {item.origin: item.label for item in made.items()}
    assert all(labels[item.origin] == item.label for item in made.items())
    assert len({item.key for item in made.items()}) == 4


@pytest.mark.parametrize("cell", ["", "  ", '" \n"'])
def test_a_row_without_a_text_is_named_and_changes_nothing(tmp_path, cell):
    rows = "".join(f"{number % 2 + 1},text {number},a\n" for number in range(20))
    clean = album(written(tmp_path / "a.csv", f"stars,review,shop\n{rows}"))
    made = album(written(tmp_path / "b.csv", f"stars,review,shop\n5,{cell},b\n{rows}1,{cell},a\n"))
    assert (made.labels, made.items()) == (clean.labels, clean.items())
    assert made.fingerprint() == clean.fingerprint()
    assert {made.load(item) for item in made.items()} == {f"text {number}" for number in range(20)}
    assert made.left_out == {"row 1": "no text", "row 22": "no text"}
    assert clean.left_out == {}


def test_errors_name_the_row_of_the_file_whatever_was_left_out(tmp_path):
    made = album(written(tmp_path / "a.csv", "stars,review,shop\n5,,a\n,good,a\n"))
    with pytest.raises(InputError, match=r"row 2 of .* has no label"):
        made.items()


def test_a_null_text_is_no_item(tmp_path):
    columns = {"stars": [5, 4], "review": [None, "good"], "shop": ["a", "a"]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    made = album(tmp_path / "a.parquet")
    assert [item.label for item in made.items()] == ["4"]
    assert made.left_out == {"row 1": "no text"}


PEOPLE = """\
    income,age,hours,job,member,zip,born,note,state
    high,39,40.5,clerk,true,01234,2001-02-03,,CA
    low, 50 ,NA,,False,00501,2002-02-03,,TX
    low,,nan,NA,,99999,2003-02-03,,TX
    """
FEATURES = ("age", "hours", "job", "member", "zip", "born", "note")


def test_the_features_of_a_csv_are_plain_values(tmp_path):
    path = written(tmp_path / "people.csv", PEOPLE)
    made = album(path, Columns(label="income", features=FEATURES, domain="state"))
    by_age = {row["age"]: row for row in map(made.load, made.items())}
    assert list(by_age[39]) == list(FEATURES)
    assert list(by_age[39].values()) == [39, 40.5, "clerk", True, "01234", "2001-02-03", None]
    assert list(by_age[50].values()) == [50, None, None, False, "00501", "2002-02-03", None]
    assert list(by_age[None].values()) == [None, None, "NA", None, "99999", "2003-02-03", None]
    assert [type(value) for value in by_age[39].values()] == [int, float, str, bool, str, str, type(None)]


def test_the_type_of_a_feature_comes_from_the_whole_file(tmp_path):
    cells = ["7"] * 200_000 + ["7.5"]
    text = "y,x\n" + "".join(f"{'ab'[n % 2]},{cell}\n" for n, cell in enumerate(cells))
    made = album(written(tmp_path / "a.csv", text), Columns(label="y", features=("x",)))
    assert {type(made.load(item)["x"]) for item in made.items()[:: len(cells) // 50]} == {float}


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
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    made = album(tmp_path / "a.parquet", Columns(label="y", features=tuple(table.column_names[1:])))
    first, second = map(made.load, made.items())
    assert list(first.values()) == [1, 0.5, 0.25, 1.5, True, "x", "01", None]
    assert list(second.values()) == [None, None, None, None, None, None, "", None]
    assert {type(value) for value in first.values()} == {int, float, bool, str, type(None)}


def test_numbers_and_booleans_can_be_labels(tmp_path):
    table = pa.table({"n": [1, 2], "f": [1.0, 2.5], "b": [True, False], "x": ["p", "q"]})
    pq.write_table(table, tmp_path / "a.parquet")
    found = {
        name: album(tmp_path / "a.parquet", Columns(label=name, text="x")).labels for name in ("n", "f", "b")
    }
    assert found == {"n": ("1", "2"), "f": ("1", "2.5"), "b": ("false", "true")}


def test_a_column_may_be_of_nested_folders_and_dotted_names(tmp_path):
    folder = tmp_path / "y=3"
    folder.mkdir()
    pq.write_table(pa.table({"a.b": ["p"], "a": [{"b": "no"}], "x": [1]}), folder / "a.parquet")
    made = album(folder / "a.parquet", Columns(label="a.b", features=("x",)))
    assert [(item.label, made.load(item)) for item in made.items()] == [("p", {"x": 1})]
    with pytest.raises(NotFoundError, match="unknown column 'y'"):
        album(folder / "a.parquet", Columns(label="y", features=("x",))).items()


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("stars,review\n5,Good\n", REVIEWS, "unknown column 'shop'.* Known: review, stars. .*a.csv"),
        ("stars,reviews,shop\n5,Good,a\n", REVIEWS, "unknown column 'review'; did you mean 'reviews'"),
        ("stars,review,shop,shop\n5,Good,a,b\n", REVIEWS, "has 2 columns named 'shop'"),
        ("stars,review,shop\n5,Good,a\n,Bad,a\n", REVIEWS, "row 2 of .* has no label: its column 'stars'"),
        ("stars,review,shop\n5,Good,\n", REVIEWS, "row 1 of .* has no domain: its column 'shop'"),
        ("stars,review,shop\n6,Good,a\n", REVIEWS, "unknown label '6'.* Known: 1, 5. It is in row 1 of"),
        ("stars,review,shop\n", REVIEWS, "has no row"),
        ("", REVIEWS, "unknown column 'stars'. None is known"),
        ("stars,review,shop\n5,Good\n", REVIEWS, "near line 2: 2 cells under a header of 3"),
        ('stars,review,shop\n5,"Good,a\n5,Bad,b\n', REVIEWS, "near line 3: unexpected end of data"),
        ('stars,review,shop\n5,"Big" deal,a\n', REVIEWS, "near line 2: .*expected after '\"'"),
        ("y,x,id\n5,a,K 1\n5,b,k-1\n", Columns(label="y", text="x", key="id"), "rows 1 and 2 .* key 'k-1'"),
        ("y,x,id\n5,a,\n", Columns(label="y", text="x", key="id"), "row 1 of .* has no key"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, text, columns, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        album(path, columns, allowed=("5", "1")).items()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b"stars,review,shop\n5,Gr\xfc\xdfe,a\n", "near line .*utf-8.* must be in UTF-8"),
        ("a.csv", b'stars,review,shop\n5,"' + b"x" * 200_000 + b'",a\n', "field larger .* save it as P"),
        ("a.parquet", b"stars,review,shop\n5,Good,a\n", "cannot be read as Parquet"),
    ],
)
def test_bytes_that_cannot_be_read_are_refused(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        album(tmp_path / name).items()


def test_a_file_with_a_byte_order_mark_and_windows_line_ends(tmp_path):
    path = tmp_path / "A.CSV"
    path.write_bytes("\ufeffstars,review,shop\r\n5,Größe,a\r\n\r\n".encode())
    made = album(path)
    assert [made.load(item) for item in made.items()] == ["Größe"]


@pytest.mark.parametrize(("text", "features"), [("when", ()), (None, ("when",)), (None, ("list",))])
def test_a_type_that_is_no_example_is_refused(tmp_path, text, features):
    when = pa.array([[1]]) if text else pa.array([0], pa.timestamp("us"))
    pq.write_table(pa.table({"y": ["a"], "when": when, "list": [[1]]}), tmp_path / "a.parquet")
    made = album(tmp_path / "a.parquet", Columns(label="y", text=text, features=features))
    with pytest.raises(
        InputError, match=r"column '(when|list)' of .* has the type (timestamp|list).*: make it"
    ):
        made.items()


def test_a_place_or_an_ending_that_is_wrong_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        album(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"must end in \.csv, \.tsv, \.parquet"):
        album(written(tmp_path / "a.xlsx", ""))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "name the columns of an example"),
        ({"text": "t", "features": ("f",)}, "and not both"),
        ({"features": "age"}, "name the columns of an example"),
        ({"features": ("f", "f")}, "features are named once"),
        ({"features": ("y", "f")}, "without the label 'y'"),
    ],
)
def test_columns_that_cannot_be_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        Columns(label="y", **parts)


def test_a_row_of_another_file_is_refused(tmp_path, reviews):
    made = album(written(tmp_path / "b.csv", "stars,review,shop\n5,Other,a\n"))
    with pytest.raises(InputError, match="it changed while it was used, run again"):
        made.load(album(reviews).items()[0])


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
    labels: dict[str, str] = {}
    assert all(labels.setdefault(item.origin, item.label) == item.label for item in items)
    assert sorted((item.label, str(item.nuisance), made.load(item)) for item in items) == texts


DOMAINS = ("North", "south side")

RECIPE = """
from pathlib import Path

from builders.albums.rows import Columns, RowsAlbum
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains
from builders.encode import TableEncoding, TextEncoding

RECIPE = Recipe(
    name="rows",
    family="domains",
    version="1.0.0",
    released="2026-01-31",
    creators=("A. Maker",),
    title="Rows",
    summary="Rows of a file.",
    citation="None.",
    album=RowsAlbum(
        Path(__file__).parent / "{file}",
        Columns(label="y", domain="where", {example}),
        license="CC0-1.0",
        attribution="made here",
    ),
    nuisance="domain",
    shift=Domains(names=("North", "south side")),
    encoding={encoding},
    bases=(Base(name="all", summary="Every row."),),
    default_base="all",
)
"""


def built(folder: Path, **parts: str) -> list[dict[str, object]]:
    """Build the recipe and read all rows back."""
    recipe = written(folder / "rows.py", RECIPE.format(**parts))
    loaded = load_recipe(str(recipe))
    assign.check_items(loaded, loaded.album.items())
    out = build(str(recipe), folder / "out", workers=1, quiet=True)
    return [row for file in sorted(out.glob("data/all/*.parquet")) for row in pq.read_table(file).to_pylist()]


def test_a_dataset_of_texts(tmp_path):
    texts = [("y", "where", "t")]
    texts += [(y, where, f"{y} {n}") for y in "ab" for where in DOMAINS for n in range(20)]
    texts += [("a", "North", ""), ("a", "North", "a 0")]
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(texts)
    rows = built(tmp_path, file="t.csv", example="text='t'", encoding="TextEncoding()")
    named = [("ab"[row["label"]], DOMAINS[row["domain"]], row["text"]) for row in rows]
    assert sorted(named) == sorted([*texts[1:-2], texts[-1]])
    splits: dict[str, set[str]] = {}
    for row in rows:
        splits.setdefault(row["text"], set()).add(row["split"])
    assert all(len(found) == 1 for found in splits.values()), "a text in two domains stays in one split"
    assert {split for found in splits.values() for split in found} == {"train", "validation", "test"}


def test_a_dataset_of_features(tmp_path):
    values = [
        {"y": "ab"[n % 2], "where": DOMAINS[n % 3 > 0], "n": n, "x": n / 4, "job": "pq"[n % 2]}
        for n in range(60)
    ]
    values[7]["x"] = math.nan
    pq.write_table(pa.Table.from_pylist(values), tmp_path / "f.parquet")
    rows = built(
        tmp_path,
        file="f.parquet",
        example="features=('n', 'x', 'job')",
        encoding="TableEncoding(features={'n': 'int64', 'x': 'float64', 'job': ('p', 'q')})",
    )
    found = {
        row["n"]: ("ab"[row["label"]], DOMAINS[row["domain"]], row["x"], "pq"[row["job"]]) for row in rows
    }
    values[7]["x"] = None
    assert found == {row["n"]: (row["y"], row["where"], row["x"], row["job"]) for row in values}
