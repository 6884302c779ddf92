"""A dataset is opened once: what was opened is what is read, or a refusal; never another version's rows."""

from __future__ import annotations

import hashlib
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.data.exporting.webdataset import export as export_tars
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.loading.byte_ranges import ExampleReader
from tests.data.byte_ranges.server import ranges
from tests.serve import serving as mirror


def sha256_of_keys(folder: Path) -> dict[str, bytes]:
    tables = [
        pq.read_table(path, columns=["key", "sha256"]) for path in (folder / "metadata").rglob("*.parquet")
    ]
    table = pa.concat_tables(tables)
    return dict(zip(table["key"].to_pylist(), table["sha256"].to_pylist(), strict=True))


def assert_right(task: sd.Task, folder: Path) -> None:
    """Every example that the task gives is that of its key."""
    truth = sha256_of_keys(folder)
    examples = task.dataset("train", decode=False)
    for x, _, known in examples.__getitems__(range(len(examples))):
        assert hashlib.sha256(x).digest() == truth[known["key"]]


def replace(place: Path, new: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(new, place)


READS: dict[str, Callable[[sd.Task], object]] = {
    "dataset": lambda task: task.dataset("train")[0],
    "loader": lambda task: next(iter(task.loader("train", batch_size=4))),
    "export": lambda task: sd.export(task, "imagefolder", Path("out")),
    "tars": lambda task: export_tars(task.metadata.dataset, Path("out")),
}


@pytest.mark.parametrize("read", READS)
def test_a_folder_that_was_replaced_is_refused_by_name(copy, other, read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = sd.task(copy)
    assert_right(task, copy)
    was = hashlib.sha256((copy / "manifest.json").read_bytes()).hexdigest()
    replace(copy, other)
    now = hashlib.sha256((copy / "manifest.json").read_bytes()).hexdigest()
    with pytest.raises(
        sd.errors.ChangedError, match=f"manifest was {was[:12]}, is now {now[:12]}. Open it again"
    ):
        READS[read](task)
    assert_right(sd.task(copy), other)


def test_readers_that_are_open_notice_it_too(copy, other):
    task = sd.task(copy)
    examples, reader = task.dataset("train"), ExampleReader(copy, "mini")
    loader = task.loader("train", batch_size=4)
    next(iter(loader))
    carried = pickle.dumps(reader)
    replace(copy, other)
    with pytest.raises(sd.errors.ChangedError):
        examples[0]
    with pytest.raises(sd.errors.ChangedError):
        reader.read([0])
    with pytest.raises(sd.errors.ChangedError):
        pickle.loads(carried).read([0])
    with pytest.raises(sd.errors.ChangedError):
        list(loader)


def test_a_dataset_that_is_gone_is_refused(copy):
    task = sd.task(copy)
    shutil.rmtree(copy)
    with pytest.raises(sd.errors.ChangedError, match="is gone"):
        task.dataset("train")


def test_a_manifest_that_was_written_again_unchanged_is_accepted(copy):
    task = sd.task(copy)
    text = (copy / "manifest.json").read_bytes()
    (copy / "manifest.json").unlink()
    (copy / "manifest.json").write_bytes(text)
    assert_right(task, copy)


@pytest.mark.parametrize("versions", [True, False])
def test_over_http_manifest_and_metadata_are_read_once(tiny, versions):
    with ranges(tiny.parent) as server:
        server.versions = versions
        opened = sd.open_dataset(f"{server.url}/tiny")
        task = sd.task(opened)
        for _ in range(2):
            examples = task.dataset("train", decode=False)
            examples.__getitems__(range(len(examples)))
            with task.loader("train", batch_size=50) as loader:
                list(loader)
        assert [path for path, _ in server.bodies if path.endswith("manifest.json")] == [
            "/tiny/manifest.json"
        ]
        for split in SPLITS:
            size = (tiny / f"metadata/mini/{split}.parquet").stat().st_size
            assert server.fetched(f"metadata/mini/{split}") <= size
        assert sd.task(opened).metadata is task.metadata


def test_a_place_over_http_that_moved_on_is_refused(copy, other):
    with ranges(copy.parent) as server:
        server.versions = True
        task = sd.task(f"{server.url}/tiny")
        reader = ExampleReader(task.metadata.dataset, "mini")
        reader.read([0])
        replace(copy, other)
        for act in READS.values():
            with pytest.raises(sd.errors.ChangedError):
                act(task)
        with pytest.raises(sd.errors.ChangedError):
            reader.check_unchanged(believe=0)


def test_a_repo_on_a_hub_is_pinned_to_the_commit_it_was_opened_at(copy, other, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with mirror.serving(copy.parent) as running:
        address = f"hf+{running.endpoint}/datasets/shift/tiny"
        task = sd.task(address)
        assert_right(task, copy)
        replace(copy, other)
        for act in READS.values():
            with pytest.raises(sd.errors.ShiftdataError, match=r"has changed|no revision|does not exist"):
                act(task)
        assert_right(sd.task(address), other)


def test_a_reader_of_another_dataset_or_base_is_refused(tiny, other):
    task = sd.task(tiny)
    for folder, base in ((other, "mini"), (tiny, "extended")):
        with pytest.raises(sd.errors.InputError, match=r"make the reader from `task\.metadata\.dataset`"):
            task.dataset("train", reader=ExampleReader(folder, base))
