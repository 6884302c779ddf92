from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

from shiftdata.serve.connections import Limits
from tests.serve.hostile import SECRET, commit, file_line
from tests.serve.serving import TOKEN, Running, request, serving


@pytest.fixture(scope="module")
def reader(tiny_out: Path) -> Iterator[Running]:
    """A read-only mirror of the tiny dataset, where it lies."""
    with serving(tiny_out) as running:
        yield running


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Running]:
    """A writable mirror of an empty folder, with limits that small files reach."""
    root = tmp_path / "served"
    root.mkdir()
    with serving(root, writable=True, token=TOKEN, regular_bytes=100_000, resumable_bytes=1000) as running:
        yield running


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of this process may ask; the mirror is the one endpoint that they are given."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A mirror with a secret beside it, and links and a pipe inside it."""
    top = tmp_path_factory.mktemp("top")
    (top / "secret.txt").write_bytes(SECRET)
    (top / "elsewhere").mkdir()
    (top / "elsewhere" / "secret.txt").write_bytes(SECRET)
    folder = top / "served" / "folder"
    folder.mkdir(parents=True)
    (folder / "README.md").touch()
    (folder / "a.txt").write_text("plain")
    (folder / ".env").write_bytes(SECRET)
    (folder / "link.txt").symlink_to(top / "secret.txt")
    (folder / "link").symlink_to(top / "elsewhere")
    (folder / "inside.txt").symlink_to(folder / "a.txt")
    (top / "served" / "out").symlink_to(top / "elsewhere")
    os.mkfifo(folder / "pipe")
    limits = Limits(patience=1, pause=0)
    with serving(top / "served", writable=True, token=TOKEN, limits=limits, regular_bytes=100_000) as running:
        body = json.dumps({"name": "mine", "organization": "lab", "type": "dataset"}).encode()
        assert request(running.port, "POST", "/api/repos/create", body, token=TOKEN).status == 200
        assert commit(running, file_line("a.txt", b"plain")).status == 200
        yield running
