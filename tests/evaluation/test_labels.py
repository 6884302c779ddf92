"""Labels by people: the table, agreement against scikit-learn and by its definition, Label Studio."""

from __future__ import annotations

import base64
import csv
import json
import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.errors import InputError
from shiftdata.evaluation.labels import Label, agreements, kappa, latest, read_labels, settled, write_labels

NAMES = ("keep", "partly", "drop")
HEADER = "key,label,who,when\n"
texts = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs", "Cf")), min_size=1, max_size=12
)


@given(rows=st.lists(st.builds(Label, texts, st.sampled_from(NAMES), texts), max_size=6))
def test_a_table_is_read_as_it_was_written_and_a_spreadsheet_runs_nothing_of_it(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "l.csv"
    write_labels(path, [*rows, Label("=cmd|' /c calc'!A0", "keep", "@SUM(1)")])
    assert read_labels(path, NAMES)[:-1] == rows
    with path.open(newline="") as stream:
        assert [cell[:2] for cell in list(csv.reader(stream))[-1]] == ["'=", "ke", "'@", ""]


def test_the_last_label_of_a_key_and_a_person_counts_and_an_empty_one_takes_it_back(tmp_path):
    text = "a;keep;anna;\r\na; Drop ;ben;\r\n;;;\r\na;partly;anna;23.11.26\r\nb;keep;ben;\r\nb;;ben;"
    (tmp_path / "l.csv").write_text("\ufeffkey;label;who;when\r\n" + text)  # as a spreadsheet writes it
    rows = read_labels(tmp_path / "l.csv", NAMES)
    assert latest(rows) == {"anna": {"a": "partly"}, "ben": {"a": "drop"}}
    assert settled(rows) == ({}, ["a"])
    assert settled([*rows, Label("a", "drop", "anna")]) == ({"a": "drop"}, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"style,file,label\n", "begins with 'style,file,label'; a table of labels has the columns key,"),
        (b"key,label,who,when\na,keep\n", "line 2: 2 cells, and the header has 4"),
        (b"key,label,who,when\na,keep,,\nb,good,,\n", "line 3: the label 'good' is not one of keep, partly"),
        (b"key,label,who,when\na,keep,an\x1b[2Jna,\n", "line 2: the who .* control character"),
        (b"key,label,who,when\n,keep,,\n", "line 2: the key '' is empty"),
        (b"key,label,who,when\n\xff,keep,,\n", "is not UTF-8"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path, text, message):
    (tmp_path / "l.csv").write_bytes(text)
    with pytest.raises(InputError, match=message):
        read_labels(tmp_path / "l.csv", NAMES)


@pytest.mark.parametrize("seed", range(20))
def test_kappas_are_those_of_scikit_learn(seed):
    from sklearn.metrics import cohen_kappa_score

    draw, count = np.random.default_rng(seed), 2 + seed % 3
    first = draw.choice(count, 40, p=draw.dirichlet(np.ones(count)))
    second = np.where(draw.random(40) < 0.6, first, draw.integers(0, count, 40))
    table, names = np.zeros((count, count), np.int64), list(range(count))
    np.add.at(table, (first, second), 1)
    assert kappa(table)[0] == pytest.approx(cohen_kappa_score(first, second, labels=names))


def test_intervals_cover_the_truth_as_often_as_they_say():
    draw = np.random.default_rng(0)
    shares = np.array([[0.35, 0.06, 0.02], [0.05, 0.15, 0.06], [0.01, 0.05, 0.25]])
    truth = kappa((shares * 1e9).astype(np.int64))[0]
    drawn = [kappa(draw.multinomial(300, shares.ravel()).reshape(3, 3)) for _ in range(1000)]
    assert np.mean([low <= truth <= high for _, low, high in drawn]) == pytest.approx(0.95, abs=0.025)


def test_kappa_is_undefined_where_nothing_differs_by_chance():
    for table in (np.zeros((2, 2), np.int64), np.array([[9, 0], [0, 0]])):
        assert math.isnan(kappa(table)[0])
    assert (kappa(np.array([[9, 0], [0, 9]]))[0], kappa(np.array([[0, 9], [9, 0]]))[0]) == (1, -1)


def test_people_are_compared_on_the_keys_that_both_labelled():
    first, second = {"a": "keep", "b": "drop", "c": "keep"}, {"b": "partly", "c": "keep", "d": "drop"}
    files = [("l.csv", {"anna": first}), ("m.csv", {"anna": second, "ben": first})]
    result, *others = agreements(files, NAMES)
    assert (result.differ, result.share[0]) == ((("b", "drop", "partly"),), 0.5)
    assert result.counts.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert "n = 2 labelled by both\nagreement 0.500 [" in str(result)
    anna = "anna in l.csv", "anna in m.csv"
    pairs = [(pair.first, pair.second) for pair in (result, *others)]
    assert pairs == [anna, (anna[0], "ben"), (anna[1], "ben")]


def answers(tasks: list[dict[str, Any]], who: list[str]) -> str:
    """An export of Label Studio in which everybody labels every task, the last of them `drop`."""
    labels = ["keep" if task is not tasks[-1] else "drop" for task in tasks]
    when = "2026-11-26T09:00:00.000000Z"
    asked = [
        {
            "id": at, "data": task["data"],
            "annotations": [
                {
                    "completed_by": {"id": 1, "email": name} if name == "anna" else name,
                    "result": [{"from_name": "label", "value": {"choices": [label]}}], "updated_at": when,
                }
                for name in who
            ] + [{"completed_by": 9, "was_cancelled": True, "result": [], "updated_at": when}],
        }
        for at, (task, label) in enumerate(zip(tasks, labels, strict=True))
    ]  # fmt: skip
    return json.dumps(asked)


def test_pictures_go_to_label_studio_and_its_labels_come_back(tiny, tmp_path, capsys):
    words = [str(tiny), "fold>=80", "--labels", "keep,drop", "--each", "1", "--out", str(tmp_path)]
    assert main(["labels", "export", *words]) == 0
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    metadata = sd.read_metadata(tiny)
    assert len({task["data"]["about"] for task in tasks}) == len(tasks) > 10
    shards = [pq.read_table(path, columns=["key", "image"]) for path in tiny.glob("data/mini/*.parquet")]
    stored = {row["key"]: row["image"]["bytes"] for shard in shards for row in shard.to_pylist()}
    for task in tasks:
        kind_of, _, picture = task["data"]["image"].partition(";base64,")
        assert kind_of in ("data:image/png", "data:image/webp", "data:image/jpeg")
        assert base64.b64decode(picture) == stored[task["data"]["key"]]
    config = ElementTree.parse(tmp_path / "config.xml").getroot()
    assert [choice.get("value") for choice in config.iter("Choice")] == ["keep", "drop"]
    assert len(metadata) > len(tasks)

    export = tmp_path / "export.json"
    export.write_text(answers(tasks, ["anna", "7"]))
    table = tmp_path / "labels.csv"
    table.write_text(f"{HEADER}{tasks[0]['data']['key']},,,\nelse,,,\n")  # two are to be labelled
    for _ in range(2):
        assert main(["labels", "import", str(export), str(table)]) == 0
    rows = read_labels(table, ["keep", "drop"])
    assert len(rows) == 2 * len(tasks) + 1
    assert rows[-1] == Label("else", "")
    assert latest(rows)["anna"] == latest(rows)["7"]
    capsys.readouterr()
    assert main(["labels", "agreement", str(table), "--labels", "keep,drop"]) == 0
    assert f"7 and anna: n = {len(tasks)} labelled by both" in capsys.readouterr().out


def test_what_cannot_be_exported_or_imported_is_refused(tiny, tmp_path, capsys):
    for words, message in (
        (["severity>=9", "--labels", "a,b"], "no row of tiny/"),
        (["origin=x", "--labels", "a,b"], "conditions here are on"),
        (["--labels", "a,a"], "give two or more different labels"),
    ):
        assert main(["labels", "export", str(tiny), *words, "--out", str(tmp_path)]) > 0
        assert message in capsys.readouterr().err
    (tmp_path / "x.json").write_text('[{"data": {"image": "y"}, "annotations": [{"completed_by": 1}]}]')
    assert main(["labels", "import", str(tmp_path / "x.json"), str(tmp_path / "l.csv")]) == 1
    assert "not an export of such a project" in capsys.readouterr().err
    write_labels(tmp_path / "l.csv", [Label("a", "keep", "anna")])
    assert main(["labels", "agreement", str(tmp_path / "l.csv")]) == 1
    assert "labels of one person: give another table" in capsys.readouterr().err
