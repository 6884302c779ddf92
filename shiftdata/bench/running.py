"""Run a sweep into a folder of records: here, in a pool, on Ray, or as one of several ranks.

The records are equal for all of these. The runs that are left follow from the records alone, so a killed
sweep goes on where it stopped.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.baselines.method import code_commit
from shiftdata.bench.job import Identity, Job, Setting, TaskSpec, Unit, facts_of, identity, is_heads
from shiftdata.bench.records import DONE, PLACE, RECORDS, SCHEMA, SWEEP, Records, runs_of, write_runs
from shiftdata.bench.selection import rule_of, run_scores, select
from shiftdata.bench.sweep import MethodSpec, Search, Sweep, applied, drawn, plain_sweep, suggested
from shiftdata.data.executors import ALONE, Executor, Here, LostError, Rank, Ranks
from shiftdata.errors import InputError
from shiftdata.files import locked, remove, write_text
from shiftdata.stable import content_hash
from shiftdata.untrusted.parquet import read_parquet
from shiftdata.untrusted.texts import read_json

LOCK = ".lock"
#: The fields that may change when a sweep goes on in its folder.
MAY_GROW = (
    "about",
    "tasks",
    "methods",
    "backbones",
    "rules",
    "keep",
    "imports",
    "trials",
    "seeds",
    "fraction",
)
#: The most heads that are trained together.
TOGETHER = 1000
#: Each trial's score by its first seed (nan: it failed) in a study, and the best trial.
Past: TypeAlias = tuple[Mapping[int, float], int]


def needed(sweep: Sweep, records: Records | None, device: str = "cpu") -> list[Identity]:
    """Return the runs of a sweep, done or not; runs that depend on others appear once these are done."""
    past = {} if records is None else _past(records, sweep.search)
    return [
        identity(job, device)
        for spec, method, backbone in sweep.studies()
        for job in study_of(sweep, spec, method, backbone, past)
    ]


def units_of(runs: Sequence[Identity], done: set[str]) -> list[Unit]:
    """Cut the runs that are left into units, whose borders do not depend on what is done."""
    together: dict[object, list[Identity]] = {}
    for run in runs:
        job = run.job
        heads = is_heads(job.backbone) and not run.refused
        key = (job.task, job.backbone, job.training.steps, job.training.evaluate_every) if heads else run.id
        together.setdefault(key, []).append(run)
    left = [
        tuple(run for run in of[begin : begin + TOGETHER] if run.id not in done)
        for of in together.values()
        for begin in range(0, len(of), TOGETHER)
    ]
    return [Unit(runs) for runs in left if runs]


def study_of(
    sweep: Sweep, spec: TaskSpec, method: MethodSpec, backbone: str, past: Mapping[str, Past]
) -> Iterator[Job]:
    """Yield the jobs of a study: its trials so far, then the further seeds of the best.

    `past` has the results of the studies that a search needs, by their id.
    """
    search = sweep.search
    training = spec.training or sweep.training
    start = Job(
        sweep=sweep.name,
        task=spec,
        method=method.name,
        variant=method.variant,
        backbone=backbone,
        training=training,
    )
    rows = facts_of(spec)["rows"] if training.epochs else 1
    scores, best = past.get(start.study, ({}, -1))
    jobs = []
    for trial, settings in enumerate(_settings(search, start, method, scores)):
        asked, own = applied(training, settings)
        hyper = tuple(sorted({**method.hyper, **dict(own)}.items()))
        jobs.append(replace(start, training=asked.of_rows(rows), hyper=hyper, trial=trial))
    each = search.seeds if search.seeds_of == "each" else 1
    yield from (replace(job, seed=seed) for job in jobs for seed in range(each))
    if search.seeds_of == "best" and best >= 0 and len(scores) >= search.trials:
        yield from (replace(jobs[best], seed=seed) for seed in range(1, search.seeds))


def _settings(
    search: Search, job: Job, method: MethodSpec, scores: Mapping[int, float]
) -> list[dict[str, float]]:
    """Return the settings of each trial that can begin."""
    if search.kind == "defaults":
        return [{}]
    space = search.space_of(job.method)
    fixed = {*method.hyper, *(["batch"] if is_heads(job.backbone) else [])}  # heads take all rows at once
    space = {name: hyper for name, hyper in space.items() if name not in fixed}
    names = f"{job.task.protocol} {job.backbone}", f"{job.method}@{job.variant}"
    if search.kind == "random":
        return [drawn(space, search.seed, names[1], trial) for trial in range(search.trials)]
    settings: list[dict[str, float]] = []
    while len(settings) < search.trials and all(trial in scores for trial in range(len(settings))):
        past = [(setting, scores[trial]) for trial, setting in enumerate(settings)]
        settings.append(suggested(space, search.seed, names, past))
    return settings


def _past(records: Records, search: Search) -> dict[str, Past]:
    """Return the results of each study's trials, if the search needs them."""
    if search.kind != "tpe" and search.seeds_of == "each":
        return {}
    rule, columns = rule_of(search.rule), [records.column(name) for name in (*PLACE, "status")]
    first = records.where(seed=0) if 0 in records.column("seed") else records
    best = {selected.study.id: selected.trial for selected in select(first, search.rule)}
    past: dict[str, Past] = {}
    for study, runs in runs_of(records):
        scores: dict[int, float] = {}
        for run in runs:
            trial, seed, status = (column[run] for column in columns)
            if seed == 0:
                scored = search.kind == "tpe" and status == DONE
                scores[trial] = max(run_scores(records, [run], rule)[run].values()) if scored else math.nan
        past[study.id] = scores, best.get(study.id, -1)
    return past


