"""Packing by jobs: whoever does them, and wherever it is stopped, the files have the same bytes."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.make import pack
from builders.make.build import build
from builders.make.packing import jobs as packing
from builders.make.packing import planning
from builders.make.packing.jobs import Job
from builders.make.packing.plan import whole_blocks
from builders.make.packing.runs import Runs, is_whole, write_run
from builders.spool import Spool
from shiftdata.data.executors import Executor, Here, Pool, Rank, Ray
from shiftdata.data.format import writer
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import IntegrityError
from tests.builders.test_build import files
from tests.ray_cluster import ray_cluster

BLOCKS = 7
ROWS = 9


class StopError(Exception):
    """What a kill is to a build."""


class Stopping(Executor):
    """Does jobs of packing in this process, and stops before one of them, or after it has been done."""

    def __init__(self, jobs: int, *, after: bool = False) -> None:
        self.left, self.after, self.done = jobs, after, list[Job]()

    def run(self, work: Any, jobs: Iterable[Any]) -> Generator[tuple[Any, Any]]:
        yield from Here().run(lambda: self._counted(work()), jobs)

    def _counted(self, do: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def counting(job: Any) -> Any:
            if isinstance(job, Job):
                self.left -= 1
                if self.left < 0 and not self.after:
                    raise StopError
                self.done.append(job)
            result = do(job)
            if isinstance(job, Job) and self.left <= 0 and self.after:
                raise StopError
            return result

        return counting


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Let a small dataset have several runs and shards, and be packed by any executor."""
    patch.setattr(pack, "SMALL", 0)
    patch.setattr(planning, "BYTES_OF_RUN", 200_000)
    patch.setattr(writer, "BYTES_PER_SHARD", 50_000)
    patch.setattr(writer, "BYTES_OF_GROUP", 1)


