"""Submissions: what is judged, what is refused and how, from files that nobody has to trust."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.bench.leaderboard.judging import judge as judge_submission
from shiftdata.bench.leaderboard.submission import CARD, MOST_CARD, Submission, read_card, template
from shiftdata.cli.app import main as cli
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.evaluation.tasks import LeakWarning
from tests.bench.submissions import GF, card_of, edited, fair, guess, part, submitted, written
from tests.bombs import growth, write_equal_rows


@pytest.fixture(scope="module")
def task(tiny):
    return fair(tiny)


@pytest.fixture
def judge(tiny):
    """Judges a submission as a leaderboard does: from its file."""

    def judged(submission, path):
        submission.write(path)
        read = Submission.read(path)
        return judge_submission(read, path.name, read_metadata(tiny, read.card.base))

    return judged


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.parquet"


# --- what predictions are worth


def test_every_figure_is_the_mean_over_seeds_of_what_the_task_says(task, judge, path):
    (entry,) = judge(submitted(task, [part(task, "test", 0.7, seed) for seed in (0, 4)]), path)
    results = [task.evaluate(guess(task, "test", 0.7, seed), "test") for seed in (0, 4)]
    assert entry.seeds == (0, 4)
    assert entry.scores.keys() == results[0].figures.keys()
    for name, score in entry.scores.items():
        values = [result[name] for result in results]
        assert score.value == pytest.approx(np.mean(values))
        assert score.spread == pytest.approx(np.std(values, ddof=1))
    overall = entry.scores["overall"]
    assert overall.low < overall.value < overall.high
    assert entry.rows == len(task.rows("test"))
    assert overall.rows.startswith(f"{entry.rows:,}")


def test_every_set_that_tests_is_judged_and_an_oracles_is_not_asked_for(tiny, judge, path):
    styles = sd.info(tiny).nuisances
    words = f"uda source={styles[0]} target={styles[1]}"
    task = sd.task(tiny, "uda", source=styles[0], target=styles[1])
    parts = [part(task, name, 0.5) for name in ("target_test", "source_test")]
    entries = judge(submitted(task, parts, words), path)
    assert [(entry.set, entry.main) for entry in entries] == [("target_test", True), ("source_test", False)]
    with pytest.raises(InputError, match=r"predictions for seed 0 of source_test are missing"):
        judge(submitted(task, parts[:1], words), path)
    task = sd.task(tiny, "domainbed", test=styles[0])
    (entry,) = judge(submitted(task, words=f"domainbed test={styles[0]}"), path)
    assert entry.set == "test"


# --- keys and labels that do not fit


def _keys(change):
    return lambda made: edited(made, key=change(made.rows["key"].to_pylist()))


def _label(text):
    return lambda made: edited(made, prediction=[text, *made.rows["prediction"].to_pylist()[1:]])


WRONG = {
    "missing": (lambda made: Submission(made.card, made.rows.slice(1)), "1 missing"),
    "twice": (_keys(lambda keys: [keys[1], *keys[1:]]), "1 missing .*1 repeated"),
    "strange": (_keys(lambda keys: ["of another dataset", *keys[1:]]), "1 unknown .*another dataset"),
    "a row more": (
        lambda made: Submission(made.card, pa.concat_tables([made.rows, made.rows.slice(0, 1)])),
        "1 repeated",
    ),
    "no label": (_label("bird"), "1 predictions are 'bird', which is not a label"),
    "a number": (_label("0"), "are '0', which is not a label"),
    "null": (_label(None), "lacks 1 values"),
    "space": (lambda made: _label(made.rows["prediction"][0].as_py() + " ")(made), "character by character"),
    "set": (lambda made: edited(made, set=["train"] * len(made.rows)), "unknown test set 'train'"),
    "task": (lambda made: edited(made, task_id=["0" * 64] * len(made.rows)), "card does not name"),
    "seed": (lambda made: edited(made, seed=[1, *[0] * (len(made.rows) - 1)]), "do not fit the task's"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_the_task_is_refused(name, task, judge, path):
    change, message = WRONG[name]
    with pytest.raises(InputError, match=message):
        judge(change(submitted(task)), path)


def test_a_label_that_only_looks_like_one_is_shown_in_ascii(task, judge, path):
    label = task.metadata.labels[0]
    at = next(at for at, sign in enumerate(label) if sign in "aceo")
    twin = (
        label[:at] + dict(zip("aceo", "\u0430\u0441\u0435\u043e", strict=True))[label[at]] + label[at + 1 :]
    )
    with pytest.raises(InputError, match=r"\\u04"):
        judge(_label(twin)(submitted(task)), path)


def test_another_build_another_task_and_another_base_are_refused(tiny, other, task, judge, path):
    with pytest.raises(InputError, match=r"another build of tiny, mini: content_id"):
        judge(submitted(fair(other)), path)
    with pytest.raises(InputError, match=r"another build"):
        judge(submitted(task, base="extended"), path)
    with pytest.raises(InputError, match=r"unknown base 'none'"):
        judge(submitted(task, base="none"), path)
    with pytest.raises(InputError, match=r"k=2 mu=0.2 of this dataset is the task"):
        judge(submitted(task, words="group-fairness k=2 mu=0.2"), path)
    with pytest.raises(InputError, match=r"unknown protocol '/etc/passwd.parquet'"):
        judge(submitted(task, words="/etc/passwd.parquet"), path)
    two = card_of(task)["tasks"] | {"0" * 64: {"protocol": GF, "unlabelled": ""}}
    with pytest.raises(InputError, match=r"predictions for seed 0 of test are missing|is the task"):
        judge(submitted(task, tasks=two), path)


def test_a_variant_that_leaks_is_marked(tiny, judge, path):
    styles = sd.info(tiny).nuisances
    words = f"uda@paper source={styles[0]} target={styles[1]}"
    with pytest.warns(LeakWarning):
        task = sd.task(tiny, "uda@paper", source=styles[0], target=styles[1])
    parts = [part(task, name, 0.5) for name, rows in task.sets.items() if rows.role == "test"]
    assert judge(submitted(task, parts, words), path)[0].leaky


# --- weights


LITE0 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


@pytest.fixture(scope="module")
def held_out(tiny):
    """A task of DomainBed-v2, whose leaderboard admits pretraining without labels alone; and its words."""
    style = sd.info(tiny).nuisances[0]
    words = f"domainbed-v2 test={style}"
    return sd.task(tiny, "domainbed-v2", test=style), words


def weights(name="", sha256="", supervision="", *corpora):
    return {"weights": name, "sha256": sha256, "supervision": supervision, "corpora": [*corpora]}


def own_run(task, name="tiny"):
    return f"run {name} {'0' * 16} {task.content_id()[:16]}"


def test_domainbed_v2_admits_weights_that_saw_neither_labels_nor_the_dataset(task, held_out, judge, path):
    tested, words = held_out
    parts = [part(tested, "test", 0.5)]
    for pretraining, flag in [
        (weights(), "no"),
        (weights("moco-v2"), "unknown"),
        (weights("mine", "0" * 64, "none", "my pictures"), "unknown"),
        (weights("run:mine", "", "none", own_run(tested)), "no"),
        (weights("run:mine", "", "none", own_run(task, "other")), "unknown"),
    ]:
        (entry,) = judge(submitted(tested, parts, words, pretraining=pretraining), path)
        assert entry.contamination.flag == flag
    for pretraining, message in [
        (
            weights("efficientnet-lite0"),
            "efficientnet-lite0: imagenet-1k, labels .by name.: train from scratch",
        ),
        (weights("renamed", LITE0), r"labels \(by hash\)"),
        (weights("renamed", LITE0, "none", "my pictures"), r"labels \(by hash\)"),  # whatever is stated
        (weights("hf:openai/clip-vit-base-patch32"), r"wit-400m, text \(by name\)"),
        (weights("timm:resnet50"), "does not know timm:resnet50: give their sha256, or state"),
        (weights("mine", "", "labels", "x"), "stated by the submitter"),
        (weights("run:mine", "", "none", own_run(task)), "trained on tiny, in another task"),
    ]:
        with pytest.raises(InputError, match=f"domainbed-v2 admits .*{message}"):
            judge(submitted(tested, parts, words, pretraining=pretraining), path)
        assert judge(submitted(task, pretraining=pretraining), path)  # group fairness shows it


# --- what a card says


CARDS = {
    "look-alike rule": ({"rule": "\u043eracle"}, "unknown selection rule"),
    "other, empty": ({"rule": "other:  "}, "unknown selection rule"),
    "path": ({"dataset": "../tiny"}, "give the name, no path"),
    "script": ({"url": "javascript:alert(1)"}, "give https://"),
    "line": ({"method": "a\nb"}, "line break or control character"),
    "turned": ({"method": "a\u202eb"}, "control character"),
    "empty": ({"method": ""}, "method is empty"),
    "trials": ({"trials": 0}, "1 or more"),
    "type": ({"trials": "many"}, "trials is 'many', not a int"),
    "field": ({"score": 0.99}, "'score' is an unknown field"),
    "hash": ({"pretraining": weights("", "abc")}, "64 hexadecimal digits"),
    "half a statement": ({"pretraining": weights("", "", "", "x")}, "a part of its pretr"),
    "supervision": ({"pretraining": weights("a", "", "moco", "x")}, "'moco'"),
    "turned corpus": (
        {"pretraining": weights("a", "", "none", "a\u202eb")},
        "control character",
    ),
}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_that_misleads_is_refused(name, task):
    changed, message = CARDS[name]
    with pytest.raises(InputError, match=message):
        submitted(task, **changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ('{"trials": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "64,000"),
        ("[" * 30_000, "cannot be read"),
        ("[]", "must be an object"),
        ("x" * (MOST_CARD + 1), "64,001 bytes"),
        (b"\xff\xfe", "cannot be read"),
        (pickle.dumps(print), "cannot be read"),
    ],
)
def test_a_card_that_is_none_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        read_card(text)


# --- files


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


@pytest.mark.slow
def test_files_that_are_no_submissions_are_refused_and_not_run(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made, path = submitted(task), tmp_path / "x.parquet"
    good = json.dumps(card_of(task)).encode()
    rows = made.rows

    def refused(message, table=None, card=good, data=None):
        if data is None:
            pq.write_table(table.replace_schema_metadata({CARD: card} if card else {b"a": b"b"}), path)
        else:
            path.write_bytes(data)
        with pytest.raises(InputError, match=message):
            Submission.read(path)

    refused("cannot be read", data=pickle.dumps(Bomb()))
    refused("cannot be read", data=b"")
    refused("cannot be read", rows, card=pickle.dumps(Bomb()))
    refused("no method card", rows, card=None)
    refused("64,001 bytes", rows, card=b" " * (MOST_CARD + 1))
    refused("its columns are", rows.drop_columns(["seed"]))
    refused("its columns are", rows.append_column("score", pa.array([1.0] * len(rows))))
    refused("no rows", rows.slice(0, 0))
    for name, values in (
        ("seed", pa.array([0.5] * len(rows))),
        ("key", pa.array([b"k"] * len(rows), pa.binary())),
        ("prediction", pa.array([float("nan")] * len(rows))),
    ):
        refused(f"its column {name} has", rows.set_column(rows.column_names.index(name), name, values))
    long = pa.DictionaryArray.from_arrays(pa.array([0] * len(rows), pa.int32()), pa.array(["k" * (1 << 26)]))
    refused("would unpack", rows.set_column(3, "key", long))
    refused("lacks", rows.set_column(3, "key", pa.array([None, *rows["key"].to_pylist()[1:]])))
    refused("cannot be read", rows.set_column(2, "seed", pa.array([2**40] * len(rows))))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ShiftdataError, match="not a regular file"):
        Submission.read(path)
    assert not (tmp_path / "exploded").exists()


def test_a_file_that_unfolds_to_too_many_rows_is_refused_before_they_are_read(task, tmp_path, monkeypatch):
    path = written(tmp_path, "x.parquet", submitted(task))
    monkeypatch.setattr("shiftdata.bench.leaderboard.submission.MOST_ROWS", 10)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("rows were read"))
    with pytest.raises(InputError, match="at most 10 rows are read; give it in several files"):
        Submission.read(path)


def test_equal_rows_do_not_fill_the_memory(task, tmp_path):
    made = written(tmp_path, "x.parquet", submitted(task))
    row = {"task_id": "0" * 64, "set": "k", "seed": 0, "key": "k", "prediction": "k"}
    bomb = write_equal_rows(tmp_path / "bomb.parquet", row, 8_000_000, pq.read_schema(made).metadata)
    assert bomb.stat().st_size < 300_000
    begin = "from pathlib import Path\nfrom shiftdata.bench.leaderboard.submission import Submission"
    code = "try:\n    Submission.read(Path(sys.argv[1])).parts\nexcept ValueError as error:\n    print(error)"
    bytes_more, printed = growth(begin, code, bomb)
    assert "8,000,000 rows" in printed
    assert bytes_more < 200e6


# --- the command line


def filled(tmp_path, **changed):
    text = template()
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "card.toml"
    path.write_text(text)
    return str(path)


def csv_of(task, path, share, name="test", seed=0):
    names = np.array(task.metadata.labels)[guess(task, name, share, seed)]
    lines = [f"{key},{label}" for key, label in zip(task.keys(name), names, strict=True)]
    path.write_text("\n".join(["key,prediction", *lines]) + "\n")
    return str(path)


def test_the_template_is_a_card_and_predictions_become_a_submission(tiny, task, tmp_path, capsys):
    assert cli(["submit", "--card-template"]) == 0
    card = tmp_path / "card.toml"
    card.write_text(capsys.readouterr().out)
    files = [csv_of(task, tmp_path / f"{seed}.csv", 0.7, seed=seed) for seed in (0, 1)]
    out = tmp_path / "mine.parquet"
    given = ["--predictions", files[0], "--predictions", files[1], "--card", str(card), "--out", str(out)]
    assert cli(["submit", "--dataset", str(tiny), *GF.split(), *given]) == 0
    assert ", test, 2 seeds" in capsys.readouterr().out
    made = Submission.read(out)
    assert [part.seed for part in made.parts] == [0, 1]
    worst = np.mean([task.evaluate(file, "test").worst for file in files])
    (entry,) = judge_submission(made, "mine", read_metadata(tiny))
    assert entry.scores["worst"].value == pytest.approx(worst)


def test_what_a_leaderboard_refuses_is_not_written(tiny, task, tmp_path, capsys):
    file, out = csv_of(task, tmp_path / "p.csv", 0.7), tmp_path / "mine.parquet"
    line = ["submit", "--dataset", str(tiny), *GF.split(), "--predictions", file, "--out", str(out), "--card"]
    assert cli([*line, filled(tmp_path, **{"trials = 1": "trials = 0"})]) == 1
    assert "give 1 or more" in capsys.readouterr().err
    assert cli([*line, filled(tmp_path, **{'method = "my-method"': ""})]) == 1
    assert "method is missing" in capsys.readouterr().err
    assert cli([*line, filled(tmp_path, **{"trials = 1": "trials = 1\nk = 3"})]) == 1
    assert "'k' is an unknown field" in capsys.readouterr().err
    assert not out.exists()
    assert list(tmp_path.glob(".*")) == []
