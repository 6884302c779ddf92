"""Raw datasets are downloaded where that may be done: resumable, compared with hashes; else steps by hand."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import huggingface_hub.constants
import pytest

from builders.cli.app import main
from builders.cli.raw_texts import description
from builders.raw import sources
from builders.raw.getting import get
from builders.raw.sources import RawFile, Source, Way
from shiftdata.data.places import store
from shiftdata.errors import InputError, IntegrityError, StorageError
from tests.builders.raw_server import Server, serving
from tests.builders.replicas.drawing import put
from tests.serve import serving as mirror

DATA = {"one.zip": bytes(range(256)) * 300, "two.txt": b"a list"}


class Bars:
    """What a progress bar would show."""

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.steps: list[int] = []

    def __call__(self, title: str, total: int) -> Callable[[int], object]:
        self.totals.append(total)
        return self.steps.append


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Server]:
    monkeypatch.setattr(store, "PAUSES", (0, 0))
    monkeypatch.setattr(store, "CHUNK", 20_000)
    folder = tmp_path / "served" / "deep"
    folder.mkdir(parents=True)
    for name, data in DATA.items():
        (folder / name).write_bytes(data)
    with serving(tmp_path / "served") as one:
        yield one


@pytest.fixture
def toy(server) -> Source:
    """A source whose files the server has; the size of one of them is not known."""
    one = RawFile(
        name="one.zip",
        bytes=len(DATA["one.zip"]),
        hash=f"md5:{hashlib.md5(DATA['one.zip']).hexdigest()}",
        url=f"{server.url}/deep/one.zip",
    )
    two = RawFile(name="two.txt", url=f"{server.url}/deep/two.txt")
    return Source(
        name="toy",
        title="Toy",
        license="none stated",
        recipes=(),
        ways=(Way(how="http", state="not opened"),),
        files=(one, two),
    )


def test_files_come_with_their_hash_and_are_not_downloaded_again(toy, server, tmp_path):
    out, said, bars = tmp_path / "out", [], Bars()
    get(toy, out, say=said.append, progress=bars)
    assert {name: (out / name).read_bytes() for name in DATA} == DATA
    assert said[0] == "one.zip: 76,800 bytes, its hash is right"
    server.asked.clear()
    get(toy, out, say=said.append, progress=bars)
    assert not [asked for asked in server.asked if not asked.endswith("-5")]  # of two.txt no size is known
    assert bars.totals == [76_806, 0]


def test_a_cut_download_goes_on_where_it_stopped(toy, server, tmp_path, monkeypatch):
    out = tmp_path / "out"
    (server.folder / "deep/one.zip").write_bytes(DATA["one.zip"])
    server.cut = [20_000, 10_000, 0, 0]
    with pytest.raises(StorageError):
        get(toy, out)
    assert (out / "one.zip.part").read_bytes() == DATA["one.zip"][:20_000]
    server.asked.clear()
    server.cut = []
    bars = Bars()
    get(toy, out, progress=bars)
    assert server.asked[0] == "bytes=20000-39999"
    assert (out / "one.zip").read_bytes() == DATA["one.zip"]
    assert bars.totals == [sum(bars.steps)] == [76_806 - 20_000]
    assert not list(out.glob("*.part"))


def test_a_file_with_another_hash_is_refused_and_removed(toy, server, tmp_path):
    (server.folder / "deep/one.zip").write_bytes(bytes(76_800))
    with pytest.raises(IntegrityError, match=r"one\.zip gave a file that has md5:\w+, and should have md5:"):
        get(toy, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").glob("one*")] == []


def test_terms_are_accepted_before_anything_comes(toy, server, tmp_path):
    bound = replace(toy, terms="Only on Sundays.")
    with pytest.raises(InputError, match=r"Only on Sundays\. Licence: none stated.*--accept"):
        get(bound, tmp_path / "out")
    get(bound, tmp_path / "out", accepted=True)


def test_nothing_is_downloaded_beside_other_files(toy, server, tmp_path):
    (tmp_path / "out/clipart").mkdir(parents=True)
    with pytest.raises(InputError, match=r"has other files \(clipart\): if they are toy, run"):
        get(toy, tmp_path / "out")


def test_what_cannot_be_downloaded_is_explained_step_by_step(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SHIFTDATA_RAW", str(tmp_path))
    assert main(["raw", "get", "pacs"]) == 1
    text = capsys.readouterr().out
    for part in ("by hand", "no licence", "1. Open https://drive", f"into {tmp_path}/pacs", "raw check pacs"):
        assert part in text
    assert not list(tmp_path.iterdir())


def test_a_copy_on_the_hub_comes_by_the_client_of_the_hub(tiny_out, tmp_path, monkeypatch):
    copy = replace(
        sources.source("pacs"), name="toy", ways=(Way(how="hub", repo="shift/tiny", state="a copy"),)
    )
    with mirror.serving(tiny_out) as running:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr("builders.raw.getting.hub_endpoint", lambda: running.endpoint)
        get(copy, tmp_path / "out", accepted=True)
    wanted = {
        path.relative_to(tiny_out / "shift/tiny") for path in (tiny_out / "shift/tiny").rglob("*.parquet")
    }
    assert wanted <= {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.parquet")}


def test_openml_gets_every_set_into_the_folder(tmp_path, monkeypatch):
    """As its client behaves; `test_openml_client.py` has the client itself."""
    came = []

    def get_dataset(number: int, **options: bool) -> None:
        came.append((number, options))
        if number != 46033:
            put(tmp_path, f"datasets/{number}/images/1.jpg")

    client = SimpleNamespace(
        config=SimpleNamespace(set_root_cache_directory=id, get_cache_directory=lambda: str(tmp_path)),
        datasets=SimpleNamespace(get_dataset=get_dataset),
    )
    monkeypatch.setitem(sys.modules, "openml", client)
    with pytest.raises(
        StorageError, match=r"OpenML 46033 \(stylized extended\) .* came without pictures: remove"
    ):
        get(sources.source("sma_brd"), tmp_path, accepted=True)
    options = {"download_data": True, "download_all_files": True}
    assert came == [(number, options) for number in (46036, 46035, 46034, 46033)]


def test_every_source_says_what_is_needed():
    for source in map(sources.source, sources.sources()):
        assert source.license in "\n".join(description(source))
        assert source.ways, source.name
        for way in source.ways:
            assert way.state, source.name
            assert bool(way.steps) == (way.how == "hand"), source.name
            assert bool(way.repo) == (way.how == "hub"), source.name
            assert way.how != "openml" or source.openml
            assert way.how != "http" or all(file.url.startswith("http") for file in source.files)
        assert all(len(file.hash.partition(":")[2]) in (0, 32, 40, 64) for file in source.files)
