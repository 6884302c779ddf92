"""Verbs that other packages add: found by an entry point, listed by role, imported when they are used."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from shiftdata.cli.app import APP
from shiftdata.cli.verbs import Verbs

TABLE = """
from shiftdata.cli.verbs import Table
TABLE = Table("painting", {"Make": {"paint": "Paint it.", "info": "Not ours."}, "Look": {"peek": "Peek."}})
"""
PAINT = """
import click
from shiftdata.cli.verbs import verb

@verb("example:  shiftdata paint --often 3")
@click.option("--often", type=int)
def command(often: int) -> int:
    return often
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verbs:
    """The command line where three more packages are installed, of which one can be used."""
    for name, text in (("broken", "import no_such_module"), ("wrong", "TABLE = {}"), ("painting", TABLE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
        about = tmp_path / f"{name}-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        (about / "entry_points.txt").write_text(f"[shiftdata.verbs]\n{name} = {name}:TABLE\n")
    (tmp_path / "painting" / "paint.py").write_text(PAINT)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return Verbs(APP.table, points=APP.points)


def test_a_package_adds_verbs_and_replaces_none(packages, capsys):
    assert packages.run(["paint", "--often", "3"]) == 3
    assert packages.run(["--help"]) == 0
    text, warned = capsys.readouterr()
    make, look = (text.index(f"\n{role}:\n") for role in ("Make", "Look"))
    assert make < text.index("\n  paint        Paint it.\n") < look < text.index("\n  peek ")
    assert packages.find("info") is APP.table
    assert text.count("\n  info ") == 1
    reasons = [line.partition("TABLE are left out: ")[2] for line in sorted(warned.splitlines())]
    assert reasons == ["No module named 'no_such_module'", "it is not a Table, but a dict"]


def test_a_mistyped_verb_is_answered_with_those_of_other_packages(packages, capsys):
    assert packages.run(["paimt"]) == packages.run(["biuld"]) == 2
    errors = capsys.readouterr().err
    assert "Did you mean 'paint'?" in errors
    assert "Did you mean 'build'?" in errors


def test_a_checkout_has_its_verbs_whenever_it_was_installed(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    assert Verbs(APP.table, points=APP.points).find("build").package == "builders.cli"


def test_without_the_extra_a_verb_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr("shiftdata.cli.verbs.find_spec", lambda module: None if "a" in module else object())
    assert APP.run(["build", "sma_glyphs"]) == 1
    assert capsys.readouterr().err == (
        "error: `shiftdata build` needs mlcroissant, packaging: pip install 'shiftdata[build]'\n"
    )
