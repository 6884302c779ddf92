"""From jobs to rows of records: training, every evaluation, cost, and what went wrong, with its reason."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shiftdata.baselines import DivergedError, make_method, train
from shiftdata.baselines.head_runs import first_stage
from shiftdata.baselines.heads import HeadSpec, train_grid
from shiftdata.baselines.inputs import Inputs
from shiftdata.baselines.run import Run
from shiftdata.baselines.sets import TaskSets
from shiftdata.bench.elsewhere import predicted_elsewhere
from shiftdata.bench.job import HEADS, Identity, Job, TaskSpec, base_of
from shiftdata.bench.records import DONE, evaluated, write_task
from shiftdata.bench.sweep import import_methods
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.files import remove
from shiftdata.metrics.arrays import IntArray
from shiftdata.stable import content_hash
from shiftdata.tasks import Task

#: Steps between two checkpoints of a run that has more of them than this.
SAVE_EVERY = 500


@dataclass(frozen=True)
class Unit:
    """What one process does at a time: a run, or heads of one task that are trained together."""

    runs: tuple[Identity, ...]

    @property
    def name(self) -> str:
        return content_hash(*(one.id for one in self.runs))[:32]

    def __str__(self) -> str:
        job = self.runs[0].job
        more = f" and {len(self.runs) - 1:,} more" if len(self.runs) > 1 else ""
        where = f"{job.method} on {job.task.dataset} {job.task.protocol}"
        return f"{where}, trial {job.trial}, seed {job.seed}{more}"


@dataclass(frozen=True)
class Setting:
    """What all units share: the sweep's folder, the device, the commit of the code, modules to import."""

    folder: Path
    device: str = "cpu"
    commit: str = ""
    imports: tuple[str, ...] = ()
    #: Where checkpoints of this process's runs are kept; two ranks never share one.
    rank: int = 0


def start(setting: Setting) -> Callable[[Unit], list[dict[str, Any]]]:
    """Load what units need, and give what does one."""
    import_methods(setting.imports)
    return partial(rows_of, setting)


def rows_of(setting: Setting, unit: Unit) -> list[dict[str, Any]]:
    """Do a unit: a row of records for each of its runs, whatever came of them."""
    refused = [one for one in unit.runs if one.refused]
    rows = [_row(setting, one, status="refused", reason=one.refused) for one in refused]
    left = [one for one in unit.runs if not one.refused]
    if not left:
        return rows
    first = left[0].job
    do = _elsewhere if first.task.trained_on else _heads if first.backbone == HEADS else _network
    try:
        return rows + do(setting, left)
    except Exception as error:
        status, reason = reason_of(error)
        return rows + [_row(setting, one, status=status, reason=reason) for one in left]


def rows_lost(setting: Setting, unit: Unit, reason: str) -> list[dict[str, Any]]:
    """The rows of a unit whose process died again and again."""
    status = "out of memory" if "SIGKILL" in reason else "error"
    return [_row(setting, one, status=status, reason=reason) for one in unit.runs]


def reason_of(error: Exception) -> tuple[str, str]:
    """What a record says of an error; one that other runs would meet as well is raised again."""
    text = str(error)
    if isinstance(error, DivergedError):
        return "diverged", text
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in text:
        return "out of memory", f"lower batch, or use fewer workers: {text}"
    if isinstance(error, InputError):
        return "refused", text
    if isinstance(error, ShiftdataError | OSError):
        raise error  # the dataset, the disk or an extra: not this run's fault
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "error", f"{type(error).__name__}: {text} ({Path(last.filename).name}, line {last.lineno})"


@lru_cache(maxsize=4)
def task_of(spec: TaskSpec) -> Task:
    """A task, which the runs on it share."""
    return spec.make()


def _network(setting: Setting, runs: Sequence[Identity]) -> list[dict[str, Any]]:
    (one,) = runs
    job, task = one.job, task_of(one.job.task)
    inputs = _inputs(job, task)
    folder = setting.folder / "running" / str(setting.rank) / one.id[:32]
    kept = folder if job.training.steps > SAVE_EVERY else None
    with measured() as cost:
        run = train(
            task,
            job.method,
            variant=job.variant,
            backbone=job.backbone,
            inputs=inputs,
            training=job.training,
            seed=job.seed,
            device=setting.device,
            test_steps=bool(job.training.evaluate_every),
            folder=kept,
            save_every=SAVE_EVERY,
            **dict[str, Any](job.hyper),
        )
    remove(folder)
    if setting.device.startswith("cuda"):
        cost["peak_memory"] = torch.cuda.max_memory_allocated(setting.device)
    cost["examples"] = job.training.steps * (job.training.batch or len(task.rows(task.set_of("fit"))))
    result = _Result(setting.folder, one, task)
    last = max([job.training.steps, *(entry["step"] for entry in run.history)])
    for entry in run.history:
        if entry["step"] < last:
            result.add(entry["step"], _predicted(run, entry, task))
    result.add(last, _last(run, task))
    about = {name: run.about[name] for name in ("pretraining", "trains_on_select", "report", "input")}
    return [_row(setting, one, cost, about, result)]


def _elsewhere(setting: Setting, runs: Sequence[Identity]) -> list[dict[str, Any]]:
    (one,) = runs
    job, task = one.job, task_of(one.job.task)
    with measured() as cost:
        predicted = predicted_elsewhere(job, task, base_of(job.task.dataset, job.task.trained_on))
    cost["examples"] = job.training.steps * job.training.batch
    result = _Result(setting.folder, one, task)
    result.add(job.training.steps, predicted)
    return [_row(setting, one, cost, {"trains_on_select": False}, result)]


