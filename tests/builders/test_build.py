"""A build ends in the same bytes, whatever happens on the way, and refuses what would not be a dataset."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.cli.app import main
from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError, NotFoundError
from tests.paths import ROOT
from tests.tiny import write_recipe


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


RENDERING, WRITING = "spool-*/*/*.arrow", "plan-*/files/*.done"
JOINING = "packing/**/*.parquet"
EVERY_STAGE = [
    *((RENDERING, count) for count in (1, 15, 33)),
    *((WRITING, count) for count in (1, 6, 13)),
    (JOINING, 13),
]


@pytest.mark.parametrize(
    "stages",
    [
        pytest.param([(RENDERING, 15), (WRITING, 5)], id="some"),
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
    assert [path.name for path in work.iterdir() if not path.name.startswith("files-")] == ["lock"]
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


@pytest.mark.slow
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
    cut = Manifest.read(folder)
    for base, factor in (("content", 1), ("extended", 5)):
        assert cut.base(base).dropped == {"not a readable picture": 1}
        assert sum(split.rows for split in cut.base(base).splits.values()) == 159 * factor
        assert folds_of(folder, base) == {
            key: fold for key, fold in folds_of(tiny, base).items() if not key.startswith("ring_ring00")
        }
    dropped = pq.read_table(folder / "dropped.parquet").to_pylist()
    assert {"base": "content", "key": "ring_ring00", "reason": "not a readable picture"} in dropped
    assert "1 left out of `content`: not a readable picture." in (folder / "README.md").read_text()
    assert not check(folder)


def folds_of(folder: Path, base: str) -> dict[str, int]:
    rows = pq.read_table(folder / f"metadata/{base}", columns=["key", "fold"]).to_pylist()
    return {row["key"]: row["fold"] for row in rows}


@pytest.mark.slow
def test_what_was_dropped_is_named_file_by_file(own, tiny, tmp_path, capsys):
    pictures, out = own.parent / "pictures", tmp_path / "out"
    (pictures / "ring" / "cut.png").write_text("not a picture")
    for name, width in (("ring00", 8001), ("ring01", 8002)):
        Image.new("1", (width, 8000)).save(pictures / "ring" / f"{name}.png")
    command = ["build", str(own), "--out", str(out), "--workers", "1", "--quiet", "--bases", "content"]
    for _ in range(2):  # the second time, the build was complete already
        assert main(command) == 0
        said = capsys.readouterr().err
        assert "left out: 1: not a picture by its first bytes" in said
        assert "left out of content: 2: too many pixels\n" in said
        assert f"left out, each by name: {out / 'tiny_dropped.tsv'}" in said
    lines = [line.split("\t") for line in (out / "tiny_dropped.tsv").read_text().splitlines()]
    assert lines[:3] == [
        ["base", "what", "reason"],
        ["*", "ring/cut.png", "not a picture by its first bytes"],
        ["content", "ring/ring00.png", "too many pixels (64,008,000; the most is 64,000,000)"],
    ]
    card = (out / "shift/tiny/README.md").read_text()
    assert "2 left out of `content`: too many pixels." in card
    assert "1 of the files or rows given never became examples: not a picture by its first bytes." in card
    assert check(out / "shift/tiny", load_recipe(str(own))) == []


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
        ("GroupFairness(k=2", "GroupFairness(k=9", "k=9 needs as many labels, and training has 4"),
        (
            'name="content"',
            'name="metadata"',
            "has two configs named metadata: give each",
        ),
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


def test_a_split_whose_rows_cannot_keep_its_mu_is_left_out_by_name(own, tmp_path, capsys):
    """Ten rows a group keep at least a tenth of them."""
    text = edited(
        own, "GroupFairness(k=2, mu=0.1)", "GroupFairness(k=2, mu=0.1), GroupFairness(k=2, mu=0.05)"
    )
    splits = Manifest.read(build(text, tmp_path / "out", workers=1, quiet=True)).canonical_splits
    assert [split.name for split in splits] == ["gf_k2_mu10", "gf_k4_mu20_s1"]
    assert "left out: 1 of 3 canonical splits" in (said := capsys.readouterr().err)
    assert "rows for the mu of their names: gf_k2_mu5" in said


def test_unknown_names_are_answered_with_the_nearest(recipe, tmp_path):
    with pytest.raises(NotFoundError, match="unknown recipe 'sma_glyphz'; did you mean 'sma_glyphs'"):
        build("sma_glyphz", tmp_path)
    with pytest.raises(NotFoundError, match="unknown base 'maxi'; did you mean 'mini'"):
        build(str(recipe), tmp_path, bases=["maxi"])
    with pytest.raises(NotFoundError, match=r"there is no recipe file \S*photos\.py\."):
        build(str(tmp_path / "photos.py"), tmp_path)


def test_a_mistake_in_a_recipe_is_said_with_its_line(own):
    line = own.read_text().splitlines().index("RECIPE = Recipe(") + 1
    message = rf"recipe\.py, line {line}: TypeError: .*unexpected keyword argument 'nme'"
    with pytest.raises(InputError, match=message):
        load_recipe(edited(own, '    name="tiny"', '    nme="tiny"'))
    own.write_text("RECIPE = (")
    with pytest.raises(InputError, match=r"recipe\.py: SyntaxError: .*line 1"):
        load_recipe(str(own))
