"""Hidden labels: what a public copy shows and hides, and how predictions for it are judged."""

from __future__ import annotations

import filecmp
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.cli.app import main as builders
from builders.make import hide as hiding
from builders.make.check import check
from builders.make.hide import hide
from shiftdata.bench.leaderboard import leaderboard
from shiftdata.cli.app import main as cli
from shiftdata.data.format.hidden import read_labels, write_labels
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError
from shiftdata.serve.explore.rows import Predicted, explored
from shiftdata.serve.pages.rows import Rows
from shiftdata.serve.pages.site import write_gallery
from tests.bench.submissions import CARD
from tests.shared import dataset_of
from tests.tiny import edit_manifest

SPLIT = "gf_k4_mu20_s1"


@pytest.fixture(scope="module")
def owned(tiny, tmp_path_factory):
    """The public copy of the tiny dataset, and the file of what it hides."""
    folder = tmp_path_factory.mktemp("hidden")
    with pytest.MonkeyPatch.context() as patch:  # so that every run hides alike
        patch.setattr(hiding.secrets, "token_bytes", lambda size: bytes(range(size)))
        copied = hide(tiny, folder / "public/tiny", folder / "tiny.labels.parquet")
    return copied, folder / "tiny.labels.parquet"


@pytest.fixture(scope="module")
def public(owned):
    return owned[0].folder


def texts_in(file: Path) -> set[str]:
    """Every text in a Parquet file, within structs too."""
    table = pq.read_table(file).flatten()
    columns = [column for column in table.columns if column.type == pa.string()]
    return {text for column in columns for text in column.to_pylist() if text}


def predictions(folder: Path, truth: dict[str, str], right: float) -> Path:
    """A file that gives a share of keys the right label."""
    names, rows = sorted(set(truth.values())), np.random.default_rng(0).random(len(truth))
    given = [
        label if row < right else names[names.index(label) - 1]
        for row, label in zip(rows, truth.values(), strict=True)
    ]
    path = folder / "p.csv"
    path.write_text("\n".join(["key,prediction", *map(",".join, zip(truth, given, strict=True))]))
    return path


def test_the_copy_is_a_dataset_without_faults_that_plain_datasets_load(public, tiny):
    assert check(public) == []
    test = datasets.load_dataset(str(public), split="test")
    assert set(test["label"]) == set(test["group"]) == {None}
    assert test[0]["image"].size == (24, 24)
    train = datasets.load_dataset(str(public), split="train")
    assert train["label"] == datasets.load_dataset(str(tiny), split="train")["label"]


def test_nothing_in_the_copy_names_a_test_row_as_its_owner_does(public, tiny):
    own = {
        text
        for file in (tiny / "metadata").rglob("test.parquet")
        for column in ("key", "origin")
        for text in pq.read_table(file)[column].to_pylist()
    }
    for file in public.rglob("*.parquet"):
        shown = texts_in(file)
        assert not own & shown, file
        assert not {name for name in own if any(name in text for text in shown)}, file
    for name in ("README.md", "croissant.json", "manifest.json", "ATTRIBUTION.md"):
        text = (public / name).read_text(encoding="utf-8")
        assert not {key for key in own if key in text}, name


def test_neighbours_in_its_files_are_of_one_label_as_often_as_by_chance(public, owned):
    rows = read_labels(owned[1]).rows.to_pylist()
    label = {row["key"]: row["label"] for row in rows if row["base"] == "extended"}
    order = [
        label[key] for key in pq.read_table(public / "metadata/extended/test.parquet")["key"].to_pylist()
    ]
    equal = np.mean(np.array(order[1:]) == np.array(order[:-1]))
    assert abs(equal - 1 / 4) < 3 * np.sqrt(3 / 16 / len(order))


