"""Tasks over the tiny dataset, over a copy of it with damaged pictures, and over texts and tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.make.build import build
from tests.contracts.kinds import prepare
from tests.shared import dataset_of, made_once


@pytest.fixture(scope="session")
def task(tiny: Path) -> sd.Task:
    return sd.task(tiny)


@pytest.fixture(scope="session")
def tasks(tmp_path_factory) -> dict[str, sd.Task]:
    """Of texts, of rows with a text among their features ("mixed"), and of rows that are numbers."""

    def numbers(folder: Path) -> None:
        recipe = prepare("table", folder)
        recipe.write_text(recipe.read_text().replace(', "town": "string"', ""))
        build(str(recipe), folder / "out", workers=1, quiet=True)

    folders = {
        name: dataset_of(tmp_path_factory, kind) for name, kind in (("text", "text"), ("mixed", "table"))
    }
    (folders["table"],) = made_once(tmp_path_factory, "numbers", numbers).glob("out/shift/*")
    return {name: sd.task(folder) for name, folder in folders.items()}


@pytest.fixture
def damaged(copy: Path) -> tuple[sd.Task, list[str]]:
    """The task, and the keys of two pictures of its training set that cannot be decoded."""
    pointers = pq.read_table(copy / "metadata" / "extended" / "train.parquet")
    for row in (3, 70):
        name = f"train-{pointers['shard'][row].as_py():05d}-of-"
        (shard,) = (path for path in (copy / "data" / "extended").iterdir() if path.name.startswith(name))
        with shard.open("r+b") as stream:
            stream.seek(pointers["offset"][row].as_py())
            stream.write(bytes(pointers["length"][row].as_py()))
    return sd.task(copy, base="extended"), [pointers["key"][row].as_py() for row in (3, 70)]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < until:
        time.sleep(0.05)  # those of torch's own queues go a little later
    assert not left
