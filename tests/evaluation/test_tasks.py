from __future__ import annotations

import re

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.cli import app as cli
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.charts import MANY, SIDE
from shiftdata.evaluation.protocols import parse_protocol, protocols
from shiftdata.stable import hash64
from tests.evaluation.protocols.made import metadata, table
from tests.paths import ROOT
from tests.properties import share

PURE = {
    "group-fairness": {"k": 3, "mu": 0.3},
    "uda": {"source": "red", "target": "blue"},
    "leave-one-domain-out": {"test": "red"},
    "domainbed": {"test": "red"},
    "oracle": {"test": ("red", "blue")},
}


@pytest.mark.parametrize("name", PURE)
def test_plain_readers_with_the_filters_read_the_same_rows(tiny, name):
    made = sd.task(tiny, name, **PURE[name])
    for one, filters in made.filters().items():
        keys = made.metadata.table["key"].take(pa.array(made.sets[one].indices))
        expected = sorted(keys.to_pylist())
        found = ds.dataset(tiny / "data/mini").to_table(
            columns=["key"], filter=pq.filters_to_expression(filters)
        )
        assert sorted(found["key"].to_pylist()) == expected
        read = datasets.load_dataset(str(tiny), "mini", filters=filters, streaming=True)
        assert sorted(row["key"] for split in read.values() for row in split) == expected


def test_the_canonical_task_of_a_dataset(tiny):
    made = sd.task(tiny)
    assert {name: len(one) for name, one in made.sets.items()} == {
        "train": 200,
        "validation": 80,
        "test": 120,
    }
    assert made.metadata.name == "tiny/mini"
    assert made.metadata.origins_shared
    assert sd.task(tiny, base="extended").metadata.name == "tiny/extended"
    assert len(sd.task(tiny, base="content").sets["train"]) == 80
    with pytest.raises(NotFoundError, match="did you mean 'mini'"):
        sd.task(tiny, base="minis")


def test_a_frozen_task_is_the_published_split(tiny, tmp_path):
    made = sd.task(tiny, "group-fairness", k=4, mu=0.2, seed=1)
    identity = made.freeze(tmp_path / "task.parquet")
    frozen = pq.read_table(tmp_path / "task.parquet")
    published = pq.read_table(tiny / "protocols/gf_k4_mu20_s1.parquet")
    order = [("split", "ascending"), ("key", "ascending")]
    assert frozen.sort_by(order).to_pylist() == published.sort_by(order).to_pylist()
    assert identity == made.content_id() != sd.task(tiny).content_id()
    assert [path.name for path in tmp_path.iterdir()] == ["task.parquet"]


def test_report_and_picture(tiny):
    made = sd.task(tiny, "group-fairness", k=3, mu=0.3)
    report = made.report()
    assert report.sets["test"].examples == 3 * 3 * 6
    assert sum(map(sum, report.sets["test"].counts)) == 54
    assert report.leaks == 0
    assert re.search(r"^test +test +54 +54 +18 +9 +6 +6 +0$", str(report), re.M)
    assert str(report).startswith("group-fairness@1(k=3, mu=0.3, seed=0)\nof tiny/mini\n")
    picture = made.report().picture()
    assert picture.width > picture.height > 100  # three panels side by side
    assert (picture.getcolors(1 << 20) or [])[0]


def test_the_panels_of_a_task_share_one_scale(tiny):
    made = sd.task(tiny, "group-fairness", k=3, mu=0.3)
    counts = [count for one in made.report().sets.values() for row in one.counts for count in row]
    darkest = counts.count(max(counts))
    assert darkest < len(counts) - counts.count(0)
    pixels = sum(n for n, colour in made.report().picture().getcolors(1 << 20) if colour == tuple(MANY))
    assert 0.5 * darkest < pixels / (SIDE - 1) ** 2 <= darkest


