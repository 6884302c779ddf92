"""What the canonical splits of a dataset are worth to one small trainer: ceiling, floor, and what is between.

The ceiling of a split is the same model trained on rows of the test's own distribution: the train rows of the
nuisances and labels that are tested (and, where domains are left out, of those that train), all of them.
It is a bound: it reads labels that a method of the split must not see. Severities are also judged by a model
of untouched examples alone: the train rows of the base `content`, or where there is none those at severity 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shiftdata.baselines.frozen import FEATURES, FrozenFeatures
from shiftdata.baselines.inputs import MODES, Inputs, Mode, read_inputs
from shiftdata.baselines.run import Model, fit
from shiftdata.baselines.training import TRAINING, Training
from shiftdata.dataset import DatasetName
from shiftdata.errors import InputError, not_found
from shiftdata.extras import require
from shiftdata.format.records import Calibration, CanonicalSplit, Measure
from shiftdata.format.schema import SPLITS
from shiftdata.metadata import Metadata, read_metadata
from shiftdata.metrics import group_accuracy
from shiftdata.metrics.arrays import IntArray
from shiftdata.metrics.groups import Linear
from shiftdata.protocols import parse_protocol
from shiftdata.protocols import task as task_of
from shiftdata.sampling import RowSampler, make_sampler
from shiftdata.stable import content_hash
from shiftdata.tasks import Task

MOST = 10  # splits of one protocol
LEAST = 30  # rows of a test
#: The protocols whose splits leave domains out: of a dataset with several, those of the first are measured.
DOMAINS = (
    "leave-one-domain-out",
    "classic-dg",
    "leave-one-group-out",
    "domainbed",
    "domainbed-v2",
    "flexible-dg",
)
FAIRNESS, CONTINUOUS = "group-fairness", "continuous"
CONTENT = "content"  # the base of untouched examples
K = 8
TRAINS, TESTS = (list(SPLITS).index(name) for name in ("train", "test"))
DIGITS = 4
LABEL, NUISANCE = "label", "nuisance"


@dataclass(frozen=True, eq=False)
class Test:
    """Rows to judge a model on. Its accuracy is the mean over some cells: groups, or nuisances."""

    name: str
    rows: IntArray
    by: str = "group"


@dataclass(frozen=True, eq=False)
class Job:
    """A training, and the tests that it is for; jobs with one `identity` share their model."""

    split: str
    trained: str
    rows: IntArray
    tests: Sequence[Test]
    labels: IntArray
    rule: str = "shuffle"
    target: str = LABEL
    marginal: tuple[float, ...] | None = None
    mode: Mode = "scratch"

    def identity(self, classes: bytes) -> str:
        drawn = (self.mode, self.rule, self.target, str(self.marginal))
        return content_hash(*drawn, self.rows.tobytes(), classes)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is measured of a base, and what cannot be, with reasons."""

    metadata: Metadata
    jobs: list[Job] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    #: The base of untouched examples, if a job trains on it: its row r is row len(metadata) + r.
    content: Metadata | None = None

    def numbers(self, name: str) -> IntArray:
        """The labels, groups or nuisances of all rows; those of untouched examples count for nothing."""
        mine: IntArray = getattr(self.metadata, name)
        if self.content is None:
            return mine
        theirs = self.content.label if name == LABEL else np.full(len(self.content), -1)
        return np.concatenate([mine, theirs])

    def read(self, mode: Mode, used: IntArray) -> Inputs:
        """The examples of some rows of both bases."""
        size = len(self.metadata)
        inputs = read_inputs(self.metadata, mode, used[used < size])
        if self.content is None:
            return inputs
        return inputs.followed_by(read_inputs(self.content, mode, used[used >= size] - size))


