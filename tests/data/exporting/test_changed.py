"""A dataset that changed since a task was made of it is refused: no picture gets another row's label."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shiftdata as sd
from shiftdata.data.exporting.webdataset import export as export_tars
from tests.data.byte_ranges.server import ranges


def replace(place: Path, new: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(new, place)


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
