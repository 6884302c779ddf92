"""The table of labels: what is read, what counts, what is left when something is cut off."""

from __future__ import annotations

import csv
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import ChangedError, InputError, LockedError, StorageError
from shiftdata.evaluation.labelling.purposes import DUPLICATES, FILTER, STYLES, purpose_of
from shiftdata.evaluation.labelling.table import Row, latest, line_of, read_labels, settled
from shiftdata.evaluation.labelling.writing import LabelFile, open_labels
from shiftdata.tables import csv_text

HEADER = "key,label,who,when\n"
WHEN = "2026-11-23T20:00:00Z"
texts = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs", "Cf")), min_size=1, max_size=12
)


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_the_last_label_of_a_key_and_a_person_counts(tmp_path: Path) -> None:
    with open_labels(tmp_path / "l.csv", FILTER) as file:
        for key, label, who in [
            ("a", "keep", "anna"),
            ("a", "drop", "ben"),
            ("a", "partly", "anna"),
            ("b", "keep", "ben"),
        ]:
            file.put((key,), label, who)
        file.put(("b",), "", "ben")
    rows = read_labels(tmp_path / "l.csv", FILTER.labels)
    assert len(rows) == 5
    assert latest(rows) == {"anna": {("a",): "partly"}, "ben": {("a",): "drop"}}
    assert settled(rows) == ({}, [("a",)])


@given(rows=st.lists(st.tuples(texts, st.sampled_from(FILTER.labels), texts), max_size=6))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("t") / "l.csv"
    path.write_text(HEADER + "".join(line_of(Row((key,), label, who, WHEN)) for key, label, who in rows))
    assert [(row.key[0], row.label, row.who) for row in read_labels(path, FILTER.labels)] == rows


def test_a_spreadsheet_runs_nothing_of_it(tmp_path: Path) -> None:
    with open_labels(tmp_path / "l.csv", STYLES) as file:
        file.put(("=cmd|' /c calc'!A0/x.png",), "good", "@SUM(1)")
    with (tmp_path / "l.csv").open(newline="") as stream:
        cells = list(csv.reader(stream))[1]
    assert cells[0].startswith("'=")
    assert cells[2].startswith("'@")
    assert read_labels(tmp_path / "l.csv", STYLES.labels)[0].key == ("=cmd|' /c calc'!A0/x.png",)


@pytest.mark.parametrize("key", ["a", 'quo"te, comma', "ünïcødé 日本"])
def test_wherever_the_last_line_is_cut_no_other_is_lost(tmp_path: Path, key: str) -> None:
    first, last = line_of(Row(("first",), "keep", "anna", WHEN)), line_of(Row((key,), "drop", "anna", WHEN))
    whole = (HEADER + first + last).encode()
    for end in range(len((HEADER + first).encode()), len(whole) + 1):
        path = tmp_path / f"{end}.csv"
        path.write_bytes(whole[:end])
        with open_labels(path, FILTER) as file:
            read = [row.key for row in file.rows]
            file.put(("next",), "keep", "anna")
        assert read == [("first",), *([(key,)] if end >= len(whole) - len(WHEN) - 1 else [])]
        assert [row.key for row in read_labels(path, FILTER.labels)] == [*read, ("next",)]