def test_an_empty_group_is_an_error_or_a_zero():
    rows = metadata(4, 4, 4)
    hole = pc.and_(pc.equal(rows.table["label"], 1), pc.equal(rows.table["a"], 2))
    lacking = sd.Metadata(rows.table.filter(pc.invert(hole)), rows.labels, rows.nuisances, "a", True)
    with pytest.raises(
        InputError, match=r"leaves 1 groups of train without a row .label01 / kind2.*on_empty"
    ):
        sd.task(lacking, "group-fairness", k=4, mu=1)
    report = sd.task(lacking, "group-fairness", k=4, mu=1, on_empty="report").report()
    assert report.sets["train"].empty == ("label01 / kind2",)
    assert "empty in train: label01 / kind2" in str(report)
    with pytest.raises(InputError, match="on_empty is"):
        sd.task(rows, sd.protocol("group-fairness", k=2, mu=1), on_empty="ignore")
    with pytest.raises(InputError, match="leaves train without a row"):
        sd.task(metadata(2, 2, 9, severities=(1.0,)), "severity>5")


def test_a_leak_in_the_rows_is_refused():
    split = pa.array(["train", "test"] * 10)
    rows = table(1, 1, 20).append_column("part", split)
    rows = rows.set_column(3, "origin", pa.array([f"o{n // 2}" for n in range(20)]))
    made = sd.metadata_from_table(rows, label="y", nuisance="a", origin="origin", split="part")
    with pytest.raises(InputError, match=r"10 origins are on two sides of the task, 'o0' in train and test"):
        sd.task(made)


OWN = pa.table({"id": ["c", "a", "b"], "y": [1, 0, 1], "z": ["u", "v", "u"]})


