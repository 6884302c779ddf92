"""The records of a sweep: one row per run, in Parquet files that are merged when they are read.

A folder of records has `records/*.parquet`, and `tasks/*.json` with the cells (label, nuisance, severity) of
each set of each task; evaluations have the number of right rows of each cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.conditions import chosen_rows
from shiftdata.errors import InputError, IntegrityError
from shiftdata.evaluation.metrics.records import plain
from shiftdata.evaluation.tasks import Evaluation, Role
from shiftdata.evaluation.tasks.official import Figure
from shiftdata.files import whole_file, write_text
from shiftdata.notebook import box, shown, table
from shiftdata.untrusted.parquet import read_parquet
from shiftdata.untrusted.texts import read_json

RECORDS, TASKS, SWEEP = "records", "tasks", "sweep.json"
DONE = "done"
#: The method that trains no network: a model that comes trained predicts, by the head that its variant names.
PREDICT = "predict"
#: How the content_id begins of records that were imported and not run: a hash of the authors' files follows.
IMPORTED = "imported:"
#: Another process may merge files while they are read: they are then listed again.
RETRIES = 20


class Study(NamedTuple):
    """The trials and seeds of a method on a task, among which a rule selects."""

    id: str
    sweep: str
    dataset: str
    content_id: str
    protocol: str
    task: str
    task_id: str
    method: str
    variant: str
    backbone: str

    @property
    def label(self) -> str:
        """The method, with its variant if that is not the default."""
        return self.method if self.variant in ("", "fixed") else f"{self.method}@{self.variant}"


STUDY = Study._fields[1:]
#: The place of a run in its study.
PLACE = ("trial", "seed")
#: Columns by which records are chosen.
CHOICES = ("study", *STUDY, *PLACE, "status", "commit")

_FIGURE = pa.struct(
    {"name": pa.string(), "value": pa.float64(), "sem": pa.float64(), "n": pa.int64(), "of": pa.string()}
    | {"origins": pa.int64()}
)
EVALUATION = pa.struct(
    {
        "step": pa.int32(),
        "set": pa.string(),
        "figures": pa.list_(_FIGURE),
        "correct": pa.list_(pa.int32()),  # of each cell of the set, in the task's order
    }
)
#: `id` is the hash of everything that determines the run; `hyper`, `training` and `about` are JSON.
_TEXTS = ("id", "study", *STUDY, "hyper", "training", "about", "status", "reason", "commit")
SCHEMA = pa.schema(
    {name: pa.string() for name in _TEXTS}
    | {name: pa.int32() for name in ("trial", "seed")}
    | {name: pa.float64() for name in ("seconds", "processor_seconds")}
    | {name: pa.int64() for name in ("examples", "peak_memory")}
    | {
        "evaluations": pa.list_(EVALUATION),
        "predicted": pa.list_(pa.list_(pa.int16())),  # of each evaluation; null if not stored
    }
)
#: Rows without predictions, with their file and their row of it.
_READ = [name for name in SCHEMA.names if name != "predicted"]
_WITHOUT = pa.schema([*map(SCHEMA.field, _READ), ("_file", pa.int64()), ("_row", pa.int64())])


class Records:
    """The runs of one or more sweeps.

    `runs` has one row per run, without predictions; `tasks` the empty evaluations of each set of each task,
    by the task's hash and the set's name.
    """

    def __init__(
        self, runs: pa.Table, tasks: Mapping[str, Mapping[str, Evaluation]], places: Sequence[Path] = ()
    ) -> None:
        self.runs, self.tasks, self._places = runs, tasks, places
        self._columns: dict[str, list[Any]] = {}

    @classmethod
    def read(cls, *folders: str | Path) -> Records:
        """Read and merge folders of records; a run that is in several counts once.

        Two different runs of one study, trial and seed are refused: a sweep was changed, or machines have
        other versions.
        """
        paths = [Path(folder) for folder in folders]
        for path in paths:
            if not (path / RECORDS).is_dir():
                raise InputError(f"{path} has no folder {RECORDS}: give the folder of a sweep")
        files, tables = _tables(paths)
        runs = _once(pa.concat_tables([_WITHOUT.empty_table(), *tables], promote_options="permissive"))
        tasks = dict(read_task(path) for folder in paths for path in sorted((folder / TASKS).glob("*.json")))
        records = cls(runs, tasks, files)
        records._check_alike()
        return records

    @staticmethod
    def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Return rows that no file has, without predictions."""
        return pa.Table.from_pylist(
            [{**row, "_file": 0, "_row": at} for at, row in enumerate(rows)], _WITHOUT
        )

    def __len__(self) -> int:
        return int(self.runs.num_rows)

    @shown
    def _repr_html_(self) -> str:
        names = ("dataset", "task", "label", "backbone")
        rows = []
        for study, runs in runs_of(self):
            done = sum(self.column("status")[run] == DONE for run in runs)
            rows.append([*(str(getattr(study, name)) for name in names), f"{len(runs):,}", f"{done:,}"])
        sweeps = ", ".join(dict.fromkeys(self.column("sweep")))
        title = f"{len(self):,} runs of {len(rows):,} studies ({sweeps})"
        return box(title, table("Studies", [*names[:2], "method", "backbone", "runs", "done"], rows))

    def where(self, **chosen: Any) -> Records:
        """Choose runs by sweep, method, dataset, seed, ...: a value or several."""
        return Records(chosen_rows(self.runs, chosen, CHOICES), self.tasks, self._places)

    @property
    def files(self) -> Iterator[tuple[Path, IntArray]]:
        """Each file, with the numbers of its rows that are among these runs."""
        file, row = (self.runs[name].to_numpy() for name in ("_file", "_row"))
        yield from ((path, row[file == number]) for number, path in enumerate(self._places))

    @property
    def folders(self) -> list[Path]:
        return list(dict.fromkeys(path.parent.parent for path in self._places))

    @property
    def sweeps(self) -> list[dict[str, Any]]:
        """The `sweep.json` of each folder that has one."""
        files = [folder / SWEEP for folder in self.folders]
        return [read_json(path) for path in files if path.is_file()]

    @cached_property
    def about(self) -> list[dict[str, Any]]:
        """Everything that determines each run."""
        return [read_json(text) for text in self.column("about")]

    def column(self, name: str) -> list[Any]:
        """One value per run."""
        if name not in self._columns:
            self._columns[name] = self.runs[name].to_pylist()
        return self._columns[name]

    def failures(self) -> list[tuple[str, str, str]]:
        """The id, reason and description of each failed run."""
        names = ("id", "status", "reason", "method", "task", "trial", "seed")
        return [
            (run, f"{status}: {reason or ''}", f"{method} on {task}, trial {trial}, seed {seed}")
            for run, status, reason, method, task, trial, seed in zip(*map(self.column, names), strict=True)
            if status != DONE
        ]

    def studies(self) -> list[Study]:
        """The studies, in the order of their first run."""
        first: dict[str, Study] = {}
        for study in map(Study, *map(self.column, ("study", *STUDY))):
            first.setdefault(study.id, study)
        return list(first.values())

    @cached_property
    def _evaluations(self) -> tuple[pa.Table, IntArray]:
        """Every evaluation of every run as a table, and the first row of each run."""
        lists = self.runs["evaluations"].combine_chunks()
        sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        flat = pa.Table.from_struct_array(lists.flatten())
        return flat, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def places(self) -> list[dict[tuple[str, int], int]]:
        """For each run the row of its evaluations in `_evaluations`, by set and step."""
        table, begins = self._evaluations
        keys = list(zip(table["set"].to_pylist(), table["step"].to_pylist(), strict=True))
        return [
            {keys[place]: place for place in range(begin, end)}
            for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True)
        ]

    def correct(self, places: Sequence[int]) -> IntArray:
        """Right rows, evaluations x cells; all must be of one set."""
        lists = self._lists("correct").take(pa.array(places, pa.int64()))
        return np.asarray(lists.flatten().to_numpy().reshape(len(places), -1), np.int64)

    def figures(self, places: Sequence[int]) -> pa.Table:
        """The official figures of evaluations, one per row; `place` is the index in `places`."""
        lists = self._lists("figures").take(pa.array(places, pa.int64()))
        sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        table = pa.Table.from_struct_array(lists.flatten())
        return table.add_column(0, "place", pa.array(np.repeat(np.arange(len(places)), sizes)))

    def _lists(self, name: str) -> pa.ListArray:
        return self._evaluations[0][name].combine_chunks()

    def steps(self, run: int) -> list[int]:
        """The steps at which a run was evaluated."""
        return sorted({step for _, step in self.places[run]})

    def evaluation(self, run: int, name: str | None = None, step: int | None = None) -> Evaluation:
        """A run's evaluation on a set (default: the first test set) at a step (default: the last)."""
        place, empty = self._place(run, name, step)
        row = self._evaluations[0].slice(place, 1).to_pylist()[0]
        figures = {figure["name"]: _figure(figure) for figure in row["figures"]}
        cells = replace(empty.cells, correct=np.array(row["correct"], np.int64), clusters=None)
        return replace(empty, figures=figures, cells=cells)

    def predicted(self, run: int, name: str | None = None, step: int | None = None) -> IntArray | None:
        """The predicted label of each row of `task.rows(set)`; None if predictions were not stored."""
        place, _ = self._place(run, name, step)
        file, row = (self.column(column)[run] for column in ("_file", "_row"))
        stored = _read_predicted(self._places[file])[row]
        labels = stored.as_py() and stored[place - int(self._evaluations[1][run])].values
        return np.asarray(labels.to_numpy(), np.int64) if labels is not None and len(labels) else None

    def task_of(self, run: int) -> Mapping[str, Evaluation]:
        """The sets of a run's task, as evaluations without right rows."""
        return self.tasks[self.column("task_id")[run]]

    def sets_of(self, run: int, role: Role) -> list[str]:
        """The evaluated sets of a run that have a role."""
        evaluated = {name for name, _ in self.places[run]}
        return [name for name, of in self.task_of(run).items() if of.role == role and name in evaluated]

    def _place(self, run: int, name: str | None, step: int | None) -> tuple[int, Evaluation]:
        if not 0 <= run < len(self):
            raise InputError(f"there is no run {run}: these records have {len(self):,}")
        steps = self.steps(run)
        if not steps:
            status, reason = (self.column(column)[run] for column in ("status", "reason"))
            raise InputError(f"run {run} was not evaluated ({status}): {reason}")
        name = name or next(iter(self.sets_of(run, "test")), None)
        step = steps[-1] if step is None else step
        if name is None or (name, step) not in self.places[run]:
            sets = ", ".join(sorted({evaluated for evaluated, _ in self.places[run]}))
            where = f"{name} after step {step}"
            raise InputError(f"run {run} has no evaluation of {where}: sets {sets}; steps {steps}")
        return self.places[run][name, step], self.task_of(run)[name]

    def _check_alike(self) -> None:
        """Refuse two different runs in one place of a study."""
        places: dict[tuple[Any, ...], int] = {}
        for run, key in enumerate(zip(*map(self.column, ("study", *PLACE)), strict=True)):
            if (first := places.setdefault(key, run)) != run:
                old, new = self.about[first], self.about[run]
                differ = sorted(name for name in old | new if old.get(name) != new.get(name))
                shown = ", ".join(f"{name} {old.get(name)} and {new.get(name)}" for name in differ)
                raise InputError(
                    f"two runs of {self.column('method')[run]} on {self.column('protocol')[run]}, "
                    f"trial {key[1]}, seed {key[2]}, differ in {shown:.300}: read their folders apart, "
                    "or give one of the sweeps another name"
                )


