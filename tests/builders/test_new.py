"""`shiftdata new`: what it sees, what it asks for, and that what it writes builds."""

from __future__ import annotations

import csv
import shlex
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from PIL import Image

import shiftdata.cli.app
from builders.cli.app import main
from builders.recipe import Recipe
from builders.recipe_files import load_recipe
from builders.shifts.steps import CropSquare, OnGround, Resize

OWNER = ["--license", "CC0-1.0", "--attribution", "A. Maker", "--creator", "Ann's Lab"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pictures(
    folder: str, number: int = 6, size: tuple[int, int] = (40, 40), mode: str = "RGB", ending: str = "png"
) -> None:
    rng = np.random.default_rng([*folder.encode()])
    Path(folder).mkdir(parents=True)
    for at in range(number):
        pixels = rng.integers(0, 255, (size[1], size[0], len(mode)), dtype=np.uint8)
        Image.fromarray(pixels.squeeze(), mode).save(f"{folder}/{at}.{ending}")


def table(path: str, header: list[str], rows: list[list[object]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])


def new(*arguments: str) -> Recipe:
    """Run `new` with the owner's flags; the recipe that it wrote."""
    before = set(Path().rglob("*.py"))
    assert main(["new", *arguments, *OWNER]) == 0
    (written,) = set(Path().rglob("*.py")) - before
    return load_recipe(str(written))


def refused(capsys, *arguments: str) -> str:
    assert main(["new", *arguments]) == 1
    return capsys.readouterr().err


def run_what_was_printed(capsys) -> None:
    """Do as the last lines say: build, check, and make a task."""
    lines = capsys.readouterr().out.splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("  shiftdata")]
    assert [words[0] for words in commands[:2]] == ["build", "check"]
    for words in commands:
        few = ["--workers", "1", "--quiet"] if words[0] == "build" else []
        assert shiftdata.cli.app.main([*words, *few]) == 0


def test_pictures_in_domains_become_a_dataset_as_printed(capsys):
    for domain, mode, size in (
        ("Real World", "RGB", (40, 30)),
        ("clip-art", "RGBA", (32, 32)),
        ("sketch", "RGB", (30, 40)),
    ):
        for label in ("alarm clock", "naïve cat"):
            pictures(f"my photos/{domain}/{label}", size=size, mode=mode)
    for stray in (
        "notes.txt",
        "sketch/Thumbs.db",
        "sketch/naïve cat/desktop.ini",
        "sketch/naïve cat/.DS_Store",
    ):
        Path("my photos", stray).write_text("stray")
    Path("my photos/sketch/alarm clock/cut.jpg").write_text("no picture")
    recipe = new("my photos/")
    assert recipe.name == "my_photos"
    assert recipe.shift.nuisances == ("Real World", "clip-art", "sketch")
    assert isinstance(recipe.prepare[0], CropSquare)
    said = capsys.readouterr().out
    assert "my photos/<domain>/<label>/<picture>: 36 pictures" in said
    assert "transparent somewhere: 33%" in said
    assert "left out: 1: not a picture by its first bytes" in said
    assert "notes.txt" not in said
    text = Path("my_photos.py").read_text()
    assert 'HERE / "my photos"' in text
    assert "*(LeaveOneDomainOut(test=name) for name in DOMAINS)," in text
    assert 25 <= len(text.splitlines()) <= 50
    assert "exists: give another --name or --out, or --force" in refused(capsys, "my photos", *OWNER)
    assert main(["new", str(Path("my photos").resolve()), "--force", *OWNER]) == 0
    assert Path("my_photos.py").read_text() == text, "relative, absolute and with a slash are one"
    run_what_was_printed(capsys)


@pytest.mark.slow
@pytest.mark.parametrize("shift", ["stylize", "weather"])
def test_pictures_in_classes_get_a_shift(capsys, shift):
    for label in ("cat", "dog"):
        pictures(f"pets/{label}", 4, (70, 70))
    recipe = new("pets", f"--{shift}")
    assert isinstance(recipe.prepare[0], Resize)
    assert recipe.prepare[0].size == 64
    assert [base.name for base in recipe.bases] == ["content", "all"]
    assert recipe.protocols
    if shift == "weather":
        run_what_was_printed(capsys)


def test_without_a_shift_the_three_are_explained_and_all_that_is_missing_is_named_at_once(capsys):
    for label in ("cat", "dog"):
        pictures(f"pets/{label}", 4)
    said = refused(capsys, "pets")
    for flag in (
        "--stylize: paints",
        "--weather: snow",
        "--corrupt: ",
        "--license CC-BY-4.0: ",
        "--creator ",
    ):
        assert flag in said


@pytest.mark.parametrize(
    ("folders", "layout", "domains"),
    [
        (("photo/cat", "photo/dog", "sketch/cat", "sketch/dog"), ("domain", "label"), 2),
        (tuple(f"{a}/{b}" for a in "abcd" for b in "xy"), ("label", "domain"), 2),
        (("pets/cat", "pets/dog", "birds/owl", "birds/wren"), ("-", "label"), 0),
    ],
)
def test_levels_of_folders_are_understood(folders, layout, domains):
    for folder in folders:
        pictures(f"data/{folder}", 8)
    recipe = new("data", *([] if domains else ["--corrupt"]))
    assert recipe.album.layout == layout
    if domains:
        assert len(recipe.shift.nuisances) == domains


