"""Measure a dataset's canonical splits with one small network: ceiling, floor, and methods between them.

The ceiling of a split is the same model trained on rows of the test's own distribution: the train rows of the
nuisances and labels that are tested (and, where domains are left out, of the training domains too). It is a
bound: it reads labels that a method of the split must not see. Severities are also judged by a model of
untouched examples alone: train rows of the base `content`, or where there is none those at severity 0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.baselines.method import no_rows
from shiftdata.baselines.run import Model, fit
from shiftdata.baselines.sets import MODES, Mode, source_of
from shiftdata.baselines.training import TRAINING, Training
from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import DatasetName
from shiftdata.data.format.records import Calibration, CanonicalSplit, Measure
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.typed import record
from shiftdata.data.loading.encoders import FEATURES, FrozenFeatures
from shiftdata.data.loading.sources import Source
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import group_accuracy
from shiftdata.evaluation.metrics.groups import Linear
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.protocols import task as task_of
from shiftdata.evaluation.sampling import FixedRows, RowSampler, make_sampler
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.rows import counts_of
from shiftdata.extras import require
from shiftdata.files import write_text
from shiftdata.stable import rng
from shiftdata.untrusted.texts import read_json

MOST_SPLITS = 10  # of one protocol
LEAST_ROWS = 30  # of a test
#: The protocols whose splits leave domains out: of a dataset with several, those of the first are measured.
DOMAINS = (
    "leave-one-domain-out", "classic-dg", "leave-one-group-out", "domainbed", "domainbed-v2", "flexible-dg",
)  # fmt: skip
FAIRNESS, CONTINUOUS = "group-fairness", "continuous"
CONTENT = "content"  # the base of untouched examples
K = 8
TRAINS, TESTS = (list(SPLITS).index(name) for name in ("train", "test"))
DIGITS = 4
LABEL, NUISANCE = "label", "nuisance"
#: Models, and the seconds of their training, by the identity of their job.
Models: TypeAlias = "dict[tuple[object, ...], tuple[Model, float]]"


@dataclass(frozen=True, eq=False)
class Test:
    """Rows to judge a model on. Its accuracy is the mean over cells: groups, or nuisances."""

    name: str
    rows: IntArray
    by: str = "group"


@dataclass(frozen=True, eq=False)
class Job:
    """A training on rows of a base, and the tests that it is for; jobs with one `identity` share a model."""

    split: str
    trained: str
    base: Metadata
    rows: IntArray
    tests: Sequence[Test]
    labels: IntArray
    rule: str = "shuffle"
    target: str = LABEL
    marginal: tuple[float, ...] | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        drawn = self.base.base, self.rule, self.target, self.marginal
        return *drawn, self.rows.tobytes(), self.labels.tobytes()


def calibrate(
    dataset: DatasetName,
    out: str | Path,
    *,
    modes: Sequence[Mode] = (),
    training: Training = TRAINING,
    on_job: Callable[[str, int, int], object] = lambda text, done, total: None,
) -> Calibration:
    """Train a small model for the canonical splits of a dataset's default base, judge it, write the record.

    The record is the JSON file `out`, written after each training. Measures in it of the same build with the
    same settings are taken over, so that a calibration that was stopped goes on. `modes` are by default all
    that the examples allow. `on_job` gets the next job, the number of trainings done, and that of all.
    """
    torch = require("torch", "a calibration")
    metadata, out = read_metadata(dataset), Path(out)
    assert metadata.dataset is not None  # it was named
    manifest = metadata.dataset.manifest
    pictures = manifest.roles.modality == "image"
    modes = modes or (MODES if pictures else MODES[:1])
    if pictures and "frozen" in modes:
        FrozenFeatures()  # a missing package is named before an hour of training, not after
    jobs, left_out = planned(metadata, manifest.canonical_splits)
    if not jobs:
        why = "; ".join(left_out) or "it has none"
        raise InputError(f"no canonical split of {metadata.name} can be calibrated: {why}")
    content_id = manifest.base(metadata.base).content_id
    versions = {"torch": str(torch.__version__), "intervals": "over origins"}
    settings = content_id, training.steps, training.batch, versions
    before = record(Calibration, read_json(out.read_bytes())) if out.exists() else None
    measures: list[Measure] = []
    if before is not None and (before.content_id, before.steps, before.batch, before.versions) == settings:
        measures += before.measures
    features = FEATURES if "frozen" in [*modes, *(measure.mode for measure in measures)] else ""
    measured = Calibration(
        base=metadata.base,
        content_id=content_id,
        steps=training.steps,
        batch=training.batch,
        features=features,
        versions=versions,
        measures=measures,
        left_out=left_out,
    )
    done = {(measure.split, measure.trained, measure.mode) for measure in measures}
    total = len(modes) * len(jobs)
    for at, mode in enumerate(modes):
        on_job(f"reading examples ({mode})", len(measures), total)
        sources = read_sources(metadata, jobs, mode)
        models: Models = {}
        for number, job in enumerate(jobs, start=at * len(jobs)):
            if (job.split, job.trained, mode) in done:
                continue
            text = f"{job.split}, {job.trained}, {mode}"
            on_job(text, number, total)
            try:
                measures += _measured(metadata, sources, job, mode, training, models)
            except InputError as error:
                left_out.append(f"{text}: {error}")
            _write(measured, out)
    _write(measured, out)
    return measured


def _write(measured: Calibration, out: Path) -> None:
    write_text(out, json.dumps(asdict(measured), indent=1, ensure_ascii=False) + "\n")


def read_sources(metadata: Metadata, jobs: Sequence[Job], mode: Mode) -> dict[str, Source]:
    """Return readers of the rows of each base, by its name; features that are not cached are computed now."""
    bases = {job.base.base: job.base for job in jobs} | {metadata.base: metadata}
    rows = {name: [job.rows for job in jobs if job.base.base == name] for name in bases}
    rows = {name: [np.unique(np.concatenate([no_rows(), *fit]))] for name, fit in rows.items()}
    rows[metadata.base] += [test.rows for job in jobs for test in job.tests]
    return {name: source_of(base, mode, *rows[name]) for name, base in bases.items()}


def train_model(source: Source, job: Job, training: Training) -> Model:
    """Train the model of a job; groups without a row are left out of the draw."""
    labels, groups = job.base.label[job.rows], job.base.group[job.rows]
    sampler = make_sampler(job.rule, labels=labels, groups=groups, on_empty="drop")
    if job.marginal is not None:  # as many rows, with these shares of the labels
        _, label, counts = np.unique(labels, return_inverse=True, return_counts=True)
        generator = rng("calibrate", "label-shares")
        sampler = FixedRows(generator.choice(len(labels), len(labels), p=(job.marginal / counts)[label]))
    assert isinstance(sampler, RowSampler)  # no rule above makes batches
    targets = getattr(job.base, job.target)[job.rows].astype(np.int64)
    return fit(source, job.rows, targets, sampler, outputs=job.labels, training=training)


def planned(metadata: Metadata, splits: Sequence[CanonicalSplit]) -> tuple[list[Job], list[str]]:
    """Return the trainings for canonical splits by protocol, and what cannot be measured, with reasons."""
    jobs, left_out, content = list[Job](), list[str](), _content(metadata, splits)
    by_protocol: dict[str, list[CanonicalSplit]] = {}
    for split in splits:
        by_protocol.setdefault(split.protocol.split()[0], []).append(split)
    domains = next((name for name in by_protocol if name in DOMAINS), "")
    for name, given in by_protocol.items():
        if name not in (FAIRNESS, CONTINUOUS, domains, "uda", "label-shift"):
            continue
        large = [split for split in given if _tested(split) >= LEAST_ROWS]
        if len(large) < len(given):
            few = f"{len(given) - len(large)} of {len(given)} splits test fewer than {LEAST_ROWS} rows"
            left_out.append(f"{name}: {few}")
        for split in _chosen(name, large):
            try:
                task = task_of(metadata, parse_protocol(split.protocol), on_empty="report")
                jobs.extend(_jobs(task, split.name, name, content))
            except InputError as error:
                left_out.append(f"{split.name}: {error}")
    return jobs, left_out


def _content(metadata: Metadata, splits: Sequence[CanonicalSplit]) -> Metadata | None:
    """Return the base of untouched examples, where severities are measured and there is one."""
    opened = metadata.dataset
    if opened is None or not any(split.protocol.split()[0] == CONTINUOUS for split in splits):
        return None
    if opened.manifest.roles.modality == "text":  # n-grams are those of one base
        return None
    bases = {base.name for base in opened.manifest.bases} - {metadata.base}
    return read_metadata(opened, CONTENT) if CONTENT in bases else None


def _chosen(protocol: str, splits: Sequence[CanonicalSplit]) -> list[CanonicalSplit]:
    """Choose the splits of a protocol to measure: one of group fairness or severities, else a few."""
    if protocol == FAIRNESS and splits:
        return [min(splits, key=_fairness_order)]
    if protocol == CONTINUOUS and splits:
        return [max(splits, key=_tested)]
    places = np.linspace(0, len(splits) - 1, min(MOST_SPLITS, len(splits))).astype(int)
    return [splits[place] for place in places]


def _tested(split: CanonicalSplit) -> int:
    """Count the rows of its test."""
    return next((rows.size.rows for rows in split.sets.values() if rows.roles[0] == "test"), 0)


def _fairness_order(split: CanonicalSplit) -> tuple[bool, int, float, int]:
    """Put 8 classes first, or the next smaller number, and the smallest share of minority groups."""
    given = dict(word.split("=") for word in split.protocol.split()[1:] if "=" in word)
    k = int(given["k"])
    return k > K, -k if k <= K else k, float(given["mu"]), len(given)


def _jobs(task: Task, split: str, protocol: str, content: Metadata | None) -> Iterator[Job]:
    metadata, labels = task.metadata, task.label_ids
    name, fit_rows = task.set_of("test"), np.unique(task.rows(task.set_of("fit")))
    tested = np.unique(task.rows(name))
    canonical = metadata.columns["split"]
    if (canonical[tested] == TESTS).any():  # whole domains are tested: train rows of them are the ceiling's
        tested = tested[canonical[tested] == TESTS]
    if not len(tested) or not len(fit_rows):
        raise InputError("it has no rows to train on, or none to test")
    nuisances = np.unique(metadata.nuisance[tested])
    if "domains" in task.history.metrics:
        nuisances = np.union1d(nuisances, metadata.nuisance[fit_rows])
    alike = np.isin(metadata.nuisance, nuisances) & np.isin(metadata.label, labels)
    ceiling = np.flatnonzero(alike & (canonical == TRAINS))
    ceiling = ceiling[~np.isin(metadata.origin[ceiling], metadata.origin[tested])]
    if protocol == CONTINUOUS:
        severity = metadata.columns["severity"]
        steps = np.unique(severity[tested]).tolist()
        tests = [Test(f"severity {step:g}", tested[severity[tested] == step], NUISANCE) for step in steps]
        yield Job(split, "every severity", metadata, fit_rows, tests, labels)
        base, untouched = metadata, fit_rows[severity[fit_rows] == 0]
        if content is not None:
            base, untouched = content, np.flatnonzero(content.columns["split"] == TRAINS)
        yield Job(split, "untouched", base, untouched, tests, labels)
        return
    tests, marginal = [Test(name, tested)], None
    if "label-shift" in task.history.metrics:
        target = metadata.label[task.rows(name)]
        shares = np.bincount(target, counts_of(task, name), minlength=len(metadata.labels))
        shares = shares[np.unique(metadata.label[ceiling])]
        marginal = tuple((shares / shares.sum()).tolist())
    yield Job(split, "ceiling", metadata, ceiling, tests, labels, marginal=marginal)
    yield Job(split, "ERM", metadata, fit_rows, tests, labels)
    if protocol == FAIRNESS:
        yield Job(split, "RWG", metadata, fit_rows, tests, labels, "rwg")
        yield Job(split, "SUBG", metadata, fit_rows, tests, labels, "subg")
        yield Job(split, "nuisance", metadata, ceiling, tests, nuisances, target=NUISANCE)


def _measured(
    metadata: Metadata, sources: dict[str, Source], job: Job, mode: Mode, training: Training, models: Models
) -> list[Measure]:
    """Train the model of a job, unless another job has, and judge it on each test."""
    if job.identity not in models:
        begun = time.process_time()  # of one core, however busy the machine is
        model = train_model(sources[job.base.base], job, training)
        models[job.identity] = model, time.process_time() - begun
    (model, seconds), measures = models[job.identity], []
    for test in job.tests:
        predicted = model.predict(test.rows, sources[metadata.base])
        right = predicted == getattr(metadata, job.target)[test.rows]
        measures.append(_measure(metadata, job, test, mode, right, seconds))
    return measures


def _measure(
    metadata: Metadata, job: Job, test: Test, mode: Mode, right: NDArray[np.bool_], seconds: float
) -> Measure:
    """Return the accuracy with its interval over origins: the mean over cells, and the worst cell."""
    cells, cell = np.unique(getattr(metadata, test.by)[test.rows], return_inverse=True)
    n = np.bincount(cell)
    accuracy = np.bincount(cell, right) / n
    origins = metadata.origin[test.rows]
    groups = group_accuracy(np.ones(len(right), np.int64), right * 1, cell, n_groups=len(n), origins=origins)
    over_cells = Linear(groups, np.full(len(n), 1 / len(n)))
    worst, mean = int(accuracy.argmin()), float(accuracy.mean())
    worst_cell = int(cells[worst])
    nuisance = cells % len(metadata.nuisances)  # a group is label x nuisances + nuisance
    return Measure(
        split=job.split,
        trained=job.trained,
        mode=mode,
        fit=len(job.rows),
        set=test.name,
        rows=len(test.rows),
        cells=len(n),
        smallest=int(n.min()),
        chance=round(1 / len(job.labels), DIGITS),
        mean=_rounded(mean, *over_cells.interval(mean)),
        worst=_rounded(float(accuracy[worst]), *groups.intervals()[worst]),
        worst_cell=metadata.nuisances[worst_cell] if test.by == NUISANCE else metadata.group_name(worst_cell),
        by_nuisance={
            metadata.nuisances[number]: round(float(accuracy[nuisance == number].mean()), DIGITS)
            for number in np.unique(nuisance).tolist()
        },
        seconds=round(seconds, 1),
    )


def _rounded(*numbers: float) -> tuple[float, float, float]:
    share, low, high = (round(float(number), DIGITS) for number in numbers)
    return share, low, high
