"""`shiftdata fetch` as people call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftdata.cli.app import main
from shiftdata.data.format.manifest import Manifest
from tests.data.fetching.conftest import copied, flip, same


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """One call: status, what was printed, and errors."""
    status = main([str(word) for word in words])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_a_fetch_says_what_came_from_where(tiny, tmp_path, capsys):
    bad = copied(tiny, tmp_path / "bad")
    flip(bad / "preview.jpg")
    status, told, _ = run(capsys, "fetch", tiny, "--from", bad, "--out", "out", "--quiet", "--jobs", 1)
    assert status == 0
    assert same(Path("out"), tiny)
    files = len(Manifest.read(tiny).files)
    assert "MB to fetch into out" in told
    assert f"{files - 1} whole files from {bad}" in told
    assert f"  {bad}: preview.jpg: has a sha256 that the manifest does not know" in told
    assert f"1 whole files from {tiny}" in told
    assert "shiftdata.load_dataset('out')" in told


def test_a_part_by_words(tiny, capsys):
    words = ["--config", "gf_k2_mu10", "--select", "quantile<=0.5", "--split", "train"]
    status, told, _ = run(capsys, "fetch", tiny, *words)
    assert status == 0
    assert "rows of gf_k2_mu10 quantile<=0.5 split=train" in told
    folder = Path("shift/tiny-gf_k2_mu10-quantile-to-0.5-train")
    status, said, _ = run(capsys, "verify", folder)
    assert (status, said.splitlines()[-1]) == (0, "all well")
    assert "not checked: whether the part has every row of its whole" in said
    assert run(capsys, "load", folder, "--rows", 1)[0] == 0
    assert run(capsys, "info", folder)[0] == 0
    assert run(capsys, "task", folder)[0] == 0


def test_errors_are_lines_and_a_status(tiny, capsys):
    status, _, told = run(capsys, "fetch", tiny, "--select", "style=violett")
    assert status == 1
    assert "error: unknown style 'violett'" in told
    status, _, told = run(capsys, "fetch", "nowhere", "--offline")
    assert status == 1
    assert "unknown dataset 'nowhere'" in told
    assert "hf://datasets/shift/nowhere: not asked (offline)" in told
