"""The examples of docs/loading.md run, in its order, on tiny datasets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import shiftdata as sd
from shiftdata.data.exporting.webdataset import export
from tests.paths import ROOT

torch = pytest.importorskip("torch")

DOC = ROOT / "docs" / "loading.md"


def folder_of(task: sd.Task) -> Path:
    assert task.metadata.dataset is not None
    return Path(task.metadata.dataset.address)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the tars of the library alone
def test_the_examples_of_the_docs_run(
    tiny: Path,
    tasks: dict[str, sd.Task],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    text = DOC.read_text(encoding="utf-8")
    for name, other in {"sma_glyphs": "tiny", "gf_k8": "gf_k2", '"midnight"': '"blue"'}.items():
        text = text.replace(name, other)
    for name, other in {"digits_ink": "table", "emoji_names": "text"}.items():
        text = text.replace(f'sd.task("{name}")', f"sd.task({str(folder_of(tasks[other]))!r})")
    home = tmp_path / "shift"
    export(tiny, home / "tiny_wds")
    (home / "tiny").symlink_to(tiny)
    monkeypatch.setenv("SHIFTDATA_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 14
    for block in blocks:
        exec(compile(block, "docs/loading.md", "exec"), names)
    assert names["values"].shape[1] == 5
    assert names["columns"](torch.tensor([[1.5, 2.0, 1.0]])).tolist() == [[1.5, 2, 0, 1, 0]]
