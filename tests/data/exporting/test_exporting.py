"""Exports as folders on a disk: whole, resumable, linked, over nothing else, and read back."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.data.exporting.folders import LAYOUTS, chosen_task, read_back
from shiftdata.data.exporting.reading import ending_of
from shiftdata.errors import InputError, IntegrityError, NotFoundError
from tests.builders.test_build import files
from tests.data.byte_ranges.server import ranges

ELSEWHERE = Path("/dev/shm")
FAIR = ("group-fairness", "k=2", "mu=0.1")


def start(
    dataset: object, out: Path, *options: str, to: str = "imagefolder", **popen
) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "shiftdata",
        "export",
        str(dataset),
        "--to",
        to,
        "--out",
        str(out),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*command, "--quiet", *options], **pipes, **popen)


def finish(dataset: object, out: Path, *options: str, **more) -> tuple[int, str, str]:
    process = start(dataset, out, *options, **more)
    printed, errors = process.communicate()
    return process.returncode, printed, errors


def nodes(folder: Path) -> set[int]:
    """The files behind the pictures of a folder."""
    return {path.stat().st_ino for path in folder.rglob("*.png")}


def used(folder: Path) -> int:
    """Bytes that a folder takes, each file once."""
    found = {one.stat().st_ino: one.stat().st_size for one in folder.rglob("*") if one.is_file()}
    return sum(found.values())


# Whole or not at all


KILLED = """
import os, signal, sys
import shiftdata as sd
from shiftdata.data.exporting import reading

reading.BATCH_ROWS = 25
left = int(sys.argv[3])

def count(more):
    global left
    left -= more
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)

