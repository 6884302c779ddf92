"""Publishing to a mirror: the real client of the Hub, and a real server with its protocol."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import HfApi

import shiftdata as sd
from builders.publish.checks import refuse_unchecked
from builders.publish.publishing import WORK, Publication
from shiftdata.data.places.catalog import Catalog
from shiftdata.errors import StorageError
from shiftdata.files import sha256_of
from tests.builders.publish.versions import PICTURE, contents, edited, rot, run_killed

pytest.importorskip("shiftdata.serve.app")
# The client's own way to send a file.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

TOKEN = "the-token-of-the-mirror"
LARGE = {PICTURE: random.Random(0).randbytes(3_000_000), "groups.png": random.Random(1).randbytes(2_000_000)}


@dataclass(frozen=True)
class Mirror:
    """A mirror in a process of its own."""

    url: str
    api: HfApi
    root: Path

    @property
    def web(self) -> str:
        return f"{self.url}/datasets/shift/tiny/resolve/main"

    def held(self, repo_id: str = "shift/tiny") -> dict[str, bytes]:
        """Every file of the newest commit."""
        with tempfile.TemporaryDirectory() as folder:
            self.api.snapshot_download(repo_id, repo_type="dataset", local_dir=folder)
            found = contents(Path(folder))
        return {path: data for path, data in found.items() if not path.startswith(".")}

    def commits(self, repo_id: str = "shift/tiny") -> list[str]:
        return [one.title for one in self.api.list_repo_commits(repo_id, repo_type="dataset")]


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """A writable mirror of an empty folder, whose token is in the file of tokens."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("SHIFTDATA_TOKENS", str(tmp_path / "tokens.json"))
    root = tmp_path / "served"
    root.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "shiftdata", "serve", str(root), "--writable", "--port", "0"],
        env={**os.environ, "SHIFTDATA_MIRROR_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            said = iter(process.stdout)
            url = next(found[1] for line in said if (found := re.search(r"HF_ENDPOINT=(http://\S+)", line)))
            # It logs each request: a pipe that nobody reads would be full one day, and the server wait.
            threading.Thread(target=lambda: deque(said, maxlen=0), daemon=True).start()
            (tmp_path / "tokens.json").write_text(json.dumps({url: TOKEN}))
            yield Mirror(url, HfApi(endpoint=url, token=TOKEN), root)
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="session")
def large(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version with files that are too large to be sent inside a commit."""
    return edited(tiny, tmp_path_factory.mktemp("large") / "tiny", write=LARGE)


def test_a_dataset_is_one_commit_and_later_ones_send_what_changed(publish, tiny, later, mirror, home):
    said = publish(tiny, "--to", mirror.url, "--catalog", "catalog.json")
    address = f"hf+{mirror.url}/datasets/shift/tiny"
    assert f"{address}: 26 files published" in said
    assert mirror.held() == contents(tiny, mirror.web)
    assert len([title for title in mirror.commits() if title.startswith("Publish tiny 1.0.0")]) == 1
    assert sd.verify(address) == []
    before = mirror.commits()
    assert "nothing to send, all 26 files are there" in publish(tiny, "--to", address)
    assert mirror.commits() == before
    mirror.api.upload_file(
        path_or_fileobj=b"mine", path_in_repo="mine.txt", repo_id="shift/tiny", repo_type="dataset"
    )
    said = publish(later, "--to", mirror.url)
    assert "3 files published" in said
    assert "left alone: mine.txt" in said
    found = mirror.held()
    assert found.pop("mine.txt") == b"mine"
    assert found == contents(later, mirror.web)
    assert Catalog.read(home / "catalog.json").entries["tiny"].places == (address,)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["manifest.json", "README.md", PICTURE])
def test_what_rotted_on_a_mirror_is_seen_and_sent_again(publish, large, mirror, path):
    publish(large, "--to", mirror.url)
    sha256 = sha256_of(large / path)
    rot(mirror.root / ".mirror" / "blobs" / sha256[:2] / sha256)
    said = publish(large, "--to", mirror.url)  # its list still has the hash of what came
    assert f"these were damaged there, and were sent again: {path}" in said
    assert mirror.held() == contents(large, mirror.web)
    assert "nothing to send" in publish(large, "--to", mirror.url)


def test_private_gated_and_tagged(publish, tiny, later, mirror):
    to = f"hf+{mirror.url}/datasets/lab/mine"
    said = publish(tiny, "--to", to, "--private", "--gated", "manual", "--tag")
    assert "tag v1.0.0" in said
    info = mirror.api.dataset_info("lab/mine")
    assert (info.private, info.gated) == (True, "manual")
    tagged = mirror.api.dataset_info("lab/mine", revision="v1.0.0")
    assert tagged.sha == info.sha
    assert "nothing to send" in publish(tiny, "--to", to, "--tag")
    assert "has the tag v1.0.0 at another commit" in publish(later, "--to", to, "--tag", fails=True)
    assert mirror.api.dataset_info("lab/mine").sha == info.sha


@pytest.mark.slow
def test_killed_between_two_files_the_first_is_not_sent_again(publish, large, mirror, home, monkeypatch):
    assert not refuse_unchecked(large, None, home / WORK)
    code = """
import huggingface_hub.lfs as lfs
import builders.publish.hub as hub
hub.BYTES_AT_ONCE = 1_000_000
put, calls = lfs._upload_single_part, []
def stopping(operation, upload_url):
    calls.append(upload_url)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    put(operation, upload_url)
lfs._upload_single_part = stopping"""
    run_killed(code, str(large), "--to", mirror.url, cwd=home, env={"HF_HUB_OFFLINE": "0"})
    assert not any(title.startswith("Publish") for title in mirror.commits())
    sent: list[str] = []
    put = huggingface_hub.lfs._upload_single_part
    monkeypatch.setattr(
        huggingface_hub.lfs,
        "_upload_single_part",
        lambda operation, upload_url: (sent.append(upload_url), put(operation, upload_url)),
    )
    publish(large, "--to", mirror.url)
    assert len(sent) == 1
    assert mirror.held() == contents(large, mirror.web)


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(publish, tiny, later, mirror, home):
    publish(tiny, "--to", mirror.url)
    planned = Publication.prepare(later, mirror.url)
    mirror.api.upload_file(
        path_or_fileobj=b"theirs", path_in_repo="README.md", repo_id="shift/tiny", repo_type="dataset"
    )
    with pytest.raises(StorageError, match="was changed by somebody else since this run looked at it"):
        planned.carry_out()
    assert mirror.held()["README.md"] == b"theirs"
    publish(later, "--to", mirror.url)
    assert mirror.held() == contents(later, mirror.web)


@pytest.mark.parametrize("token", ["", "hf_wrongwrongwrong"])
def test_without_the_token_it_is_said_what_to_do(publish, tiny, mirror, tmp_path, home, token):
    (tmp_path / "tokens.json").write_text(json.dumps({mirror.url: token} if token else {}))
    said = publish(tiny, "--to", mirror.url, fails=True)
    assert "give a valid --token-file" in said or "you have no right to write there" in said
    assert "wrongwrong" not in said
    (home / "token").write_text(f"{TOKEN}\n")
    assert TOKEN not in publish(tiny, "--to", mirror.url, "--token-file", "token")
    assert mirror.held() == contents(tiny, mirror.web)


def test_the_tars_of_a_dataset_are_published_alike(
    publish: Callable[..., str], tiny: Path, mirror: Mirror, tmp_path: Path
) -> None:
    from shiftdata.data.exporting.webdataset import export

    tars = export(tiny, tmp_path / "tiny_wds")
    publish(tars, "--to", mirror.url)
    web = mirror.web.replace("shift/tiny", "shift/tiny_wds")
    assert mirror.held("shift/tiny_wds") == contents(tars, web)
