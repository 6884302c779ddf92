"""`make real`: what is on the disk is read step by step, what is not is named, and a second run goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from builders.raw.sources import READ_ON, source, states
from builders.recipe_files import recipe_names
from tests.builders.replicas import pacs
from tests.paths import ROOT

REAL = ROOT / "scripts/real"


def real(folder: Path, *more: str) -> tuple[str, dict]:
    """Run the script as `make real` does, without trainings; give what it says, and the record of PACS."""
    where = ["--files", str(folder / "files"), "--out", str(folder / "out"), "--only", "pacs"]
    command = [sys.executable, str(REAL), *where, "--steps", "0", *more]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    record = folder / "out/records/pacs.json"
    return said, json.loads(record.read_text()) if record.exists() else {}


def test_what_is_not_here_is_named_with_a_way_to_get_it(tmp_path):
    said, _ = real(tmp_path)
    assert (
        "pacs: not here. To have it, clone the GitHub repository MachineLearning2020/Homework3-PACS" in said
    )
    assert "## pacs: not read" in (tmp_path / "out/report.md").read_text()


@pytest.mark.slow
def test_a_set_is_read_once_and_again_when_its_files_change(tmp_path):
    pacs.make(tmp_path / "files/pacs", each=20)
    said, record = real(tmp_path)
    assert "other files than were read before" in said
    assert record["check"]["problems"] == {"sample": 1}
    assert record["verify"] == []
    assert sum(record["load"].values()) == sum(record["check"]["examples"].values())
    assert record["tasks"]["domainbed_sketch"]["train"].endswith("(fit)")
    assert "| pacs | whole |" in (tmp_path / "out/report.md").read_text()
    again, same = real(tmp_path)
    assert "pacs: build" not in again
    assert same == record
    (tmp_path / "files/pacs/PACS/photo/dog/056_0000.jpg").unlink()
    changed, other = real(tmp_path)
    assert "pacs: build" in changed
    assert other["build"]["content_id"] != record["build"]["content_id"]


def test_the_table_of_real_sets_and_the_states_are_of_recipes_and_say_where_files_are_from():
    for name, entry in tomllib.loads((REAL / "sets.toml").read_text()).items():
        assert entry["licence"], name
        assert entry.get("repository", "").count("/") == 1 or entry["get"], name
    for state in states():
        assert state["recipe"] in recipe_names()
        assert state["recipe"] in source(state["raw"]).recipes
        assert state["state"] in READ_ON[:2]
        assert len(state["content_id"]) == 64


def test_the_page_of_public_datasets_says_which_were_read_on_real_files(monkeypatch):
    monkeypatch.syspath_prepend(str(REAL))
    page = (ROOT / "docs/raw_datasets.md").read_text(encoding="utf-8")
    assert import_module("report").page_with(page) == page, "python scripts/real --write writes it"
    reads = {row.split("`")[1]: row.split(" | ")[-1] for row in page.splitlines() if row.startswith("| [`")}
    assert reads["cifar10_images"] == "real files |"
    assert reads["cifar10"] == "replica |", "not those of cifar10_images, whose name begins alike"
    assert reads["imagenet"] == "part |"