@pytest.fixture(scope="module")
def out(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny dataset in several shards, packed by this process alone; `rendered` is not packed yet."""
    out = tmp_path_factory.mktemp("packing")
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        build(str(recipe), out / "rendered", workers=1, quiet=True, render_only=True)
        shutil.copytree(out / "rendered", out / "whole")
        build(str(recipe), out / "whole", workers=1, quiet=True)
    return out


@pytest.fixture
def whole(out: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    make_small(monkeypatch)
    return files(out / "whole/shift/tiny")


@pytest.fixture
def rendered(out: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(out / "rendered", tmp_path / "out"))


def stop(*_: object) -> None:
    raise StopError


def plans(out: Path) -> list[Path]:
    return sorted((out / ".work/tiny").glob("plan-*"))


def left(out: Path) -> list[str]:
    names = [path.name for path in (out / ".work/tiny").iterdir()]
    return [name for name in names if not name.startswith("files-")]


@pytest.mark.parametrize("executor", ["pool", pytest.param("ray", marks=pytest.mark.slow)])
def test_processes_that_pack_together_write_the_same_bytes(whole, recipe, rendered, executor):
    assert len([path for path in whole if path.startswith("data/")]) > 12
    if executor == "pool":
        folder = build(str(recipe), rendered, executor=Pool(2), quiet=True)
    else:
        with ray_cluster() as nodes:
            nodes.add_node(num_cpus=1)
            folder = build(str(recipe), rendered, executor=Ray(nodes.address), quiet=True)
    assert files(folder) == whole
    assert left(rendered) == ["lock"]


@pytest.mark.parametrize("after", [False, True])
def test_stopped_at_any_job_it_goes_on_and_makes_nothing_twice(whole, recipe, rendered, after):
    done, stops = list[Job](), 0
    while not (rendered / "shift").exists():
        executor = Stopping(3, after=after)
        try:
            build(str(recipe), rendered, executor=executor, quiet=True)
        except StopError:
            stops += 1
        done += executor.done
    assert stops > 10
    assert set(Counter(done).values()) == {1}
    assert files(rendered / "shift/tiny") == whole
    assert left(rendered) == ["lock"]


@pytest.mark.parametrize("step", ["join", "finished", "freeze", "measure", "write_pictures", "describe"])
def test_stopped_when_the_files_are_there_it_writes_none_of_them_again(
    whole, recipe, rendered, monkeypatch, step
):
    with monkeypatch.context() as patch:
        patch.setattr(pack, step, stop)
        with pytest.raises(StopError):
            build(str(recipe), rendered, workers=1, quiet=True)
    executor = Stopping(0)
    assert files(build(str(recipe), rendered, executor=executor, quiet=True)) == whole
    assert not executor.done


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("kind", "pattern", "damage"),
    [
        ("run", "runs/*", flip),
        ("run", "runs/*", cut),
        ("shard", "files/shard*.done", flip),
        ("shard", "files/shard*.parquet", cut),
        ("shard", "files/shard*.parquet", Path.unlink),
        ("metadata", "files/metadata*.parquet", cut),
    ],
)
def test_what_a_lost_machine_has_spoiled_is_made_again(whole, recipe, rendered, kind, pattern, damage):
    while not (made := [path for plan in plans(rendered) for path in plan.glob(pattern)]):
        with pytest.raises(StopError):
            build(str(recipe), rendered, executor=Stopping(1, after=True), quiet=True)
    damage(made[0])
    executor = Stopping(1000)
    assert files(build(str(recipe), rendered, executor=executor, quiet=True)) == whole
    assert kind in {job.kind for job in executor.done}


def test_what_was_packed_for_another_plan_is_removed(whole, recipe, rendered, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(writer, "BYTES_PER_SHARD", 25_000)
        patch.setattr(pack, "finished", stop)
        with pytest.raises(StopError):
            build(str(recipe), rendered, workers=1, quiet=True)
    assert files(build(str(recipe), rendered, workers=1, quiet=True)) == whole
    assert left(rendered) == ["lock"]


def test_another_rank_helps_and_what_it_does_is_not_done_again(whole, recipe, rendered, monkeypatch):
    with pytest.raises(StopError):
        build(str(recipe), rendered, executor=Stopping(1), rank=Rank(0, 2), quiet=True)
    helped = Stopping(1000)
    given: list[pack.Rendered] = []
    with monkeypatch.context() as patch:
        patch.setattr(pack, "_shared", lambda rendered, *_, **__: given.append(rendered) or Stopping(0))
        with pytest.raises(StopError):
            build(str(recipe), rendered, workers=1, quiet=True)
    pack.help_to_pack(given[0], rendered / ".work/tiny", helped, Rank(1, 2))
    assert {job.kind for job in helped.done} == {"run", "shard", "metadata"}
    executor = Stopping(1000)
    assert files(build(str(recipe), rendered, executor=executor, rank=Rank(0, 2), quiet=True)) == whole
    assert not set(executor.done) & set(helped.done)
    pack.help_to_pack(given[0], rendered / ".work/tiny", helped, Rank(1, 2))  # there is nothing to do


def test_a_job_of_a_rank_that_comes_too_late_is_none(out, whole, recipe, rendered, monkeypatch):
    """The one that packs was faster, and has removed what the job needs."""
    with monkeypatch.context() as patch:
        patch.setattr(pack, "join", stop)
        with pytest.raises(StopError):
            build(str(recipe), rendered, workers=1, quiet=True)
    manifest = Manifest.read(out / "whole/shift/tiny")
    do = packing.worker(Spool(rendered / "none"), manifest, filtered=False)
    late = [Job(plan, kind, "train") for plan in plans(rendered) for kind in ("run", "shard", "metadata")]
    assert len(late) == 9
    assert {do(job) for job in late} == {0}
    assert {do(job._replace(folder=rendered / "gone")) for job in late} == {0}


def test_the_manifest_lists_the_files_with_their_hashes(whole, rendered, recipe):
    folder = build(str(recipe), rendered, executor=Pool(2), quiet=True)
    listed = Manifest.read(folder).files
    for path, record in listed.items():
        assert hashlib.sha256((folder / path).read_bytes()).hexdigest() == record.sha256, path


def spooled(folder: Path) -> tuple[Spool, list[str], list[bytes]]:
    """Blocks of rows with examples of all lengths."""
    spool, draw = Spool(folder / "spool"), np.random.default_rng(0)
    examples = [draw.bytes(int(size)) for size in draw.integers(0, 300, BLOCKS * ROWS)]
    names = [f"block-{number:02x}" for number in range(BLOCKS)]
    for block, name in enumerate(names):
        rows = [
            {
                "params": f'{{"row": {row}}}' * (row % 3),
                "sha256": hashlib.sha256(examples[row]).digest(),
                "size": len(examples[row]),
                "example": examples[row],
            }
            for row in range(block * ROWS, (block + 1) * ROWS)
        ]
        spool.write(name, rows, {})
    return spool, names, examples


def packed(
    spool: Spool, names: list[str], counts: list[int], places: np.ndarray, folder: Path, each: int
) -> Runs:
    """Write runs of a few blocks each."""
    begins, paths = np.cumsum([0, *counts]), []
    for start in range(0, len(names), each):
        mine = slice(start, start + each)
        tables = whole_blocks(spool, names[mine], counts[mine])
        paths.append(folder / f"{start}")
        write_run(paths[-1], tables, places[begins[start] : begins[min(start + each, len(names))]])
    return Runs(paths)


@pytest.mark.parametrize("each", [1, 3, BLOCKS])
def test_rows_are_read_by_place_whatever_the_runs(tmp_path, each):
    spool, names, examples = spooled(tmp_path)
    order = np.random.default_rng(1).permutation(len(examples))[:40]  # the others are left out
    places = np.full(len(examples), -1)
    places[order] = np.arange(len(order))
    runs = packed(spool, names, [ROWS] * BLOCKS, places, tmp_path, each)
    for start, stop in [(0, 40), (0, 1), (7, 30), (39, 40)]:
        mine = order[start:stop].tolist()
        assert runs.read("example", start, stop).to_pylist() == [examples[row] for row in mine]
        params = [(f'{{"row": {row}}}' * (row % 3)).encode() for row in mine]
        assert runs.read("params", start, stop).to_pylist() == params
    assert all(map(is_whole, runs.paths))


@pytest.mark.parametrize("place", [0.01, 0.3, 0.6, 0.99])
def test_a_changed_byte_anywhere_is_an_error_that_names_its_block(tmp_path, place):
    spool, names, examples = spooled(tmp_path)
    file = Path(spool.path(names[2]))
    data = bytearray(file.read_bytes())
    data[int(len(data) * place)] ^= 1
    file.write_bytes(data)
    with pytest.raises(IntegrityError, match=r"block-02\.arrow is damaged .*: delete it"):
        packed(spool, names, [ROWS] * BLOCKS, np.arange(len(examples)), tmp_path, 3)


def test_a_block_that_another_build_has_replaced_is_an_error(tmp_path):
    spool, names, examples = spooled(tmp_path)
    counts = [ROWS] * (BLOCKS - 1) + [ROWS + 1]
    places = np.arange(len(examples) + 1)
    with pytest.raises(IntegrityError, match=rf"{names[-1]}\.arrow has changed meanwhile"):
        packed(spool, names, counts, places, tmp_path, 3)


def test_a_run_that_was_cut_off_is_an_error(tmp_path):
    spool, names, examples = spooled(tmp_path)
    runs = packed(spool, names, [ROWS] * BLOCKS, np.arange(len(examples)), tmp_path, BLOCKS)
    data = runs.paths[0].read_bytes()
    runs.paths[0].write_bytes(data[: len(data) // 2])
    assert not is_whole(runs.paths[0])
    with pytest.raises(IntegrityError, match="is cut off"):
        runs.read("example", 0, len(examples))