def test_the_table_of_a_spreadsheet_is_read_and_gone_on_with(tmp_path: Path) -> None:
    path = written(
        tmp_path / "l.csv", "\ufeffkey;label;who;when\r\na; Good ;;\r\nb;;;\r\n;;;\r\nc;bad;ben;23.11.26"
    )
    with open_labels(path, STYLES) as file:
        file.put(("b",), "good", "anna")
    assert path.read_text().startswith(f"{HEADER}a,good,,\nb,,,\nc,bad,ben,23.11.26\nb,good,anna,20")
    people = {"": {("a",): "good"}, "anna": {("b",): "good"}, "ben": {("c",): "bad"}}
    assert latest(read_labels(path, STYLES.labels)) == people


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with ''; a table of labels has the columns key,label,who,when"),
        ("style,file,label\n", "begins with 'style,file,label'"),
        (HEADER + "a,keep\n", "line 2: 2 cells, and the header has 4"),
        (HEADER + "a,keep,,\nb,good,,\n", "line 3: the label 'good' is not one of keep, partly, drop"),
        (HEADER + '"a\nb",keep,,\n', r"line 2: the key 'a\\nb' has a line break"),
        (HEADER + "a,keep,an\x1b[2Jna,\n", "line 2: the who .* control character"),
        (HEADER + ",keep,,\n", "line 2: the key '' is empty"),
        ("key,other,label,who,when\na,b,keep,,\n", "has the columns key,other,label,who,when; here it needs"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_labels(written(tmp_path / "l.csv", text), FILTER.labels)
    (tmp_path / "l.csv").write_bytes(b"key,label,who,when\n\xff,keep,,\n")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_labels(tmp_path / "l.csv", FILTER.labels)


def test_undo_goes_back_step_by_step_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    with open_labels(path, FILTER) as file:
        for key, label in [("a", "keep"), ("b", "drop"), ("a", "drop"), ("a", "drop")]:
            file.put((key,), label, "anna")
        file.put(("a",), "keep", "ben")
        assert file.undo("anna") == ("a",)
        assert file.of("anna") == {("a",): "keep", ("b",): "drop"}
    with open_labels(path, FILTER) as file:
        assert [file.undo("anna") for _ in range(3)] == [("b",), ("a",), None]
        assert file.of("anna") == {}
        assert file.of("ben") == {("a",): "keep"}
        file.put(("c",), "drop", "anna")
        assert file.undo("anna") == ("c",)


def test_two_writers_and_a_change_from_outside_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    with open_labels(path, FILTER) as file:
        with pytest.raises(LockedError, match="another `shiftdata label` writes"), open_labels(path, FILTER):
            pass
        file.put(("a",), "keep", "anna")
        path.write_text(path.read_text() + "b,keep,x,\n")
        with pytest.raises(ChangedError, match="changed by another program"):
            file.put(("c",), "keep", "anna")
        path.unlink()
        with pytest.raises(StorageError, match="put it back"):
            file.put(("c",), "keep", "anna")
        assert file.of("anna") == {("a",): "keep"}


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_labels(tmp_path / "l.csv", FILTER) as file:
        file.put(("a",), "keep", "anna")
        before = (tmp_path / "l.csv").read_bytes()
        real = __import__("os").write

        def full(descriptor: int, data: bytes) -> int:
            if len(data) > 5:
                return int(real(descriptor, data[:5]))
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(
            "shiftdata.evaluation.labelling.writing.os.write", lambda d, data: full(d, data[:8])
        )
        with pytest.raises(StorageError, match="no space left"):
            file.put(("b",), "keep", "anna")
        assert (tmp_path / "l.csv").read_bytes() == before
        monkeypatch.undo()
        file.put(("b",), "drop", "anna")
        assert file.of("anna") == {("a",): "keep", ("b",): "drop"}


def _many(path: str) -> None:
    file = LabelFile(Path(path), FILTER)
    number = 0
    while True:
        file.put((f"key-{number}",), "keep", "anna")
        number += 1


def test_a_killed_process_leaves_every_label_that_was_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    process = multiprocessing.get_context("spawn").Process(target=_many, args=(str(path),), daemon=True)
    process.start()
    while not path.exists() or path.read_bytes().count(b"\n") < 50:
        process.join(0.01)
    process.kill()
    process.join()
    keys = [row.key[0] for row in read_labels(path, FILTER.labels)]
    assert len(keys) >= 49
    assert keys == [f"key-{number}" for number in range(len(keys))]


def test_purposes_are_known_by_their_labels() -> None:
    assert purpose_of(["keep", "drop"], "x") is FILTER
    assert purpose_of(["different"], "x") is DUPLICATES
    for labels in ([], ["keep", "good"], ["cat"]):
        with pytest.raises(InputError, match="not those of one purpose"):
            purpose_of(labels, "x.csv")
    assert csv_text([("a", "b")]) == "a,b\n"
