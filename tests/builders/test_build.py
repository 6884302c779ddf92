"""A build ends in the same bytes, whatever happens on the way, and refuses what would not be a dataset."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.cli.app import main
from builders.make import reorder
from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import embedded_recipes, load_recipe, recipe_names
from shiftdata.data.format import writer
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import RENDERINGS
from shiftdata.data.format.records import FileRecord
from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.verify import verify
from tests.paths import ROOT
from tests.tiny import edit_file, edit_manifest, write_recipe


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def start(recipe: Path, out: Path, *options: str, **popen) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "builders", "build", str(recipe), "--out", str(out), "--quiet", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, **pipes, **popen)


def finish(recipe: Path, out: Path, *options: str, **popen) -> tuple[int, str, str]:
    """Run a build to its end: exit status, output, errors."""
    with start(recipe, out, *options, **popen) as process:
        output, errors = process.communicate()
    return process.returncode, output, errors


def how_many(folder: Path, pattern: str) -> int:
    """How many files there are, in a folder that a build is changing."""
    try:
        return sum(1 for _ in folder.glob(pattern))
    except FileNotFoundError:  # a folder was moved away while it was listed
        return 0


def kill_when(process: subprocess.Popen[str], reached: Callable[[], bool]) -> bool:
    """Kill a build as soon as it has come so far; False when it ended before."""
    with process:
        while process.poll() is None:
            if reached():
                os.kill(process.pid, signal.SIGKILL)
                return True
            time.sleep(0.01)
    return False


def test_every_number_of_workers_gives_the_same_bytes(recipe, tiny, tmp_path):
    folder = build(str(recipe), tmp_path, workers=2, quiet=True)
    assert files(folder) == files(tiny)


@pytest.mark.slow
def test_the_order_of_bases_and_builds_and_the_size_of_pieces_do_not_matter(
    recipe, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(reorder, "BYTES_OF_RUN", 50_000)
    monkeypatch.setattr(writer, "BYTES_AT_ONCE", 100_000)
    build(str(recipe), tmp_path, bases=["extended"], workers=1, quiet=True)
    first = Manifest.read(tmp_path / "shift/tiny")
    assert [base.name for base in first.bases] == ["mini", "extended"]
    folder = build(str(recipe), tmp_path, bases=["content"], workers=1, quiet=True)
    assert files(folder) == files(tiny)


RENDERING, PACKING = "spool-*/*/*.arrow", "packing/**/*.parquet"
EVERY_STAGE = [
    *((RENDERING, count) for count in (1, 7, 15, 24, 33)),
    *((PACKING, count) for count in (1, 6, 13, 19)),
]


@pytest.mark.parametrize(
    "stages",
    [
        pytest.param([(RENDERING, 15), (PACKING, 1), (PACKING, 13)], id="some"),
        pytest.param(EVERY_STAGE, id="every", marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_moment_and_started_again_it_ends_in_the_same_bytes(recipe, tiny, tmp_path, stages):
    work, kills = tmp_path / ".work/tiny", 0
    for pattern, count in stages:
        process = start(recipe, tmp_path, "--workers", "2")
        kills += kill_when(process, lambda p=pattern, c=count: how_many(work, p) >= c)
        assert not (tmp_path / "shift/tiny").exists() or not check(tmp_path / "shift/tiny")
    status, output, errors = finish(recipe, tmp_path, "--workers", "2")
    assert status == 0, errors
    assert kills >= len(stages) * 2 / 3
    assert files(tmp_path / "shift/tiny") == files(tiny)
    assert [path.name for path in work.iterdir()] == ["lock"]
    assert "extended: train 400, validation 160, test 240" in output


@pytest.mark.slow
def test_the_workers_of_a_killed_build_end_with_it(recipe, tmp_path):
    process = start(recipe, tmp_path, "--workers", "2", start_new_session=True)
    assert kill_when(process, lambda: how_many(tmp_path, ".work/tiny/spool-*/*/*.arrow") > 0)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    pytest.fail("workers were still there 10 s after their parent was killed")


def test_a_build_killed_between_the_two_moves_of_its_swap_loses_nothing(recipe, tiny, tmp_path):
    work = tmp_path / ".work/tiny"
    build(str(recipe), tmp_path, bases=["extended"], workers=1, quiet=True)
    (tmp_path / "shift/tiny").rename(work / "packing")
    folder = build(str(recipe), tmp_path, bases=["content"], workers=1, quiet=True)
    assert files(folder) == files(tiny)


@pytest.mark.slow
def test_ctrl_c_stops_at_once_and_says_how_to_go_on(recipe, tiny, tmp_path):
    with start(recipe, tmp_path, "--workers", "2", start_new_session=True) as process:
        while not how_many(tmp_path, ".work/tiny/spool-*/*/*.arrow"):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == "interrupted: run the same command again, and it goes on where it stopped\n"
    assert files(build(str(recipe), tmp_path, workers=1, quiet=True)) == files(tiny)


@pytest.mark.slow
def test_a_build_waits_while_another_one_packs(recipe, tiny, tmp_path):
    from filelock import FileLock

    lock = FileLock(tmp_path / ".work/tiny/lock")
    with start(recipe, tmp_path, "--workers", "1") as process:
        while not Path(lock.lock_file).parent.is_dir():
            time.sleep(0.01)
        with lock:
            assert "waiting for it" in process.stderr.readline()
            assert not (tmp_path / "shift").exists()
        assert process.wait() == 0
    assert files(tmp_path / "shift/tiny") == files(tiny)


def test_a_finished_dataset_is_not_built_again(recipe, tiny_out):
    before = {path: path.stat().st_mtime_ns for path in (tiny_out / "shift/tiny").rglob("*")}
    build(str(recipe), tiny_out, workers=1, quiet=True)
    assert {path: path.stat().st_mtime_ns for path in (tiny_out / "shift/tiny").rglob("*")} == before


@pytest.mark.slow
def test_a_full_disk_is_said_and_nothing_is_half_published(recipe, tiny, tmp_path):
    # A limit on the size of any file makes the kernel refuse the write, as a full disk does.
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    status, _, errors = finish(recipe, tmp_path, "--workers", "2", preexec_fn=limit)
    assert status == 1
    assert "error: no space left for" in errors
    assert "run the same command again" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "shift").exists()
    assert files(build(str(recipe), tmp_path, workers=1, quiet=True)) == files(tiny)
    assert not list(tmp_path.rglob(".*arrow*"))  # a worker that was killed for another's error may leave one


@pytest.mark.slow
def test_a_damaged_spool_is_said_with_the_file_and_the_remedy(recipe, tmp_path):
    assert kill_when(
        start(recipe, tmp_path, "--workers", "1"), lambda: how_many(tmp_path, ".work/tiny/packing/*") > 0
    )
    block = next(tmp_path.glob(".work/tiny/spool-*/*/shift-*.arrow"))
    data = bytearray(block.read_bytes())
    data[len(data) // 2] ^= 1
    block.write_bytes(data)
    status, _, errors = finish(recipe, tmp_path, "--workers", "1")
    assert status == 1
    assert f"{block.name} is damaged" in errors
    assert "delete it and run the same command again" in errors
    block.unlink()
    assert finish(recipe, tmp_path, "--workers", "1")[0] == 0


@pytest.fixture
def own(tmp_path) -> Path:
    """A recipe of one's own, to change."""
    return write_recipe(tmp_path / "own")