def calibrate(
    dataset: DatasetName,
    *,
    modes: Sequence[Mode] = (),
    training: Training = TRAINING,
    minutes: float | None = None,
    before: Calibration | None = None,
    on_job: Callable[[str, int, int], object] = lambda text, done, total: None,
    on_measured: Callable[[Calibration], object] = lambda so_far: None,
) -> Calibration:
    """Train a small model for the canonical splits of a dataset's default base, and judge it.

    Args:
        dataset: a name, a folder, or an opened dataset.
        modes: "scratch", "frozen" (pictures only); default: all that its examples allow.
        training: how each model is trained.
        minutes: begin no training after so many; what is left out is in the record.
        before: what was measured earlier, of the same build with the same settings, is not measured again.
        on_job: gets what is done next, how many trainings are done, and of how many.
        on_measured: gets the record after each training, so that one that is stopped can go on.

    """
    torch = require("torch", "a calibration")
    metadata, begun = read_metadata(dataset), time.monotonic()
    opened = metadata.dataset
    assert opened is not None  # it was named
    manifest = opened.manifest
    pictures = manifest.roles.modality == "image"
    modes = _known(modes) or (MODES if pictures else MODES[:1])
    if pictures and "frozen" in modes:
        FrozenFeatures()  # what it lacks is said before an hour of training, not after
    plan = planned(metadata, manifest.canonical_splits)
    if not plan.jobs:
        why = "; ".join(plan.left_out) or "it has none"
        raise InputError(f"no canonical split of {metadata.name} can be calibrated: {why}")
    versions = {"torch": str(torch.__version__), "intervals": "over origins"}
    measures = _kept(before, metadata, training, versions)
    done = {(one.split, one.trained, one.mode) for one in measures}
    known = Calibration(
        base=metadata.base,
        content_id=manifest.base(metadata.base).content_id,
        steps=training.steps,
        batch=training.batch,
        features=FEATURES if "frozen" in [*modes, *(one.mode for one in measures)] else "",
        versions=versions,
        measures=measures,
        left_out=plan.left_out,
    )
    used = np.unique(np.concatenate([rows for job in plan.jobs for rows in _rows_of(job)]))
    total, late = len(modes) * len(plan.jobs), 0
    for mode in modes:
        on_job(f"reading {len(used):,} examples ({mode})", len(measures), total)
        inputs = plan.read(mode, used)
        models: dict[str, tuple[Model, float]] = {}
        for number, job in enumerate(replace(one, mode=mode) for one in plan.jobs):
            text = f"{job.split}, {job.trained}, {mode}"
            if (job.split, job.trained, mode) in done:
                continue
            if minutes is not None and time.monotonic() - begun > 60 * minutes:
                late += 1
                continue
            on_job(text, modes.index(mode) * len(plan.jobs) + number, total)
            try:
                measures += _measured(plan, inputs, job, training, models)
                on_measured(known)
            except InputError as error:
                plan.left_out.append(f"{text}: {error}")
    if late:
        plan.left_out.append(f"{late} of {total} trainings, for lack of time")
    return known


def _known(modes: Sequence[Mode]) -> Sequence[Mode]:
    for mode in modes:
        if mode not in MODES:
            raise not_found("mode", mode, MODES)
    return modes


def _kept(
    before: Calibration | None, metadata: Metadata, training: Training, versions: Mapping[str, str]
) -> list[Measure]:
    """What was measured earlier, if it was of this build, with these settings and intervals."""
    opened = metadata.dataset
    assert opened is not None  # it was named
    now = (opened.manifest.base(metadata.base).content_id, training.steps, training.batch)
    if before is None or (before.content_id, before.steps, before.batch) != now:
        return []
    return list(before.measures) if before.versions == versions else []


def _rows_of(job: Job) -> list[IntArray]:
    return [job.rows, *(test.rows for test in job.tests)]


def planned(metadata: Metadata, splits: Sequence[CanonicalSplit]) -> Plan:
    """The trainings for some canonical splits, those of one protocol next to each other."""
    plan = Plan(metadata, content=_content(metadata, splits))
    of: dict[str, list[CanonicalSplit]] = {}
    for split in splits:
        of.setdefault(split.protocol.split()[0], []).append(split)
    domains = next((name for name in of if name in DOMAINS), "")
    for name, every in of.items():
        if name not in (FAIRNESS, CONTINUOUS, domains, "uda", "label-shift"):
            continue
        mine = [split for split in every if _tested(split) >= LEAST]
        if len(mine) < len(every):
            few = f"{len(every) - len(mine)} of {len(every)} splits have a test of fewer than {LEAST} rows"
            plan.left_out.append(f"{name}: {few}")
        for split in _chosen(name, mine):
            try:
                task = task_of(metadata, parse_protocol(split.protocol), on_empty="report")
                plan.jobs.extend(_jobs(plan, task, split.name, name))
            except InputError as error:
                plan.left_out.append(f"{split.name}: {error}")
    return plan