def test_what_only_the_owner_can_say_of_folders_is_asked_by_name(capsys):
    for folder in ("a/x", "a/y", "b/x", "b/y"):
        pictures(f"data/{folder}", 8)
    assert "--layout domain,label or --layout label,domain" in refused(capsys, "data", *OWNER)
    assert new("data", "--layout", "label,domain").shift.nuisances == ("x", "y")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Path("data").mkdir(), "data has no picture (a file that ends in .bmp"),
        (lambda: None, "there is no data: give a folder of pictures or a table"),
        (lambda: pictures("data"), "the pictures lie in data itself: give each class a folder"),
        (lambda: pictures("data/cat"), "data has one class, 'cat': a dataset needs at least two"),
        (
            lambda: (pictures("data/cat"), pictures("data/x/dog")),
            "lie 1 and 2 folders deep (cat/0.png; x/dog/0.png)",
        ),
        (
            lambda: (Path("data").mkdir(), table("data/a.csv", ["x"], [])),
            "for a table give its file: data/a.csv",
        ),
    ],
)
def test_a_folder_that_is_no_start_is_refused_with_what_to_do(capsys, make, message):
    make()
    assert message in refused(capsys, "data", *OWNER)


@pytest.mark.parametrize(
    ("mode", "size", "options", "frame"),
    [
        ("RGB", (64, 64), [], Resize(size=64)),
        ("RGB", (224, 300), [], CropSquare(size=224)),
        ("RGB", (230, 300), ["--size", "50"], CropSquare(size=50)),
        ("RGBA", (128, 90), [], OnGround(size=96)),
    ],
)
def test_the_frame_suits_the_pictures(mode, size, options, frame):
    for folder in ("photo/cat", "photo/dog", "art/cat", "art/dog"):
        pictures(f"data/{folder}", 5, size, mode)
    assert new("data", *options).prepare == (frame,)


@pytest.mark.slow
def test_texts_become_a_dataset_as_printed(capsys):
    rows = [
        [
            at,
            f"a review of thing {at},\nwhich has two lines",
            at % 2 + 1,
            ("de", "en", "fr")[at // 40],
            f"a{at % 50}",
        ]
        for at in range(120)
    ]
    table("reviews.csv", ["id", "body", "stars", "language", "reviewer"], rows)
    recipe = new("reviews.csv")
    said = capsys.readouterr()
    assert "  stars: label (1 60, 2 60)" in said.out
    assert (recipe.album.columns.text, recipe.album.columns.origin, recipe.nuisance) == (
        "body",
        "reviewer",
        "language",
    )
    assert main(["new", "reviews.csv", "--force", *OWNER]) == 0
    run_what_was_printed(capsys)


@pytest.mark.slow
def test_features_get_types_and_what_is_not_one_is_named_with_its_reason(capsys):
    rows = [
        [f"P{at:03}", at, at / 8, ("no", "quit", "NA")[at % 3], f"0{at % 9}", "k",
         ("ill", "well")[at % 2], ("north", "south")[at // 60]]
        for at in range(120)
    ]  # fmt: skip
    table(
        "patients.csv",
        ["Patient ID", "Age (years)", "dose", "smoker", "code", "split", "outcome", "clinic"],
        rows,
    )
    recipe = new("patients.csv")
    assert recipe.encoding.features == {
        "Age_years": "int64", "dose": "float64", "smoker": ("no", "quit"),
        "code": tuple(f"0{at}" for at in range(9)),
    }  # fmt: skip
    said = capsys.readouterr().out
    assert "Patient ID: not used: it differs in every row" in said
    assert "split: not used: it is 'k' in every row" in said
    assert main(["new", "patients.csv", "--force", *OWNER]) == 0
    run_what_was_printed(capsys)


@pytest.mark.slow
def test_splits_may_lack_groups(capsys):
    for folder, number in {"paper/cat": 20, "paper/dog": 20, "slate/cat": 20, "slate/dog": 2}.items():
        pictures(f"scans/{folder}", number, mode="L")
    assert new("scans", "--layout", "domain,label").on_empty == "report"
    run_what_was_printed(capsys)
    card = Path("build/shift/scans/README.md").read_text()
    assert "`shiftdata task scans uda source=slate target=paper --on-empty report`" in card


def test_columns_that_cannot_be_guessed_are_asked_for(capsys):
    table("t.csv", ["p", "q", "x"], [[at % 2, at % 3, at] for at in range(60)])
    said = refused(capsys, "t.csv")
    assert '--label p: the column of what is to be predicted; one of "p", "q"' in said
    assert "--domain q: the column of what shifts" in said
    assert "--license CC-BY-4.0: " in said
    recipe = new("t.csv", "--label", "p", "--domain", "q")
    assert (recipe.album.columns.label, recipe.nuisance) == ("p", "q")


def test_a_terminal_is_asked_until_the_answer_is_valid(monkeypatch, capsys):
    for label in ("cat", "dog"):
        pictures(f"pets/{label}", 4)
    answers = iter(["corrupt", "free", "CC0-1.0", "A. Maker", "A. Maker"])
    asked = []
    monkeypatch.setattr(click, "prompt", lambda text, **options: (asked.append(text), next(answers))[1])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert main(["new", "pets"]) == 0
    assert len(asked) == 5
    assert "'free' is not an SPDX" in capsys.readouterr().err
    assert load_recipe("pets.py").album.license == "CC0-1.0"


def test_data_that_no_split_fits_still_has_a_recipe(capsys):
    for folder in ("photo/cat", "photo/dog", "art/cat", "art/dog"):
        pictures(f"data/{folder}", 1)
    pictures("data/photo/owl", 4)
    assert new("data").protocols == ()
    assert "canonical split left out: uda" in capsys.readouterr().out


def test_a_recipe_does_not_hide_a_module_of_python(capsys):
    for label in ("cat", "dog"):
        pictures(f"email/{label}", 4)
    assert new("email", "--corrupt").name == "my_email"
    assert "email.py would hide the Python module email" in refused(
        capsys, "email", "--corrupt", "--name", "email", *OWNER
    )