def test_the_same_file_of_labels_makes_the_same_copy(owned, tiny, tmp_path):
    again = hide(tiny, tmp_path / "tiny", owned[1])
    compared = filecmp.dircmp(owned[0].folder, again.folder)
    assert not compared.diff_files
    assert not compared.left_only
    files = [path.relative_to(again.folder) for path in again.folder.rglob("*") if path.is_file()]
    assert filecmp.cmpfiles(owned[0].folder, again.folder, files, shallow=False)[0] == files
    other = hide(tiny, tmp_path / "other", tmp_path / "other.parquet")
    assert Manifest.read(other.folder).content_id != Manifest.read(again.folder).content_id


def test_splits_whose_sets_tell_of_labels_are_left_out(owned):
    assert owned[0].splits == [SPLIT]
    assert owned[0].left_out == {"gf_k2_mu10": "its sets would tell of hidden labels, or need them"}
    assert owned[0].revealed == 0


def test_the_owner_judges_predictions_as_the_task_with_labels_does(public, owned, tiny, tmp_path, capsys):
    own = sd.task(tiny, SPLIT)
    keys = {row["own_key"]: row["key"] for row in read_labels(owned[1]).rows.to_pylist()}
    names = own.table("test", named=True)
    truth = dict(zip(names["key"].to_pylist(), names["label"].to_pylist(), strict=True))
    expected = own.evaluate(predictions(tmp_path, truth, 0.7))
    file = predictions(tmp_path, {keys[key]: label for key, label in truth.items()}, 0.7)
    card = tmp_path / "card.toml"
    card.write_text("".join(f"{name} = {value!r}\n" for name, value in CARD.items() if name != "pretraining"))
    with card.open("a") as more:
        more.write("[pretraining]\nweights = ''\nsha256 = ''\nsupervision = ''\ncorpora = []\n")
    out = tmp_path / "mine.parquet"
    words = ["submit", "--dataset", "tiny", SPLIT, "--data", str(public.parent), "--predictions", str(file)]
    assert cli([*words, "--card", str(card), "--out", str(out)]) == 0
    assert "its labels are hidden" in capsys.readouterr().out

    (refused,) = leaderboard(out, data=public.parent).refused
    assert "whoever has the file of them gives --labels" in refused.reason
    board = leaderboard(out, data=public.parent, labels=[owned[1]])
    (entry,) = (entry for table in board.tables for entry in table.entries)
    assert entry.scores.keys() == expected.figures.keys()
    for name, score in entry.scores.items():
        assert score.value == pytest.approx(float(expected[name]), nan_ok=True), name
        assert score.low == pytest.approx(expected[name].interval[0], nan_ok=True), name

    hide(tiny, tmp_path / "tiny", tmp_path / "other.parquet")
    (refused,) = leaderboard(out, data=public.parent, labels=[tmp_path / "other.parquet"]).refused
    assert "not those that tiny/mini hides" in refused.reason
    assert cli(["leaderboard", str(out), "--labels", str(card)]) == 1
    assert "not a file of hidden labels" in capsys.readouterr().err


def test_a_task_trains_and_cannot_judge(public):
    task = sd.task(public, SPLIT)
    assert all((y == -1).all() for _, y, _ in task.loader("test", remap=True))
    assert task.report().sets["test"].empty == ()
    with pytest.raises(InputError, match=r"keeps the labels of test: `shiftdata submit`"):
        task.evaluate(np.zeros(len(task.rows("test")), int))
    assert sd.task(public, "group-fairness", k=4, mu=0.2, seed=1).content_id() == task.content_id()


def test_verifying_a_copy_finds_a_label_that_should_be_hidden_and_one_that_lacks(copy, public):
    hidden = {"rows": {"mini": 3}, "columns": ["label"], "sha256": "0" * 64}
    edit_manifest(copy, lambda raw: raw.update(hidden=hidden))
    assert any("0 rows without a label, the manifest says 3" in problem.what for problem in sd.verify(copy))
    manifest = (public / "manifest.json").read_text(encoding="utf-8")
    try:
        edit_manifest(public, lambda raw: raw.pop("hidden"))
        assert any("the manifest names 4" in problem.what for problem in sd.verify(public))
    finally:
        (public / "manifest.json").write_text(manifest, encoding="utf-8", newline="\n")


