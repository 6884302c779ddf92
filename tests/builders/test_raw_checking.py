"""A raw dataset is compared with what is known of it before an hour of building."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from builders.cli.app import main
from builders.cli.raw_texts import size_text
from builders.raw import sources
from builders.raw.album import RawAlbum
from builders.raw.checking import Report, check, compare
from builders.raw.sources import Counts, RawFile, Source
from builders.recipe_files import load_recipe, recipe_names
from tests.builders.replicas import pacs
from tests.builders.replicas.drawing import put
from tests.paths import ROOT

#: Stylized datasets whose content ships: they are of no table of raw ones.
MADE = ("sma_glyphs", "sma_glyphs_k8")

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


@pytest.fixture(scope="session")
def drawn(tmp_path_factory) -> tuple[Path, Source]:
    """A replica of PACS without its odd pictures, and a source that expects its numbers."""
    root = tmp_path_factory.mktemp("drawn")
    pacs.make(root, each=4)
    for odd in (root / "PACS/photo/dog").glob("odd_*"):
        odd.unlink()
    groups = {
        domain: [len(list((root / "PACS" / domain / label).glob("*.*"))) for label in pacs.LABELS]
        for domain in DOMAINS
    }
    groups["photo"][0] -= 2  # what systems leave
    counts = Counts.of(source="the replica", classes=pacs.LABELS, groups=groups)
    return root, replace(sources.source("pacs"), counts=(counts,))


@pytest.fixture
def tree(drawn, tmp_path) -> Path:
    return Path(shutil.copytree(drawn[0] / "PACS", tmp_path / "raw" / "PACS")).parent


@pytest.fixture
def known(drawn) -> Source:
    return drawn[1]


@pytest.fixture(scope="session")
def album() -> RawAlbum:
    album = load_recipe("pacs").album
    assert isinstance(album, RawAlbum)
    return album


def problems(known: Source, album: RawAlbum, place: Path, *, read: bool = False) -> list[str]:
    return [problem.what for problem in check(known, album, place, read=read).problems]


def test_a_whole_tree_is_well_and_its_lists_are_noted(known, album, tree):
    report = check(known, album, tree, read=True)
    assert report.problems == []
    assert report.by_domain() == known.counts[0].domains
    assert report.expected == [f"{sum(known.counts[0].domains.values())} by the replica"]
    (note,) = [finding for finding in report.findings if finding.what.startswith("other files")]
    assert "PACS/photo_train_kfold.txt" in note.files


def test_a_missing_class_and_a_missing_domain_are_named(known, album, tree):
    shutil.rmtree(tree / "PACS/cartoon/horse")
    shutil.rmtree(tree / "PACS/sketch")
    assert problems(known, album, tree) == [
        "cartoon: 24 pictures, and 28 expected",
        "sketch: no picture, and 42 expected",
        "cartoon/horse: no picture, and 4 expected",
    ]


def test_an_unfinished_download_and_a_wrong_hash_are_problems(known, album, tree):
    (tree / "list.txt").write_text("other")
    (tree / "list.txt.part").write_text("")
    digest = hashlib.md5(b"right").hexdigest()
    known = replace(known, files=(RawFile(name="list.txt", bytes=5, hash=f"md5:{digest}"),))
    assert len(problems(known, album, tree)) == 1
    begun, wrong = problems(known, album, tree, read=True)
    assert begun == "list.txt is only begun: `shiftdata raw get pacs` goes on"
    assert wrong.startswith("list.txt has md5:")


def test_reading_names_damaged_grey_and_equal_pictures(known, album, tree):
    photos = sorted((tree / "PACS/photo/dog").glob("*.jpg"))
    photos[0].write_bytes(b"<html>")
    photos[1].write_bytes(photos[1].read_bytes()[:-60])
    photos[3].write_bytes(photos[2].read_bytes())
    assert problems(known, album, tree) == []
    assert problems(known, album, tree, read=True) == ["not a readable picture"]
    notes = {finding.what: finding.files for finding in check(known, album, tree, read=True).findings}
    assert len(notes["ends too soon, and is kept as far as it goes"]) == 1
    assert len(notes["equal bytes"]) == 1


def test_sources_that_disagree_are_both_said():
    known = [
        Counts(source="today's files", verified=False, domains={"a": 3, "b": 4}),
        Counts(source="the papers", domains={"a": 3, "b": 6}),
    ]
    toy = replace(sources.source("pacs"), counts=known)
    same, twice = Report(), Report()
    same.counts[""].update({("a", "x"): 3, ("b", "x"): 4})
    compare(toy, same)
    assert same.expected == ["7 by today's files [not verified]; 9 by the papers"]
    assert same.findings == []
    twice.counts[""].update({("A", "x"): 3, ("b", "x"): 12})
    compare(toy, twice)
    assert twice.expected == ["9 by the papers; 7 by today's files [not verified]"]
    (finding,) = twice.findings
    assert finding.what == "b: 12 pictures, and 6 expected"


def test_another_dataset_is_named_as_such_and_is_not_to_be_got_again(tmp_path, capsys):
    put(tmp_path, "cats/1.jpg")
    assert main(["raw", "check", "pacs", "--raw", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert f"this is not pacs: {tmp_path} has 1 files (cats), and none is a picture of it (not in" in text
    assert "that holds art_painting/, cartoon/, photo/, sketch/" in text
    assert "raw get" not in text


def test_a_sample_is_one_line_however_many_classes_it_lacks(tree, known, capsys, monkeypatch):
    assert main(["raw", "check", "pacs", "--raw", str(tree)]) == 1
    text = capsys.readouterr().out
    assert text.count("problem") == 2, "a line, and the number of problems"
    assert "problem (32): a sample, 126 of 9,991 pictures: art_painting: 28 pictures, and 2,048" in text
    assert "raw get" not in text
    monkeypatch.setattr("builders.raw.sources.sources", lambda: {"pacs": known})
    assert main(["raw", "check", "pacs", "--raw", str(tree)]) == 0
    well = capsys.readouterr().out
    assert f"all well.\nNext: shiftdata build pacs --raw {tree}" in well


def test_a_line_to_send_has_counts_and_a_hash_that_is_of_no_place(tree, known, album, tmp_path, capsys):
    def line(place: Path) -> dict[str, object]:
        file = tmp_path / "line.json"
        main(["raw", "check", "pacs", "--raw", str(place), "--report", str(file)])
        assert str(tmp_path) not in file.read_text()
        return json.loads(file.read_text())

    sent = line(tree)
    assert sent["examples"] == known.counts[0].domains
    assert sent["problems"] == {"sample": 1}
    packed = shutil.make_archive(str(tmp_path / "PACS"), "zip", tree)
    assert line(Path(packed)) == sent
    (tree / "PACS/photo/dog/056_0000.jpg").unlink()
    assert line(tree)["tree"] != sent["tree"]


def test_every_raw_recipe_has_a_source_of_the_name_of_its_album():
    known = sources.sources()
    of_table = [name for name in recipe_names() if name.startswith("sma_") and name not in MADE]
    for name in of_table:
        data = f"meta_album_{name[4:-7]}" if name.endswith("_remade") else name
        assert name in known[data].recipes
    for name in [
        *({*recipe_names()} - {*of_table}),
        "sma_awa",
        "sma_awa_remade",
    ]:  # a table is read each time
        album = load_recipe(name).album
        if isinstance(album, RawAlbum):
            assert name in known[album.name].recipes


def test_the_page_of_public_datasets_has_each_with_its_size_and_first_count():
    page = (ROOT / "docs/raw_datasets.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| [`")}
    families = ("sma_", "meta_album_")
    for name, one in sources.sources().items():
        family = next((each for each in families if name.startswith(each)), None)
        row = rows.pop(name) if family is None else rows[f"{family}<id>"]
        assert f" {size_text(one.size)} | {one.license} |" in row
        if one.counts and family is None:
            assert f"{one.counts[0].all:,}" in row
    assert set(rows) == {f"{family}<id>" for family in families}
