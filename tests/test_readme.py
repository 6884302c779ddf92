"""The README's Python runs, in its order, on the tiny dataset."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import shiftdata as sd
from shiftdata.cli.app import main
from tests.paths import ROOT


def test_the_python_of_readme_and_start_runs_from_the_root_of_a_checkout(
    tiny_out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "build").symlink_to(tiny_out)
    monkeypatch.chdir(tmp_path)
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/start.md"))
    for said, here in {"sma_glyphs_k8": "tiny", "gf_k8_mu10": "gf_k2_mu10", "k=8": "k=2"}.items():
        text = text.replace(said, here)
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    task = names["task"]
    assert isinstance(task, sd.Task)
    assert names["run"].evaluate().n == len(task.keys("test"))  # type: ignore[attr-defined]
    assert names["scores"].shape == (len(task.keys("test")), len(task.labels))  # type: ignore[attr-defined]
    assert task.evaluate(task.table("test")["label"]).mean == 1


def test_every_command_of_the_last_list_of_start_runs_in_its_order(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))
    text = (ROOT / "docs/start.md").read_text(encoding="utf-8").partition("## Every verb")[2]
    words = {"sma_glyphs_k8": "tiny", "gf_k8_mu10": "gf_k2_mu10", "amber": "red", "midnight": "blue"}
    for written, here in words.items():
        text = text.replace(written, here)
    commands = [shlex.split(line, comments=True) for line in re.findall(r"^\$ shiftdata (.*)$", text, re.M)]
    assert {"task", "train", "evaluate"} <= {command[0] for command in commands}
    for command in commands:
        quick = ["--steps", "2"] if command[0] == "train" else []
        assert main([*command, *quick]) == 0, command


def test_the_readme_is_a_page_and_a_half():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 90
