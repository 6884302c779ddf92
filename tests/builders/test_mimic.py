"""MIMIC-IV from a copy of one's own: which stays, labels and codes, and that no number gets out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.cli.app import main
from builders.make.build import build
from builders.publish.publishing import Publication
from builders.raw.album import RawAlbum
from shiftdata.errors import InputError
from shiftdata.evaluation.verify import verify
from tests.builders import raw_albums
from tests.builders.replicas import mimic as replica


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("mimic")
    replica.make(root)
    return root


@pytest.fixture(scope="module")
def folder(raw, tmp_path_factory) -> Path:
    return build(f"mimic_readmission={raw}", tmp_path_factory.mktemp("built"), workers=1, quiet=True)


@pytest.fixture
def changed(raw, tmp_path) -> Callable[..., RawAlbum]:
    """The album of a copy of the tree in which something was changed."""

    return partial(raw_albums.changed, "mimic_readmission", raw, tmp_path / "raw")


album_of = partial(raw_albums.album_of, "mimic_readmission")


def test_fifteen_days_are_a_readmission_and_sixteen_are_none(raw):
    """The second stays of patients are 15, 16, 3 and 200 days after the first; nobody has a third."""
    counts = Counter(item.label for item in album_of(raw).items())
    half = replica.PATIENTS // 2
    assert counts == {"readmitted": half, "not_readmitted": 2 * replica.PATIENTS - half}
    first: dict[str, set[str]] = {}
    for item in album_of(raw).items():
        first.setdefault(item.origin, set()).add(item.label)
    assert sum(len(labels) == 2 for labels in first.values()) == half


def test_texts_have_diagnoses_then_procedures_by_their_numbers(raw):
    album = album_of(raw)
    texts = {str(album.load(item)) for item in album.items()}
    assert all(re.fullmatch(r"ICD(9|10)_\w{3} ICD(9|10)_\w{3}; ICD(9|10)_\w{3}", text) for text in texts)
    # Patient 0: number 1 is the second diagnosis of the list, number 2 the third.
    assert "ICD9_250 ICD10_I25; ICD9_389" in texts
    assert "ICD10_I25 ICD9_250; ICD9_389" not in texts


def test_other_stays_are_named_by_their_row(raw):
    begin = 2 * replica.PATIENTS
    whys = ["its patient is not 18 to 89 years old", "its patient is not 18 to 89 years old",
            "without diagnoses or without procedures", "not in 2008 to 2019",
            "its patient is not among the patients"]  # fmt: skip
    assert album_of(raw).left_out == {
        f"hosp/admissions.csv, row {begin + number}": why for number, why in enumerate(whys)
    }


def test_another_patient_changes_every_key(raw, changed):
    """A list of all numbers does not say which is behind a key: the hashes are salted by the data."""

    def more(root: Path) -> None:
        with (root / "hosp/admissions.csv").open("a") as file:
            file.write("5,6,2150-01-01 00:00:00,2150-01-02 00:00:00,WHITE,0\n")

    ours, theirs = album_of(raw), changed(more)
    assert len(ours.items()) == len(theirs.items())
    assert not {item.key for item in ours.items()} & {item.key for item in theirs.items()}
    assert not {item.origin for item in ours.items()} & {item.origin for item in theirs.items()}


def test_a_time_that_is_none_is_refused_with_its_file(changed):
    def soon(root: Path) -> None:
        with (root / "hosp/admissions.csv").open("a") as file:
            file.write("5,6,soon,2150-01-02 00:00:00,WHITE,0\n")

    with pytest.raises(InputError, match=r"hosp/admissions\.csv in .* has a number or time that is none"):
        changed(soon).items()


def numbers_in(place: Path) -> set[str]:
    """The numbers of patients and stays in all files below a place."""
    known = range(replica.PATIENTS * 2 + 5)
    every = {str(begin + number) for begin in (replica.FIRST_SUBJECT, replica.FIRST_STAY) for number in known}
    found: set[str] = set()
    for file in (path for path in place.rglob("*") if path.is_file()):
        text = file.read_bytes().decode("latin-1")
        if file.suffix == ".parquet":  # its columns are packed
            text += str(pq.read_table(file).to_pylist())
        found |= every & set(re.findall(r"\d{8}", text))
    return found


def test_no_number_of_a_patient_or_stay_is_in_the_build(raw, folder, tmp_path):
    assert numbers_in(raw / "hosp")
    pq.write_table(
        pa.table({"x": [f"stay {replica.FIRST_STAY}"] * 99}), tmp_path / "x.parquet", compression="zstd"
    )
    assert numbers_in(tmp_path) == {str(replica.FIRST_STAY)}
    assert numbers_in(folder) == set()


def test_nothing_of_it_is_published(folder, tmp_path, capsys, monkeypatch):
    with pytest.raises(InputError, match="is not published, nor its keys and splits") as refused:
        Publication.prepare(folder, str(tmp_path / "there"), work=tmp_path / "work")
    assert sd.open_dataset(folder).manifest.content_id in str(refused.value)
    monkeypatch.chdir(tmp_path)
    assert main(["publish", str(folder), "--to", str(tmp_path / "there")]) == 1
    assert "persons" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_card_of_the_build_has_counts_and_no_row(raw, folder):
    items = album_of(raw).items()
    shared = [folder / name for name in ("README.md", "croissant.json", "manifest.json", "ATTRIBUTION.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in shared)
    assert "480" in text or "240" in text
    for item in items:
        assert item.key not in text
        assert item.origin.rpartition("/")[2] not in text
    assert "ICD" not in text
    assert verify(folder) == []
