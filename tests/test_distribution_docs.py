"""The examples of docs/distribution.md run, in its order, on the tiny dataset and a mirror of it."""

from __future__ import annotations

import re
from pathlib import Path

import huggingface_hub.constants
import pytest

import shiftdata as sd
from tests.serving.serving import serving

DOC = Path(__file__).parent.parent / "docs" / "distribution.md"


def test_the_examples_of_the_docs_run(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, second = sd.info(tiny).nuisances[:2]
    words = {"sma_emoji": "tiny", "leaves": first, "rust": second, "k=4": "k=2"}
    blocks = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    names: dict[str, object] = {}
    with serving(tiny.parent) as mirror:
        words["http://lab:8000"] = mirror.endpoint
        for block in blocks:
            if "wilds.datasets" in block:
                continue  # `scripts/check_layouts.py` runs it, with the package
            for said, here in words.items():
                block = block.replace(said, here)
            exec(compile(block, "docs/distribution.md", "exec"), names)