def _figure(stored: Mapping[str, Any]) -> Figure:
    """Read a figure. Without origins its error took rows as independent, and is left out."""
    # Undefined numbers are stored as null.
    value, sem = (np.nan if stored[key] is None else stored[key] for key in ("value", "sem"))
    origins = stored["origins"]
    return Figure(value, stored["n"], stored["of"], np.nan if origins is None else sem, origins or 0)


def _tables(folders: Sequence[Path]) -> tuple[list[Path], list[pa.Table]]:
    """Return the files of folders, and their rows without predictions."""
    for _ in range(RETRIES):
        files = sorted(path for folder in folders for path in (folder / RECORDS).glob("*.parquet"))
        with suppress(FileNotFoundError):
            return files, [_read(path, number) for number, path in enumerate(files)]
    raise InputError(f"files of {folders} change while they are read: wait for the sweep that writes them")


def _read(path: Path, number: int) -> pa.Table:
    try:
        table = read_parquet(path, _READ)
    except FileNotFoundError:
        raise
    except (OSError, IntegrityError) as error:
        raise InputError(f"{path} is not a file of records: {error}") from error
    table = table.append_column("_file", pa.array(np.full(len(table), number)))
    return table.append_column("_row", pa.array(np.arange(len(table))))


@lru_cache(maxsize=1)
def _read_predicted(path: Path) -> pa.ChunkedArray:
    """Read the predictions of a file, which never changes; callers ask for its runs in turn."""
    return read_parquet(path, ["predicted"])["predicted"]


