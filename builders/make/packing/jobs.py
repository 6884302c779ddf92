"""The jobs of packing: to sort a stretch of the spool, to write a data file, to write a split's metadata.

Each leaves a file that is whole or absent. So any process may do any job, also twice; what a killed one has
left is not made again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from builders.make.packing.plan import FILES, RUNS, Plan, whole_blocks
from builders.make.packing.rows import Described, Stretch, described
from builders.make.packing.runs import is_whole, write_run
from builders.spool import Spool, sealed, unsealed
from shiftdata.data.arrays import IntArray
from shiftdata.data.executors import BARRIER, Barrier
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import metadata_file
from shiftdata.data.format.records import FileRecord
from shiftdata.data.format.writer import write_pointers, write_shard
from shiftdata.data.format.written import row_bytes
from shiftdata.errors import IntegrityError
from shiftdata.files import remove, write_bytes
from shiftdata.untrusted.texts import read_json

Kind: TypeAlias = Literal["run", "shard", "metadata"]


class Job(NamedTuple):
    """A job of a plan: a run by its number, a shard by its split and number there, a split's metadata."""

    folder: Path
    kind: Kind
    split: str = ""
    number: int = 0

    def __str__(self) -> str:
        return f"packing: the {self.kind} {self.split} {self.number} of {self.folder}"

    @property
    def file(self) -> Path:
        """The file that the job writes, before it is moved into the dataset."""
        return self.folder / FILES / f"{self.kind}-{self.split}-{self.number:05}.parquet"

    @property
    def sign(self) -> Path:
        """The file by which the job is seen to be done: a run, or the record of another file."""
        if self.kind == "run":
            return self.folder / RUNS / f"{self.number:06}"
        return self.file.with_suffix(".done")


AnyJob: TypeAlias = Stretch | Job
#: What was read of a stretch, or the number of rows of a data file.
Result: TypeAlias = Described | int


class Output(NamedTuple):
    """The work of a job: the record of a file, and a number of each row.

    That is the offset of its example in a shard, and its `row_bytes` in metadata.
    """

    record: FileRecord
    numbers: IntArray


def jobs_of(plan: Plan) -> list[list[Job]]:
    """The jobs of a plan: runs; shards, which need all runs; and metadata, which need all shards.

    The longest come first, so that processes end together.
    """
    runs = [Job(plan.folder, "run", number=number) for number in range(plan.runs)]
    rows = {shard: -int(plan.shard(*shard).groups.sum()) for shard in plan.shards()}
    shards = [Job(plan.folder, "shard", *shard) for shard in sorted(rows, key=lambda shard: rows[shard])]
    splits = sorted(plan.spans, key=lambda split: plan.spans[split].rows[0] - plan.spans[split].rows[1])
    return [runs, shards, [Job(plan.folder, "metadata", split) for split in splits]]


def target(plan: Plan, job: Job) -> str:
    """The path in the dataset of the file that a job writes."""
    if job.kind == "metadata":
        return metadata_file(plan.base, job.split)
    return plan.shard(job.split, job.number).path


def missing(jobs: Iterable[AnyJob]) -> list[AnyJob]:
    """The jobs that nobody has done: each process that packs reads for itself."""
    return [job for job in jobs if isinstance(job, Stretch) or not job.sign.exists()]


def stages_left(plan: Plan) -> list[list[Job]]:
    """The stages of a plan, each of which needs all before it; none if its files are there."""
    stages = jobs_of(plan)
    return stages if any(missing(stage) for stage in stages[1:]) else []


def in_turn(stages: Iterable[Sequence[Job]]) -> Iterator[AnyJob | Barrier]:
    """Yield what is missing of some stages, each of which needs all before it."""
    for stage in stages:
        yield from missing(stage)
        yield BARRIER


def jobs_left(plans: Sequence[Plan], folder: Path) -> Iterator[AnyJob | Barrier]:
    """Yield the jobs of some plans, whose files are moved into `folder`, but those that are done.

    What a killed process was about to write, or the system has lost, is removed first. The runs of a base are
    removed when its files are there; its metadata is written together with the runs of the next base.
    """
    last: list[Job] = []
    for plan in plans:
        _check(plan, folder)
        if not (stages := stages_left(plan)):
            continue
        for stage in (last + stages[0], stages[1]):
            yield from missing(stage)
            yield BARRIER
            _remove_runs(last)
        last = stages[2]
    yield from missing(last)
    yield BARRIER
    _remove_runs(last)