def test_what_cannot_be_hidden_is_refused(owned, tiny, tmp_path, capsys):
    words = ["hide", str(tiny), "--labels", str(tmp_path / "labels.parquet"), "--out"]
    assert builders([*words, str(tiny)]) == 1
    assert "is the dataset itself" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("mine")
    assert builders([*words, str(tmp_path)]) == 1
    assert "has other files" in capsys.readouterr().err
    write_labels(tmp_path / "labels.parquet", read_labels(owned[1]).rows, bytes(32), "birds")
    assert builders([*words, str(tmp_path / "copy")]) == 1
    assert "has the labels of birds: name another file" in capsys.readouterr().err
    (tmp_path / "labels.parquet").unlink()
    assert builders(["hide", str(owned[0].folder), *words[2:], str(tmp_path / "again")]) == 1
    assert "not a whole dataset" in capsys.readouterr().err


def test_nuisances_are_hidden_where_that_is_asked(tiny, tmp_path):
    copied = hide(tiny, tmp_path / "tiny", tmp_path / "labels.parquet", nuisance=True)
    assert sd.verify(copied.folder) == []
    assert not copied.splits  # four of five styles are tested: that tells of the fifth
    task, own = sd.task(copied.folder), sd.task(tiny)
    assert set(task.table("test")["style"].to_pylist()) == {None}
    answered = task.metadata.with_answers(read_labels(tmp_path / "labels.parquet"))
    assert sorted(answered.group[task.rows("test")]) == sorted(own.metadata.group[own.rows("test")])


def test_the_test_of_a_canonical_split_is_hidden_in_every_split_of_the_files(tmp_path_factory, tmp_path):
    own = dataset_of(tmp_path_factory, "domain")
    copied = hide(own, tmp_path / "copy", tmp_path / "labels.parquet", test="lodo_sand")
    assert check(copied.folder) == []
    assert copied.rows == len(sd.task(own, "lodo_sand").rows("test"))
    assert {"lodo_sand", "uda_night_paper"} <= set(copied.splits)
    assert "domainbed_night" in copied.left_out  # it trains on sand
    loaded = datasets.load_dataset(str(copied.folder), "lodo_sand")
    assert set(loaded["test"].features["domain"].int2str(loaded["test"]["domain"])) == {"sand"}
    assert set(loaded["test"]["label"]) == {None}
    assert None not in {*loaded["train"]["label"], *loaded["validation"]["label"]}
    task = sd.task(copied.folder, "lodo_sand")
    answered = task.metadata.with_answers(read_labels(tmp_path / "labels.parquet"))
    truth = sd.task(own, "lodo_sand")
    labels = answered.label[task.rows("test")]
    assert sorted(labels) == sorted(truth.metadata.label[truth.rows("test")])
    with pytest.raises(InputError, match="all is not a canonical split"):
        hide(own, tmp_path / "other", tmp_path / "labels.parquet", test="all")


@pytest.mark.parametrize("both_formats", ["text", "table"], indirect=True)
def test_texts_and_tables_are_hidden_alike(both_formats, tmp_path):
    copied = hide(Path(both_formats[0]), tmp_path / "copy", tmp_path / "labels.parquet")
    assert sd.verify(copied.folder) == []


def test_pages_count_and_name_no_row_whose_label_is_hidden(public, tmp_path):
    dataset = sd.open_dataset(public)
    rows = Rows.of(dataset, dataset.manifest.default_base)
    shown = rows.metadata.label >= 0
    assert 0 < shown.sum() < len(shown)
    assert rows.counts.sum() == shown.sum()
    table = explored(rows.metadata, None)
    assert [label is not None for label in table["label"].to_pylist()] == shown.tolist()
    task = sd.task(dataset)
    given = dict.fromkeys(task.keys("test"), rows.metadata.labels[0])
    judged = explored(rows.metadata, None, [Predicted("mine", "splits", task, "test", given)])
    assert set(judged["mine is"].to_pylist()) == {None}
    assert set(judged["mine"].to_pylist()) == {None, rows.metadata.labels[0]}
    write_gallery([dataset], tmp_path / "site", each=2)
    assert (tmp_path / "site/tiny/index.html").is_file()
