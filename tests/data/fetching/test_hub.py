"""Places on a Hub: a mirror of our own, asked by the real `huggingface_hub`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import pytest

from tests.data.fetching.conftest import fetched, same

pytest.importorskip("shiftdata.serve.app")
serving = pytest.importorskip("tests.serve.serving")


@pytest.fixture
def mirror(tiny_out: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A read-only mirror of the tiny dataset."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with serving.serving(tiny_out) as running:
        yield running


def test_the_catalog_of_a_mirror_is_enough(tiny, mirror, monkeypatch):
    monkeypatch.setenv("SHIFTDATA_CATALOG", f"{mirror.endpoint}/catalog.json")
    outcome = fetched("tiny")
    assert same(outcome.target, tiny)
    assert list(outcome.sources.files) == [f"hf+{mirror.endpoint}/datasets/shift/tiny"]


def test_a_name_without_a_catalog_is_asked_of_the_hub_of_the_environment(tiny, mirror, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "shiftdata", "fetch", "tiny", "--quiet"],
        env=serving.client_env(mirror.endpoint, home),
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "from hf://datasets/shift/tiny" in done.stdout
    assert same(home / "shift/tiny", tiny)
