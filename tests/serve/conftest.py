from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

from shiftdata.serve.connections import Limits
from tests.serve.hostile import SECRET
from tests.serve.serving import Running, serving


@pytest.fixture(scope="module")
def reader(tiny_out: Path) -> Iterator[Running]:
    """A mirror of the tiny dataset, where it lies."""
    with serving(tiny_out) as running:
        yield running


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of this process may ask; the mirror is the one endpoint that they are given."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A mirror with a secret outside of its folder, and links and a pipe inside."""
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
    with serving(top / "served", limits=Limits(request_timeout=1, read_timeout=1)) as running:
        yield running
