"""The price of a sweep before it starts: runs, hours and disk, from measured steps.

Runs whose steps take equally long are a `Kind`: the same base, backbone, method and batch. A few steps of
each are trained on the task itself, after a warm-up, with one evaluation of a few rows. Frozen features are
not computed for it: random numbers of their width take as long to train on.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from shiftdata.baselines import make_method, train
from shiftdata.baselines.heads import HeadSpec, train_grid
from shiftdata.baselines.models import Floats, backbone_of
from shiftdata.baselines.pretrained.load import load
from shiftdata.baselines.pretrained.model import FeatureEncoder
from shiftdata.baselines.sets import FORMS, TaskSets, modality_of
from shiftdata.bench.job import (
    Job,
    TaskSpec,
    base_of,
    facts_of,
    is_heads,
    on_features,
    task_of,
)
from shiftdata.bench.records import PREDICT
from shiftdata.bench.running import read_records, study_of
from shiftdata.bench.sweep import MethodSpec, Sweep
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.encoders import FrozenFeatures
from shiftdata.data.loading.features import Encoder, features_of, uncached
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, MissingExtraError
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.making import choose
from shiftdata.stable import rng
from shiftdata.tables import aligned

#: Steps that are not timed, and those that are: of a network, and of a head on numbers.
WARM_UP, TIMED, TIMED_NUMBERS = 2, 3, 20
#: Rows of an evaluation that is timed, heads that are timed together, pictures that are encoded.
ROWS, TOGETHER, ENCODED = 512, 32, 64
#: Rows of a set at least.
FEWEST = 32
#: Bytes of a record's other columns, and of one figure.
RECORD, FIGURE = 2048, 64


class Kind(NamedTuple):
    """Runs whose steps take equally long. Heads take all rows of the training set: `rows`, else 0."""

    dataset: str
    base: str
    backbone: str
    method: str
    batch: int
    rows: int


class Seconds(NamedTuple):
    """The time of a step, of predicting a row and of the beginning: on the clock, and of the processor."""

    step: float
    row: float
    processor_step: float
    processor_row: float
    #: Before the first step.
    begin: float = 0.0
    processor_begin: float = 0.0
    #: Steps that a run takes for each of its `steps`: methods of several stages take more.
    steps: float = 1.0

    @staticmethod
    def mean(of: Sequence[Seconds]) -> Seconds:
        return Seconds(*map(fmean, zip(*of, strict=True)))


@dataclass
class Line:
    """The runs of a method on a backbone, and the hours of those that are left."""

    runs: int = 0
    left: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    #: Bytes of the records, with every prediction.
    disk: float = 0.0


@dataclass(frozen=True)
class Price:
    """The cost of the runs of a sweep: a line for each backbone and method.

    `refused` has the reasons of studies that cannot be made, `absent` the datasets that are not here, with
    the number of tasks that name them. `features` is what the features take that no cache has: rows, seconds.
    """

    lines: Mapping[tuple[str, str], Line]
    tasks: int
    studies: int
    refused: Mapping[str, int]
    absent: Mapping[str, int]
    features: tuple[int, float]
    measured: tuple[int, int, float]
    device: str = "cpu"
    workers: int = 1

    @property
    def runs(self) -> int:
        return sum(line.runs for line in self.lines.values())

    @property
    def left(self) -> int:
        return sum(line.left for line in self.lines.values())

    @property
    def hours(self) -> float:
        """Hours of cores that are left, or of a GPU."""
        return (sum(map(self._used, self.lines.values())) + self.features[1]) / 3600

    @property
    def wall(self) -> float:
        """Hours on the clock, with the features computed once by one process."""
        seconds = sum(line.seconds for line in self.lines.values())
        return (seconds / self.workers + self.features[1]) / 3600

    def __str__(self) -> str:
        several = len({backbone for backbone, _ in self.lines}) > 1
        body = [
            (
                f"{method}, {backbone}" if several else method,
                f"{line.runs:,}",
                f"{line.left:,}",
                _hours(self._used(line) / 3600),
            )
            for (backbone, method), line in self.lines.items()
        ]
        if self.features[0]:
            body.append((f"features of {self.features[0]:,} rows", "", "", _hours(self.features[1] / 3600)))
        body.append(("total", f"{self.runs:,}", f"{self.left:,}", _hours(self.hours)))
        header = ("method", "runs", "left", "core hours" if self.device == "cpu" else "GPU hours")
        kinds, of, seconds = self.measured
        disk = sum(line.disk for line in self.lines.values()) / 2**20
        others = "; the others take the mean of those most like them" if kinds < of else ""
        lines = [
            f"{self.studies:,} studies on {self.tasks:,} tasks",
            aligned(header, body, [False, True, True, True]),
            f"on the clock with --workers {self.workers}: {_hours(self.wall)} h; "
            f"records: up to {disk:,.1f} MiB",
            f"from a few steps and an evaluation of {kinds:,} of {of:,} kinds of runs, after a warm-up, on "
            f"{self.device} as it is now ({seconds:.0f} s){others}",
        ]
        lines += [f"cannot be made, {count:,} studies: {why}" for why, count in self.refused.items()]
        return "\n".join(lines)

    def _used(self, line: Line) -> float:
        return line.processor if self.device == "cpu" else line.seconds


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}" if hours >= 0.01 else "< 0.01"


class Study(NamedTuple):
    """A study with the jobs of its trials, and how many runs each of them stands for."""

    spec: TaskSpec
    method: MethodSpec
    backbone: str
    jobs: Sequence[Job]
    #: Runs of each trial, and further runs, of the trial that will be the best.
    seeds: int
    further: int


def price(
    sweep: Sweep,
    folder: str | Path,
    *,
    device: str = "cpu",
    workers: int = 1,
    absent: Collection[str] = (),
    budget: float = 60.0,
    on_kind: Callable[[int, int], object] = lambda done, total: None,
) -> Price:
    """Return the price of the runs of a sweep that its folder does not have yet.

    Each backbone, method and batch is timed on this machine, and further kinds until `budget` seconds are
    spent; the others take the mean of those most like them. `absent` are datasets that are not here, whose
    tasks are counted and not priced. `on_kind` gets the number of kinds that were timed, and of all.
    """
    present = tuple(spec for spec in sweep.tasks if spec.dataset not in absent)
    missing = Counter(spec.dataset for spec in sweep.tasks if spec.dataset in absent)
    done = _done(Path(folder))
    studies, refused = [], Counter[str]()
    for study in _studies(replace(sweep, tasks=present)):
        if why := _refused(study):
            refused[why] += 1
        else:
            studies.append(study)
    kinds = {kind: job for study in studies for job in study.jobs for kind in [_kind(job)]}
    begun = time.monotonic()
    seconds, failed = _measure(kinds, device, begun + budget, on_kind)
    firsts = [_kind(study.jobs[0]) for study in studies]
    refused.update(failed[kind] for kind in firsts if kind in failed)
    studies = [study for study, kind in zip(studies, firsts, strict=True) if kind not in failed]
    lines: dict[tuple[str, str], Line] = {}
    for study in studies:
        line = lines.setdefault((study.backbone, study.method.text), Line())
        _add(line, study, seconds, done)
    return Price(
        lines=lines,
        tasks=len(present),
        studies=len(studies) + refused.total(),
        refused=refused,
        absent=missing,
        features=_features(studies),
        measured=(len(seconds), len(kinds), time.monotonic() - begun),
        device=device.partition(":")[0],
        workers=workers,
    )


def _studies(sweep: Sweep) -> Iterator[Study]:
    """Yield the studies with all their trials; those that a search has not tried yet are drawn at random."""
    search = sweep.search
    kind = "random" if search.kind == "tpe" else search.kind
    first = replace(sweep, search=replace(search, kind=kind, seeds_of="each", seeds=1))
    is_each = search.seeds_of == "each"
    for spec, method, backbone in sweep.studies():
        jobs = list(study_of(first, spec, method, backbone, {}))
        seeds, further = (search.seeds, 0) if is_each else (1, search.seeds - 1)
        yield Study(spec, method, backbone, jobs, seeds, further)


def _done(folder: Path) -> Counter[tuple[str, int]]:
    """Count the recorded runs of each study and trial."""
    records = read_records(folder)
    if records is None:
        return Counter()
    return Counter(zip(*map(records.column, ("study", "trial")), strict=True))


def _refused(study: Study) -> str:
    """Return the reason why the runs of a study cannot be made; empty if they can, as far as is known."""
    if why := facts_of(study.spec).get("refused"):
        return str(why)
    if study.method.name == PREDICT:
        return ""
    try:
        method = make_method(study.method.name, variant=study.method.variant, **study.method.hyper)
        TaskSets.of(task_of(study.spec), method, None)
    except InputError as error:
        return str(error)
    return ""


def _kind(job: Job) -> Kind:
    base = job.task.base or ""
    rows = facts_of(job.task)["rows"] if is_heads(job.backbone) else 0
    name = job.method if job.variant == "fixed" else f"{job.method}@{job.variant}"
    return Kind(job.task.dataset, base, job.backbone, name, job.training.batch, rows)


def _measure(
    kinds: Mapping[Kind, Job], device: str, until: float, on_kind: Callable[[int, int], object]
) -> tuple[dict[Kind, Seconds], dict[Kind, str]]:
    """Time each backbone, method and batch, and further kinds as long as there is time.

    Return the kinds that cannot be trained too, with the reason.
    """
    seen: Counter[tuple[str, str, int]] = Counter()
    rank = {}
    for kind in kinds:
        rank[kind] = seen[kind.backbone, kind.method, kind.batch]
        seen[kind.backbone, kind.method, kind.batch] += 1
    seconds: dict[Kind, Seconds] = {}
    failed: dict[Kind, str] = {}
    for number, kind in enumerate(sorted(kinds, key=rank.__getitem__)):
        on_kind(number, len(kinds))
        if rank[kind] and time.monotonic() > until:
            break
        try:
            seconds[kind] = _timed(kinds[kind], device)
        except (InputError, MissingExtraError) as error:  # such as a network without batch norm
            failed[kind] = str(error)
    on_kind(len(kinds), len(kinds))
    return seconds, failed


def _add(
    line: Line, study: Study, seconds: Mapping[Kind, Seconds], done: Mapping[tuple[str, int], int]
) -> None:
    """Add the runs of a study to its line, at the price of those that are left."""
    task = task_of(study.spec)
    evaluated, size = _evaluation(task)
    prices = []
    for job in study.jobs:
        cost = _of(_kind(job), seconds)
        steps = job.training.steps * cost.steps
        every = job.training.evaluate_every
        evaluations = 1 + (job.training.steps - 1) // every if every else 1
        if job.method == PREDICT:
            steps, evaluations = 0, 1
            if job.variant not in ("labels", "zero-shot"):  # a head that is fitted, or may be
                evaluated += sum(len(task.rows(name)) for name, of in task.sets.items() if of.role == "fit")
        rows = evaluated * evaluations
        relabels = steps * job.training.batch if "rs" in job.method.split("+")[:-1] else 0
        wall = cost.begin + steps * cost.step + (rows + relabels) * cost.row
        used = cost.processor_begin + steps * cost.processor_step + (rows + relabels) * cost.processor_row
        prices.append((wall, used, RECORD + evaluations * size))
    mean = [fmean(column) for column in zip(*prices, strict=True)]
    here = [done.get((job.study, job.trial), 0) for job in study.jobs]
    left = [max(0, study.seeds - count) for count in here]
    further = max(0, study.further - sum(max(0, count - study.seeds) for count in here))
    line.runs += len(study.jobs) * study.seeds + study.further
    line.left += sum(left) + further
    pairs = list(zip(prices, left, strict=True))
    line.seconds += sum(wall * count for (wall, _, _), count in pairs) + further * mean[0]
    line.processor += sum(used * count for (_, used, _), count in pairs) + further * mean[1]
    line.disk += sum(disk * study.seeds for _, _, disk in prices) + study.further * mean[2]


def _of(kind: Kind, seconds: Mapping[Kind, Seconds]) -> Seconds:
    """Return the time of a kind, or the mean of those that are most like it."""
    if kind in seconds:
        return seconds[kind]
    for same in (("backbone", "method", "batch"), ("backbone", "method"), ("backbone",), ()):
        wanted = [getattr(kind, name) for name in same]
        alike = [of for each, of in seconds.items() if [getattr(each, name) for name in same] == wanted]
        if alike:
            return Seconds.mean(alike)
    return Seconds(0.0, 0.0, 0.0, 0.0)


def _evaluation(task: Task) -> tuple[int, int]:
    """Return the rows that an evaluation predicts, and the bytes that it leaves in a record."""
    sets = {name: rows for name, rows in task.sets.items() if rows.role in ("select", "test")}
    rows = [len(task.rows(name)) for name in sets]
    groups = len(task.label_ids) * len(task.metadata.nuisances)
    return sum(rows), sum(2 * n + 4 * min(n, groups) + 4 * FIGURE for n in rows)


def _timed(job: Job, device: str) -> Seconds:
    """Time a few steps of a job, and the prediction of a row."""
    task = task_of(job.task)
    if is_heads(job.backbone):
        return _timed_heads(job, task)
    small = _small(task)
    name, encoder = on_features(job.backbone)
    if job.method == PREDICT:
        return _timed_prediction(job, small, device)
    is_numbers = backbone_of(name).reads == "numbers"
    timed = TIMED_NUMBERS if is_numbers else TIMED
    is_frozen = encoder is not None or (
        is_numbers and FORMS.get((modality_of(task.metadata), "numbers")) == "frozen"
    )
    features = _like_features(task.metadata, encoder) if is_frozen else None
    every = WARM_UP + timed + 1
    has_select = any(rows.role == "select" for rows in small.sets.values())
    training = replace(job.training, evaluate_every=every if has_select else 0)
    if training.steps < every:
        training = replace(training, steps=every)
    watch = _Watch(WARM_UP + timed, device)
    with suppress(_EnoughError):
        train(
            small,
            job.method,
            variant=job.variant,
            backbone=name,
            features=features,
            training=training,
            device=device,
            test_steps=has_select,
            on_rows=int,
            on_step=watch,
            **dict[str, Any](job.hyper),
        )
    return watch.seconds(sum(_evaluation(small)[:1]) if has_select else 0, job.training.steps)


class _EnoughError(Exception):
    """The steps that are timed are done."""


@dataclass
class _Watch:
    """Takes the time after each step, and stops a training after step `last` and one with an evaluation."""

    last: int
    device: str
    times: list[tuple[float, float]] = field(default_factory=list)
    begun: tuple[float, float] = field(default_factory=lambda: (time.monotonic(), time.process_time()))
    total: int = 0

    def __call__(self, done: int, total: int) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize(self.device)
        self.times.append((time.monotonic(), time.process_time()))
        self.total = total
        if done > self.last:
            raise _EnoughError

    def seconds(self, rows: int, steps: int) -> Seconds:
        """Return the time of a step and of a row; `steps` are those of the settings."""
        spans = np.diff(np.array(self.times), axis=0)
        is_whole = len(spans) >= self.last  # else the training was shorter
        wall, used = spans[WARM_UP - 1 : self.last - 1 if is_whole else None].mean(axis=0).tolist()
        row_wall, row_used = 0.0, 0.0
        if rows and is_whole:
            row_wall, row_used = (np.maximum(spans[-1] - (wall, used), 0) / rows).tolist()
        begin, began = np.maximum(np.subtract(self.times[0], self.begun) - (wall, used), 0).tolist()
        return Seconds(wall, row_wall, used, row_used, begin, began, max(1.0, self.total / steps))


def _small(task: Task) -> Task:
    """Return a task with a share of the rows that an evaluation reads, those to adapt to among them."""
    share = ROWS / max(1, _evaluation(task)[0])
    for name, rows in task.sets.items():
        different = len(rows.indices)  # a draw with replacement has more rows
        size = max(FEWEST, math.ceil(share * different))
        if rows.role != "fit" and different > size:
            places = rng("price", name).choice(different, size, replace=False)
            task = choose(task, name, rows.indices[np.sort(places)], "a step is timed")
    return task


def _like_features(metadata: Metadata, encoder: FeatureEncoder | None) -> Floats:
    """Return an array with different lines that takes up no room: windows of one line of random numbers."""
    width = encoder.model.n_features if encoder else 1280
    line = rng("price", "features").standard_normal(len(metadata) + width - 1).astype(np.float32)
    return sliding_window_view(line, width)


def _timed_heads(job: Job, task: Task) -> Seconds:
    """Time heads that are trained together; their evaluations are a part of it."""
    spec = HeadSpec(
        method=job.method,
        learning_rate=job.training.learning_rate,
        weight_decay=job.training.weight_decay,
        momentum=job.training.momentum,
        hyper=dict(job.hyper),
    )
    encoder = on_features(job.backbone)[1]
    is_frozen = encoder is not None or modality_of(task.metadata) == "image"
    features = _like_features(task.metadata, encoder) if is_frozen else None
    spans = []
    for steps in (WARM_UP, WARM_UP + TIMED_NUMBERS):
        begun, used = time.monotonic(), time.process_time()
        train_grid(_small(task), [spec] * TOGETHER, steps=steps, features=features)
        spans.append((time.monotonic() - begun, time.process_time() - used))
    # What both do before the first step goes; of very few rows the difference is noise.
    wall, processor = (
        (after - before if after > before else after) / TIMED_NUMBERS / TOGETHER
        for before, after in zip(*spans, strict=True)
    )
    return Seconds(wall, 0.0, processor, 0.0)


def _timed_prediction(job: Job, task: Task, device: str) -> Seconds:
    """Time the encoding of pictures, which is nearly all of a prediction."""
    encoder = FeatureEncoder(load(job.backbone, size=dict[str, Any](job.hyper).get("size")), device)
    rows = np.unique(np.concatenate([task.rows(name) for name in task.sets]))
    wall, used = _encoding(task.metadata, rows, encoder)
    return Seconds(0, wall, 0, used)


def _encoding(metadata: Metadata, rows: IntArray, encoder: Encoder) -> tuple[float, float]:
    """Return the seconds that the features of a row take: on the clock, and of the processor."""
    features_of(metadata, rows[:1], encoder, cache=False)
    timed = rows[1 : ENCODED + 1]
    begun, used = time.monotonic(), time.process_time()
    features_of(metadata, timed, encoder, cache=False)
    n = max(1, len(timed))
    return (time.monotonic() - begun) / n, (time.process_time() - used) / n


def _features(studies: Sequence[Study]) -> tuple[int, float]:
    """Return the rows whose features no cache has, and the seconds that they take."""
    rows: dict[tuple[str, str | None, str], list[IntArray]] = {}
    for spec, backbone in dict.fromkeys((study.spec, study.backbone) for study in studies):
        name, encoder = on_features(backbone)
        reads = "numbers" if is_heads(backbone) else backbone_of(name).reads
        task = task_of(spec)
        if encoder or (reads == "numbers" and modality_of(task.metadata) == "image"):
            place = spec.dataset, spec.base, backbone.partition("@")[2]
            rows.setdefault(place, []).extend(task.rows(each) for each in task.sets)
    count, seconds = 0, 0.0
    for (dataset, base, model), of in rows.items():
        metadata = base_of(dataset, base)
        makes = on_features(f"linear@{model}")[1] if model else FrozenFeatures()
        assert makes is not None  # "linear@" reads features
        new = uncached(metadata, np.unique(np.concatenate(of)), makes)
        if len(new):  # they are computed on the processor, by one process
            seconds += _encoding(metadata, new, makes)[1] * len(new)
            count += len(new)
    return count, math.ceil(seconds) if seconds else 0.0
