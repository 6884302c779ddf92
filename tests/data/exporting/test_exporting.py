"""Exports as folders on a disk: whole, resumable, and over nothing else."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.data.exporting.sets import ending_of
from shiftdata.data.exporting.webdataset import export as export_tars
from shiftdata.errors import InputError, IntegrityError
from tests.builders.test_build import files
from tests.data.byte_ranges.server import ranges
from tests.data.exporting.readers import read, rows_of

FAIR = ("group-fairness", "k=2", "mu=0.1")


def finish(dataset: object, out: Path, **more) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "shiftdata", "export", str(dataset), "--to", "imagefolder"]
    done = subprocess.run(
        [*command, "--out", str(out), "--quiet"], capture_output=True, text=True, check=False, **more
    )
    return done.returncode, done.stdout, done.stderr


# Whole or not at all


KILLED = """
import os, signal, sys
import shiftdata as sd
from shiftdata.data.exporting import sets

sets.BATCH_ROWS = 25
left = int(sys.argv[3])

def count(more):
    global left
    left -= more
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)

sd.export(sd.task(sys.argv[1]), "imagefolder", sys.argv[2], on_images=count)
"""


@pytest.mark.slow
def test_killed_at_any_moment_and_started_again_it_ends_in_the_same_bytes(tiny, canonical, tmp_path):
    sd.export(canonical, "imagefolder", tmp_path / "whole")
    out = tmp_path / "killed/out"
    for count in (25, 150, 375):
        command = [sys.executable, "-c", KILLED, str(tiny), str(out), str(count)]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        assert not out.exists()
        assert sum(1 for _ in out.parent.glob(".exporting/*/*/*/*.png")) >= count
    status, printed, errors = finish(tiny, out)
    assert (status, errors) == (0, "")
    assert "400 files" in printed
    assert files(out) == files(tmp_path / "whole")
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def interrupted(task: sd.Task, out: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> Path:
    """Stop an export at a place; give the folder it was working in."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(where, stop)
        with pytest.raises(KeyboardInterrupt):
            sd.export(task, "lists", out)
    assert not out.exists()
    (work,) = out.parent.glob(".exporting/*")
    return work


def test_pictures_that_an_interrupted_export_left_are_not_fetched_again(tiny, fair, tmp_path, monkeypatch):
    sd.export(fair, "lists", tmp_path / "whole")
    out = tmp_path / "out"
    with ranges(tiny.parent) as served:
        task = sd.task(f"{served.url}/tiny", "group-fairness", k=2, mu=0.1)
        work = interrupted(task, out, monkeypatch, "shiftdata.data.exporting.folders.writing._attribution")
        wanted = sum(path.stat().st_size for path in work.rglob("*.png"))
        assert wanted <= served.fetched("/data/") <= 1.1 * wanted  # and no picture that is not asked for
        assert len(served.unasked) == 1, "the server was asked once whether it gives several ranges"
        pictures = sorted(work.rglob("*.png"))
        pictures[0].write_bytes(b"")  # as a power cut leaves it
        pictures[1].write_bytes(bytes(pictures[1].stat().st_size))
        before = served.fetched("/data/")
        sd.export(task, "lists", out)
        assert served.fetched("/data/") - before < wanted / 4
    assert files(out) == files(tmp_path / "whole")


def test_an_export_killed_before_its_last_move_is_only_moved(fair, tmp_path, monkeypatch):
    out = tmp_path / "out"
    work = interrupted(fair, out, monkeypatch, "shiftdata.files.swap")
    before = {path.name: path.stat().st_ino for path in work.rglob("*.png")}
    sd.export(fair, "lists", out)
    assert {path.name: path.stat().st_ino for path in out.rglob("*.png")} == before