def _check(plan: Plan, folder: Path) -> None:
    """Remove what is not whole of the runs and files of a plan."""
    runs, *later = jobs_of(plan)
    for job in (job for stage in later for job in stage):
        output = read_output(job)
        places = job.file, folder / target(plan, job)
        if output is None or not any(_has_size(place, output.record.bytes) for place in places):
            remove(job.sign)
    for job in runs:
        if not is_whole(job.sign):
            remove(job.sign)
        job.sign.parent.mkdir(exist_ok=True)


def _remove_runs(metadata: Sequence[Job]) -> None:
    for folder in {job.folder for job in metadata}:
        remove(folder / RUNS)


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def read_output(job: Job) -> Output | None:
    """The output of a job; None if it is not there, or not as it was written."""
    try:
        table = unsealed(pa.BufferReader(job.sign.read_bytes()))
        record = FileRecord(**read_json(table.schema.metadata[b"record"]))
    except (OSError, pa.ArrowInvalid, ValueError, TypeError, KeyError):
        return None
    return Output(record, table["number"].to_numpy())


def worker(
    spool: Spool, manifest: Manifest, *, filtered: bool, in_memory: bool = False
) -> Callable[[AnyJob], Result]:
    """Return the function that reads a stretch, or does a job of a plan and counts the rows it finished.

    `in_memory` says that the examples of a base may be held for its jobs, by the threads of this process.
    """
    opened, lock = dict[Path, Plan](), threading.Lock()

    def plan_of(job: Job) -> Plan:
        if not in_memory:
            return Plan(job.folder, manifest)
        with lock:
            if job.folder not in opened:
                opened.clear()  # of the base before
                opened[job.folder] = Plan(job.folder, manifest, spool)
                _ = opened[job.folder].values
            return opened[job.folder]

    def do(job: AnyJob) -> Result:
        if isinstance(job, Stretch):
            return described(spool, manifest, job, filtered=filtered)
        try:
            return 0 if job.sign.exists() else _do(plan_of(job), spool, job)
        except (OSError, IntegrityError):
            # Another rank did the job too, and then what it needs was removed.
            if job.sign.exists() or not (job.folder / RUNS).exists():
                return 0
            raise

    return do


def _do(plan: Plan, spool: Spool, job: Job) -> int:
    if job.kind == "run":
        names, counts, places = plan.blocks(job.number)
        write_run(job.sign, whole_blocks(spool, names, counts), places)
        return 0
    rows = plan.ordered(job.split)
    if job.kind == "shard":
        offsets, record = write_shard(job.file, plan.shard(job.split, job.number), rows, plan.manifest)
        _write_output(job, Output(record, offsets))
        return len(offsets)
    sizes: list[IntArray] = []

    def measure(table: pa.Table) -> None:
        sizes.append(row_bytes(table, plan.manifest.roles))

    record = write_pointers(job.file, rows, _offsets(plan, job.split), plan.manifest, measure)
    _write_output(job, Output(record, np.concatenate(sizes)))
    return 0


def join(plan: Plan, folder: Path) -> tuple[dict[str, FileRecord], dict[str, IntArray]]:
    """Move the files of a plan of which nothing is left to do into the dataset.

    Return the record of each, and the `row_bytes` of metadata.
    """
    records, sizes = {}, {}
    for job in (job for stage in jobs_of(plan)[1:] for job in stage):
        path = target(plan, job)
        records[path], numbers = output_of(job)
        if job.kind == "metadata":
            sizes[path] = numbers
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if job.file.exists():  # else a process that was killed then has moved it
            job.file.replace(folder / path)
    return records, sizes


def _offsets(plan: Plan, split: str) -> list[IntArray]:
    """The offsets in each shard of a split."""
    jobs = (Job(plan.folder, "shard", *shard) for shard in plan.shards())
    return [output_of(job).numbers for job in jobs if job.split == split]


def output_of(job: Job) -> Output:
    """The output of a job that is done."""
    output = read_output(job)
    if output is None:
        raise IntegrityError(f"{job.sign} is damaged or has gone: run the same command again")
    return output


def _write_output(job: Job, output: Output) -> None:
    table = pa.table({"number": output.numbers})
    record = json.dumps(vars(output.record))
    write_bytes(job.sign, sealed(table.replace_schema_metadata({"record": record})))
