"""A dataset in WebDataset format has the same examples as in Parquet, for every reader of tars."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from builders.make.check import check
from shiftdata.cli import app as cli
from shiftdata.data.exporting.webdataset import export
from shiftdata.data.exporting.webdataset.samples import stratified_order
from shiftdata.data.exporting.webdataset.tar import write_tar
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import index_file
from shiftdata.errors import InputError, IntegrityError, MissingExtraError, NotFoundError, StorageError
from tests.builders.test_build import files
from tests.tiny import SMALL_TAR, edit_file

# The library leaves it to the garbage collector to close its tars.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@pytest.fixture
def copied(tars, tmp_path):
    return Path(shutil.copytree(tars, tmp_path / "tiny_wds"))


# --- the order of samples


@st.composite
def strata(draw):
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=12))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    styles = np.array(draw(st.lists(st.integers(0, 3), min_size=len(labels), max_size=len(labels))))
    return labels, styles


@given(strata(), st.randoms())
def test_the_order_is_a_permutation_that_the_order_of_rows_does_not_change(made, random):
    labels, styles = made
    keys = [f"k{number}" for number in range(len(labels))]
    order = stratified_order(keys, labels, styles)
    assert sorted(order.tolist()) == list(range(len(keys)))
    shuffled = np.array(random.sample(range(len(keys)), len(keys)))
    again = stratified_order([keys[i] for i in shuffled], labels[shuffled], styles[shuffled])
    assert [keys[i] for i in order] == [keys[shuffled[i]] for i in again]


@given(strata())
def test_every_stretch_holds_every_label_in_its_share(made):
    labels, styles = made
    order = stratified_order([f"k{number}" for number in range(len(labels))], labels, styles)
    counts = np.bincount(labels)
    seen = np.cumsum(labels[order][:, None] == np.arange(len(counts)), axis=0)
    # Each label has one row in each of its n parts of the whole, and so has each other label.
    share = np.arange(1, len(order) + 1)[:, None] * counts / len(order)
    assert (np.abs(seen - share) <= 1 + len(counts) * counts / len(order)).all()


# --- the bytes of tars


def test_a_tar_is_of_nobody_and_no_time_and_the_places_of_its_members_hold(tmp_path):
    samples = [
        ("a" * 120, {"png": b"x" * 700, "cls": b"1", "json": b"{}"}),
        ("b-2", {"png": b"", "cls": b"0", "json": '{"é":1}'.encode()}),
    ]
    places = write_tar(tmp_path / "a.tar", iter(samples))
    write_tar(tmp_path / "b.tar", iter(samples))
    raw = (tmp_path / "a.tar").read_bytes()
    assert raw == (tmp_path / "b.tar").read_bytes()
    assert len(raw) % tarfile.BLOCKSIZE == 0
    with tarfile.open(tmp_path / "a.tar") as tar:
        found = tar.getmembers()
        assert [m.name for m in found] == [f"{key}.{member}" for key, of in samples for member in of]
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in found} == {
            (0, 0, 0, "", "", 0o644)
        }
        for number, (key, members) in enumerate(samples):
            for member, data in members.items():
                offset, length = places[f"{member}_offset"][number], places[f"{member}_length"][number]
                assert raw[offset : offset + length] == data == tar.extractfile(f"{key}.{member}").read()
    # What GNU or BSD tar makes of it is what users see.
    listed = subprocess.check_output(["tar", "-tf", tmp_path / "a.tar"], text=True).split()
    assert listed == [m.name for m in found]


# --- exporting


def start(source, out, **popen):
    command = [sys.executable, "-m", "shiftdata", "export", str(source), "--to", "webdataset", "--quiet"]
    command += ["--out", str(out), "--shard-mb", str(SMALL_TAR / 2**20)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, **popen)


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(1, 20, 60, 90)])
def test_killed_at_any_moment_and_started_again_it_ends_in_the_same_bytes(tiny, tars, tmp_path, counts):
    kills = 0
    for count in counts:
        with start(tiny, tmp_path / "tiny_wds") as process:
            while process.poll() is None:
                if sum(1 for _ in tmp_path.glob(".exporting/*/index/*/*.parquet")) >= count:
                    os.kill(process.pid, signal.SIGKILL)
                    kills += 1
                    break
                time.sleep(0.01)
        assert not (tmp_path / "tiny_wds").exists() or files(tmp_path / "tiny_wds") == files(tars)
    assert start(tiny, tmp_path / "tiny_wds").wait() == 0
    assert kills >= len(counts) / 2
    assert files(tmp_path / "tiny_wds") == files(tars)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny_wds"]


def test_a_finished_export_is_left_alone(tiny, copied):
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    assert export(tiny, copied) == copied
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before


def test_one_base_alone_is_a_dataset_of_its_own(tiny, tmp_path):
    mini = export(tiny, tmp_path / "tiny_wds", configs=["mini"])
    manifest = Manifest.read(mini)
    assert list(manifest.configs) == ["mini"]
    assert manifest.content_id != Manifest.read(tiny).content_id
    assert sd.verify(mini) == []
    with pytest.raises(InputError, match=r"is an export of other content than tiny_wds .*--overwrite"):
        export(tiny, mini, configs=["content"])
    export(tiny, mini, configs=["content"], overwrite=True)
    assert list(Manifest.read(mini).configs) == ["content"]
    assert sd.verify(mini) == []


@pytest.mark.slow
def test_a_dataset_at_a_url_gives_the_same_bytes(tiny, tars, tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(tiny), "/mirror/tiny", recursive=True)
    try:
        out = export("memory://mirror/tiny", tmp_path / "tiny_wds", shard_bytes=SMALL_TAR)
        assert files(out) == files(tars)
        memory.rm("/mirror/tiny/data/mini", recursive=True)
        with pytest.raises(StorageError, match=r"data/mini/.* does not exist"):
            export("memory://mirror/tiny", tmp_path / "again")
        assert not (tmp_path / "again").exists()
        memory.put(str(tars), "/mirror/tiny_wds", recursive=True)
        assert sd.verify("memory://mirror/tiny_wds") == []
        with pytest.raises(InputError, match=r"is in WebDataset format: read it with `shiftdata.webdataset`"):
            sd.load_dataset("memory://mirror/tiny_wds")
    finally:
        memory.rm("/mirror", recursive=True)


def test_a_damaged_picture_is_not_exported(copy, tmp_path):
    row = pq.read_table(copy / "metadata/mini/train.parquet").to_pylist()[7]
    path = copy / "data/mini/train-00000-of-00001.parquet"
    data = bytearray(path.read_bytes())
    data[row["offset"] + 50] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        IntegrityError, match=f"row {row['row']} does not have the sha256 that its metadata says"
    ):
        export(copy, tmp_path / "tiny_wds")
    assert not (tmp_path / "tiny_wds").exists()


def test_what_cannot_be_exported_is_said(tiny, tars, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="exists and is not a WebDataset export"):
            export(tiny, tmp_path / "mine", overwrite=overwrite)
    with pytest.raises(InputError, match="exists and is not a WebDataset export"):
        export(tiny, tiny, overwrite=True)
    with pytest.raises(NotFoundError, match="unknown base 'huge'"):
        export(tiny, tmp_path / "out", configs=["huge"])
    with pytest.raises(InputError, match="is in WebDataset format already"):
        export(tars, tmp_path / "out")
    with pytest.raises(InputError, match="shard_bytes must be at least 1, got 0"):
        export(tiny, tmp_path / "out", shard_bytes=0)
    assert cli.main(["export", "nowhere", "--to", "webdataset", "--out", str(tmp_path / "out")]) == 1
    assert "error: unknown dataset 'nowhere'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_pipeline_says_what_is_missing(tiny, tars, copy, monkeypatch):
    with pytest.raises(
        NotFoundError,
        match=r"there is no .*tiny_wds next to it: run `shiftdata export",
    ):
        sd.webdataset(copy)
    monkeypatch.setenv("SHIFTDATA_HOME", str(copy.parent))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", None)  # not asked: the dataset is here
    with pytest.raises(NotFoundError, match="tiny is in Parquet format"):
        sd.webdataset("tiny")
    with pytest.raises(NotFoundError, match="unknown base 'huge'"):
        sd.webdataset(tars, "huge")
    with pytest.raises(NotFoundError, match="unknown split 'dev'"):
        sd.webdataset(tars, split="dev")
    monkeypatch.setitem(sys.modules, "webdataset", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'shiftdata\[wds\]'"):
        sd.webdataset(tars)


def test_the_tars_are_found_by_the_name_of_the_dataset(copy, tars, monkeypatch):
    shutil.copytree(tars, copy.with_name("tiny_wds"))
    monkeypatch.setenv("SHIFTDATA_HOME", str(copy.parent))
    monkeypatch.chdir(copy)
    for name in ("tiny", "tiny_wds", "shift/tiny", copy):
        assert sum(1 for _ in sd.webdataset(name, decode=None)) == 200
    assert [dataset.name for dataset in sd.list_datasets()] == ["tiny", "tiny_wds"]
    assert list(sd.info("tiny_wds").configs) == ["mini", "content", "extended"]


# --- verify


def test_verify_finds_nothing_wrong(both_formats):
    assert sd.verify(both_formats[1]) == []
    assert sd.verify(both_formats[1], deep=False) == []


@pytest.mark.slow
def test_check_finds_nothing_wrong(both_formats):
    assert check(both_formats[1]) == []


@pytest.mark.parametrize("deep", [False, True])
def test_verify_finds_a_changed_byte_a_missing_and_an_extra_file(copied, deep):
    tar = min(copied.glob("data/mini/test-*.tar"))
    index = min(copied.glob("index/mini/train-*.parquet"))
    tar.write_bytes(tar.read_bytes()[:-1] + b"x")
    index.unlink()
    (copied / "more.tar").write_bytes(b"")
    found = {(problem.path, problem.kind) for problem in sd.verify(copied, deep=deep)}
    assert found == {
        (tar.relative_to(copied).as_posix(), "file"),
        (index.relative_to(copied).as_posix(), "file"),
        ("more.tar", "extra"),
    }


def test_verify_finds_samples_that_are_not_as_the_index_says(copied):
    path = min(copied.glob("data/mini/test-*.tar")).relative_to(copied).as_posix()
    rows = pq.read_table(copied / index_file(path)).to_pylist()

    def change(raw):
        raw = bytearray(raw)
        raw[rows[0]["png_offset"] + 60] ^= 1
        raw[rows[1]["cls_offset"]] = ord("9")
        raw[rows[2]["json_offset"]] = ord(" ")
        return bytes(raw)

    edit_file(copied, path, change)
    found = [(problem.key, problem.kind.split(" than")[0]) for problem in sd.verify(copied)]
    assert found == [
        (None, "croissant"),  # it has the hash of the file that was
        (rows[0]["key"], "has another example"),
        (rows[1]["key"], "has another label (.cls)"),
        (rows[2]["key"], "has other metadata (.json)"),
    ]


def test_verify_finds_another_content(copied):
    path = min(copied.glob("index/mini/test-*.parquet")).relative_to(copied).as_posix()
    table = pq.read_table(copied / path)
    sink = io.BytesIO()
    labels = table["label"].to_pylist()
    labels[0] = (labels[0] + 1) % 4
    pq.write_table(table.set_column(3, table.schema.field("label"), [labels]), sink)
    edit_file(copied, path, lambda _: sink.getvalue())
    assert {problem.kind for problem in sd.verify(copied)} == {
        "content_id",
        "has another label (.cls) than its index says",
        "has other metadata (.json) than its index says",
    }
    edit_file(copied, path, lambda _: b"no parquet")
    assert {problem.kind for problem in sd.verify(copied)} == {"unreadable"}
