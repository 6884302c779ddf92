"""The README's Python runs, in its order, on the tiny dataset."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shiftdata as sd

ROOT = Path(__file__).parent.parent


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


def test_the_readme_is_a_page_and_a_half():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 90
