"""Several processes build one dataset at once: whatever happens to them, it has the same bytes."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from builders.cli.app import main
from builders.make import progress
from builders.make.build import build
from builders.make.check import check
from builders.make.overview import overview
from builders.spool import Spool
from shiftdata.data.executors import Pool, Rank
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError
from tests.builders.test_build import ROOT, files, how_many, start
from tests.builders.test_filters import write_recipe as write_filtered
from tests.tiny import write_recipe


def ranks(recipe: Path, out: Path, world: int, *options: str) -> list[subprocess.Popen[str]]:
    """Some ranks, each with one worker."""
    return [rank(recipe, out, number, world, *options) for number in range(world)]


def rank(recipe: Path, out: Path, number: int, world: int, *options: str, **popen) -> subprocess.Popen[str]:
    named = ("--rank", str(number), "--world", str(world), "--workers", "1")
    return start(recipe, out, *named, *options, **popen)


def ended(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Wait for processes, all of which end well, and give what they wrote to standard error."""
    errors = []
    for process in processes:
        output, said = process.communicate(timeout=300)
        assert process.returncode == 0, output + said
        errors.append(said)
    return errors


def part(recipe: Path, out: Path, number: int, world: int, **options: Any) -> Path:
    """One rank in this process, to its end."""
    options = {"workers": 1, "wait": False, "quiet": True} | options
    return build(str(recipe), out, rank=Rank(number, world), **options)


def left(out: Path, name: str = "tiny") -> list[str]:
    names = [path.name for path in (out / ".work" / name).iterdir()]
    return [of for of in names if not of.startswith("files-")]  # so that no file is opened again


def test_ranks_share_the_work_and_one_of_them_packs(recipe, tiny, tmp_path):
    processes = ranks(recipe, tmp_path, 2, "--keep-spool")
    errors = ended(processes)
    assert files(tmp_path / "shift/tiny") == files(tiny)
    assert [said for said in errors if said and "another process packs tiny" not in said] == []
    assert files(part(recipe, tmp_path, 1, 2)) == files(tiny)  # which has nothing to do but to tidy up
    assert left(tmp_path) == ["lock"]


@pytest.mark.slow
def test_killed_at_random_they_end_in_the_same_bytes(recipe, tiny, tmp_path):
    attack(recipe, tiny, tmp_path, world=3, kills=4, seed=0)


def attack(recipe: Path, tiny: Path, out: Path, world: int, kills: int, seed: int, *options: str) -> None:
    """Kill ranks, and start them again or leave them dead, until so many were killed; the rest must do."""
    draw, folder = random.Random(seed), out / "shift/tiny"
    alive = dict(enumerate(ranks(recipe, out, world, *options)))
    while kills and not folder.exists():
        time.sleep(draw.uniform(0.2, 1.5))
        number = draw.choice(sorted(alive))
        alive[number].kill()
        alive[number].communicate()
        kills -= 1
        if draw.random() < 0.7 or len(alive) == 1:
            alive[number] = rank(recipe, out, number, world, *options)
        else:
            del alive[number]
    for process in alive.values():
        process.communicate(timeout=300)
    if not folder.exists():  # the packer was killed last, after the others had ended
        ended([rank(recipe, out, 0, world, *options)])
    assert files(folder) == files(tiny)
    assert check(folder) == []


@pytest.mark.slow
def test_a_killed_packer_is_replaced_by_any_rank(recipe, tiny, tmp_path):
    part(recipe, tmp_path, 0, 2, render_only=True)
    with rank(recipe, tmp_path, 0, 2) as packer:
        while not how_many(tmp_path, ".work/tiny/packing/data/*/*"):
            assert packer.poll() is None
            time.sleep(0.005)
        packer.send_signal(signal.SIGSTOP)
        part(recipe, tmp_path, 1, 2)  # which leaves it to the packer
        assert not (tmp_path / "shift").exists()
        with rank(recipe, tmp_path, 1, 2, "--wait") as waits:
            assert "waiting for it" in waits.stderr.readline()
            packer.kill()
            ended([waits])
    assert files(tmp_path / "shift/tiny") == files(tiny)
    assert left(tmp_path) == ["lock"]


def test_a_rank_whose_spool_is_packed_and_removed_meanwhile_stops_rendering(
    recipe, tiny, tmp_path, monkeypatch
):
    write, rendered = Spool.write, []

    def write_third(spool: Spool, *block: Any) -> None:
        rendered.append(block[0])
        write(spool, *block)
        if len(rendered) == 3:
            shutil.copytree(tiny, tmp_path / "shift/tiny")
            spool.clear()

    monkeypatch.setattr(Spool, "write", write_third)
    part(recipe, tmp_path, 0, 2)
    assert len(rendered) == 3
    assert files(tmp_path / "shift/tiny") == files(tiny)
    assert left(tmp_path) == ["lock"]