@pytest.mark.slow
def test_a_dropped_picture_keeps_its_place_and_is_named_in_the_identity(own, tiny, tmp_path):
    bad = own.parent / "pictures" / "ring" / "ring00.png"
    data = bad.read_bytes()
    bad.write_bytes(data[: len(data) // 2])
    folder = build(str(own), tmp_path / "cut", workers=1, quiet=True)
    cut, whole = Manifest.read(folder), Manifest.read(tiny)
    for base, factor in (("content", 1), ("extended", 5)):
        assert cut.base(base).dropped == {"not a readable picture": 1}
        assert sum(split.rows for split in cut.base(base).splits.values()) == 159 * factor
        assert folds_of(folder, base) == {
            key: fold for key, fold in folds_of(tiny, base).items() if not key.startswith("ring_ring00")
        }
    dropped = pq.read_table(folder / "dropped.parquet").to_pylist()
    assert {"base": "content", "key": "ring_ring00", "reason": "not a readable picture"} in dropped
    lost = Path(shutil.copytree(folder, tmp_path / "lost"))
    first = pa.Table.from_pylist(dropped[:1])
    pq.write_table(first, lost / "dropped.parquet")
    edit_file(lost, "dropped.parquet", bytes)
    assert "does not name what was dropped from" in "\n".join(map(str, verify(lost)))
    edit_manifest(lost, lambda raw: raw["files"].pop("dropped.parquet"))
    assert "does not list dropped.parquet" in "\n".join(map(str, verify(lost)))
    assert "1 left out of `content`: not a readable picture." in (folder / "README.md").read_text()
    assert not check(folder)
    Image.new("F", (32, 32)).save(bad.with_suffix(".tif"))
    bad.unlink()
    other = Manifest.read(build(str(own), tmp_path / "float", workers=1, quiet=True))
    assert other.base("content").dropped == {"colour mode F, which has no one conversion to RGB": 1}
    assert len({made.content_id for made in (whole, cut, other)}) == 3
    assert other.base("content").splits == cut.base("content").splits


def folds_of(folder: Path, base: str) -> dict[str, int]:
    rows = pq.read_table(folder / f"metadata/{base}", columns=["key", "fold"]).to_pylist()
    return {row["key"]: row["fold"] for row in rows}


def test_stray_files_change_nothing(own, tiny, tmp_path):
    for name in ("notes.txt", ".DS_Store", "Thumbs.db"):
        (own.parent / "pictures" / "ring" / name).write_text("not a picture")
    folder = build(str(own), tmp_path / "out", workers=1, quiet=True)
    for name in ("manifest.json", "README.md", "croissant.json"):
        assert (folder / name).read_bytes() == (tiny / name).read_bytes()
    assert not (tmp_path / "out/tiny_dropped.tsv").exists()


@pytest.mark.slow
def test_what_was_dropped_is_named_file_by_file(own, tiny, tmp_path, capsys):
    pictures, out = own.parent / "pictures", tmp_path / "out"
    (pictures / "ring" / "cut.png").write_text("not a picture")
    for name, width in (("ring00", 8001), ("ring01", 8002)):
        Image.new("1", (width, 8000)).save(pictures / "ring" / f"{name}.png")
    command = ["build", str(own), "--out", str(out), "--workers", "1", "--quiet", "--bases", "content"]
    for more in ([], ["--verbose"]):  # the second time, the build was complete already
        assert main([*command, *more]) == 0
        said = capsys.readouterr().err
        assert "left out: 1: not a picture by its first bytes" in said
        assert "left out of content: 2: too many pixels\n" in said
        assert f"left out, each by name: {out / 'tiny_dropped.tsv'}" in said
        assert ("ring/ring00.png: too many pixels (8001 x 8000; the most is 64 million)" in said) == bool(
            more
        )
    lines = [line.split("\t") for line in (out / "tiny_dropped.tsv").read_text().splitlines()]
    assert lines[:3] == [
        ["base", "what", "reason"],
        ["*", "ring/cut.png", "not a picture by its first bytes"],
        ["content", "ring/ring00.png", "too many pixels (8001 x 8000; the most is 64 million)"],
    ]
    card = (out / "shift/tiny/README.md").read_text()
    assert "2 left out of `content`: too many pixels." in card
    assert "1 of the files or rows given never became examples: not a picture by its first bytes." in card
    assert check(out / "shift/tiny", load_recipe(str(own))) == []
    (pictures / "ring" / "cut.png").unlink()
    assert [problem.what for problem in check(out / "shift/tiny", load_recipe(str(own)))] == [
        "has another description than the recipe: run the build again"
    ]
    assert main(command) == 0
    assert "*" not in (out / "tiny_dropped.tsv").read_text()


def test_a_base_in_which_nothing_is_left_says_why(own, tmp_path):
    for number, file in enumerate((own.parent / "pictures").rglob("*.png")):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(file)
    with pytest.raises(
        InputError, match=r"all 160 pictures of tiny were dropped: 160: a side below 8 pixels"
    ):
        build(str(own), tmp_path / "out", workers=1, quiet=True)


@pytest.mark.slow
def test_the_dataset_of_another_recipe_is_not_overwritten(own, tmp_path):
    out = tmp_path / "out"
    build(str(own), out, workers=1, quiet=True)
    own.write_text(own.read_text().replace("seed=0,", "seed=7,"))
    with pytest.raises(
        InputError, match=r"was built from another recipe .* or pass --replace to overwrite it"
    ):
        build(str(own), out, workers=1, quiet=True)
    build(str(own), out, workers=1, replace=True, quiet=True)
    assert Manifest.read(out / "shift/tiny").seed == 7


@pytest.mark.slow
def test_words_are_mended_without_building_again(own, tmp_path):
    out = tmp_path / "out"
    folder = build(str(own), out, workers=1, quiet=True)
    shard = next((folder / "data/mini").iterdir())

    def untouched() -> tuple[int, Mapping[str, FileRecord]]:
        files = Manifest.read(folder).files
        return shard.stat().st_mtime_ns, {path: one for path, one in files.items() if path not in RENDERINGS}

    before = untouched()
    edited(own, "Tinted Shapes", "Shapes in Colour")
    build(edited(own, "20 a label.", "Twenty of each."), out, workers=1, quiet=True)
    manifest = Manifest.read(folder)
    assert untouched() == before
    assert (manifest.title, manifest.base("mini").summary) == ("Shapes in Colour", "Twenty of each.")
    assert "# Shapes in Colour" in (folder / "README.md").read_text()
    assert check(folder) == []


def test_a_folder_that_is_no_dataset_is_not_overwritten(recipe, tmp_path):
    (tmp_path / "shift/tiny").mkdir(parents=True)
    (tmp_path / "shift/tiny/thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="exists and is not a finished dataset"):
        build(str(recipe), tmp_path, workers=1, quiet=True)
    assert (tmp_path / "shift/tiny/thesis.tex").exists()


def edited(own: Path, old: str, new: str) -> str:
    text = own.read_text()
    assert old in text
    own.write_text(text.replace(old, new))
    return str(own)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('key = f"{sample.key}-{name}"', "key = sample.key", r"two samples with the key '\w+_\w+' "),
        ('key = f"{sample.key}-{name}"', 'key = f"{sample.key} {name}"', r"makes the key '\w+_\w+ blue'"),
        (
            "nuisance=name,",
            'nuisance="pink",',
            "has the nuisance 'pink'; the shift lists blue, cyan",
        ),
        ("GroupFairness(k=2", "GroupFairness(k=9", "k=9 needs as many labels, and training has 4"),
        (
            'name="content"',
            'name="metadata"',
            "has two configs named metadata: give each",
        ),
        ('default_base="mini"', 'default_base="maxi"', "default base 'maxi' is not among the bases"),
        ('name="tiny"', 'name="../tiny"', "a recipe's name is made of"),
        (
            "per_group=20",
            "per_group=80",
            "takes 80 items a group, 40 for train; the album has 20 of bar",
        ),
    ],
)
def test_a_recipe_that_would_make_a_broken_dataset_is_refused(own, tmp_path, old, new, message):
    with pytest.raises(InputError, match=message):
        build(edited(own, old, new), tmp_path / "out", workers=1, quiet=True)
    assert not (tmp_path / "out/shift").exists()


def test_an_empty_group_is_never_accepted(own, tmp_path):
    for number in range(3, 40):
        (own.parent / f"pictures/bar/bar{number:02d}.png").unlink()
    text = edited(own, 'default_base="mini"', 'default_base="extended"')
    edited(own, '        Base(name="mini", summary="20 a label.", per_group=20),\n', "")
    with pytest.raises(InputError, match=r"leaves 2 groups of test without a row \(bar / blue, bar / cyan\)"):
        build(text, tmp_path / "out", workers=1, quiet=True)
    assert not list((tmp_path / "out").rglob("*.parquet"))  # it was refused before anything was rendered
    edited(own, "    seed=0", '    on_empty="report",\n    seed=0')
    split = Manifest.read(build(text, tmp_path / "out", workers=1, quiet=True)).canonical_splits[0]
    assert "groups without a row in test: 2" in split.notes


def test_a_place_that_cannot_be_written_is_one_line(recipe, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, errors = finish(recipe, tmp_path / "file")
    assert status == 1
    assert errors.startswith("error: ")
    assert "Traceback" not in errors


def test_unknown_names_are_answered_with_the_nearest(recipe, tmp_path):
    with pytest.raises(NotFoundError, match="unknown recipe 'sma_emojy'; did you mean 'sma_emoji'"):
        build("sma_emojy", tmp_path)
    with pytest.raises(NotFoundError, match="unknown base 'maxi'; did you mean 'mini'"):
        build(str(recipe), tmp_path, bases=["maxi"])
    (tmp_path / "photo.py").touch()
    with pytest.raises(NotFoundError, match=r"file \S*photos\.py\. Did you mean \S*photo\.py\?") as caught:
        build(str(tmp_path / "photos.py"), tmp_path)
    assert "`python -m builders list` shows all" in str(caught.value)
    assert sum(name in str(caught.value) for name in recipe_names()) == 0
    with pytest.raises(NotFoundError, match=r"sma_emoji\.py\. Did you mean sma_emoji or "):
        build("sma_emoji.py", tmp_path)


def test_a_file_without_a_recipe_is_refused(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    with pytest.raises(InputError, match=r"must assign a builders\.recipe\.Recipe to RECIPE, not a NoneType"):
        load_recipe(str(path))


def test_a_mistake_in_a_recipe_is_said_with_its_line(own):
    line = own.read_text().splitlines().index("RECIPE = Recipe(") + 1
    message = rf"recipe\.py, line {line}: TypeError: .*unexpected keyword argument 'nme'"
    with pytest.raises(InputError, match=message):
        load_recipe(edited(own, '    name="tiny"', '    nme="tiny"'))
    own.write_text("RECIPE = (")
    with pytest.raises(InputError, match=r"recipe\.py: SyntaxError: .*line 1"):
        load_recipe(str(own))


def test_a_recipe_is_identified_by_content_and_not_by_place(recipe, own):
    here, there = load_recipe(str(recipe)), load_recipe(str(own))
    assert here.recipe_id() == there.recipe_id()
    assert here.pixels_id() == there.pixels_id()
    retitled = load_recipe(edited(own, "Tinted Shapes", "Shapes"))
    assert retitled.recipe_id() == here.recipe_id()  # words determine no data
    reseeded = load_recipe(edited(own, "seed=0", "seed=1"))
    assert reseeded.recipe_id() != here.recipe_id()
    assert reseeded.pixels_id() == here.pixels_id()
    (own.parent / "pictures/bar/bar00.png").unlink()
    assert load_recipe(str(own)).pixels_id() != here.pixels_id()


@pytest.mark.parametrize("name", embedded_recipes())
def test_every_recipe_of_the_house_loads_and_is_named_like_its_file(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert len(recipe.recipe_id()) == 64
    assert recipe.base(recipe.default_base)
