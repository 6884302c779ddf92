"""A dataset elsewhere: on a Hub, on plain HTTP, in memory. Real clients against servers on the loopback."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import fsspec
import huggingface_hub.constants
import pytest

import shiftdata
from shiftdata.cli.app import main
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.places import store
from shiftdata.data.places.catalog import Catalog, Entry
from shiftdata.data.places.http import Hub
from shiftdata.data.places.search import find
from shiftdata.errors import (
    InputError,
    IntegrityError,
    MissingExtraError,
    NotFoundError,
    ShiftdataError,
    StorageError,
)
from tests.data.byte_ranges.server import ranges
from tests.serve import serving as mirror
from tests.web import answering


@contextmanager
def hub(repo: Path) -> Iterator[str]:
    """A Hub with the one dataset `shift/tiny`: a mirror of our own."""
    with mirror.serving(repo) as running:
        yield running.endpoint


def on_hub(endpoint: str, folder: Path, code: str) -> str:
    """What some code prints, in a process of its own: the Hub's client reads its endpoint at import."""
    own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "0"}
    options = {"env": os.environ | own, "cwd": folder, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, "-c", code], check=True, **options).stdout


def info(endpoint: str, name: str, folder: Path) -> object:
    code = (
        "import json, shiftdata\n"
        f"try: print(json.dumps([shiftdata.info({name!r}).name]))\n"
        "except shiftdata.errors.NotFoundError as error: print(json.dumps(str(error)))"
    )
    return json.loads(on_hub(endpoint, folder, code))


@pytest.fixture
def endpoint(tiny) -> Iterator[str]:
    with hub(tiny) as url:
        yield url


@pytest.fixture
def at_once(monkeypatch) -> None:
    """No pauses between tries."""
    monkeypatch.setattr(store, "PAUSES", (0, 0))


@pytest.fixture
def memory(tiny) -> Iterator[str]:
    """The tiny dataset in fsspec's memory."""
    system = fsspec.filesystem("memory")
    system.put(str(tiny), "/mirror/tiny", recursive=True)
    yield "memory://mirror/tiny"
    system.rm("/mirror", recursive=True)


@pytest.mark.parametrize("name", ["tiny", "shift/tiny", "hf://datasets/shift/tiny"])
def test_the_manifest_of_a_dataset_that_is_not_here_comes_from_the_hub(endpoint, tmp_path, name):
    assert info(endpoint, name, tmp_path) == ["tiny"]


def test_a_dataset_that_is_nowhere_is_said_with_all_places(endpoint, tmp_path):
    message = info(endpoint, "shift/toy", tmp_path)
    assert message.startswith("unknown dataset 'toy'.")
    assert "hf://datasets/shift/toy: does not exist" in message
    assert "shift: no such folder" in message
    assert "What to do:" in message
    assert "SHIFTDATA_CATALOG=<file or URL" in message
    message = info(endpoint, "hf://datasets/shift/toy", tmp_path)
    assert message.startswith("hf://datasets/shift/toy has no manifest.json: it is not a shiftdata dataset")


def test_a_url_is_a_place(tiny, memory):
    opened = shiftdata.open_dataset(memory)
    assert (opened.folder, opened.address, opened.manifest) == (None, memory, Manifest.read(tiny))
    assert opened.sha256 == hashlib.sha256((tiny / "manifest.json").read_bytes()).hexdigest()
    assert {find(f"{memory}{end}").address for end in ("", "/", "/manifest.json")} == {memory}
    elsewhere = find("shift/else")
    assert isinstance(elsewhere, Hub)
    assert (elsewhere.address, elsewhere.revision) == ("hf://datasets/shift/else", None)
    local = find(tiny.as_uri())
    assert (local.folder, local.address) == (tiny, str(tiny))


def test_an_error_that_passes_is_tried_again(tiny, at_once):
    with ranges(tiny.parent) as server:
        server.faulty, server.faults = "manifest.json", ["cut", "cut"]
        assert shiftdata.info(f"{server.url}/tiny").name == "tiny"
        server.always = "cut"
        with pytest.raises(StorageError, match="cannot be read"):
            shiftdata.info(f"{server.url}/tiny")


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "Name or service not known"), ConnectionRefusedError(111, "refused")]
)
def test_a_server_that_cannot_be_reached_is_not_asked_again(error, monkeypatch):
    tries, pauses = [], []
    monkeypatch.setattr(store.time, "sleep", pauses.append)

    def away() -> None:
        tries.append(1)
        raise error

    with pytest.raises(OSError, match=error.strerror):
        store.persistently(away)
    assert (len(tries), pauses) == (1, [])