sd.export(sd.task(sys.argv[1]), "imagefolder", sys.argv[2], pool=sys.argv[4] or None, on_images=count)
"""


@pytest.mark.parametrize(
    ("pool", "counts"),
    [
        (False, (25, 375)),
        (True, (150,)),
        pytest.param(False, (25, 150, 375), marks=pytest.mark.slow),
        pytest.param(True, (25, 150, 375), marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_moment_and_started_again_it_ends_in_the_same_bytes(
    tiny, canonical, tmp_path, pool, counts
):
    sd.export(canonical, "imagefolder", tmp_path / "whole")
    out = tmp_path / "killed/out"
    kept = str(tmp_path / "pool") if pool else ""
    for count in counts:
        command = [sys.executable, "-c", KILLED, str(tiny), str(out), str(count), kept]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        assert not out.exists()
        assert sum(1 for _ in out.parent.glob(".exporting/*/*/*/*.png")) >= count
    status, printed, errors = finish(tiny, out, *(("--pool", kept) if pool else ()))
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


def test_what_an_interrupted_export_left_is_kept_where_it_is_right(fair, tmp_path, monkeypatch):
    sd.export(fair, "lists", tmp_path / "whole")
    out = tmp_path / "out"
    work = interrupted(fair, out, monkeypatch, "shiftdata.data.exporting.folders.writing._finish")
    pictures = sorted(work.rglob("*.png"))
    pictures[0].write_bytes(b"")  # as a power cut leaves it
    pictures[1].write_bytes(bytes(pictures[1].stat().st_size))
    pictures[2].unlink()
    right = {path.name: path.stat().st_ino for path in pictures[3:]}
    made = sd.export(fair, "lists", out)
    assert made.images.written == sum((out / path.relative_to(work)).stat().st_size for path in pictures[:3])
    assert {path.name: path.stat().st_ino for path in out.rglob("*.png") if path.name in right} == right
    assert files(out) == files(tmp_path / "whole")


def test_an_export_killed_before_its_last_move_is_only_moved(fair, tmp_path, monkeypatch):
    out = tmp_path / "out"
    before = nodes(interrupted(fair, out, monkeypatch, "shiftdata.files.swap"))
    assert sd.export(fair, "lists", out).images is None
    assert nodes(out) == before
    read_back(out)


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_same_command_goes_on(tiny, canonical, tmp_path):
    sd.export(canonical, "imagefolder", tmp_path / "whole")
    sizes = sorted(path.stat().st_size for path in (tmp_path / "whole").rglob("*.png"))

    def limit() -> None:  # of any file: the kernel refuses the write, as a full disk does
        resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[-1] - 1, sizes[-1] - 1))

    out = tmp_path / "full/out"
    status, _, errors = finish(tiny, out, preexec_fn=limit)
    assert status == 1
    assert errors.startswith("error: no space left for")
    assert "run the same command again" in errors
    assert not out.exists()
    assert finish(tiny, out)[0] == 0
    assert files(out) == files(tmp_path / "whole")


def test_pictures_that_are_not_as_the_metadata_says_are_never_exported(copy, tmp_path):
    task = sd.task(copy)
    (shard,) = copy.glob("data/mini/train-*.parquet")
    data = bytearray(shard.read_bytes())
    at = data.index(b"\x89PNG\r\n\x1a\n")
    data[at + 40] ^= 1
    shard.write_bytes(data)
    with pytest.raises(IntegrityError, match=r"row \d+ does not have the sha256 that its metadata says"):
        sd.export(task, "lists", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_from_a_url_come_the_same_bytes_and_no_picture_that_is_not_asked_for(tiny, fair, tmp_path):
    sd.export(fair, "lists", tmp_path / "here")
    with ranges(tiny.parent) as served:
        task = sd.task(f"{served.url}/tiny", "group-fairness", k=2, mu=0.1)
        sd.export(task, "lists", tmp_path / "there")
        assert files(tmp_path / "there") == files(tmp_path / "here")
        wanted = sum(path.stat().st_size for path in (tmp_path / "here").rglob("*.png"))
        assert wanted <= served.fetched("/data/") <= 1.1 * wanted


# What is there already


def test_a_finished_export_is_left_alone_and_mended_when_it_is_not_whole(fair, tmp_path):
    out = tmp_path / "out"
    sd.export(fair, "wilds", out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert sd.export(fair, "wilds", out).images is None
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    whole = files(out)
    for damage in (
        lambda: next(out.rglob("*.png")).unlink(),
        lambda: next(out.rglob("*.png")).write_bytes(b""),
        lambda: (out / "tiny_v1.0/metadata.csv").write_text("img_filename\n"),
        lambda: (out / "keys.csv").unlink(),
    ):
        damage()
        assert sd.export(fair, "wilds", out).images is not None
        assert files(out) == whole


def test_only_an_export_is_overwritten_and_only_when_asked(fair, canonical, tmp_path):
    out = tmp_path / "out"
    sd.export(fair, "lists", out)
    with pytest.raises(
        InputError, match=r"is an export of other content: tiny/mini, .*as lists.*--overwrite"
    ):
        sd.export(canonical, "lists", out)
    with pytest.raises(InputError, match="other content"):
        sd.export(fair, "wilds", out)
    sd.export(canonical, "lists", out, overwrite=True)
    assert read_back(out) == {name: canonical.keys(name) for name in canonical.sets}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="exists and is not an export: give another folder"):
        sd.export(fair, "lists", tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine/thesis.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    sd.export(fair, "lists", tmp_path / "empty")


def test_a_place_inside_another_is_refused(fair, copy, tmp_path):
    with pytest.raises(InputError, match="lies inside the folder to make, which is replaced as a whole"):
        sd.export(fair, "lists", tmp_path / "out", pool=tmp_path / "out/pool")
    with pytest.raises(InputError, match="lies inside the dataset"):
        sd.export(sd.task(copy), "lists", copy / "lists")


def test_what_appears_in_the_place_meanwhile_is_not_replaced(fair, tmp_path):
    out = tmp_path / "out"

    def appear(_: int) -> None:
        out.mkdir(exist_ok=True)
        (out / "thesis.txt").write_text("years of work")

    with pytest.raises(InputError, match="exists and is not an export"):
        sd.export(fair, "lists", out, on_images=appear)
    assert (out / "thesis.txt").read_text() == "years of work"


# Links


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_in_two_places_take_space_once(drawn, layout, tmp_path):
    made = sd.export(drawn, layout, tmp_path / "out")
    rows = sum(len(rows.indices) for rows in drawn.sets.values())
    assert len(nodes(tmp_path / "out")) == rows
    assert made.images.files == sum(1 for _ in (tmp_path / "out").rglob("*.png"))
    assert made.images.linked["hard links"] == (3 if layout in ("imagefolder", "domainbed") else 0)


def test_exports_with_one_pool_take_space_once(canonical, fair, tmp_path):
    pool = tmp_path / "all/pool"
    first = sd.export(canonical, "imagefolder", tmp_path / "all/a", pool=pool)
    alone = used(tmp_path / "all")
    second = sd.export(fair, "wilds", tmp_path / "all/b", pool=pool)
    third = sd.export(canonical, "balancinggroups", tmp_path / "all/c", pool=pool)
    assert (second.images.written, third.images.written) == (0, 0)
    assert nodes(tmp_path / "all/b") < nodes(tmp_path / "all/a") == nodes(tmp_path / "all/c")
    texts = sum(
        path.stat().st_size
        for folder in ("b", "c")
        for path in (tmp_path / "all" / folder).rglob("*")
        if path.is_file() and path.suffix != ".png"
    )
    assert used(tmp_path / "all") == alone + texts
    assert first.images.written == sum(path.stat().st_size for path in (tmp_path / "all/a").rglob("*.png"))
    sd.export(canonical, "imagefolder", tmp_path / "plain")
    assert files(tmp_path / "plain") == files(tmp_path / "all/a")
    shutil.rmtree(tmp_path / "all/a")
    read_back(tmp_path / "all/b")
    assert all(path.stat().st_mode & 0o222 == 0 for path in pool.rglob("*") if path.is_file())


def test_a_damaged_picture_of_the_pool_is_written_again_and_no_folder_gets_it(fair, tmp_path):
    sd.export(fair, "lists", tmp_path / "plain")
    pool = tmp_path / "pool"
    sd.export(fair, "lists", tmp_path / "a", pool=pool)
    bad = sorted(path for path in pool.rglob("*") if path.is_file())[:2]
    for path in bad:
        path.chmod(0o644)
        path.write_bytes(b"edited in place")
    with pytest.raises(IntegrityError, match="does not have the bytes that were exported"):
        read_back(tmp_path / "a")
    sd.export(fair, "wilds", tmp_path / "b", pool=pool)
    read_back(tmp_path / "b")
    sd.export(fair, "lists", tmp_path / "c", pool=pool)
    assert files(tmp_path / "c") == files(tmp_path / "plain")


@pytest.mark.skipif(
    not ELSEWHERE.is_dir() or not os.access(ELSEWHERE, os.W_OK), reason="needs a second file system"
)
def test_a_pool_on_another_device_is_linked_by_name(drawn, tmp_path):
    pool = ELSEWHERE / f"shiftdata-pool-{os.getpid()}"
    if ELSEWHERE.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    sd.export(drawn, "imagefolder", tmp_path / "plain")
    try:
        made = sd.export(drawn, "imagefolder", tmp_path / "out", pool=pool)
        assert set(made.images.linked) == {"symbolic links"}
        assert all(path.is_symlink() for path in (tmp_path / "out").rglob("*.png"))
        assert files(tmp_path / "out") == files(tmp_path / "plain")
        assert read_back(tmp_path / "out") == read_back(tmp_path / "plain")
        (tmp_path / "out").rename(tmp_path / "moved")
        read_back(tmp_path / "moved")
        assert sd.export(drawn, "imagefolder", tmp_path / "moved", pool=pool).images is None
    finally:
        shutil.rmtree(pool, ignore_errors=True)


@pytest.mark.parametrize(("symbolic", "kind"), [(True, "symbolic links"), (False, "copies")])
def test_without_hard_links_there_are_others_or_copies(drawn, tmp_path, monkeypatch, symbolic, kind):
    def refused(*_: object) -> None:
        raise PermissionError(1, "this file system has no links")

    sd.export(drawn, "imagefolder", tmp_path / "plain")
    monkeypatch.setattr(os, "link", refused)
    if not symbolic:
        monkeypatch.setattr(Path, "symlink_to", refused)
    made = sd.export(drawn, "imagefolder", tmp_path / "out")
    assert made.images.linked == {kind: 3}
    (tmp_path / "out").rename(tmp_path / "moved")
    assert files(tmp_path / "moved") == files(tmp_path / "plain")
    read_back(tmp_path / "moved")


# The round trip can fail


def relabel(path: Path) -> None:
    """Give the first row the other label."""
    header, row, *rest = path.read_text().splitlines()
    name, y, *more = row.split(",")
    row = ",".join([name, str(1 - int(y)), *more])
    path.write_text("\n".join([header, row, *rest]) + "\n")


@pytest.mark.parametrize(
    ("layout", "damage", "said"),
    [
        ("imagefolder", lambda out: move(out, "train/*/*.png", "test/new"), "should not be there"),
        ("imagefolder", lambda out: next(out.glob("train/*/*.png")).unlink(), "is missing"),
        ("imagefolder", lambda out: flip(next(out.glob("train/*/*.png"))), "does not have the bytes"),
        (
            "domainbed",
            lambda out: shutil.copy(next(out.glob("*/*/*.png")), next(out.glob("*/*")) / "x.png"),
            "in no set",
        ),
        ("domainbed", lambda out: (out / "train.txt").write_text(""), "is missing"),
        ("wilds", lambda out: relabel(out / "tiny_v1.0/metadata.csv"), "is missing"),
        ("balancinggroups", lambda out: drop_last_line(out / "metadata_tiny.csv"), "is missing"),
        ("lists", lambda out: drop_last_line(out / "test.txt"), "is missing"),
        ("lists", lambda out: (out / "train.txt").unlink(), "cannot be read"),
        ("lists", lambda out: drop_last_line(out / "keys.csv"), "keys.csv is missing or was changed"),
    ],
)
def test_a_folder_that_is_not_as_it_was_exported_is_not_read_back(fair, layout, damage, said, tmp_path):
    sd.export(fair, layout, tmp_path / "out")
    damage(tmp_path / "out")
    with pytest.raises(IntegrityError, match=said):
        read_back(tmp_path / "out")


def move(out: Path, pattern: str, to: str) -> None:
    path = next(out.glob(pattern))
    (out / to).mkdir(parents=True)
    path.rename(out / to / path.name)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def drop_last_line(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def test_a_folder_that_is_not_an_export_is_refused(tmp_path, fair):
    with pytest.raises(NotFoundError, match=r"has no shiftdata.json: it is not a finished export"):
        read_back(tmp_path)
    sd.export(fair, "lists", tmp_path / "out")
    record = json.loads((tmp_path / "out/shiftdata.json").read_text())
    (tmp_path / "out/shiftdata.json").write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(IntegrityError, match="has format 99; this shiftdata reads format 1"):
        read_back(tmp_path / "out")
    (tmp_path / "out/shiftdata.json").write_text("{")
    with pytest.raises(IntegrityError, match="is not the record of an export"):
        sd.export(fair, "lists", tmp_path / "out")
    sd.export(fair, "lists", tmp_path / "out", overwrite=True)
    read_back(tmp_path / "out")


@pytest.mark.parametrize(
    ("form", "ending"),
    [
        ("JPEG", ".jpg"),
        ("PNG", ".png"),
        ("WEBP", ".webp"),
        ("GIF", ".gif"),
        ("BMP", ".bmp"),
        ("TIFF", ".tif"),
    ],
)
def test_files_end_as_their_bytes_begin(form, ending):
    buffer = io.BytesIO()
    Image.new("RGB", (3, 3)).save(buffer, form)
    assert ending_of(buffer.getvalue()) == ending


# The command line and what names a task


def test_a_config_gives_the_rows_that_load_dataset_gives(tiny):
    for split in sd.info(tiny).canonical_splits:
        task = chosen_task(tiny, config=split.name)
        frozen = sd.task(sd.read_metadata(tiny, split.base), str(tiny / f"protocols/{split.name}.parquet"))
        assert {name: task.keys(name) for name in task.sets} == {
            name: frozen.keys(name) for name in frozen.sets
        }
        assert task.describe() == split.name


def exported(
    capsys: pytest.CaptureFixture[str], dataset: Path, out: Path, *options: str, to: str = "imagefolder"
) -> tuple[int, str, str]:
    """As `finish`, in this process."""
    status = main(["export", str(dataset), "--to", to, "--out", str(out), "--quiet", *options])
    return (status, *capsys.readouterr())


def test_every_way_to_name_a_task(tiny, fair, tmp_path, capsys):
    fair.freeze(tmp_path / "frozen.parquet")
    ways = {
        "config": ("--config", "gf_k2_mu10"),
        "protocol": FAIR,
        "frozen": (str(tmp_path / "frozen.parquet"), "--base", "mini"),
    }
    for way, options in ways.items():
        status, printed, errors = exported(capsys, tiny, tmp_path / way, *options)
        assert (status, errors) == (0, ""), way
        assert "as imagefolder: train " in printed
        assert read_back(tmp_path / way) == {name: fair.keys(name) for name in fair.sets}
    status, printed, _ = exported(capsys, tiny, tmp_path / "config", "--config", "gf_k2_mu10")
    assert (status, printed.splitlines()[1]) == (0, "it was there already, and is left as it is")


def test_the_command_says_what_was_made(tiny, adapted, tmp_path, capsys):
    options = ("uda", "source=blue", "target=red", "--sets", "train=source_train,target_test")
    status, printed, errors = exported(
        capsys, tiny, tmp_path / "out", *options, "--pool", str(tmp_path / "pool"), to="lists"
    )
    assert (status, errors) == (0, "")
    assert read_back(tmp_path / "out") == {
        "train": adapted.keys("source_train"),
        "target_test": adapted.keys("target_test"),
    }
    rows = len(adapted.keys("source_train")) + len(adapted.keys("target_test"))
    assert printed.splitlines()[1].startswith(f"{rows} files, {rows} hard links; ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--config", "gf_k2"), "unknown config 'gf_k2'; did you mean 'gf_k2_mu10'"),
        (("--config", "gf_k2_mu10", "--base", "mini"), "config and base do not go together"),
        (("--config", "gf_k2_mu10", *FAIR), "config and a protocol do not go together"),
        (("--sets", "a=train,a=test"), "--sets gives each set its own name"),
        (("--base", "huge"), "unknown base 'huge'"),
    ],
)
def test_options_that_cannot_be_are_answered(tiny, tmp_path, capsys, options, said):
    status, _, errors = exported(capsys, tiny, tmp_path / "out", *options)
    assert status == 1
    assert errors.startswith("error: ")
    assert said in errors
    assert not (tmp_path / "out").exists()


def test_tars_and_folders_do_not_share_options(tiny, tmp_path, capsys):
    assert main(["export", str(tiny), "--to", "webdataset", "--pool", str(tmp_path), "--quiet"]) == 1
    assert "--pool is for folders of pictures" in capsys.readouterr().err
    several = ["--config", "gf_k2_mu10", "--config", "mini", "--out", str(tmp_path / "out")]
    assert main(["export", str(tiny), "--to", "wilds", *several, "--quiet"]) == 1
    assert "--to wilds takes one --config, got gf_k2_mu10, mini" in capsys.readouterr().err
    assert main(["export", str(tiny), "--to", "wilds", "--shards", "3", "--quiet"]) == 1
    assert "--shards: only --to webdataset makes tars" in capsys.readouterr().err
    assert main(["export", str(tiny), "--to", "wilds", "--quiet"]) == 1
    assert "--to wilds needs --out" in capsys.readouterr().err
