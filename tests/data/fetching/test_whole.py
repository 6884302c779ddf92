"""A whole dataset from several places: what fails is noted, and what arrives is right."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path, PureWindowsPath

import fsspec
import pytest

import shiftdata as sd
from shiftdata.data.fetching.run import short_name
from shiftdata.data.fetching.staging import staging
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.places import store
from shiftdata.errors import InputError, NotFoundError, StorageError
from shiftdata.evaluation.verify import verify
from tests.data.fetching.conftest import contents, copied, fetched, flip, same
from tests.tiny import edit_manifest

TEST = "data/mini/test-00000-of-00001.parquet"


def test_a_dataset_comes_from_a_folder_as_it_is(tiny, catalogued):
    catalogued(tiny, tiny)
    came: list[int] = []
    folder = sd.fetch("toy", on_bytes=came.append)
    assert folder == Path("shift/toy")
    assert same(folder, tiny)
    assert sum(came) == sum(record.bytes for record in Manifest.read(tiny).files.values())
    assert [path.name for path in Path("shift").iterdir()] == ["toy"]
    assert verify(folder) == []


def test_it_comes_over_http_in_memory_and_by_url(tiny, server, memory):
    for number, place in enumerate([f"{server.url}/tiny", memory, f"file://{tiny}"]):
        assert same(sd.fetch(place, out=f"out/{number}"), tiny)


@pytest.mark.parametrize("fault", ["cut", "short", "flipped", "error"])
def test_a_place_that_answers_badly_hands_over_to_the_next(tiny, server, catalogued, fault):
    catalogued(tiny, f"{server.url}/tiny", tiny)
    server.always = fault
    came: list[int] = []
    outcome = fetched("toy", jobs=1, on_bytes=came.append)
    assert same(outcome.target, tiny)
    problems = outcome.sources.problems[f"{server.url}/tiny"]
    data = [path for path in Manifest.read(tiny).files if path.startswith("data/")]
    assert 3 <= len(problems) <= len(data)
    assert all(problem.startswith("data/") for problem in problems)
    assert outcome.sources.files[str(tiny)] >= len(data)
    assert sum(came) == sum(record.bytes for record in Manifest.read(tiny).files.values())


@pytest.mark.parametrize("begun", ["well", "flipped"])
def test_a_file_begun_at_one_place_is_continued_at_another(
    tiny, server, memory, catalogued, monkeypatch, begun
):
    """Where the beginning was wrong, the next place gives all of it, and is not blamed."""
    monkeypatch.setattr(store, "CHUNK", 5000)
    catalogued(tiny, f"{server.url}/tiny", memory)
    server.faults, server.always = [begun, begun], "error"
    came: list[int] = []
    outcome = fetched("toy", jobs=1, on_bytes=came.append)
    assert same(outcome.target, tiny)
    assert server.fetched("/data/") > 10_000
    assert list(outcome.sources.problems) == [f"{server.url}/tiny"]
    assert sum(came) == sum(record.bytes for record in Manifest.read(tiny).files.values())
    assert (min(came) < 0) == (begun == "flipped")


def test_a_server_without_ranges_gives_whole_files(tiny, server):
    server.always = "whole"
    assert same(sd.fetch(f"{server.url}/tiny", out="out"), tiny)


def test_wrong_bytes_in_the_first_place_come_from_the_second(tiny, tmp_path, catalogued):
    bad = copied(tiny, tmp_path / "bad")
    flip(bad / TEST)
    (bad / "metadata/mini/test.parquet").unlink()
    catalogued(tiny, bad, tiny)
    outcome = fetched("toy", jobs=1)
    assert same(outcome.target, tiny)
    assert outcome.sources.problems[str(bad)] == [
        f"{TEST}: has a sha256 that the manifest does not know",
        "metadata/mini/test.parquet: does not exist",
    ]
    assert outcome.sources.files == {str(tiny): 2, str(bad): len(Manifest.read(tiny).files) - 2}


def test_another_version_is_named_and_skipped(tiny, tmp_path, catalogued):
    other = copied(tiny, tmp_path / "other")
    edit_manifest(other, lambda raw: raw.update(version="2.0.0"))
    catalogued(tiny, other, tmp_path / "nowhere", tiny)
    outcome = fetched("toy")
    assert same(outcome.target, tiny)
    assert "has another version: its manifest is" in outcome.sources.problems[str(other)][0]
    assert outcome.sources.problems[str(tmp_path / "nowhere")][0].startswith("manifest.json: does not exist")


def test_from_stands_in_front_and_a_name_on_the_search_path_is_found(tiny, tmp_path, monkeypatch):
    mine = copied(tiny, tmp_path / "mine")
    outcome = fetched("tiny", places=[str(mine)], out=Path("a"))
    assert outcome.sources.files[str(mine)] == len(Manifest.read(tiny).files)
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))
    assert same(sd.fetch("tiny"), tiny)
    assert same(sd.fetch("shift/tiny", out="b"), tiny)


def test_what_is_here_stays_and_what_is_damaged_is_mended(tiny, catalogued):
    catalogued(tiny, tiny)
    folder = sd.fetch("toy")
    kept = (folder / "metadata/mini/test.parquet").stat()
    flip(folder / TEST)
    (folder / "README.md").unlink()
    (folder / "preview.jpg").unlink()
    came: list[int] = []
    assert sd.fetch("toy", on_bytes=came.append) == folder
    assert same(folder, tiny)
    files = Manifest.read(tiny).files
    assert sum(came) == sum(files[path].bytes for path in (TEST, "README.md", "preview.jpg"))
    assert (folder / "metadata/mini/test.parquet").stat().st_ino == kept.st_ino
    again: list[int] = []
    assert fetched("toy", on_bytes=again.append).bytes == 0
    assert not again


def test_another_dataset_in_the_folder_is_replaced_only_when_told(tiny, tmp_path, catalogued):
    catalogued(tiny, tiny)
    old = copied(tiny, Path("shift/toy"))
    told = json.loads((old / "manifest.json").read_text())
    (old / "manifest.json").write_text(json.dumps({**told, "version": "0.9.0"}))
    (old / "data/old.parquet").write_text("old")
    before = contents(old)
    with pytest.raises(InputError, match="has another dataset, another version"):
        sd.fetch("toy")
    assert contents(old) == before
    assert same(sd.fetch("toy", replace=True), tiny)
    assert [path.name for path in Path("shift").iterdir()] == ["toy"]
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a shiftdata dataset"):
        sd.fetch("toy", out=strange, replace=True)
    assert (strange / "thesis.txt").read_text() == "mine"


@pytest.mark.slow
def test_killed_it_goes_on_and_fetches_only_the_rest(tiny, server):
    code = (
        "import sys, shiftdata as sd; from shiftdata.data.places import store;"
        "store.CHUNK = 20000; sd.fetch(sys.argv[1], out='out', jobs=2)"
    )
    server.always = "slow"
    process = subprocess.Popen([sys.executable, "-c", code, f"{server.url}/tiny"])
    files = Manifest.read(tiny).files
    total = sum(record.bytes for record in files.values())
    deadline = time.monotonic() + 60
    while server.fetched("/data/") < 300_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    while server.busy and time.monotonic() < deadline:  # with what was under way
        time.sleep(0.01)
    assert not Path("out").exists()
    (work,) = Path().glob(".out.fetching")
    kept = sum(path.stat().st_size for path in work.rglob("*.parquet*"))
    assert 200_000 < kept < total
    server.always = "well"
    server.bodies.clear()
    came: list[int] = []
    folder = sd.fetch(f"{server.url}/tiny", out="out", on_bytes=came.append)
    assert same(folder, tiny)
    assert sum(came) == total - kept
    served = sum(size for path, size in server.bodies if path.removeprefix("/tiny/") in files)
    assert 0 <= served - (total - kept) <= len(files)  # a byte a file: are there ranges?
    assert not work.exists()


@pytest.mark.parametrize("select", [None, {"style": [2]}])
def test_a_place_that_changes_meanwhile_is_refused(tiny, tmp_path, select):
    place = copied(tiny, tmp_path / "place")

    def change(_: object) -> None:
        raw = json.loads((place / "manifest.json").read_text())
        (place / "manifest.json").write_text(json.dumps({**raw, "version": "2.0.0"}))
        for path in (place / "data/mini").iterdir():
            flip(path)
        (place / "README.md").write_text("another")

    with pytest.raises(StorageError, match=f"{place}: {place} has changed since it was opened"):
        sd.fetch(place, select=select, out="out", on_plan=change)
    assert not Path("out").exists()


def test_two_fetches_into_one_folder_do_not_mix(tiny):
    with (
        staging(Path("out"), "another"),
        pytest.raises(StorageError, match=r"another fetch is writing to .*\.out\.fetching"),
    ):
        sd.fetch(tiny, out="out")


def test_too_little_room_is_said_before_anything_comes(tiny, monkeypatch):
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    for select in (None, {"label": 0}):
        with pytest.raises(StorageError, match=r"out needs .* MB more, and 0\.0 MB are free there"):
            sd.fetch(tiny, out="out", select=select)
    assert not list(Path().glob("out*"))


FULL = """
import resource, sys
import shiftdata as sd
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # no file may be larger
sd.fetch(sys.argv[1], config=sys.argv[2] or None, select=sys.argv[3:], out="out")
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [[""], ["extended", "label=0,1,2"]])
def test_a_disk_that_is_full_is_said_and_the_next_try_ends_well(tiny, words):
    done = subprocess.run([sys.executable, "-c", FULL, tiny, *words], capture_output=True, text=True)
    assert done.returncode == 1
    assert "StorageError: no space left for" in done.stderr.splitlines()[-1]
    assert not Path("out").exists()
    ask = {"config": words[0] or None, "select": words[1:] or None}
    folder = sd.fetch(tiny, out="out", **ask)
    assert verify(folder) == []
    assert [path.name for path in Path().iterdir()] == ["out"]


