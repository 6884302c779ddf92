"""Published results and your own: choose, show, store, rank, compare, draw."""

from __future__ import annotations

import csv
import io

import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.bench.papers import Results, published_tables, ranking
from shiftdata.errors import InputError, NotFoundError


def test_every_table_is_there_with_its_numbers():
    counted = {
        (table.paper, table.table): sum(
            row["value"] is not None for row in sd.published(table.paper, table.table)
        )
        for table in published_tables()
    }
    assert counted == {(table.paper, table.table): table.numbers for table in published_tables()}
    words = sd.published(unit="text")
    assert sum(counted.values()) + len(words) == len(sd.published())
    assert {row["spread"] for row in words} == {row["value"] for row in words} == {None}


def test_words_are_cells_that_are_shown_and_neither_ranked_nor_drawn():
    models = sd.published("cns-bench", 1)
    assert "ViT-(S,M,B,L,H)/16" in str(models)
    assert "Class_Num" in sd.published("nico++", 12).to_markdown()
    (block,) = models.tables()[0].drawn
    assert block.columns == ("models, counted",)
    with pytest.raises(InputError, match="architecture has words"):
        ranking(models.where(metric="architecture"))


def test_settings_are_those_of_the_paper():
    settings = sd.published("rlsbench", 6, row="Camelyon")
    cells = {(row["part"], row["column"]): row["value"] for row in settings}
    assert [cells["chosen", name] for name in ("Epoch", "Batch size", "Learning rate")] == [10, 96, 0.03]
    assert [cells["searched", f"Learning rate {number}"] for number in (1, 2, 3, 4)] == [
        0.003, 0.3, 0.0003, 0.03,
    ]  # fmt: skip


def test_numbers_are_those_of_the_papers():
    cell = sd.published("sma", 4, row="mean", column="NO_ADAPT").rows.to_pylist()[0]
    assert (cell["value"], cell["spread"], cell["part"], cell["section"]) == (77.19, 2.04, "BIRDS", "F.2.1")
    (shark,) = sd.published("nico++", 10, row="shark", column="Total")
    assert (shark["value"], shark["unit"]) == (1497, "images")
    assert len(sd.published("nico++", 11, column="Total")) == 80
    assert {row["method"] for row in sd.published("nico++", 8)} >= {"Deepall", "JiGen"}


@pytest.mark.parametrize(
    ("arguments", "named", "match"),
    [
        (("nico",), {}, "unknown paper 'nico'; did you mean 'nico\\+\\+'"),
        (("nico++", 77), {}, "unknown table '77'"),
        (("nico++", 2), {"method": "deepall"}, "did you mean 'Deepall'"),
        (("nico++",), {"colour": "red"}, "unknown name to choose by 'colour'"),
    ],
)
def test_an_unknown_name_is_answered(arguments, named, match):
    with pytest.raises(NotFoundError, match=match):
        sd.published(*arguments, **named)


def test_formats_hold_every_number():
    table = sd.published("nico++", 3)
    printed = table.rows["printed"].to_pylist()
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["printed"] for row in rows] == printed
    for text in (table.to_markdown(), str(table), table._repr_html_()):
        assert all(number in text for number in printed)


def test_own_results_are_stored_beside_published_ones(tmp_path):
    mine = Results.of(
        [{"method": "ERM", "value": 57.9, "spread": 0.2}, {"method": "SWAD", "value": 62.8}],
        column="OfficeHome", metric="accuracy", table="run 1", part="MoCo-v2 ResNet-50",
    )  # fmt: skip
    mine.save(tmp_path / "mine.parquet")
    assert list(Results.read(tmp_path / "mine.parquet")) == list(mine)
    both = mine + sd.published("domainbed-v2", 5)
    assert len(both) == 2 + 240
    assert set(both.where(paper="own").rows["method"].to_pylist()) == {"ERM", "SWAD"}


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ({"method": "ERM", "value": 1.0}, "lacks column, metric"),
        ({"method": "ERM", "value": 1.0, "column": "x", "metric": "m", "colour": 1}, "has colour"),
        ({"value": 1.0, "column": "x", "metric": "m"}, "needs the method"),
        ({"method": "ERM", "value": 1.0, "printed": "2.0", "column": "x", "metric": "m"}, "is not the value"),
        ({"method": "ERM", "value": float("nan"), "column": "x", "metric": "m"}, "not a printed number"),
    ],
)
def test_bad_results_of_ones_own_are_refused(record, match):
    with pytest.raises(InputError, match=match):
        Results.of([record])


def test_a_file_that_holds_no_results_is_refused(tmp_path):
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(InputError, match="not a readable Parquet"):
        Results.read(tmp_path / "text.parquet")
    pq.write_table(sd.published("sma", 2).rows.select(["paper", "value"]), tmp_path / "few.parquet")
    with pytest.raises(InputError, match="lacks the columns table, part"):
        Results.read(tmp_path / "few.parquet")


DATASETS = ["PACS", "VLCS", "OfficeHome", "NICO++", "DomainNet"]


def leaderboard_of(part: str) -> Results:
    return sd.published("domainbed-v2", 5, part=part, column=DATASETS)


def test_ranks_and_changes_are_those_of_the_paper():
    board = ranking(leaderboard_of("Supervised ResNet-50"), leaderboard_of("MoCo-v2 ResNet-50"))
    printed = sd.published("domainbed-v2", 5, part="MoCo-v2 ResNet-50")
    ranks = {row["row"]: row["value"] for row in printed.where(column="Ranking")}
    changes = {row["row"]: row["value"] for row in printed.where(column="Rank change")}
    assert {standing.method: standing.rank for standing in board.standings["set 2"]} == ranks
    methods = [standing.method for standing in board.standings["set 1"]]
    assert dict(zip(methods, board.agreement["set 2"].change, strict=True)) == changes


@pytest.mark.parametrize(
    ("results", "match"),
    [
        (lambda: sd.published("nico++", 2), "ranks one metric"),
        (lambda: sd.published("nico++", 10), "none of these numbers belongs to a method"),
        (
            lambda: leaderboard_of("MoCo-v2 ResNet-50") + leaderboard_of("MoCo-v2 ResNet-50"),
            "two numbers for",
        ),
    ],
)
def test_what_cannot_be_ranked_is_refused(results, match):
    with pytest.raises(InputError, match=match):
        ranking(results())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "table"),
    [
        ("sma", 3),
        ("sma", 9),
        ("sma", "figure 12"),
        ("nico++", 2),
        ("nico++", 11),
        ("cns-bench", 4),
        ("rlsbench", 7),
    ],
)
def test_every_kind_of_picture_is_drawn(paper, table):
    picture = sd.published(paper, table).picture()
    assert picture.width == 1320
    assert len(picture.convert("L").getcolors(256)) > 50  # more than frames and letters