def test_a_table_of_ones_own_by_hand():
    made = sd.metadata_from_table(OWN, key="id", label="y", nuisance="z")
    assert made.labels == ("0", "1")
    assert made.nuisances == ("u", "v")
    order = sorted("bc", key=lambda name: hash64("fold", name))
    expected = {"a": 0, order[0]: 0, order[1]: 50}
    assert made.table["fold"].to_pylist() == [expected[key] for key in "cab"]
    assert made.table["split"].to_pylist() == [["train", "validation"][expected[key] // 50] for key in "cab"]
    assert made.table["quantile"].to_pylist() == [0.5, 0.5, 0.5]
    assert made.table["group"].to_pylist() == [2, 1, 2]
    assert not made.origins_shared


def frames():
    """The same rows as each library has them, in types that all mean the same."""
    spelled = {"id": list("cab"), "y": ["1", "0", "1"], "z": ["u", "v", "u"], "other": [b"1", None, b"3"]}
    text = pd.DataFrame(spelled)
    yield "pandas", text
    yield "pandas objects", text.astype(object).assign(other=["mixed", 1, None])
    yield "pandas numbers", text.assign(y=[1, 0, 1])
    yield "pandas numbers that had gaps", text.assign(y=[1.0, 0.0, 1.0])
    yield "pandas nullable", text.assign(y=pd.array([1, 0, 1], "Int8"), z=text["z"].astype("string"))
    categories = {"y": pd.Categorical(spelled["y"], ["1", "0", "2"]), "z": text["z"].astype("category")}
    yield "pandas categories", text.assign(**categories)
    yield "pandas index", text.set_index("id")
    yield (
        "pandas, some rows of more",
        pd.concat([text.iloc[:0], text], keys=["a", "b"]).reset_index(drop=True),
    )
    yield "polars", pl.DataFrame(spelled)
    yield (
        "polars categories",
        pl.DataFrame(spelled).with_columns(
            pl.col("y").cast(pl.Categorical), pl.col("z").cast(pl.Enum(["v", "u"]))
        ),
    )
    yield "pyarrow", pa.table(spelled)
    yield "pyarrow pieces", pa.concat_tables([pa.table(text.iloc[:1]), pa.table(text.iloc[1:])])


@pytest.mark.parametrize("frame", [pytest.param(one, id=name) for name, one in frames()])
def test_a_frame_of_any_library_is_a_table(frame):
    made = sd.metadata_from_table(frame, key="id", label="y", nuisance="z")
    wanted = sd.metadata_from_table(OWN, key="id", label="y", nuisance="z")
    assert (made.labels, made.nuisances) == (wanted.labels, wanted.nuisances)
    assert made.table.equals(wanted.table)


def test_a_frame_goes_from_rows_to_a_result():
    frame = pd.DataFrame(
        {"key": [f"k{n}" for n in range(60)], "ill": [True, False] * 30, "day": pd.Timestamp(0)}
    )
    frame["day"] += pd.to_timedelta([n // 2 % 3 for n in range(60)], unit="D")
    made = sd.metadata_from_table(frame, label="ill", nuisance="day", labels=["no", "yes"])
    assert (made.labels, made.nuisances) == (("no", "yes"), ("1970-01-01", "1970-01-02", "1970-01-03"))
    assert made.label.tolist() == [1, 0] * 30
    task = sd.task(made, "leave-one-domain-out", test="1970-01-02")
    truth = frame.set_index("key").loc[task.keys("test"), "ill"]
    assert task.evaluate(truth.map({False: "no", True: "yes"}).to_numpy()).mean == 1
    assert task.evaluate(1 - truth.to_numpy().astype(int)).mean == 0


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        (None, [1, 2, 0]),  # in the order of numbers: 3, 5, 10
        (["10", "5", "3"], [1, 0, 2]),
    ],
)
def test_numbers_are_names_where_they_are_among_the_names(labels, numbers):
    made = sd.metadata_from_table(changed("y", [5, 10, 3]), key="id", label="y", nuisance="z", labels=labels)
    assert made.label.tolist() == numbers


@share(0.5)
@given(st.integers(0, 1000), st.booleans())
def test_own_tables_do_not_depend_on_the_order_of_rows(order, stepped):
    options = {"severities": (0.0, 1.0)} if stepped else {}
    left = metadata(3, 2, 7, **options).table.sort_by("key")
    right = metadata(3, 2, 7, order=order, **options).table.sort_by("key")
    assert left.equals(right)


def test_own_splits_are_kept_and_folds_lie_in_them():
    rows = table(2, 2, 30, shared=False)
    parts = [("train", "validation", "test")[hash64(key) % 3] for key in rows["key"].to_pylist()]
    made = sd.metadata_from_table(
        rows.append_column("part", pa.array(parts)), label="y", nuisance="a", split="part"
    )
    assert made.table["split"].to_pylist() == parts
    assert made.table["fold"].to_numpy()[np.array(parts) == "test"].min() >= 70
    again = sd.metadata_from_table(made.table, label="label", nuisance="a", fold="fold", quantile="quantile")
    assert again.table["split"].to_pylist() == parts
    assert again.table["quantile"].equals(made.table["quantile"])


def changed(name, values):
    return OWN.set_column(OWN.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (OWN, {"label": "yy"}, "unknown column 'yy'"),
        (OWN, {"nuisance": "style"}, "Known: id, y, z"),
        (OWN, {"origin": "o"}, "unknown column 'o'"),
        (changed("y", [1.0, float("nan"), 2.0]), {}, "'y' is empty or nan in row 1"),
        (changed("y", [1, None, 2]), {}, "'y' is empty or nan in row 1"),
        (changed("id", ["a", "b", "a"]), {}, "'a' occurs more than once in 'id'"),
        (OWN, {"nuisances": ["u", "w"]}, "unknown z 'v'"),
        (OWN, {"labels": ["only"]}, "unknown label '1'"),
        (OWN, {"labels": ["one", "one"]}, "named twice"),
        (OWN.append_column("s", pa.array(["train", "tset", "test"])), {"split": "s"}, "did you mean 'test'"),
        (OWN.append_column("f", pa.array([1, 100, 3])), {"fold": "f"}, "from 0 to 99"),
        (OWN.append_column("o", pa.array(["x", "x", "x"])), {"origin": "o"}, "'x' occurs under 0 and 1"),
        (OWN.rename_columns(["id", "y", "fold"]), {"nuisance": "fold"}, "cannot be called 'fold'"),
        (changed("z", [0.5, 1.5, 2.0]), {}, "'z' has fractions: cut it into bands"),
        (changed("z", [[1], [2], [3]]), {}, "'z' has the type list.*: make it texts"),
        (changed("y", [0, 1, 2]), {"labels": ["no", "yes"]}, "unknown label '2'"),
        (
            OWN.append_column("s", pa.array(["a", "b", "c"])),
            {"severity": "s"},
            "'s' has the type .*make it numbers",
        ),
        (OWN.append_column("y", pa.array([1, 2, 3])), {}, "there are 2 columns 'y'"),
        ("own.csv", {}, "got a str: read a file"),
        (pl.LazyFrame({"id": ["a"]}), {}, "got a LazyFrame: .*collect a lazy frame"),
        (
            pd.DataFrame({"id": ["a", "b"], "y": ["a", 1], "z": ["u", "v"]}),
            {},
            "column y .*give each column one type",
        ),
        (
            pd.DataFrame({"id": ["a", "b"], "y": ["a", None], "z": ["u", "v"]}),
            {},
            "'y' is empty or nan in row 1",
        ),
        (OWN.to_pandas().assign(z=pd.interval_range(0, 3)), {}, "'z' has the type .*interval"),
    ],
)
def test_unusable_tables_are_answered(rows, more, message):
    with pytest.raises(InputError, match=message):
        sd.metadata_from_table(rows, **{"key": "id", "label": "y", "nuisance": "z", **more})


def test_the_command_line(tiny, tmp_path, capsys):
    def run(*arguments):
        status = cli.main(["task", *arguments])
        out, err = capsys.readouterr()
        return status, out, err

    frozen, picture = tmp_path / "t.parquet", tmp_path / "t.png"
    status, out, _ = run(
        str(tiny), "group-fairness", "k=3", "mu=0.3", "--freeze", str(frozen), "--picture", str(picture)
    )
    made = sd.task(tiny, "group-fairness", k=3, mu=0.3)
    assert status == 0
    assert str(made.report()) in out
    assert made.content_id() in out
    assert frozen.exists()
    assert picture.exists()
    assert run(str(tiny), "oracle", "test=red,blue", "--set", "test")[1].split() == sd.task(
        tiny, "oracle", test=("red", "blue")
    ).keys("test")
    told = run(str(tiny), "group-fairness", "k=3", "mu=0.3", "--set", "train", "--filters")[1]
    assert told == f"filters={made.filters()['train']}\n"
    told = run(str(tiny), "label-shift", "alpha=5", "--filters", "--on-empty", "report")[1]
    assert "test: no filters: its labels are drawn from a Dirichlet" in told
    assert run(str(tiny), "leave-one-domain-out", "test")[2] == "error: leave-one-domain-out needs test\n"
    assert "did you mean 'oracle'" in run(str(tiny), "oracl", "test=red")[2]
    listed = run()[1]
    assert "group-fairness@1" in listed
    assert "    @paired: " in listed


def test_the_examples_of_the_docs_run():
    text = (ROOT / "docs/protocols.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 21
    names: dict[str, object] = {}
    for block in blocks[1:]:  # the first is of a dataset that is not here
        exec(compile(block, "docs/protocols.md", "exec"), names)
    documented = set(re.findall(r"^## `([^`]+)`", text, re.M))
    assert documented == {one.id for one in protocols()}


def test_a_set_is_resampled_by_a_named_rule(tiny):
    made = sd.task(tiny, "group-fairness", k=4, mu=0.2, seed=1)
    group = made.table("train")["group"].to_pylist()
    balanced = [group[row] for row in made.sampler("subg")]
    assert len(balanced) == 16 * min(group.count(one) for one in set(group))
    assert {balanced.count(one) for one in set(group)} == {len(balanced) // 16}
    with pytest.raises(NotFoundError, match="did you mean 'subg'"):
        made.sampler("subgg")
    drawn = sd.task(tiny, "label-shift", alpha=3, replacement=True, on_empty="report")
    name = next(name for name, rows in drawn.sets.items() if rows.counts is not None)
    with pytest.raises(InputError, match="drawn with replacement"):
        drawn.sampler("rwy", name)


def test_a_frozen_task_comes_back_as_it_was(tiny, tmp_path):
    made = sd.task(tiny, "label-shift", alpha=3, replacement=True, on_empty="report")
    made.freeze(tmp_path / "mine.parquet")
    again = sd.task(tiny, str(tmp_path / "mine.parquet"))
    assert again.content_id() == made.content_id()
    assert {name: len(rows) for name, rows in again.sets.items()} == {
        name: len(rows) for name, rows in made.sets.items()
    }
    published = sd.task(tiny, str(tiny / "protocols/gf_k4_mu20_s1.parquet"))
    assert published.content_id() == sd.task(tiny, "group-fairness", k=4, mu=0.2, seed=1).content_id()
    with pytest.raises(InputError, match=r"keys of .* are not in tiny/content"):
        sd.task(tiny, str(tmp_path / "mine.parquet"), base="content")
    with pytest.raises(InputError, match=r"there is no frozen task .*gone\.parquet: .*--freeze"):
        sd.task(tiny, str(tiny / "metadata/mini/gone.parquet"))
    with pytest.raises(InputError, match="parameters go with the name of a protocol"):
        sd.task(tiny, str(tmp_path / "mine.parquet"), k=3)


def test_a_frozen_task_knows_its_roles_its_metrics_and_its_empty_groups(tmp_path):
    rows = metadata(4, 4, 4)
    hole = pc.and_(pc.equal(rows.table["label"], 1), pc.equal(rows.table["a"], 2))
    lacking = sd.Metadata(rows.table.filter(pc.invert(hole)), rows.labels, rows.nuisances, "a", True)
    made = sd.task(lacking, "group-fairness", k=4, mu=1, on_empty="report").also("test", "unlabelled")
    made.freeze(tmp_path / "task.parquet")
    again = sd.task(lacking, str(tmp_path / "task.parquet"))
    assert [rows.roles for rows in again.sets.values()] == [rows.roles for rows in made.sets.values()]
    assert (again.history.metrics, again.history.notes) == (made.history.metrics, made.history.notes)
    assert again.describe() == made.describe()
    assert str(again.report()) == str(made.report())
    truth = again.metadata.label[again.rows("test")]
    assert again.evaluate(truth).to_dict() == made.evaluate(truth).to_dict()
    assert "label01 / kind2" in str(again.evaluate(truth))


def test_a_file_of_another_version_is_said(tiny, tmp_path):
    made = sd.task(tiny)
    made.freeze(tmp_path / "task.parquet")
    table = pq.read_table(tmp_path / "task.parquet")
    pq.write_table(table.replace_schema_metadata({"shiftdata": '{"roles": 3}'}), tmp_path / "task.parquet")
    with pytest.raises(InputError, match=r"frozen by another version of shiftdata .* freeze the task again"):
        sd.task(tiny, str(tmp_path / "task.parquet"))


def test_protocols_are_composed_on_the_command_line(tiny, capsys):
    words = ["group-fairness", "k=4", "mu=0.2", "severity>=1", "label-shift", "alpha=3"]
    assert cli.main(["task", str(tiny), *words, "--on-empty", "report"]) == 0
    assert (
        "(severity >= 1.0) & group-fairness@1(k=4, mu=0.2, seed=0) & label-shift@1" in capsys.readouterr().out
    )
    assert cli.main(["task", str(tiny), "style!=red", "label==bar,disc", "--set", "test"]) == 0
    made = sd.task(tiny)
    red = made.metadata.nuisances.index("red")
    rows = made.table("test").to_pylist()
    kept = [row["key"] for row in rows if row["label"] < 2 and row["style"] != red]
    assert capsys.readouterr().out.split() == kept
    assert cli.main(["task", str(tiny), "key==x"]) == 1
    assert "a task cannot be restricted by key: use label, style, severity" in capsys.readouterr().err
    assert cli.main(["task", str(tiny), "k=4", "group-fairness"]) == 1
    assert "k=4 is a parameter without a protocol: name the protocol first" in capsys.readouterr().err


def test_a_task_is_named_in_the_words_of_the_command_line(tiny):
    made = sd.task(tiny, "leave-one-domain-out test=red style!=blue")
    asked = sd.protocol("leave-one-domain-out", test="red") & parse_protocol("style!=blue")
    assert made.report() == sd.task(tiny, asked).report()
    with pytest.raises(InputError, match="name the protocol first"):
        sd.task(tiny, "test=red leave-one-domain-out")
