"""The client of `scripts/test_peers.sh` can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny import edit_manifest

CLIENT = Path(__file__).with_name("client.py")


def read(folder: Path) -> subprocess.CompletedProcess[str]:
    # In a process of its own: the peers have nothing of ours, so neither must it.
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-I", str(CLIENT), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | quiet)


@pytest.mark.slow
def test_it_says_what_is_not_as_promised(copy):
    edit_manifest(copy, lambda raw: raw["labels"].__setitem__(0, "other"))
    done = read(copy.parent)
    assert done.returncode == 1
    assert "tiny/mini/train, streamed: the labels have other names" in done.stdout


@pytest.mark.slow
def test_nothing_to_read_is_no_success(tmp_path):
    assert read(tmp_path).returncode == 1