def _content(metadata: Metadata, splits: Sequence[CanonicalSplit]) -> Metadata | None:
    """The base of untouched examples, where severities are measured and there is one."""
    opened = metadata.dataset
    if opened is None or not any(split.protocol.split()[0] == CONTINUOUS for split in splits):
        return None
    there = CONTENT in {base.name for base in opened.manifest.bases} - {metadata.base}
    return read_metadata(opened, CONTENT) if there else None


def _chosen(protocol: str, splits: Sequence[CanonicalSplit]) -> list[CanonicalSplit]:
    """Those of one protocol that are measured: one of group fairness or severities, some of the others."""
    if protocol == FAIRNESS and splits:
        return [_fairness_split(splits)]
    if protocol == CONTINUOUS and splits:
        return [max(splits, key=_tested)]
    places = np.linspace(0, len(splits) - 1, min(MOST, len(splits))).astype(int)
    return [splits[place] for place in places]


def _tested(split: CanonicalSplit) -> int:
    """The rows of its test."""
    return next((one.size.rows for one in split.sets.values() if one.roles[0] == "test"), 0)


def _fairness_split(splits: Sequence[CanonicalSplit]) -> CanonicalSplit:
    """The one with 8 classes, or the next smaller number, and the smallest share of minority groups."""

    def order(split: CanonicalSplit) -> tuple[bool, int, float, int]:
        given = dict(word.split("=") for word in split.protocol.split()[1:] if "=" in word)
        k = int(given["k"])
        return k > K, -k if k <= K else k, float(given["mu"]), len(given)

    return min(splits, key=order)


def _jobs(plan: Plan, task: Task, split: str, protocol: str) -> Iterator[Job]:
    metadata, labels = task.metadata, task.label_ids
    name, fit_rows = task.set_of("test"), np.unique(task.rows(task.set_of("fit")))
    tested = np.unique(task.rows(name))
    canonical = metadata.columns["split"]
    apart = tested[canonical[tested] == TESTS]
    tested = apart if len(apart) else tested  # whole domains are tested: train rows of them are the ceiling's
    if not len(tested) or not len(fit_rows):
        raise InputError("it has no rows to train on, or none to test")
    nuisances = np.unique(metadata.nuisance[tested])
    if "domains" in task.metrics:
        nuisances = np.union1d(nuisances, metadata.nuisance[fit_rows])
    alike = np.isin(metadata.nuisance, nuisances) & np.isin(metadata.label, labels)
    ceiling = np.flatnonzero(alike & (canonical == TRAINS))
    ceiling = ceiling[~np.isin(metadata.origin[ceiling], metadata.origin[tested])]
    test = [Test(name, tested)]
    if protocol == CONTINUOUS:
        severity = metadata.columns["severity"]
        steps = np.unique(severity[tested]).tolist()
        test = [Test(f"severity {step:g}", tested[severity[tested] == step], NUISANCE) for step in steps]
        yield Job(split, "every severity", fit_rows, test, labels)
        untouched = fit_rows[severity[fit_rows] == 0]
        if plan.content is not None:
            untouched = len(metadata) + np.flatnonzero(plan.content.columns["split"] == TRAINS)
        yield Job(split, "untouched", untouched, test, labels)
        return
    marginal = None
    if "label-shift" in task.metrics:
        target = metadata.label[task.rows(name)]
        counts = task.counts(name)
        shares = np.bincount(target, counts, minlength=len(metadata.labels))[
            np.unique(metadata.label[ceiling])
        ]
        marginal = tuple((shares / shares.sum()).tolist())
    rule = "shuffle" if marginal is None else "dirichlet"
    yield Job(split, "ceiling", ceiling, test, labels, rule, marginal=marginal)
    yield Job(split, "ERM", fit_rows, test, labels)
    if protocol == FAIRNESS:
        yield Job(split, "RWG", fit_rows, test, labels, "rwg")
        yield Job(split, "SUBG", fit_rows, test, labels, "subg")
        yield Job(split, "nuisance", ceiling, test, nuisances, target=NUISANCE)