@pytest.mark.slow
def test_replacing_ranks_do_not_delete_what_the_first_has_built(tmp_path, monkeypatch):
    own = write_recipe(tmp_path / "own")
    out = tmp_path / "out"
    build(str(own), out, workers=1, quiet=True)
    own.write_text(own.read_text().replace("seed=0,", "seed=7,"))
    with pytest.raises(InputError, match=r"was built from another recipe .* pass --replace"):
        part(own, out, 0, 2)
    part(own, out, 0, 2, replace=True)
    monkeypatch.setattr(Spool, "write", lambda *args: pytest.fail("rendered again"))
    before = files(out / "shift/tiny")
    part(own, out, 1, 2, replace=True)
    assert files(out / "shift/tiny") == before
    assert Manifest.read(out / "shift/tiny").seed == 7
    monkeypatch.undo()
    marked = (out / "shift/tiny/manifest.json").stat().st_ino
    build(str(own), out, workers=1, quiet=True, replace=True)  # not a rank: it is built again
    assert (out / "shift/tiny/manifest.json").stat().st_ino != marked
    assert files(out / "shift/tiny") == before


@pytest.mark.slow
def test_ranks_score_together(tmp_path):
    recipe = write_filtered(tmp_path / "r")
    one = build(str(recipe), tmp_path / "one", workers=1, quiet=True)
    for number in range(3):
        part(recipe, tmp_path / "parts", number, 3, render_only=number < 2)
    assert files(tmp_path / "parts/shift/tiny_continuous") == files(one)


@pytest.mark.slow
def test_ranks_share_a_spool_in_object_storage(recipe, tiny, tmp_path, bucket, capsys):
    place = f"s3://{bucket}/spools"
    ended(ranks(recipe, tmp_path / "shared", 2, "--spool", place))
    assert files(tmp_path / "shared/shift/tiny") == files(tiny)
    # Machines that share nothing but the bucket, and one that packs.
    for number in range(2):
        part(recipe, tmp_path / str(number), number, 2, spool=place, render_only=True, executor=Pool(2))
        assert not (tmp_path / str(number) / "shift").exists()
    assert shown(recipe, tmp_path, capsys, "--spool", place)[-1] == ["all: render 960 of 960 img (100%)"]
    assert files(build(str(recipe), tmp_path / "packed", spool=place, workers=1, quiet=True)) == files(tiny)
    assert Spool(f"{place}/tiny").files.listed() == set()


@pytest.mark.slow
def test_a_spool_in_object_storage_is_listed_by_share_and_never_by_block(
    recipe, tmp_path, bucket, caplog, monkeypatch
):
    """A rank is killed, and goes on next to another: nothing is rendered twice, few lists are asked for."""
    place, write, written = f"s3://{bucket}/spools", Spool.write, list[str]()

    def run(number: int) -> None:
        part(recipe, tmp_path / str(number), number, 2, spool=place, render_only=True)

    def write_beside(spool: Spool, block: str, *rows: Any) -> None:
        write(spool, block, *rows)
        written.append(block)
        if len(written) == 3:
            raise KeyboardInterrupt
        if len(written) == 6:
            run(1)

    monkeypatch.setattr(Spool, "write", write_beside)
    with caplog.at_level(logging.INFO, "werkzeug"):
        with pytest.raises(KeyboardInterrupt):
            run(0)
        run(0)
    asked = [record.getMessage() for record in caplog.records if record.name == "werkzeug"]
    assert len(written) == len(set(written)) == 40
    assert sum(".arrow" in line and "PUT" in line for line in asked) == 40
    lists = [line for line in asked if "list-type=2" in line]
    assert not [line for line in lists if ".arrow" in line]
    assert len(lists) < 20


def test_a_rank_with_other_code_than_those_at_work_is_refused(recipe, tmp_path):
    part(recipe, tmp_path, 0, 3, render_only=True)
    work = tmp_path / ".work/tiny"
    (done,) = progress.statuses(work)
    raw = asdict(done) | {"ended": False, "seen": time.time(), "node": done.node | {"code": "other"}}
    (work / "progress/x.json").write_text(json.dumps(raw))
    with pytest.raises(InputError, match=r"with rank 0 of 3 \(.*\), and has code \w+, not other: install"):
        part(recipe, tmp_path, 1, 3)


def shown(recipe: Path, out: Path, capsys, *options: str) -> list[list[str]]:
    """The lines of --status, each cut where two spaces are."""
    assert main(["build", str(recipe), "--out", str(out), "--status", *options]) == 0
    return [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]


