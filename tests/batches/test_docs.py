"""The examples of docs/loading.md run, in its order, on the tiny dataset."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "docs" / "loading.md"


def test_the_examples_of_the_docs_run(tiny: Path, monkeypatch: pytest.MonkeyPatch):
    text = DOC.read_text(encoding="utf-8").replace("sma_emoji", "tiny").replace("gf_k8", "gf_k2")
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))
    monkeypatch.chdir(tiny.parents[1])
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 11
    for block in blocks:
        exec(compile(block, "docs/loading.md", "exec"), names)
