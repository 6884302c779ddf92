"""A dataset that was checked once, for all tests of publishing it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.__main__ import main
from builders.publish.checks import refuse_unchecked
from builders.publish.publishing import WORK
from tests.builders.publish.versions import PICTURE, edited
from tests.shared import made_once


@pytest.fixture(scope="session")
def checked(tiny: Path, later: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notes that the tiny dataset and its later version passed their checks."""

    def check(work: Path) -> None:
        assert not refuse_unchecked(tiny, None, work)
        assert not refuse_unchecked(later, None, work)

    return made_once(tmp_path_factory, "checked", check)


@pytest.fixture(scope="session")
def later(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A later version of the tiny dataset: another picture, and one that is no more."""

    def make(folder: Path) -> None:
        edited(tiny, folder / "tiny", write={PICTURE: b"another"}, leave_out="groups.png")

    return made_once(tmp_path_factory, "later", make) / "tiny"


@pytest.fixture
def home(checked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, whose notes say that the tiny dataset passed its check."""
    folder = tmp_path / "home"
    shutil.copytree(checked, folder / WORK)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def publish(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """`shiftdata publish`: what it prints, or the error that it ends with."""

    def run(*arguments: str | Path, fails: bool = False) -> str:
        status = main(["publish", *map(str, arguments), "--quiet"])
        said = capsys.readouterr()
        assert status == int(fails), said
        return said.err if fails else said.out

    return run
