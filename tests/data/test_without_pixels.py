"""A dataset whose licence forbids publishing its examples: all but `data/` is published."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shiftdata as sd
from builders.describe.renderings import write_without_pixels
from builders.make.build import build
from builders.make.check import check
from builders.publish.publishing import Publication
from builders.recipe_files import load_recipe
from shiftdata.data.exporting.webdataset import export
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.verify import verify
from tests.contracts.kinds import prepare

SAID = r"not the examples: .* does not allow publishing them.*`shiftdata build tiny\w*`"


@pytest.fixture(scope="module", params=["stylized", pytest.param("text", marks=pytest.mark.slow)])
def local(request, tmp_path_factory) -> Path:
    """The dataset as it is built on a machine that has the content."""
    scratch = tmp_path_factory.mktemp("withheld")
    recipe = prepare(request.param, scratch)
    recipe.write_text(recipe.read_text().replace("\n    family=", '\n    publishes="splits",\n    family='))
    return build(str(recipe), scratch / "out", workers=1, quiet=True)


@pytest.fixture(scope="module")
def published(local, tmp_path_factory) -> Path:
    """The published dataset."""
    return write_without_pixels(local, tmp_path_factory.mktemp("published") / "shift" / local.name)


def recipe_of(local: Path) -> str:
    return str(local.parents[2] / "recipe.py")


@pytest.mark.slow
def test_it_is_the_same_dataset_and_checks_clean(local, published):
    recipe = load_recipe(recipe_of(local))
    assert verify(local) == check(local, recipe) == []
    assert verify(published) == verify(published, deep=False) == check(published, recipe) == []
    mine, theirs = Manifest.read(local), Manifest.read(published)
    assert mine.pixels_included
    assert not theirs.pixels_included
    assert (mine.content_id, mine.recipe_id) == (theirs.content_id, theirs.recipe_id)
    assert {path.name for path in published.iterdir() if path.is_dir()} == {"metadata", "protocols"}
    assert not (published / "preview.jpg").exists()
    assert set(theirs.withheld) == {path for path in mine.files if path.startswith("data/")}
    assert not set(theirs.sample) & set(theirs.roles.example)


@pytest.mark.slow
def test_a_local_build_is_compared_with_what_was_published(local, published, tmp_path):
    assert verify(local, against=published) == []
    other = prepare("stylized", tmp_path)
    other.write_text(other.read_text().replace("OnGround(size=24)", "OnGround(size=16)"))
    built = build(str(other), tmp_path / "out", workers=1, quiet=True)
    problems = [str(problem) for problem in verify(built, against=published)]
    assert any("has the content_id" in line and "was published" in line for line in problems)
    assert any(line.startswith("data/") and "was built with" in line for line in problems)


def test_a_file_that_is_withheld_is_extra_and_a_missing_one_is_missed(local, published, tmp_path):
    folder = Path(shutil.copytree(published, tmp_path / "copy"))
    path = next(iter(Manifest.read(folder).withheld))
    (folder / path).parent.mkdir(parents=True)
    shutil.copy(local / path, folder / path)
    metadata = next(folder.glob("metadata/*/test.parquet"))
    metadata.unlink()
    problems = {problem.path: problem.what for problem in verify(folder)}
    assert "is not in the manifest" in problems[path]
    assert "is missing" in problems[metadata.relative_to(folder).as_posix()]


def test_the_metadata_loads_and_tasks_are_made(local, published):
    import datasets

    for loaded in (datasets.load_dataset(str(published)), sd.load_dataset(published, "metadata")):
        splits = Manifest.read(local).splits_of("metadata")
        assert {split: len(rows) for split, rows in loaded.items()} == {
            split: record.rows for split, record in splits.items()
        }
    split = Manifest.read(local).canonical_splits[0]
    for folder in (local, published):
        task = sd.task(folder, parse_protocol(split.protocol))
        assert {name: len(rows) for name, rows in task.sets.items()} == {
            name: rows.size.rows for name, rows in split.sets.items()
        }


NEEDS_EXAMPLES: dict[str, Callable[[Path, Path], object]] = {
    "load": lambda published, out: sd.load_dataset(published),
    "canonical": lambda published, out: sd.load_dataset(
        published, Manifest.read(published).canonical_splits[0].name, split="train"
    ),
    "reader": lambda published, out: ExampleReader(published, Manifest.read(published).default_base),
    "tars": lambda published, out: export(published, out),
    "fetch": lambda published, out: sd.fetch(str(published), out=out, split="test"),
    "folders": lambda published, out: sd.export(sd.task(published), "lists", out),
}


@pytest.mark.parametrize("use", NEEDS_EXAMPLES)
def test_uses_of_examples_say_how_to_build_them(published, tmp_path, use):
    with pytest.raises(NotFoundError, match=SAID):
        NEEDS_EXAMPLES[use](published, tmp_path / "out")


def test_the_card_says_so_and_gives_the_command(local, published):
    card = (published / "README.md").read_text()
    assert "**The examples are not included here**" in card
    assert f"$ shiftdata build {local.name}\n" in card
    assert '"data/' not in card.partition("---\n\n#")[0]
    assert "not included here" not in (local / "README.md").read_text()


@pytest.mark.slow
def test_publishing_leaves_the_examples_here(local, tmp_path):
    recipe = load_recipe(recipe_of(local))
    out = tmp_path / "there" / local.name
    Publication.prepare(local, str(out), recipe=recipe, work=tmp_path / "work").carry_out()
    assert verify(out) == []
    assert not (out / "data").exists()
    assert not Manifest.read(out).pixels_included


def test_a_dataset_that_may_be_published_is_not_taken_apart(tiny, published, tmp_path):
    for folder in (tiny, published):
        with pytest.raises(InputError, match="is not a Parquet dataset of a recipe with publish"):
            write_without_pixels(folder, tmp_path / "out")