def test_a_name_of_a_catalog_is_opened_from_its_places(tiny, other, tmp_path, monkeypatch, capsys):
    """As whoever has only installed the package does: no folder, a catalog in the environment."""
    monkeypatch.chdir(tmp_path)
    digest = hashlib.sha256((tiny / "manifest.json").read_bytes()).hexdigest()
    monkeypatch.setenv("SHIFTDATA_CATALOG", str(tmp_path / "lab.json"))
    Catalog({"toy": Entry(digest, ("/gone", str(tiny)))}).write(tmp_path / "lab.json")
    assert shiftdata.open_dataset("shift/toy").folder == shiftdata.open_dataset("toy").folder == tiny
    assert main(["list"]) == 0
    assert "toy: in the catalog" in capsys.readouterr().out
    Catalog({"toy": Entry(digest, ("/gone", str(other)))}).write(tmp_path / "lab.json")
    with pytest.raises(NotFoundError) as caught:
        shiftdata.open_dataset("toy")
    for line in ("/gone: does not exist", f"{other}: has another version than the catalog names"):
        assert line in str(caught.value)


def test_a_manifest_that_is_no_text_is_an_integrity_error(copy):
    (copy / "manifest.json").write_bytes(b"\xff")
    with pytest.raises(IntegrityError, match="is not a shiftdata manifest"):
        shiftdata.info(copy)


@pytest.mark.parametrize(
    ("kind", "package", "hint"),
    [
        ("s3", "s3fs", r"shiftdata\[s3\]"),
        ("gs", "gcsfs", "gcsfs"),
    ],
)
def test_a_backend_that_is_not_installed_is_named(monkeypatch, kind, package, hint):
    monkeypatch.setitem(sys.modules, package, None)
    for name in ("registry", "_registry"):  # what was imported before
        monkeypatch.setattr(sys.modules["fsspec.registry"], name, {})
    with pytest.raises(MissingExtraError, match=f"{kind} URLs need another package: pip install .*{hint}"):
        shiftdata.info(f"{kind}://bucket/tiny")


def test_an_unknown_kind_of_url_is_said_with_what_is_known():
    with pytest.raises(
        InputError, match=r"cannot read shift://x/y \(Protocol not known: shift\): give a URL"
    ):
        shiftdata.info("shift://x/y")


class Refusing(BaseHTTPRequestHandler):
    """Answers every request with one status."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def refusing(status: int) -> AbstractContextManager[str]:
    return answering(type("Refusal", (Refusing,), {"status": status}))


REFUSALS = [
    (401, "status 401 .*the server refuses access; check your login or token"),
    (404, r"has no manifest\.json: it is not a shiftdata dataset"),
    (503, "status 503 .*try again later"),
]


@pytest.mark.parametrize("form", ["hf+{}/datasets/shift/toy", "{}/toy"])
@pytest.mark.parametrize(("status", "message"), REFUSALS)
def test_a_refusal_a_failure_and_a_place_without_a_manifest_are_told_apart(
    form, status, message, at_once, monkeypatch
):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with refusing(status) as url, pytest.raises(ShiftdataError, match=message) as caught:
        shiftdata.info(form.format(url))
    assert isinstance(caught.value, NotFoundError) == (status == 404)


@pytest.mark.parametrize("form", ["hf+{}/datasets/shift/toy", "{}/toy"])
def test_a_place_where_no_server_answers_is_said_to_be_unreachable(form, at_once, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with refusing(200) as url:
        pass  # nothing listens there now
    with pytest.raises(
        StorageError, match=r"ConnectionRefusedError.*: no server can be reached there; check"
    ):
        shiftdata.info(form.format(url))


@pytest.mark.parametrize(
    ("status", "message"), [(403, "refuses access"), (404, "has no manifest"), (503, "try again later")]
)
def test_a_bucket_that_refuses_or_fails_is_told_from_one_without_a_dataset(
    status, message, at_once, monkeypatch
):
    pytest.importorskip("s3fs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with refusing(status) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        with pytest.raises(ShiftdataError, match=message):
            shiftdata.info("s3://bucket/toy")


def test_few_of_many_files_are_open_at_once_and_none_once_closed(tmp_path, monkeypatch):
    """A build copies raw files into thousands of stretches, and some systems let a process open 256."""
    monkeypatch.setattr(store, "MOST_OPEN", 3)

    def opened() -> list[str]:
        links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return [os.path.basename(os.readlink(link)) for link in links if os.path.lexists(link)]

    for number in range(20):
        (tmp_path / f"stretch-{number}").write_text(f"{number:02}")
    folder = store.Folder(tmp_path)
    for number in [*range(20), *range(20)]:
        assert folder.range(f"stretch-{number}", 0, 2) == f"{number:02}".encode()
    assert sorted(name for name in opened() if "stretch-" in name) == [
        "stretch-17",
        "stretch-18",
        "stretch-19",
    ]
    folder.close()
    assert not [name for name in opened() if "stretch-" in name]


def test_a_file_that_is_read_stays_open_while_others_are_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MOST_OPEN", 1)
    for number in range(8):
        (tmp_path / f"{number}").write_bytes(bytes([number]) * 1000)
    folder = store.Folder(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        read = pool.map(lambda at: folder.range(str(at % 8), at % 990, at % 990 + 10), range(4000))
        assert all(data == bytes([at % 8]) * 10 for at, data in enumerate(read))