def _measured(
    plan: Plan,
    inputs: Inputs,
    job: Job,
    training: Training,
    models: dict[str, tuple[Model, float]],
) -> list[Measure]:
    """What the model of a job is worth on each of its tests."""
    metadata, targets = plan.metadata, plan.numbers(job.target)
    identity = job.identity(job.labels.tobytes())
    if identity not in models:
        begun = time.process_time()  # of one core, however busy the machine is
        wanted = targets[job.rows].astype(np.int64)
        model = fit(inputs, job.rows, wanted, _sampler(plan, job), outputs=job.labels, training=training)
        models[identity] = model, time.process_time() - begun
    model, seconds = models[identity]
    made = []
    for test in job.tests:
        right = model.predict(test.rows) == targets[test.rows]
        made.append(_measure(metadata, job, test, right, seconds))
    return made


def _sampler(plan: Plan, job: Job) -> RowSampler:
    """What draws the rows of a job; groups without a row are left out."""
    labels, groups = plan.numbers(LABEL)[job.rows], np.maximum(plan.numbers("group")[job.rows], 0)
    known = {"label_ids": np.unique(labels).tolist(), "group_ids": np.unique(groups).tolist()}
    share: dict[str, Any] = {} if job.marginal is None else {"marginal": job.marginal, "replacement": True}
    sampler = make_sampler(job.rule, labels=labels, groups=groups, **known, **share)
    assert isinstance(sampler, RowSampler)  # no rule above makes batches
    return sampler


def _measure(
    metadata: Metadata,
    job: Job,
    test: Test,
    right: np.ndarray[tuple[int], np.dtype[np.bool_]],
    seconds: float,
) -> Measure:
    """Accuracy with its interval over origins: the mean over cells, and the worst cell."""
    nuisance = metadata.nuisance[test.rows]
    cells, cell = np.unique(
        nuisance if test.by == NUISANCE else metadata.group[test.rows], return_inverse=True
    )
    n = np.bincount(cell)
    accuracy = np.bincount(cell, right) / n
    origins = metadata.origin[test.rows]
    groups = group_accuracy(np.ones(len(right), np.int64), right * 1, cell, n_groups=len(n), origins=origins)
    over_cells = Linear(groups, np.full(len(n), 1 / len(n)))
    worst, mean = int(accuracy.argmin()), float(accuracy.mean())
    name = metadata.nuisances[cells[worst]] if test.by == NUISANCE else metadata.group_name(int(cells[worst]))
    of = {
        metadata.nuisances[one]: round(
            float(accuracy[_nuisance_of(metadata, test, cells) == one].mean()), DIGITS
        )
        for one in np.unique(nuisance).tolist()
    }
    return Measure(
        split=job.split,
        trained=job.trained,
        mode=job.mode,
        fit=len(job.rows),
        set=test.name,
        rows=len(test.rows),
        cells=len(n),
        smallest=int(n.min()),
        chance=round(1 / len(job.labels), DIGITS),
        mean=_rounded(mean, *over_cells.share_interval(mean)),
        worst=_rounded(float(accuracy[worst]), *groups.intervals()[worst]),
        worst_cell=name,
        by_nuisance=of,
        seconds=round(seconds, 1),
    )


def _nuisance_of(metadata: Metadata, test: Test, cells: IntArray) -> IntArray:
    return cells if test.by == NUISANCE else cells % len(metadata.nuisances)


def _rounded(*numbers: float) -> tuple[float, float, float]:
    first, low, high = (round(float(one), DIGITS) for one in numbers)
    return first, low, high
