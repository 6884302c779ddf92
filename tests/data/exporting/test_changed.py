"""A dataset that changed since a task was made of it is refused: no picture gets another row's label."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shiftdata as sd
from shiftdata.data.exporting.webdataset import export as export_tars
from tests.builders.test_build import files
from tests.data.byte_ranges.server import ranges


def replace(place: Path, new: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(new, place)


def fetch_part(place: Path, source: Path, label: str) -> None:
    sd.fetch(source, select={"label": [label]}, out=place, replace=True)


EXPORTS: dict[str, Callable[[sd.Task, Path], object]] = {
    "lists": lambda task, out: sd.export(task, "lists", out),
    "webdataset": lambda task, out: export_tars(task.metadata.dataset, out),
}


@pytest.mark.parametrize("form", EXPORTS)
def test_a_dataset_that_was_rebuilt_in_place_is_refused(copy, other, form, tmp_path):
    task = sd.task(copy)
    replace(copy, other)
    with pytest.raises(sd.errors.ChangedError, match=r"has changed since it was opened: .* Open it again"):
        EXPORTS[form](task, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["lists", "webdataset"])
def test_another_part_in_the_same_folder_is_refused(tiny, form, tmp_path):
    labels = sd.info(tiny).labels
    fetch_part(tmp_path / "part", tiny, labels[0])
    task = sd.task(tmp_path / "part", base="mini")
    fetch_part(tmp_path / "part", tiny, labels[1])
    with pytest.raises(sd.errors.ChangedError):
        EXPORTS[form](task, tmp_path / "out")
    EXPORTS[form](sd.task(tmp_path / "part", base="mini"), tmp_path / "out")


def test_a_dataset_that_is_rebuilt_during_the_export_is_refused(copy, other, tmp_path, monkeypatch):
    monkeypatch.setattr("shiftdata.data.exporting.examples.BATCH_ROWS", 25)
    for name, act in (
        ("folder", lambda out, on: sd.export(sd.task(copy), "lists", out, on_images=on)),
        ("tars", lambda out, on: export_tars(copy, out, on_samples=on)),
    ):
        whole = Path(shutil.copytree(copy, tmp_path / f"{name}-before"))
        calls: list[int] = []

        def on(count: int, calls: list[int] = calls) -> None:
            calls.append(count)
            if len(calls) == 3:
                replace(copy, other)

        with pytest.raises(sd.errors.ChangedError):
            act(tmp_path / name, on)
        assert len(calls) >= 3
        assert not (tmp_path / name).exists()
        replace(copy, whole)


@pytest.mark.parametrize("form", ["lists", "webdataset"])
def test_another_working_directory_changes_nothing(tiny, other, form, tmp_path, monkeypatch):
    for name, folder in (("here", tiny), ("there", other)):
        shutil.copytree(folder, tmp_path / name / "shift" / "tiny")
    monkeypatch.chdir(tmp_path / "here")
    task = sd.task("tiny")
    monkeypatch.chdir(tmp_path / "there")
    EXPORTS[form](task, tmp_path / "out")
    EXPORTS[form](sd.task(tiny), tmp_path / "expected")
    assert files(tmp_path / "out") == files(tmp_path / "expected")


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("form", ["lists", "webdataset"])
def test_a_place_over_http_that_moved_on_is_refused(copy, other, form, versions, tmp_path):
    with ranges(copy.parent) as server:
        server.versions = versions
        task = sd.task(f"{server.url}/tiny")
        replace(copy, other)
        with pytest.raises(sd.errors.ChangedError):
            EXPORTS[form](task, tmp_path / "out")
        assert not (tmp_path / "out").exists()