def _inputs(job: Job, task: Task) -> Inputs:
    """What the backbone reads, kept on this machine: many runs read the same."""
    return _sets(job, task).read(job.backbone, None, int, cache=True)


def _sets(job: Job, task: Task) -> TaskSets:
    return TaskSets.of(task, job.made_method(), None)


def _predicted(run: Run, entry: Mapping[str, Any], task: Task) -> dict[str, IntArray]:
    """The labels predicted at an evaluation, for each set."""
    labels = run.model.outputs
    made = {}
    for name in _judged(task, "select")[:1]:
        rows = task.rows(name)
        known = np.isin(task.metadata.label[rows], task.label_ids)
        # A label that training does not know is wrong whatever the model says.
        of_set = np.full(len(rows), labels[0], np.int64)
        of_set[known] = labels[entry["predicted"].numpy()]
        made[name] = of_set
    tested = labels[entry["tested"].numpy()]
    for name in _judged(task, "test"):
        made[name] = tested[np.searchsorted(run.rows, task.rows(name))]
    return made


def _last(run: Run, task: Task) -> dict[str, IntArray]:
    """What the finished model predicts, the validation set as rows of the source."""
    made = {name: run.model.predict_source(task.rows(name)) for name in _judged(task, "select")[:1]}
    for name in _judged(task, "test"):
        made[name] = run.predicted[np.searchsorted(run.rows, task.rows(name))]
    return made


def _judged(task: Task, role: str) -> list[str]:
    return [name for name, rows in task.sets.items() if rows.role == role and len(rows)]


def _heads(setting: Setting, runs: Sequence[Identity]) -> list[dict[str, Any]]:
    task, training = task_of(runs[0].job.task), runs[0].job.training
    specs = [head_spec(one.job) for one in runs]
    inputs = TaskSets.of(task, make_method("erm"), None).read("linear", None, int, cache=True)
    with measured() as cost:
        grid = train_grid(task, specs, steps=training.steps, every=training.evaluate_every, inputs=inputs)
    fit = len(task.rows(task.set_of("fit")))
    each = {name: value / len(runs) for name, value in cost.items() if name != "peak_memory"}
    each |= {"peak_memory": cost["peak_memory"], "examples": training.steps * fit}
    about = {"pretraining": inputs.pretraining, "trained_together": len(runs), "trains_on_select": False}
    rows = []
    for at, one in enumerate(runs):
        if at in grid.results.failed:
            rows.append(_row(setting, one, each, about, status="diverged", reason=grid.results.failed[at]))
            continue
        result = _Result(setting.folder, one, task)
        begins = first_stage(specs[at], training.steps)
        for place, step in enumerate(grid.results.steps):
            if step > begins or step == training.steps:
                result.add(step, {name: grid.predicted(at, name, place) for name in grid.sets})
        rows.append(_row(setting, one, each, about, result))
    return rows


def head_spec(job: Job) -> HeadSpec:
    """A job as a linear head that is trained with others."""
    training = job.training
    return HeadSpec(
        method=job.method,
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
        momentum=training.momentum,
        seed=job.seed,
        hyper=dict(job.hyper),
    )


class _Result:
    """The evaluations of a run, and what it predicted at each."""

    def __init__(self, folder: Path, run: Identity, task: Task) -> None:
        self.folder, self.run, self.task = folder, run, task
        self.evaluations: list[dict[str, Any]] = []
        self.predicted: list[list[int]] = []

    def add(self, step: int, predicted: Mapping[str, IntArray]) -> None:
        results = {name: self.task.evaluate(labels, name) for name, labels in predicted.items()}
        if not self.evaluations:
            write_task(self.folder, self.run.about["task_id"], results)
        self.evaluations += [evaluated(step, one) for one in results.values()]
        self.predicted += [labels.tolist() for labels in predicted.values()]


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """Seconds, processor seconds and the most memory of what is done inside."""
    cost: dict[str, Any] = {}
    with suppress(OSError):  # Linux: forget the most memory of what this process did before
        Path("/proc/self/clear_refs").write_text("5")
    begun, used = time.monotonic(), time.process_time()
    yield cost
    cost |= {"seconds": time.monotonic() - begun, "processor_seconds": time.process_time() - used}
    cost["peak_memory"] = _peak_memory()


def _peak_memory() -> int | None:
    """Bytes that this process had in memory at most, since they were last forgotten; Linux says so."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return None


def _row(
    setting: Setting,
    one: Identity,
    cost: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    result: _Result | None = None,
    *,
    status: str = DONE,
    reason: str = "",
) -> dict[str, Any]:
    job, known = one.job, one.about
    return {
        "id": one.id,
        "study": job.study,
        "task": one.task,
        "task_id": known.get("task_id", ""),
        "hyper": json.dumps(known["hyper"], sort_keys=True),
        "training": json.dumps(asdict(job.training), sort_keys=True),
        "about": json.dumps({**known, **(about or {})}, sort_keys=True),
        "status": status,
        "reason": reason,
        "commit": setting.commit,
        "evaluations": result.evaluations if result else [],
        "predicted": result.predicted if result else [],
        **{name: known[name] for name in ("sweep", "trial", "seed", "held_out", "dataset", "content_id")},
        **{name: known[name] for name in ("protocol", "method", "variant", "backbone")},
        **(cost or {}),
    }
