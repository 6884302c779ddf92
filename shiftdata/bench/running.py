"""Run a sweep into a folder of records: here, in a pool, on Ray, as one of several ranks. They are equal."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata import __version__
from shiftdata.bench.plan import Plan
from shiftdata.bench.records import DONE, RECORDS, SCHEMA, Records, write_runs
from shiftdata.bench.selection import select
from shiftdata.bench.sweep import Sweep, plain_sweep
from shiftdata.bench.training import Setting, Unit, rows_lost, start
from shiftdata.errors import InputError
from shiftdata.executors import ALONE, Executor, Here, LostError, Rank, Ranks
from shiftdata.files import locked, remove, whole_file, write_text
from shiftdata.stable import content_hash

SWEEP, LOCK = "sweep.json", ".lock"
#: What may differ between a sweep and the one that its folder was begun with: more of the same.
MAY_GROW = ("about", "tasks", "methods", "backbones", "rules", "keep", "imports")
#: Where a run stands in its study, and what of a run is the code of its method.
PLACE, CODE = ("trial", "seed", "held_out"), ("code_version", "own_code")


@dataclass(frozen=True)
class Progress:
    """How far a sweep is: runs that are recorded, by how they ended, of those known to be needed."""

    runs: int
    recorded: Counter[str]
    #: How failed runs ended and why, with the runs.
    failed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return self.runs - self.recorded.total()

    def __str__(self) -> str:
        parts = [f"{count:,} {status}" for status, count in self.recorded.most_common()]
        return f"{self.runs:,} runs: {', '.join([*parts, f'{self.left:,} not complete'])}"


def run_sweep(
    sweep: Sweep,
    folder: str | Path,
    *,
    executor: Executor | None = None,
    rank: Rank = ALONE,
    device: str = "cpu",
    retry: Sequence[str] = (),
    on_unit: Callable[[Unit, Progress], object] = lambda unit, progress: None,
) -> Records:
    """Do what is left of a sweep; stopped at any point, it goes on when it is run again.

    A run that fails is recorded with its reason, and the sweep goes on.

    Args:
        sweep: from `read_sweep`, or made in Python.
        folder: where its records are, and go.
        executor: where runs are done; default: in this process, one after the other.
        rank: of how many processes that share the folder this is one.
        device: "cpu", "cuda", "cuda:1", "mps".
        retry: do runs again that ended so: "error", "out of memory", "diverged", "refused".
        on_unit: gets what was done, and how far the sweep is.

    """
    folder = Path(folder)
    _begin(sweep, folder)
    plan, executor, again = Plan(sweep, device), executor or Here(), set(retry)
    setting = Setting(folder.absolute(), device, code_commit(), sweep.imports, rank.number)
    _drop_other_code(folder, plan)
    tried: set[str] = set()
    while True:
        records = read_records(folder)
        runs = plan.runs(records)
        ended = _ended(records, {one.id for one in runs})
        done = {one for one, status in ended.items() if status not in again or one in tried}
        units = plan.units(runs, done)
        if not units:
            break
        some = executor
        if rank.world > 1:
            some = Ranks(executor, rank, partial(_missing, folder))
        try:
            for unit, rows in some.run(partial(start, setting), units):
                write_runs(_file(folder, unit), rows)
                tried |= {one.id for one in unit.runs}
                ended |= {row["id"]: row["status"] for row in rows}
                on_unit(unit, Progress(len(runs), Counter(ended.values())))
        except LostError as error:
            lost: Unit = error.job
            write_runs(_file(folder, lost), rows_lost(setting, lost, str(error)))
            tried |= {one.id for one in lost.runs}
    remove(folder / "running" / str(rank.number))
    _finish(sweep, folder, [one.id for one in runs])
    return Records.read(folder)


def progress_of(sweep: Sweep, folder: str | Path, device: str = "cpu") -> Progress:
    """How far a sweep is, which runs failed, and why."""
    records = read_records(Path(folder))
    runs = Plan(sweep, device).runs(records)
    ended = _ended(records, {one.id for one in runs})
    failed: dict[str, list[str]] = {}
    names = ("id", "status", "method", "task", "trial", "seed", "reason")
    for row in [] if records is None else records.runs.select(names).to_pylist():
        if row["status"] != DONE and row["id"] in ended:
            where = f"{row['method']} on {row['task']}, trial {row['trial']}, seed {row['seed']}"
            failed.setdefault(f"{row['status']}: {row['reason']}", []).append(where)
    return Progress(len(runs), Counter(ended.values()), failed)


def read_records(folder: Path) -> Records | None:
    """The records of a folder, if it has any."""
    return Records.read(folder) if any((folder / RECORDS).glob("*.parquet")) else None


def _ended(records: Records | None, known: set[str]) -> dict[str, str]:
    """How each of the runs that are asked for ended, if it did."""
    if records is None:
        return {}
    ids = zip(records.column("id"), records.column("status"), strict=True)
    return {one: status for one, status in ids if one in known}


def _begin(sweep: Sweep, folder: Path) -> None:
    """Keep what was asked, and refuse a folder that was begun with something else."""
    mine, path = plain_sweep(sweep), folder / SWEEP
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        kept = [{name: one for name, one in of.items() if name not in MAY_GROW} for of in (before, mine)]
        for of in kept:  # more trials and seeds are more of the same, too
            of["search"] = {
                name: one for name, one in of["search"].items() if name not in ("trials", "seeds")
            }
        differ = [name for name in kept[1] if kept[0].get(name) != kept[1][name]]
        if differ:
            shown = "; ".join(f"{name}: {kept[0].get(name)} there, {kept[1][name]} here" for name in differ)
            raise InputError(f"{folder} was begun as another sweep ({shown:.400}): give it another folder")
    write_text(path, json.dumps(mine, indent=1) + "\n")
    (folder / RECORDS).mkdir(exist_ok=True)


def _drop_other_code(folder: Path, plan: Plan) -> None:
    """Remove the records of runs that are to be trained again as the code of their method has changed."""
    with locked(folder / LOCK, f"another process changes the records of {folder}", wait=600):
        records = read_records(folder)
        if records is None:
            return
        runs = plan.runs(records)
        known = {(one.job.study, *(one.about[name] for name in PLACE)): one for one in runs}
        places = zip(*(records.column(name) for name in ("study", *PLACE)), strict=True)
        old = []
        for run, place in enumerate(places):
            now, about = known.get(place), json.loads(records.column("about")[run])
            if now and any(now.about.get(name) != about.get(name) for name in CODE):
                old.append(records.column("id")[run])
        for path, rows in records.files if old else ():
            table = pq.read_table(path, schema=SCHEMA).take(pa.array(rows))
            with whole_file(path) as temporary:
                pq.write_table(
                    table.filter(pc.invert(pc.is_in(table["id"], pa.array(old)))),
                    temporary,
                    compression="zstd",
                )


def _file(folder: Path, unit: Unit) -> Path:
    return folder / RECORDS / f"{unit.name}.parquet"


def _missing(folder: Path, units: Sequence[Unit]) -> Iterable[Unit]:
    """Those that no rank has done by now."""
    records = read_records(folder)
    done = set() if records is None else set(records.column("id"))
    return [unit for unit in units if not all(one.id in done for one in unit.runs)]


def _finish(sweep: Sweep, folder: Path, order: Sequence[str]) -> None:
    """Once all is there: one file of records, with the predictions of what the sweep's rules choose.

    Another rank may do the same after this one, or write a run that it was doing too: files are merged, each
    run once, and only those that were read go.
    """
    with locked(folder / LOCK, f"{folder} is being finished by another process", wait=600):
        if sweep.keep == "all":
            return
        records = Records.read(folder)
        chosen = {
            (one.run, one.step) for rule in sweep.rules for made in select(records, rule) for one in made.runs
        }
        keep: dict[str, set[int]] = {}
        for run, step in chosen:
            keep.setdefault(records.column("id")[run], set()).add(step)
        every = {
            (task, name)
            for task, sets in records.tasks.items()
            for name, one in sets.items()
            if sweep.keep == "select" and one.role == "select"
        }
        tables = [
            _pruned(pq.read_table(path, schema=SCHEMA).take(pa.array(rows)), keep, every)
            for path, rows in records.files
        ]
        whole = pa.concat_tables(tables)
        ids, places = whole["id"].to_pylist(), {one: place for place, one in enumerate(order)}
        whole = whole.take(pa.array(sorted(range(len(ids)), key=lambda at: places.get(ids[at], len(places)))))
        one_file = folder / RECORDS / f"all-{content_hash(*sorted(ids))[:32]}.parquet"
        with whole_file(one_file) as temporary:
            pq.write_table(whole, temporary, compression="zstd")
        for path, _ in records.files:
            if path != one_file:
                path.unlink(missing_ok=True)


def _pruned(table: pa.Table, keep: dict[str, set[int]], every: set[tuple[str, str]]) -> pa.Table:
    """The rows with the predictions of some steps of some runs, and with all of some sets of tasks."""
    evaluations, predicted = (table[name].combine_chunks() for name in ("evaluations", "predicted"))
    sizes = pc.fill_null(pc.list_value_length(evaluations), 0).to_numpy()
    ids, tasks = (np.repeat(np.array(table[one].to_pylist(), object), sizes) for one in ("id", "task_id"))
    steps, sets = (evaluations.flatten().field(one).to_pylist() for one in ("step", "set"))
    chosen = [
        step in keep.get(one, ()) or (task, name) in every
        for one, task, step, name in zip(ids.tolist(), tasks.tolist(), steps, sets, strict=True)
    ]
    kind = SCHEMA.field("predicted").type
    kept = pc.if_else(pa.array(chosen, pa.bool_()), predicted.flatten(), pa.scalar(None, kind.value_type))
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    at = table.schema.get_field_index("predicted")
    return table.set_column(at, SCHEMA.field("predicted"), pa.ListArray.from_arrays(offsets, kept, type=kind))


@cache
def code_commit() -> str:
    """The commit of this checkout, "+" where files differ from it; of an installed package its version."""
    here = Path(__file__).parent
    try:
        asked = [
            ["rev-parse", "--short=12", "HEAD"],
            ["status", "--porcelain", "-uno", "--", str(here.parent)],
        ]
        commit, changed = (
            subprocess.run(["git", "-C", str(here), *one], capture_output=True, text=True, check=True).stdout
            for one in asked
        )
    except (OSError, subprocess.CalledProcessError):
        return f"shiftdata {__version__}"
    return commit.strip() + ("+" if changed.strip() else "")
