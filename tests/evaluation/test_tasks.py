"""Tasks of a dataset: their sets, filters, files, reports, and the verb; metadata of a table of one's own."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.cli import app as cli
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.charts import MANY, SIDE
from shiftdata.evaluation.meters import measure_shifts
from shiftdata.evaluation.protocols import parse_protocol, protocols
from shiftdata.stable import hash64
from tests.evaluation.protocols.made import metadata, table
from tests.paths import ROOT

PURE = {
    "group-fairness": {"k": 3, "mu": 0.3},
    "uda": {"source": "red", "target": "blue"},
    "leave-one-domain-out": {"test": "red"},
    "domainbed": {"test": "red"},
    "oracle": {"test": ("red", "blue")},
}


@pytest.mark.parametrize("name", PURE)
def test_plain_readers_with_the_filters_read_the_same_rows(tiny, name):
    import datasets
    import pyarrow.dataset as ds

    task = sd.task(tiny, name, **PURE[name])
    for set_name, filters in task.filters().items():
        keys = task.metadata.table["key"].take(pa.array(task.sets[set_name].indices))
        expected = sorted(keys.to_pylist())
        rows = ds.dataset(tiny / "data/mini").to_table(
            columns=["key"], filter=pq.filters_to_expression(filters)
        )
        assert sorted(rows["key"].to_pylist()) == expected
        read = datasets.load_dataset(str(tiny), "mini", filters=filters, streaming=True)
        assert sorted(row["key"] for split in read.values() for row in split) == expected


def test_the_canonical_task_of_a_dataset(tiny):
    task = sd.task(tiny)
    assert {name: len(rows) for name, rows in task.sets.items()} == {
        "train": 200,
        "validation": 80,
        "test": 120,
    }
    assert task.metadata.name == "tiny/mini"
    assert sd.task(tiny, base="extended").metadata.name == "tiny/extended"
    assert len(sd.task(tiny, base="content").sets["train"]) == 80
    with pytest.raises(NotFoundError, match="did you mean 'mini'"):
        sd.task(tiny, base="minis")


def test_a_frozen_task_is_the_published_split(tiny, tmp_path):
    task = sd.task(tiny, "group-fairness", k=4, mu=0.2, seed=1)
    identity = task.freeze(tmp_path / "task.parquet")
    frozen = pq.read_table(tmp_path / "task.parquet")
    published = pq.read_table(tiny / "protocols/gf_k4_mu20_s1.parquet")
    order = [("split", "ascending"), ("key", "ascending")]
    assert frozen.sort_by(order).to_pylist() == published.sort_by(order).to_pylist()
    assert identity == task.content_id() != sd.task(tiny).content_id()
    assert sd.task(tiny, str(tiny / "protocols/gf_k4_mu20_s1.parquet")).content_id() == identity
    plain = frozen.replace_schema_metadata({"shiftdata": '{"roles": 3}'})
    pq.write_table(plain, tmp_path / "task.parquet")
    with pytest.raises(InputError, match=r"frozen by another version of shiftdata .* freeze the task again"):
        sd.task(tiny, str(tmp_path / "task.parquet"))


def test_a_frozen_task_comes_back_as_it_was(tiny, tmp_path):
    path = str(tmp_path / "mine.parquet")
    task = sd.task(tiny, "label-shift", alpha=3, replacement=True, on_empty="report")
    task.freeze(path)
    again = sd.task(tiny, path)
    assert again.content_id() == task.content_id()
    assert [len(rows) for rows in again.sets.values()] == [len(rows) for rows in task.sets.values()]
    with pytest.raises(InputError, match=r"keys of .* are not in tiny/content"):
        sd.task(tiny, path, base="content")
    with pytest.raises(InputError, match=r"there is no frozen task .*gone\.parquet: .*--freeze"):
        sd.task(tiny, str(tiny / "metadata/mini/gone.parquet"))
    with pytest.raises(InputError, match="parameters go with the name of a protocol"):
        sd.task(tiny, path, k=3)


def test_report_and_picture(tiny):
    task = sd.task(tiny, "group-fairness", k=3, mu=0.3)
    report = task.report()
    assert (report.sets["test"].examples, report.leaks) == (3 * 3 * 6, 0)
    counts = [count for set_report in report.sets.values() for row in set_report.counts for count in row]
    assert sum(counts) == sum(len(rows) for rows in task.sets.values())
    assert re.search(r"^test +test +54 +54 +18 +9 +6 +6 +0$", str(report), re.M)
    assert str(report).startswith("group-fairness@1(k=3, mu=0.3, seed=0)\nof tiny/mini\n")
    # Three panels side by side, on one scale: the largest count is the darkest.
    picture, darkest = report.picture(), counts.count(max(counts))
    assert picture.width > picture.height > 100
    pixels = sum(n for n, colour in picture.getcolors(1 << 20) if colour == tuple(MANY))
    assert 0.5 * darkest < pixels / (SIDE - 1) ** 2 <= darkest < len(counts) - counts.count(0)
    with pytest.raises(InputError, match="no set of few enough groups to draw"):
        sd.task(metadata(labels=50, kinds=2, each=4)).report().picture()


def lacking():
    """Metadata of 4 labels in 4 kinds, without one of the groups."""
    rows = metadata(4, 4, 4)
    hole = pc.and_(pc.equal(rows.table["label"], 1), pc.equal(rows.table["a"], 2))
    return sd.Metadata(rows.table.filter(pc.invert(hole)), rows.labels, rows.nuisances, "a", True)


def test_an_empty_group_is_an_error_or_a_zero_and_a_frozen_task_knows_it(tmp_path):
    with pytest.raises(
        InputError, match=r"leaves 1 groups of train without a row .label01 / kind2.*on_empty"
    ):
        sd.task(lacking(), "group-fairness", k=4, mu=1)
    task = sd.task(lacking(), "group-fairness", k=4, mu=1, on_empty="report").also("test", "unlabelled")
    assert task.report().sets["train"].empty == ("label01 / kind2",)
    task.freeze(tmp_path / "task.parquet")
    again = sd.task(task.metadata, str(tmp_path / "task.parquet"))
    assert [rows.roles for rows in again.sets.values()] == [rows.roles for rows in task.sets.values()]
    assert (again.history.metrics, again.history.notes) == (task.history.metrics, task.history.notes)
    assert again.describe() == task.describe()
    assert str(again.report()) == str(task.report())
    assert "empty in train: label01 / kind2" in str(task.report())
    truth = again.metadata.label[again.rows("test")]
    assert again.evaluate(truth).to_dict() == task.evaluate(truth).to_dict()
    with pytest.raises(InputError, match="on_empty is"):
        sd.task(metadata(), sd.protocol("group-fairness", k=2, mu=1), on_empty="ignore")
    with pytest.raises(InputError, match="leaves train without a row"):
        sd.task(metadata(2, 2, 9, severities=(1.0,)), "severity>5")


def test_a_leak_in_the_rows_is_refused():
    rows = table(1, 1, 20).append_column("part", pa.array(["train", "test"] * 10))
    rows = rows.set_column(3, "origin", pa.array([f"o{n // 2}" for n in range(20)]))
    leaking = sd.metadata_from_table(rows, label="y", nuisance="a", origin="origin", split="part")
    with pytest.raises(InputError, match=r"10 origins are on two sides of the task, 'o0' in train and test"):
        sd.task(leaking)


def test_a_set_is_resampled_by_a_named_rule(tiny):
    task = sd.task(tiny, "group-fairness", k=4, mu=0.2, seed=1)
    group = task.table("train")["group"].to_pylist()
    balanced = [group[row] for row in task.sampler("subg")]
    assert len(balanced) == 16 * min(group.count(number) for number in set(group))
    assert {balanced.count(number) for number in set(group)} == {len(balanced) // 16}
    with pytest.raises(NotFoundError, match="did you mean 'train'"):
        task.keys("trein")
    drawn = sd.task(tiny, "label-shift", alpha=3, replacement=True, on_empty="report")
    with pytest.raises(InputError, match="drawn with replacement"):
        drawn.sampler("rwy", drawn.set_of("test"))


def test_options_of_a_loader_go_where_they_belong(tiny):
    task = sd.task(tiny, "group-fairness", k=4, mu=0.2, seed=1)
    loader = task.loader(
        sampler="subg", on_empty="error", batch_size=6, size=8, remap=True, drop_last=True, workers=0
    )
    x, y, known = next(iter(loader))
    assert (tuple(x.shape), max(y.tolist()) < 4) == ((6, 3, 8, 8), True)
    assert len(set(known["group"].tolist())) == 6
    with pytest.raises(NotFoundError, match="unknown option 'wrkers'"):
        task.loader(sampler="shuffle", wrkers=0)
    with pytest.raises(InputError, match="on_empty: options go with the name of a sampler"):
        task.loader(on_empty="drop")


def test_a_task_is_named_in_the_words_of_the_command_line(tiny):
    task = sd.task(tiny, "leave-one-domain-out test=red style!=blue")
    protocol = sd.protocol("leave-one-domain-out", test="red") & parse_protocol("style!=blue")
    assert task.report() == sd.task(tiny, protocol).report()
    with pytest.raises(InputError, match="name the protocol first"):
        sd.task(tiny, "test=red leave-one-domain-out")
    with pytest.raises(InputError, match="k: parameters go with the name"):
        sd.task(tiny, protocol, k=3)
    with pytest.raises(InputError, match="metadata is of one base"):
        sd.task(metadata(), base="mini")


def test_the_command_line(tiny, tmp_path, capsys):
    def run(*arguments):
        status = cli.main(["task", *arguments])
        return status, *capsys.readouterr()

    fair = [str(tiny), "group-fairness", "k=3", "mu=0.3"]
    frozen, picture = tmp_path / "t.parquet", tmp_path / "t.png"
    status, out, _ = run(*fair, "--freeze", str(frozen), "--picture", str(picture))
    task = sd.task(tiny, "group-fairness", k=3, mu=0.3)
    assert (status, frozen.exists(), picture.exists()) == (0, True, True)
    assert out == f"{task.report()}\n{frozen}: {task.content_id()}\n"
    oracle = sd.task(tiny, "oracle", test=("red", "blue"))
    assert run(str(tiny), "oracle", "test=red,blue", "--set", "test")[1].split() == oracle.keys("test")
    assert run(str(tiny), "leave-one-domain-out", "test")[2] == "error: leave-one-domain-out needs test\n"
    assert "did you mean 'oracle'" in run(str(tiny), "oracl", "test=red")[2]
    listed = run()[1]
    assert "group-fairness@1" in listed
    assert "    @paired: " in listed
    words = ["group-fairness", "k=4", "mu=0.2", "severity>=1", "label-shift", "alpha=3"]
    composed = "(severity >= 1.0) & group-fairness@1(k=4, mu=0.2, seed=0) & label-shift@1"
    assert composed in run(str(tiny), *words, "--on-empty", "report")[1]
    shifts = measure_shifts(task)
    assert run(*fair, "--shifts")[1] == f"{shifts}\n"
    assert run(*fair, "--shifts", "--format", "markdown")[1] == f"{shifts.to_markdown()}\n"
    assert json.loads(run(*fair, "--shifts", "--format", "json")[1])["kinds"] == list(shifts.kinds)
    red = task.metadata.nuisances.index("red")
    rows = sd.task(tiny).table("test").to_pylist()
    keys = [row["key"] for row in rows if row["label"] < 2 and row["style"] != red]
    assert run(str(tiny), "style!=red", "label==bar,disc", "--set", "test")[1].split() == keys
    assert "a task cannot be restricted by key: use label, style" in run(str(tiny), "key==x")[2]


def test_the_examples_of_the_docs_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one writes a file
    text = (ROOT / "docs/protocols.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    names: dict[str, object] = {}
    for block in blocks[1:]:  # the first is of a dataset that is not here
        exec(compile(block, "docs/protocols.md", "exec"), names)
    documented = set(re.findall(r"^## `([^`]+)`", text, re.M))
    assert documented == {protocol.id for protocol in protocols()}


# --- metadata of a table of one's own


OWN = pa.table({"id": ["c", "a", "b"], "y": [1, 0, 1], "z": ["u", "v", "u"]})


def test_a_table_of_ones_own_by_hand():
    rows = sd.metadata_from_table(OWN, key="id", label="y", nuisance="z")
    assert (rows.labels, rows.nuisances, rows.origins_shared) == (("0", "1"), ("u", "v"), False)
    order = sorted("bc", key=lambda name: hash64("fold", name))
    expected = {"a": 0, order[0]: 0, order[1]: 50}
    assert rows.table["fold"].to_pylist() == [expected[key] for key in "cab"]
    assert rows.table["split"].to_pylist() == [["train", "validation"][expected[key] // 50] for key in "cab"]
    assert rows.table["quantile"].to_pylist() == [0.5, 0.5, 0.5]
    assert rows.table["group"].to_pylist() == [2, 1, 2]


def frames():
    """The same rows as each library has them, in types that all mean the same."""
    import pandas as pd
    import polars as pl

    spelled = {"id": list("cab"), "y": ["1", "0", "1"], "z": ["u", "v", "u"], "other": [b"1", None, b"3"]}
    text = pd.DataFrame(spelled)
    categories = {"y": pd.Categorical(spelled["y"], ["1", "0", "2"]), "z": text["z"].astype("category")}
    return {
        "pandas objects": text.astype(object).assign(other=["mixed", 1, None]),
        "pandas numbers that had gaps": text.assign(y=[1.0, 0.0, 1.0]),
        "pandas nullable": text.assign(y=pd.array([1, 0, 1], "Int8"), z=text["z"].astype("string")),
        "pandas categories": text.assign(**categories),
        "pandas index": text.set_index("id"),
        "polars categories": pl.DataFrame(spelled).with_columns(
            pl.col("y").cast(pl.Categorical), pl.col("z").cast(pl.Enum(["v", "u"]))
        ),
        "pyarrow pieces": pa.concat_tables([pa.table(text.iloc[:1]), pa.table(text.iloc[1:])]),
    }


def test_a_frame_of_any_library_is_a_table():
    wanted = sd.metadata_from_table(OWN, key="id", label="y", nuisance="z")
    for name, frame in frames().items():
        rows = sd.metadata_from_table(frame, key="id", label="y", nuisance="z")
        assert (rows.labels, rows.nuisances) == (wanted.labels, wanted.nuisances), name
        assert rows.table.equals(wanted.table), name


def test_a_frame_goes_from_rows_to_a_result():
    import pandas as pd

    frame = pd.DataFrame(
        {
            "key": [f"k{n}" for n in range(60)],
            "ill": [True, False] * 30,
            "day": [n // 2 % 3 for n in range(60)],
        }
    )
    rows = sd.metadata_from_table(frame, label="ill", nuisance="day", labels=["no", "yes"])
    assert (rows.labels, rows.nuisances) == (("no", "yes"), ("0", "1", "2"))
    task = sd.task(rows, "leave-one-domain-out", test="1")
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
    rows = sd.metadata_from_table(changed("y", [5, 10, 3]), key="id", label="y", nuisance="z", labels=labels)
    assert rows.label.tolist() == numbers


def test_own_splits_are_kept_and_folds_lie_in_them():
    own = table(2, 2, 30, shared=False)
    parts = [("train", "validation", "test")[hash64(key) % 3] for key in own["key"].to_pylist()]
    rows = sd.metadata_from_table(
        own.append_column("part", pa.array(parts)), label="y", nuisance="a", split="part"
    )
    assert rows.table["split"].to_pylist() == parts
    assert rows.table["fold"].to_numpy()[np.array(parts) == "test"].min() >= 70
    again = sd.metadata_from_table(rows.table, label="label", nuisance="a", fold="fold")
    assert again.table["split"].to_pylist() == parts
    assert again.table["quantile"].equals(rows.table["quantile"])


def changed(name, values):
    return OWN.set_column(OWN.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (OWN, {"label": "yy"}, "unknown column 'yy'"),
        (OWN, {"origin": "o"}, "unknown column 'o'"),
        (changed("y", [1.0, float("nan"), 2.0]), {}, "'y' is empty or nan in row 1"),
        (changed("y", [1, None, 2]), {}, "'y' is empty or nan in row 1"),
        (changed("id", ["a", "b", "a"]), {}, "'a' occurs more than once in 'id'"),
        (OWN, {"nuisances": ["u", "w"]}, "unknown z 'v'"),
        (OWN, {"labels": ["one", "one"]}, "named twice"),
        (OWN.append_column("s", pa.array(["train", "tset", "test"])), {"split": "s"}, "did you mean 'test'"),
        (OWN.append_column("f", pa.array([1, 100, 3])), {"fold": "f"}, "from 0 to 99"),
        (OWN.append_column("o", pa.array(["x", "x", "x"])), {"origin": "o"}, "'x' occurs under 0 and 1"),
        (OWN.rename_columns(["id", "y", "fold"]), {"nuisance": "fold"}, "cannot be called 'fold'"),
        (changed("z", [0.5, 1.5, 2.0]), {}, "'z' has fractions: cut it into bands"),
        (changed("z", [[1], [2], [3]]), {}, "'z' has the type list.*: make it texts"),
        (OWN.append_column("s", pa.array(list("abc"))), {"severity": "s"}, "'s' has .*make it numbers"),
        (OWN.append_column("y", pa.array([1, 2, 3])), {}, "there are 2 columns 'y'"),
        ("own.csv", {}, "got a str: read a file"),
    ],
)
def test_unusable_tables_are_answered(rows, more, message):
    with pytest.raises(InputError, match=message):
        sd.metadata_from_table(rows, **{"key": "id", "label": "y", "nuisance": "z", **more})


def test_unusable_frames_are_answered():
    import pandas as pd
    import polars as pl

    mixed = pd.DataFrame({"id": ["a", "b"], "y": ["a", 1], "z": ["u", "v"]})
    for frame, message in (
        (pl.LazyFrame({"id": ["a"]}), "got a LazyFrame: .*collect a lazy frame"),
        (mixed, "column y .*give each column one type"),
        (mixed.assign(y=["a", None]), "'y' is empty or nan in row 1"),
        (mixed.assign(y=["a", "b"], z=pd.interval_range(0, 2)), "'z' has the type .*interval"),
    ):
        with pytest.raises(InputError, match=message):
            sd.metadata_from_table(frame, key="id", label="y", nuisance="z")