@dataclass(frozen=True)
class Progress:
    """The number of runs of a sweep, and the recorded ones by status."""

    runs: int
    recorded: Counter[str]
    #: Failed runs by status and reason.
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
    """Do the runs of a sweep that are left in its folder of records.

    A run that fails is recorded with its reason, and the sweep goes on; `retry` repeats those with a status:
    "error", "out of memory", "diverged", "refused". Without an `executor` runs are done in this process, one
    after the other. `rank` is the place of this process among those that share the folder.
    """
    folder = Path(folder)
    _begin(sweep, folder)
    executor = executor or Here()
    setting = Setting(folder.absolute(), device, code_commit(), sweep.imports, rank.number)
    _drop_other_code(folder, sweep, device)
    if rank.world > 1:
        executor = Ranks(executor, rank, partial(_missing, folder))
    tried: set[str] = set()

    def record(unit: Unit, rows: Sequence[Mapping[str, Any]]) -> None:
        write_runs(folder / RECORDS / f"{unit.name}.parquet", rows)
        tried.update(run.id for run in unit.runs)

    while True:
        _, runs, ended = _state(sweep, folder, device)
        units = units_of(runs, {run for run, how in ended.items() if how not in retry or run in tried})
        if not units:
            break
        try:
            for unit, rows in executor.run(setting.start, units):
                record(unit, rows)
                ended |= {row["id"]: row["status"] for row in rows}
                on_unit(unit, Progress(len(runs), Counter(ended.values())))
        except LostError as error:
            record(error.job, setting.rows_lost(error.job, str(error)))
    remove(folder / "running" / str(rank.number))
    _finish(sweep, folder, [run.id for run in runs])
    return Records.read(folder)


def progress_of(sweep: Sweep, folder: str | Path, device: str = "cpu") -> Progress:
    """Return the progress of a sweep, and its failed runs with their reasons."""
    records, runs, ended = _state(sweep, Path(folder), device)
    failed: dict[str, list[str]] = {}
    for run, reason, which in [] if records is None else records.failures():
        if run in ended:
            failed.setdefault(reason, []).append(which)
    return Progress(len(runs), Counter(ended.values()), failed)


def _state(sweep: Sweep, folder: Path, device: str) -> tuple[Records | None, list[Identity], dict[str, str]]:
    """Return the records, the runs of the sweep, and the status of each recorded run."""
    records = read_records(folder)
    runs = needed(sweep, records, device)
    statuses = {} if records is None else dict(zip(*map(records.column, ("id", "status")), strict=True))
    return records, runs, {run.id: statuses[run.id] for run in runs if run.id in statuses}


def read_records(folder: Path) -> Records | None:
    """Read the records of a folder; None if it has none."""
    return Records.read(folder) if any((folder / RECORDS).glob("*.parquet")) else None


def _missing(folder: Path, units: Sequence[Unit]) -> Iterable[Unit]:
    """Return the units that no rank has done by now."""
    records = read_records(folder)
    done = set() if records is None else set(records.column("id"))
    return [unit for unit in units if not all(run.id in done for run in unit.runs)]