def test_no_place_gives_a_file(tiny, tmp_path, catalogued):
    bad = copied(tiny, tmp_path / "bad")
    (bad / TEST).unlink()
    catalogued(tiny, bad, tmp_path / "nowhere")
    with pytest.raises(StorageError) as caught:
        sd.fetch("toy")
    said = str(caught.value)
    size = Manifest.read(tiny).files[TEST].bytes
    assert f"{TEST}  {size / 1e6:.2f} MB" in said
    assert f"{bad}: {TEST}: does not exist" in said
    assert f"{tmp_path / 'nowhere'}: manifest.json: does not exist" in said
    assert said.endswith("run the same command again to go on")
    shutil.copy(tiny / TEST, bad / TEST)
    came: list[int] = []
    outcome = fetched("toy", on_bytes=came.append)
    assert same(outcome.target, tiny)
    assert outcome.sources.files == {str(bad): 1}  # all else was kept


@pytest.mark.parametrize("path", ["../evil", "/evil", "data//x", ".cache/x", "data/..\\x"])
def test_a_manifest_cannot_write_outside_its_folder(tiny, tmp_path, path):
    bad = copied(tiny, tmp_path / "bad")
    edit_manifest(bad, lambda raw: raw["files"].update({path: raw["files"][TEST]}))
    with pytest.raises(NotFoundError, match="leads out of the dataset's folder"):
        sd.fetch(bad, out="out")
    assert not list(Path().glob("*"))


