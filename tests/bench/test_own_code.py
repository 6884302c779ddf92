"""The examples of docs/own_code.md run, in its order, on tiny datasets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import shiftdata as sd
from shiftdata.cli.app import main
from tests.paths import ROOT

DOC = ROOT / "docs" / "own_code.md"
OPTIONAL = ("transformers", "lightning")


@pytest.fixture
def text(in_tiny_out: Path, tmp_path: Path) -> str:
    """The page, over the tiny dataset."""
    text = DOC.read_text(encoding="utf-8")
    for said, here in {"sma_glyphs_k8": "tiny", "gf_k8_mu10": "gf_k2_mu10", "k=8": "k=2"}.items():
        assert said in text
        text = text.replace(said, here)
    return text


def blocks(text: str, optional: str = "") -> dict[str, Any]:
    """Run the first block and that of an optional package, or all that need none; give what they define."""
    names: dict[str, Any] = {}
    every = re.findall(r"```python\n(.*?)```", text, re.S)
    imports = re.compile(rf"^(?:import|from) (?:{'|'.join(OPTIONAL)})\b", re.M)
    plain = [block for block in every if not imports.search(block)]
    assert (len(every), len(plain)) == (5, 3)
    chosen = [block for block in every if block is every[0] or f" {optional}" in block] if optional else plain
    for block in chosen:
        exec(compile(block, "docs/own_code.md", "exec"), names)
    return names


def check(names: dict[str, Any]) -> None:
    """The result is of every row of the test, by the classes of the task."""
    task, result = names["task"], names["result"]
    assert len(task.labels) == 2 < len(task.metadata.labels)
    assert result.n == len(task.keys("test"))
    assert result.role == "test"


def test_the_examples_that_need_no_other_package_run(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = text.replace("predictions.csv", f"{tmp_path}/predictions.csv")
    names = blocks(text)
    check(names)
    assert names["result"].mean > 0.6  # `remap` and the order of rows are right: labels by chance are at 0.5
    commands = re.findall(r"^\$ shiftdata (evaluate .*)$", text, re.M)
    assert len(commands) == 2
    for command in commands:
        assert main(shlex.split(command)) in (0, None)
    assert "worst" in capsys.readouterr().out


@pytest.mark.parametrize("package", OPTIONAL)
@pytest.mark.filterwarnings("ignore")  # theirs
def test_the_example_of_a_framework_runs(
    package: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip(package)
    if package == "transformers":
        pytest.importorskip("accelerate")  # its Trainer does not run without
    drawn, sampler = [], sd.Task.sampler

    def noted(task: sd.Task, rule: str, *args: Any, **options: Any) -> Any:
        drawn.append(rule)
        return sampler(task, rule, *args, **options)

    monkeypatch.setattr(sd.Task, "sampler", noted)
    for said, here in {
        '"runs/hf"': f'"{tmp_path}/hf"',
        "max_steps=20": "max_steps=100",
        "max_epochs=2": "max_epochs=100",
    }.items():
        text = text.replace(said, here)
    names = blocks(text, package)
    check(names)
    assert drawn == ["rwg"]
    assert names["result"].mean > 0.6
    assert names["scores"].shape == (len(names["task"].keys("test")), 2)