def _begin(sweep: Sweep, folder: Path) -> None:
    """Write sweep.json, and refuse a folder that was begun with another sweep."""
    plain, path = plain_sweep(sweep), folder / SWEEP
    if path.exists():
        begun, asked = (stored | stored["search"] for stored in (read_json(path), plain))
        differ = [
            f"{name}: {begun.get(name)} there, {asked[name]} here"
            for name in asked.keys() - {*MAY_GROW, "search"}
            if begun.get(name) != asked[name]
        ]
        if differ:
            shown = f"{'; '.join(sorted(differ)):.400}"
            raise InputError(f"{folder} was begun as another sweep ({shown}): give it another folder")
        if (larger := begun.get("fraction", 1.0)) > sweep.fraction:
            raise InputError(
                f"{folder} has a larger part of the sweep, {larger:g} of it: ask for that or more, or give "
                "another folder"
            )
    write_text(path, json.dumps(plain, indent=1) + "\n")
    (folder / RECORDS).mkdir(exist_ok=True)


def _drop_other_code(folder: Path, sweep: Sweep, device: str) -> None:
    """Remove the records of runs whose method has changed: they are trained again."""
    with locked(folder / LOCK, f"another process changes the records of {folder}", wait=600):
        records = read_records(folder)
        if records is None:
            return
        current = {
            (run.job.study, *(run.about[name] for name in PLACE)): code_in(run.about)
            for run in needed(sweep, records, device)
        }
        code = map(code_in, records.about)
        places = zip(*map(records.column, ("study", *PLACE)), strict=True)
        mask = [current.get(place, stored) == stored for place, stored in zip(places, code, strict=True)]
        if not all(mask):
            _replace(folder, records, _whole(records).filter(pa.array(mask)))


def code_in(about: Mapping[str, Any]) -> list[Any]:
    """Return the versions of the code of a run's method."""
    return [about.get("code_version"), about.get("own_code")]


def _finish(sweep: Sweep, folder: Path, order: Sequence[str]) -> None:
    """Merge the records of a complete sweep into one file, with the predictions of the selected runs."""
    if sweep.keep == "all":
        return
    with locked(folder / LOCK, f"{folder} is being finished by another process", wait=600):
        records = Records.read(folder)
        ids = records.column("id")
        chosen = {
            (ids[run.run], run.step)
            for rule in sweep.rules
            for selected in select(records, rule)
            for run in selected.runs
        }
        table = _pruned(_whole(records), chosen)
        places = {run: place for place, run in enumerate(order)}
        by_order = [places.get(run, len(places)) for run in table["id"].to_pylist()]
        _replace(folder, records, table.take(pa.array(np.argsort(by_order, kind="stable"))))


def _whole(records: Records) -> pa.Table:
    """Read the rows of records with their predictions, in the same order."""
    tables = [read_parquet(path, schema=SCHEMA).take(pa.array(rows)) for path, rows in records.files]
    return pa.concat_tables(tables)


def _replace(folder: Path, records: Records, table: pa.Table) -> None:
    """Replace the files of records by one.

    Only files that were read are removed: another rank may be writing a run at the same time.
    """
    whole = folder / RECORDS / f"all-{content_hash(*sorted(table['id'].to_pylist()))[:32]}.parquet"
    write_runs(whole, table)
    for path, _ in records.files:
        if path != whole:
            path.unlink(missing_ok=True)


def _pruned(table: pa.Table, steps: set[tuple[str, int]]) -> pa.Table:
    """Remove predictions, except those at `steps` (run, step)."""
    evaluations, predicted = (table[name].combine_chunks() for name in ("evaluations", "predicted"))
    sizes = pc.fill_null(pc.list_value_length(evaluations), 0).to_numpy()
    ids = np.repeat(np.array(table["id"].to_pylist(), object), sizes)
    keys = zip(ids, evaluations.flatten().field("step").to_pylist(), strict=True)
    mask = [key in steps for key in keys]
    kind = SCHEMA.field("predicted").type
    values = pc.if_else(pa.array(mask, pa.bool_()), predicted.flatten(), pa.scalar(None, kind.value_type))
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    column = pa.ListArray.from_arrays(offsets, values, type=kind)
    return table.set_column(table.schema.get_field_index("predicted"), SCHEMA.field("predicted"), column)