def test_killed_at_the_last_move_nothing_is_fetched_again(tiny, server, monkeypatch):
    rename = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name == ".out.fetching":
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as context:
        context.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            sd.fetch(f"{server.url}/tiny", out="out")
    assert not Path("out").exists()
    came: list[int] = []
    assert same(sd.fetch(f"{server.url}/tiny", out="out", on_bytes=came.append), tiny)
    assert came == []


def test_the_target_alone_is_no_place(tiny):
    folder = copied(tiny, Path("shift/tiny"))
    with pytest.raises(NotFoundError, match="none is known but the folder to write to"):
        sd.fetch(folder.absolute())


def test_a_dataset_comes_from_s3_as_a_whole_and_in_part(tiny, bucket):
    fsspec.filesystem("s3").put(str(tiny), f"{bucket}/tiny", recursive=True)
    assert same(sd.fetch(f"s3://{bucket}/tiny", out="whole"), tiny)
    part = sd.fetch(f"s3://{bucket}/tiny", out="part", config="gf_k2_mu10")
    assert same(part, sd.fetch(tiny, out="other", config="gf_k2_mu10"))


@pytest.fixture
def mirror(tiny_out, monkeypatch):
    """A read-only mirror of the tiny dataset, asked by the real `huggingface_hub`."""
    serving = pytest.importorskip("tests.serve.serving")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with serving.serving(tiny_out) as running:
        yield running


def test_the_catalog_of_a_mirror_is_enough(tiny, mirror, monkeypatch):
    monkeypatch.setenv("SHIFTDATA_CATALOG", f"{mirror.endpoint}/catalog.json")
    outcome = fetched("tiny")
    assert same(outcome.target, tiny)
    assert list(outcome.sources.files) == [f"hf+{mirror.endpoint}/datasets/shift/tiny"]


def test_a_name_without_a_catalog_is_asked_of_the_hub_of_the_environment(tiny, mirror, tmp_path):
    from tests.serve.serving import client_env

    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "shiftdata", "fetch", "tiny", "--quiet"]
    environment = client_env(mirror.endpoint, home)
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "from hf://datasets/shift/tiny" in done.stdout
    assert same(home / "shift/tiny", tiny)


def test_a_folder_whose_name_no_hub_allows_is_a_folder(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny, "my data")
    assert sd.verify(sd.fetch("my data")) == []
    assert (tmp_path / "shift" / "my data").is_dir()
    monkeypatch.setattr("shiftdata.data.fetching.run.absolute", PureWindowsPath)
    assert short_name(r"C:\data\tiny") == "tiny"