def test_pictures_that_are_not_as_the_metadata_says_are_never_exported(copy, tmp_path):
    task = sd.task(copy)
    (shard,) = copy.glob("data/mini/train-*.parquet")
    data = bytearray(shard.read_bytes())
    data[data.index(b"\x89PNG\r\n\x1a\n") + 40] ^= 1
    shard.write_bytes(data)
    with pytest.raises(IntegrityError, match=r"row \d+ does not have the sha256 that its metadata says"):
        sd.export(task, "lists", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def replace(place: Path, new: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(new, place)


def test_a_dataset_that_is_rebuilt_during_the_export_is_refused(copy, other, tmp_path, monkeypatch):
    monkeypatch.setattr("shiftdata.data.exporting.sets.BATCH_ROWS", 25)
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


# What is there already


def test_only_an_export_is_overwritten_and_only_when_asked(fair, canonical, tmp_path):
    out = tmp_path / "out"
    sd.export(fair, "lists", out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert sd.export(fair, "lists", out).written is None
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    with pytest.raises(
        InputError, match=r"is an export of other content .tiny/mini, .*as lists.*--overwrite"
    ):
        sd.export(canonical, "lists", out)
    with pytest.raises(InputError, match="other content"):
        sd.export(fair, "wilds", out)
    (out / "shiftdata.json").write_text("{")
    with pytest.raises(InputError, match=r"other content .its shiftdata.json cannot be read"):
        sd.export(canonical, "lists", out)
    record = sd.export(canonical, "lists", out, overwrite=True).record
    assert read("lists", out, record) == rows_of(canonical)
    next(out.rglob("*.png")).unlink()
    assert read("lists", out, sd.export(canonical, "lists", out, overwrite=True).record) == rows_of(canonical)


def test_a_folder_that_is_not_an_export_is_never_replaced(fair, copy, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="exists and is not an export: give another folder"):
        sd.export(fair, "lists", tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine/thesis.txt").read_text() == "years of work"
    with pytest.raises(InputError, match="lies inside the dataset"):
        sd.export(sd.task(copy), "lists", copy / "lists")
    out = tmp_path / "empty"
    out.mkdir()

    def appear(_: int) -> None:
        (out / "thesis.txt").write_text("years of work")

    with pytest.raises(InputError, match="exists and is not an export"):
        sd.export(fair, "lists", out, on_images=appear)
    assert (out / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("layout", "links"),
    [("imagefolder", False), ("imagefolder", True), ("domainbed", True), ("wilds", False)],
)
def test_rows_in_two_places_take_space_once_where_there_are_links(
    drawn, layout, links, tmp_path, monkeypatch
):
    def refused(*_: object) -> None:
        raise PermissionError(1, "this file system has no links")

    if not links:
        monkeypatch.setattr(os, "link", refused)
    sd.export(drawn, layout, tmp_path / "out")
    pictures = list((tmp_path / "out").rglob("*.png"))
    copies = 3 if layout in ("imagefolder", "domainbed") else 0
    assert len(pictures) == sum(len(rows.indices) for rows in drawn.sets.values()) + copies
    assert len({path.stat().st_ino for path in pictures}) == len(pictures) - (copies if links else 0)


def test_files_end_as_their_bytes_begin():
    forms = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "GIF": ".gif", "BMP": ".bmp", "TIFF": ".tif"}
    for form, ending in forms.items():
        buffer = io.BytesIO()
        Image.new("RGB", (3, 3)).save(buffer, form)
        assert ending_of(buffer.getvalue()) == ending


# The command line and what names a task


def exported(
    capsys: pytest.CaptureFixture[str], dataset: Path, out: Path, *options: str
) -> tuple[int, str, str]:
    status = main(["export", str(dataset), "--to", "lists", "--out", str(out), "--quiet", *options])
    return (status, *capsys.readouterr())


def test_every_way_to_name_a_task(tiny, fair, tmp_path, capsys):
    fair.freeze(tmp_path / "frozen.parquet")
    ways = {
        "config": ("gf_k2_mu10",),
        "protocol": FAIR,
        "frozen": (str(tmp_path / "frozen.parquet"), "--base", "mini"),
    }
    for way, options in ways.items():
        status, printed, errors = exported(capsys, tiny, tmp_path / way, *options)
        assert (status, errors) == (0, ""), way
        assert "as lists: train " in printed
        record = sd.export(sd.task(tiny, "gf_k2_mu10"), "lists", tmp_path / "same").record
        assert read("lists", tmp_path / way, record) == rows_of(fair)
    status, printed, _ = exported(capsys, tiny, tmp_path / "config", "gf_k2_mu10")
    assert (status, printed.splitlines()[1][:20]) == (0, "it was there already")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--config", "gf_k2_mu10"), "--config is for tars: name the canonical split, as in export "),
        (("--base", "huge"), "unknown base 'huge'"),
    ],
)
def test_options_that_cannot_be_are_answered(tiny, tmp_path, capsys, options, said):
    status, _, errors = exported(capsys, tiny, tmp_path / "out", *options)
    assert (status, errors[:7]) == (1, "error: ")
    assert said in errors
    assert not (tmp_path / "out").exists()
    assert main(["export", str(tiny), "--to", "lists", "--quiet"]) == 1
    assert "--to lists needs --out" in capsys.readouterr().err
