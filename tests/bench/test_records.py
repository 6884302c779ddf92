"""Records through their files: evaluations as they were, merged folders, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from shiftdata.bench import Records
from shiftdata.bench.records import RECORDS
from shiftdata.errors import InputError, NotFoundError
from tests.bench.made import TASK, predicted, records, run, shares


def test_an_evaluation_is_what_it_was(tmp_path):
    right = shares(0.0, 0.25, 1.0)
    made = records(tmp_path, run({5: shares()}, trial=0), run({5: right, 10: shares()}, trial=1, test=0.75))
    stored, again = made.evaluation(1, "validation", 5), TASK.evaluate(predicted(right), "validation")
    assert stored.to_dict() == again.to_dict()
    styles, expected = stored.by("nuisance"), again.by("nuisance")
    assert styles.accuracy.tolist() == expected.accuracy.tolist()
    assert styles.n.tolist() == expected.n.tolist()
    assert np.isfinite(expected.sem).all()
    assert np.isnan(styles.sem).all(), "records do not keep which rows share origins"
    assert made.evaluation(1).set == "test"  # the default: the test, the last step
    assert (made.predicted(1, "validation", 5) == predicted(right)).all()
    assert made.steps(1) == [5, 10]


def test_folders_of_two_machines_are_one(tmp_path):
    first, second, third = (run({5: shares()}, trial=trial) for trial in range(3))
    records(tmp_path / "a", first, second)
    records(tmp_path / "b", second, third, file="two")
    made = Records.read(tmp_path / "a", tmp_path / "b")
    assert sorted(made.column("trial")) == [0, 1, 2]
    assert made.evaluation(2).n == TASK.evaluate(predicted(shares(), "test"), "test").n
    assert (made.predicted(2, "validation", 5) == predicted(shares())).all()  # of the file it is in


def test_a_run_that_was_done_counts_and_not_the_one_that_failed_before(tmp_path):
    failed = run({}, status="error")
    records(tmp_path, failed, file="a")
    made = records(tmp_path, run({5: shares()}) | {"id": failed["id"]}, file="b")
    assert made.column("status") == ["done"]


def test_two_different_runs_in_one_place_are_refused_with_what_differs(tmp_path):
    records(tmp_path, run({5: shares()}, versions="torch 2.1"), file="a")
    with pytest.raises(InputError, match=r"differ in versions torch 2\.\d and torch 2\.\d"):
        records(tmp_path, run({5: shares()}, versions="torch 2.2"), file="b")


def test_where_chooses_runs(tmp_path):
    made = records(tmp_path, *(run({5: shares()}, trial=n, method="ab"[n]) for n in range(2)))
    assert made.where(method="b").column("trial") == [1]
    assert len(made.where(method=["a", "b"], trial=0)) == 1
    with pytest.raises(NotFoundError, match="method"):
        made.where(method="c")
    with pytest.raises(NotFoundError, match="backbone"):
        made.where(backboen="linear")


def test_what_is_not_records_is_refused(tmp_path):
    with pytest.raises(InputError, match="folder of a sweep"):
        Records.read(tmp_path)
    records(tmp_path, run({5: shares()}))
    whole = (tmp_path / RECORDS / "one.parquet").read_bytes()
    (tmp_path / RECORDS / "two.parquet").write_bytes(whole[:-20])
    with pytest.raises(InputError, match=r"two\.parquet is not a file of records"):
        Records.read(tmp_path)
    (tmp_path / RECORDS / "two.parquet").unlink()
    path = next((tmp_path / "tasks").iterdir())
    path.write_text(path.read_text()[:-30])
    with pytest.raises(InputError, match="does not describe a task"):
        Records.read(tmp_path)


def test_a_run_without_an_evaluation_says_why(tmp_path):
    made = records(tmp_path, run({}, status="diverged") | {"reason": "the loss is nan"})
    with pytest.raises(InputError, match="diverged\\): the loss is nan"):
        made.evaluation(0)
    done = records(tmp_path / "done", run({5: shares()}))
    with pytest.raises(InputError, match="no evaluation of test after step 6"):
        done.evaluation(0, "test", 6)
    with pytest.raises(InputError, match="there is no run 7"):
        done.evaluation(7)
