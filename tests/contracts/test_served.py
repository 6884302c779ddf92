"""What a venue's checker does with croissant.json: the JSON alone, from the place where a dataset is served.

It runs in a process of its own, in an empty folder and with an empty cache, and asks each record set for its
first record, over real HTTP.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from builders.publish.publishing import Publication
from shiftdata import verify
from shiftdata.data.format.addresses import absolute, relative
from tests.serve.serving import serving
from tests.web import answering

CHECKER = """
import json, sys, urllib.request
import mlcroissant as mlc

text = urllib.request.urlopen(sys.argv[1]).read()
dataset = mlc.Dataset(jsonld=json.loads(text))
issues = dataset.metadata.ctx.issues
answer = {"problems": [*issues.errors, *issues.warnings], "first": {}}
for record_set in dataset.metadata.record_sets:
    record = next(iter(dataset.records(record_set.id)), None)
    answer["first"][record_set.id] = sorted(record) if record else None
print(json.dumps(answer))
"""


class Quiet(SimpleHTTPRequestHandler):
    """A plain web server for a folder."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(built, request, tmp_path) -> Iterator[str]:
    """The address of a dataset that is served in one of two ways."""
    if request.param == "shiftdata serve":
        with serving(built.out) as running:
            yield f"http://127.0.0.1:{running.port}/datasets/shift/{built.recipe.name}/resolve/main"
        return
    root = tmp_path / "www"
    root.mkdir()
    with answering(partial(Quiet, directory=str(root))) as web:
        work = tmp_path / "work"
        publication = Publication.prepare(built.folder, str(root), recipe=built.recipe, web=web, work=work)
        publication.carry_out()
        assert verify(root / built.recipe.name) == []
        yield f"{web}/{built.recipe.name}"


WAYS = ["shiftdata serve", pytest.param("a plain server", marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("served", WAYS, indirect=True)
def test_a_checker_that_has_the_json_alone_gets_a_record_of_each_set(built, served, tmp_path):
    answer = checked(f"{served}/croissant.json", tmp_path / "checker")
    assert answer["problems"] == []
    described = json.loads((built.folder / "croissant.json").read_text(encoding="utf-8"))
    expected = {
        record_set["@id"]: sorted(field["@id"] for field in record_set["field"])
        for record_set in described["recordSet"]
    }
    assert answer["first"] == expected
    assert verify(served) == []


def checked(url: str, folder: Path) -> dict[str, object]:
    """What the checker says, in an empty folder with an empty cache."""
    (folder / "empty").mkdir(parents=True)
    env = os.environ | {"CROISSANT_CACHE": str(folder / "cache"), "TQDM_DISABLE": "1"}
    command = [sys.executable, "-c", CHECKER, url]
    ran = subprocess.run(command, cwd=folder / "empty", env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return dict(json.loads(ran.stdout))


def test_every_row_is_in_a_record_set(built):
    described = json.loads((built.folder / "croissant.json").read_text(encoding="utf-8"))
    fields = [
        field for record_set in described["recordSet"] for field in record_set["field"] if "source" in field
    ]
    read = {field["source"]["fileObject"]["@id"] for field in fields}
    folders = ("data/", f"metadata/{built.manifest.default_base}/", "protocols/")
    assert read == {path for path in built.manifest.files if path.startswith(folders)}


def test_addresses_go_and_come_without_a_trace(built):
    text = (built.folder / "croissant.json").read_bytes()
    there = absolute(text, "https://lab.example/some place/tiny")
    assert there.count(b"https://lab.example/some%20place/tiny/") == text.count(b'"contentUrl"')
    assert relative(there) == relative(text) == text
    assert absolute(there, "https://b.example") == absolute(text, "https://b.example")