def test_the_progress_of_all_processes_is_one_view_that_starts_nothing(
    recipe, tiny, tmp_path, capsys, monkeypatch
):
    """A rank that has ended, one at work, one that is lost; the raw files are not read for it."""
    assert "no process has left a sign of life" in shown(recipe, tmp_path, capsys)[0][0]
    assert not list(tmp_path.iterdir())
    write, views = Spool.write, []

    def watched(spool: Spool, *block: Any) -> None:
        write(spool, *block)
        if len(views) < 2:
            time.sleep(0.1)
            views.append(shown(recipe, tmp_path, capsys))

    monkeypatch.setattr(progress, "BEAT", 0.01)
    monkeypatch.setattr(progress, "RECENT", 10_000)
    monkeypatch.setattr(Spool, "write", watched)
    part(recipe, tmp_path, 0, 3, render_only=True)
    rank, _, process, phase, made, rate, seen = views[1][0]
    assert (rank, process, phase) == ("rank 0 of 3", f"process {os.getpid()}", "render")
    assert made in ("8 img", "40 img"), "a block of one layer or the other, as drawn"
    assert (rate.endswith(" img/s"), seen) == (True, "seen 0 s ago")
    assert ["all: read 160 of 160 files (100%)"] in views[1]
    assert views[1][-1][0].startswith(f"all: render {made.split()[0]} of 960 img (")
    work = tmp_path / ".work/tiny"
    (done,) = progress.statuses(work)
    for token, change in {"lost": {"seen": time.time() - 600}, "gone": {"pid": 2**22 + 1}}.items():
        raw = asdict(done) | {"token": token, "ended": False} | change
        (work / f"progress/{token}.json").write_text(json.dumps(raw))
    bare = Path(shutil.copy(recipe, tmp_path / "bare.py"))  # where there are no pictures
    lines = shown(bare, tmp_path, capsys)
    assert sorted(line[-1] for line in lines[:3]) == ["LOST 0 s ago", "LOST 10 min ago", "ended 0 s ago"]
    assert lines[-1] == ["all: render 960 of 960 img (100%)"]


def test_a_view_sums_what_ranks_made_and_foresees_the_end():
    def sign(rank: int, made: int, **phase: Any) -> progress.Status:
        phases = [progress.Phase(name="render", unit="img", total=1000, made=made, **phase)]
        return progress.Status(rank=rank, world=2, spool="spool-a", phases=phases, seen=time.time())

    first = sign(0, 100, since=1.0, found=50, done=150, rate=4.0)
    second = sign(1, 30, since=2.0, found=90, done=120, rate=1.0)
    assert overview([second, first])[-1] == "all: render 180 of 1,000 img (18%), 5.0 img/s, about 3 min left"
    assert [line.split("  ")[0] for line in overview([second, first])[:2]] == ["rank 0 of 2", "rank 1 of 2"]
    second.phases[0].done = 400  # a listing that knows more than the signs of life
    second.ended = True
    assert overview([first, second])[-1] == "all: render 400 of 1,000 img (40%), 4.0 img/s, about 2 min left"


def test_a_view_is_repeated_until_the_dataset_is_finished(recipe, tmp_path, capsys, monkeypatch):
    part(recipe, tmp_path, 0, 2, render_only=True)
    looks = []

    def look(seconds: float) -> None:
        looks.append(seconds)
        part(recipe, tmp_path, 1, 2)

    monkeypatch.setattr("builders.cli.build.time.sleep", look)
    lines = shown(recipe, tmp_path, capsys, "--watch")
    assert len(looks) == 1
    assert lines[-1] == [f"finished: {tmp_path / 'shift/tiny'}"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rank", "8", "--world", "8"], "there is no rank 8 of 8: ranks count from 0 to world - 1"),
        (["--rank", "1"], "--rank and --world go together"),
        (["--slurm"], "give --rank and --world"),
        (["--slurm", "--rank", "0", "--world", "2"], "--slurm gives rank and world"),
        (["--spool", "https://example.org/x"], "cannot be written file by file"),
    ],
)
def test_bad_options_are_said(recipe, tmp_path, capsys, monkeypatch, options, message):
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    assert main(["build", str(recipe), "--out", str(tmp_path), *options]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_slurm_script_as_an_array_of_eight(recipe, tiny, tmp_path):
    script = ["bash", "scripts/slurm_build.sbatch", str(recipe), "--out", str(tmp_path), "--quiet"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    tasks = []
    for task in range(1, 9):
        names = {"JOB_ID": 7, "TASK_ID": task, "TASK_MIN": 1, "TASK_MAX": 8, "TASK_STEP": 1, "TASK_COUNT": 8}
        slurm = {f"SLURM_ARRAY_{name}": str(value) for name, value in names.items()}
        slurm |= {"SLURM_CPUS_PER_TASK": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "PATH": path}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        tasks.append(subprocess.Popen(script, cwd=ROOT, env=os.environ | slurm, **pipes))
    errors = ended(tasks)
    for number, said in enumerate(errors):
        assert f"rank {number} of 8 (SLURM_ARRAY_TASK_ID={number + 1}, SLURM_ARRAY_TASK_COUNT=8)" in said
    assert files(tmp_path / "shift/tiny") == files(tiny)
    assert left(tmp_path) == ["lock"]