def part_of(plain: Mapping[str, Any]) -> str:
    """Say of a sweep, as its folder stores it, which part it is and what stands in; empty if neither."""
    parts, fraction = [], plain.get("fraction", 1.0)
    if fraction < 1:
        search = plain["search"]
        cut = f"{len(plain['tasks']):,} tasks, {search['trials']} trials, {search['seeds']} seeds"
        parts.append(f"a part, --fraction {fraction:g} ({cut})")
    names: dict[str, list[str]] = {}
    for replaced, name in plain.get("stand_ins", {}).items():
        names.setdefault(name, []).append(replaced)
    parts += [f"{name} stands in for {', '.join(replaced)}" for name, replaced in names.items()]
    return "; ".join(parts)


def _once(runs: pa.Table) -> pa.Table:
    """Keep each run once: a done one before one that failed, else the first."""
    order = np.argsort(np.array(runs["status"].to_pylist(), object) != DONE, kind="stable")
    ids = np.array(runs["id"].to_pylist(), object)[order]
    first = np.unique(ids.astype(str), return_index=True)[1]
    return runs.take(pa.array(np.sort(order[first])))


def write_runs(path: Path, rows: pa.Table | Iterable[Mapping[str, Any]]) -> None:
    """Write runs as one file, whole or not at all."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist([dict(row) for row in rows], SCHEMA)
    with whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def evaluated(step: int, result: Evaluation) -> dict[str, Any]:
    """Return an evaluation as a record stores it."""
    figures = [{"name": name, **figure.to_dict()} for name, figure in result.figures.items()]
    return {"step": step, "set": result.set, "figures": figures, "correct": result.cells.correct.tolist()}


def write_task(folder: Path, task_id: str, results: Mapping[str, Evaluation]) -> None:
    """Write the cells of a task's sets, unless the file exists."""
    path = folder / TASKS / f"{task_id[:16]}.json"
    if path.exists():
        return
    sets = {
        name: replace(
            result, figures={}, cells=replace(result.cells, correct=np.zeros_like(result.cells.n))
        ).to_dict()
        for name, result in results.items()
    }
    write_text(path, json.dumps({"task_id": task_id, "sets": plain(sets)}, indent=1) + "\n")


def read_task(path: Path) -> tuple[str, dict[str, Evaluation]]:
    """Read a task's hash, and the empty evaluation of each of its sets."""
    try:
        stored = read_json(path)
        return stored["task_id"], {
            name: Evaluation.from_dict(cells) for name, cells in stored["sets"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "take it from where the sweep ran"
        raise InputError(f"{path} does not describe a task ({error!r}): {hint}") from error


def runs_of(records: Records) -> Iterator[tuple[Study, list[int]]]:
    """Yield each study with its runs."""
    numbers: dict[str, list[int]] = {}
    for run, study in enumerate(records.column("study")):
        numbers.setdefault(study, []).append(run)
    for study in records.studies():
        yield study, numbers[study.id]
