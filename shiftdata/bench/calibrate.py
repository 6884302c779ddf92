"""Measure a dataset's canonical splits with small networks: ceiling, floor, and methods between them.

Several networks and seeds tell how far a figure belongs to the split, and how far to a network.

The ceiling of a split is the same model trained on rows of the test's own distribution: the train rows of the
nuisances and labels that are tested (and, where domains are left out, of the training domains too). It is a
bound: it reads labels that a method of the split must not see. Severities are also judged by a model of
untouched examples alone: train rows of the base `content`, or where there is none those at severity 0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.baselines.method import no_rows
from shiftdata.baselines.models import backbone_of
from shiftdata.baselines.run import Model, fit
from shiftdata.baselines.sets import Mode, modality_of, source_of
from shiftdata.baselines.training import Training
from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import DatasetName
from shiftdata.data.format.records import Calibration, CanonicalSplit, Measure
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.typed import record
from shiftdata.data.loading.encoders import FrozenFeatures
from shiftdata.data.loading.sources import Source
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError, not_found
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

MOST_SPLITS = 2  # that leave domains out or shift labels; of any other protocol one is measured
LEAST_ROWS = 30  # of a test
#: The protocols whose splits leave domains out: of a dataset with several, those of the first are measured,
#: and without any those of unsupervised adaptation, which ask the same of a model without a method.
DOMAINS = (
    "leave-one-domain-out", "classic-dg", "leave-one-group-out", "domainbed", "domainbed-v2", "flexible-dg",
)  # fmt: skip
FAIRNESS, CONTINUOUS, LABEL_SHIFT = "group-fairness", "continuous", "label-shift"
#: Networks by modality; of pictures `linear` reads the features of a network that stays as it is.
NETWORKS = {
    "image": ("small-cnn", "small-resnet", "linear"),
    "text": ("linear", "mlp"),
    "table": ("linear", "mlp"),
}
SEEDS = 3
#: Letters stay legible at 32 pixels, where a step costs three fifths of one at 40.
SIDE = 32
#: Rows of a training set, drawn among all: a training draws 38,400, and frozen features cost by the row.
MOST_ROWS = 12_000
#: With half of the steps and of the batch, networks from scratch do not learn the contexts of `nico_glyphs`.
CALIBRATION = Training(steps=600, learning_rate=0.005)
CONTENT = "content"  # the base of untouched examples
K = 8
TRAINS, TESTS = (list(SPLITS).index(name) for name in ("train", "test"))
DIGITS = 4
NUISANCE = "nuisance"
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
    marginal: tuple[float, ...] | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        return self.base.base, self.rule, self.marginal, self.rows.tobytes(), self.labels.tobytes()


@dataclass(frozen=True)
class Trial:
    """A network and a seed, with which every job is trained."""

    network: str
    mode: Mode
    seed: int


def calibrate(
    dataset: DatasetName,
    out: str | Path,
    *,
    networks: Sequence[str] = (),
    splits: Sequence[str] = (),
    seeds: int = SEEDS,
    training: Training = CALIBRATION,
    on_job: Callable[[str, int, int], object] = lambda text, done, total: None,
) -> Calibration:
    """Train small models for the canonical splits of a dataset's default base, judge them, write the record.

    The record is the JSON file `out`, written after each training. Measures in it of the same build with the
    same settings are taken over, so that a calibration that was stopped goes on. `networks` are by default
    those of `NETWORKS`, `splits` a few of each protocol. `on_job` gets the next job, the number of trainings
    done, and that of all.
    """
    torch = require("torch", "a calibration")
    metadata, out = read_metadata(dataset), Path(out)
    assert metadata.dataset is not None  # it was named
    manifest = metadata.dataset.manifest
    trials = trials_of(metadata, networks, seeds)
    jobs, left_out = planned(metadata, manifest.canonical_splits, splits)
    if not jobs:
        why = "; ".join(left_out) or "it has none"
        raise InputError(f"no canonical split of {metadata.name} can be calibrated: {why}")
    measured = Calibration(
        base=metadata.base,
        content_id=manifest.base(metadata.base).content_id,
        steps=training.steps,
        batch=training.batch,
        side=SIDE if manifest.roles.modality == "image" else 0,
        versions={"torch": str(torch.__version__)},
        measures=[],
        left_out=left_out,
    )
    measures = _measures_before(out, measured)
    measured = replace(measured, measures=measures)
    done = {(measure.split, measure.trained, measure.network, measure.seed) for measure in measures}
    total = len(trials) * len(jobs)
    sources: dict[Mode, dict[str, Source]] = {}
    for at, trial in enumerate(trials):
        models: Models = {}
        for number, job in enumerate(jobs, start=at * len(jobs)):
            if (job.split, job.trained, trial.network, trial.seed) in done:
                continue
            if trial.mode not in sources:
                on_job(f"reading examples ({trial.mode})", number, total)
                sources[trial.mode] = read_sources(metadata, jobs, trial.mode)
            text = f"{job.split}, {job.trained}, {trial.network}, seed {trial.seed}"
            on_job(text, number, total)
            try:
                measures += _measured(metadata, sources[trial.mode], job, trial, training, models)
            except InputError as error:
                left_out.append(f"{text}: {error}")
            _write(measured, out)
    _write(measured, out)
    return measured


def trials_of(metadata: Metadata, networks: Sequence[str], seeds: int) -> list[Trial]:
    """Return the networks that read a base's examples, each with every seed; all networks of a seed first.

    A calibration that is stopped then has every network, and fewer seeds.
    """
    modality = modality_of(metadata)
    modes: dict[str, Mode] = {}
    for network in networks or NETWORKS[modality]:
        about = backbone_of(network)
        if about.pretraining or (about.reads == "pixels" and modality != "image"):
            fitting = ", ".join(NETWORKS[modality])
            raise InputError(f"{network} is not calibrated on examples of {modality}: choose from {fitting}")
        modes[network] = "frozen" if modality == "image" and about.reads == "numbers" else "scratch"
    if "frozen" in modes.values():
        FrozenFeatures()  # a missing package is named before an hour of training, not after
    return [Trial(network, mode, seed) for seed in range(seeds) for network, mode in modes.items()]


def _measures_before(out: Path, now: Calibration) -> list[Measure]:
    """Return the measures of a record that was written with the same settings for the same build."""
    if not out.exists():
        return []
    try:
        before = record(Calibration, read_json(out.read_bytes()))
    except ValueError as error:
        raise InputError(
            f"{out} is not a calibration of this version ({error}): delete it, or give another --out"
        ) from error
    settings = [(of.content_id, of.steps, of.batch, of.side, of.versions) for of in (before, now)]
    return [*before.measures] if settings[0] == settings[1] else []


def _write(measured: Calibration, out: Path) -> None:
    write_text(out, json.dumps(asdict(measured), indent=1, ensure_ascii=False) + "\n")


def read_sources(metadata: Metadata, jobs: Sequence[Job], mode: Mode) -> dict[str, Source]:
    """Return readers of the rows of each base, by its name; features that are not cached are computed now."""
    bases = {job.base.base: job.base for job in jobs} | {metadata.base: metadata}
    rows = {name: [job.rows for job in jobs if job.base.base == name] for name in bases}
    rows = {name: [np.unique(np.concatenate([no_rows(), *fit]))] for name, fit in rows.items()}
    rows[metadata.base] += [test.rows for job in jobs for test in job.tests]
    return {name: source_of(base, mode, *rows[name], side=SIDE) for name, base in bases.items()}


def train_model(source: Source, job: Job, training: Training, network: str, seed: int) -> Model:
    """Train the model of a job; groups without a row are left out of the draw."""
    labels, groups = job.base.label[job.rows], job.base.group[job.rows]
    sampler = make_sampler(job.rule, labels=labels, groups=groups, seed=seed, on_empty="drop")
    if job.marginal is not None:  # as many rows, with these shares of the labels
        _, label, counts = np.unique(labels, return_inverse=True, return_counts=True)
        generator = rng("calibrate", "label-shares", seed)
        drawn = generator.choice(len(labels), len(labels), p=(job.marginal / counts)[label])
        sampler = FixedRows(drawn, seed=seed)
    assert isinstance(sampler, RowSampler)  # no rule above makes batches
    targets = labels.astype(np.int64)
    return fit(
        source, job.rows, targets, sampler,
        outputs=job.labels, backbone=network, training=training, seed=seed,
    )  # fmt: skip


def planned(
    metadata: Metadata, splits: Sequence[CanonicalSplit], names: Sequence[str] = ()
) -> tuple[list[Job], list[str]]:
    """Return the trainings for canonical splits by protocol, and what cannot be measured, with reasons.

    `names` are the splits to measure, by default a few of each protocol.
    """
    jobs, left_out, content = list[Job](), list[str](), _content(metadata, splits)
    known = {split.name: split for split in splits}
    if unknown := [name for name in names if name not in known]:
        raise not_found("canonical split", unknown[0], known)
    splits = [known[name] for name in names] or splits
    by_protocol: dict[str, list[CanonicalSplit]] = {}
    for split in splits:
        by_protocol.setdefault(protocol_of(split), []).append(split)
    domains = next((name for name in by_protocol if name in DOMAINS), "")
    for name, given in by_protocol.items():
        if not names and name not in (FAIRNESS, CONTINUOUS, domains or "uda", LABEL_SHIFT):
            continue
        large = [split for split in given if _tested(split) >= LEAST_ROWS]
        if len(large) < len(given):
            few = f"{len(given) - len(large)} of {len(given)} splits test fewer than {LEAST_ROWS} rows"
            left_out.append(f"{name}: {few}")
        for split in large if names else _chosen(name, large):
            try:
                task = task_of(metadata, parse_protocol(split.protocol), on_empty="report")
                jobs.extend(_jobs(task, split.name, name, content))
            except InputError as error:
                left_out.append(f"{split.name}: {error}")
    return jobs, left_out


def protocol_of(split: CanonicalSplit) -> str:
    """Return the name of a split's protocol, whatever its variant."""
    return split.protocol.split()[0].split("@")[0]


def _content(metadata: Metadata, splits: Sequence[CanonicalSplit]) -> Metadata | None:
    """Return the base of untouched examples, where severities are measured and there is one."""
    opened = metadata.dataset
    if opened is None or not any(protocol_of(split) == CONTINUOUS for split in splits):
        return None
    if opened.manifest.roles.modality == "text":  # n-grams are those of one base
        return None
    bases = {base.name for base in opened.manifest.bases} - {metadata.base}
    return read_metadata(opened, CONTENT) if CONTENT in bases else None


def _chosen(protocol: str, splits: Sequence[CanonicalSplit]) -> list[CanonicalSplit]:
    """Choose the splits of a protocol to measure: two that leave domains out or shift labels, else one.

    They lie in the middle of equal parts of the list, which is often in order of strength. Every split costs
    a training for each network, seed and method.
    """
    if protocol == FAIRNESS and splits:
        return [min(splits, key=_fairness_order)]
    if protocol == CONTINUOUS and splits:
        return [max(splits, key=_tested)]
    most = min(MOST_SPLITS if protocol in (*DOMAINS, LABEL_SHIFT) else 1, len(splits))
    return [splits[int((place + 0.5) * len(splits) / most)] for place in range(most)]


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
    if protocol != LABEL_SHIFT and (canonical[tested] == TESTS).any():
        # Whole domains are tested: train rows of them are the ceiling's.
        tested = tested[canonical[tested] == TESTS]
    if not len(tested) or not len(fit_rows):
        raise InputError("it has no rows to train on, or none to test")
    nuisances = np.unique(metadata.nuisance[tested])
    if "domains" in task.history.metrics:
        nuisances = np.union1d(nuisances, metadata.nuisance[fit_rows])
    alike = np.isin(metadata.nuisance, nuisances) & np.isin(metadata.label, labels)
    ceiling = np.flatnonzero(alike & (canonical == TRAINS))
    ceiling = _drawn(ceiling[~np.isin(metadata.origin[ceiling], metadata.origin[tested])])
    if protocol == CONTINUOUS:
        severity = metadata.columns["severity"]
        steps = np.unique(severity[tested]).tolist()
        tests = [Test(f"severity {step:g}", tested[severity[tested] == step], NUISANCE) for step in steps]
        yield Job(split, "every severity", metadata, _drawn(fit_rows), tests, labels)
        base, untouched = metadata, fit_rows[severity[fit_rows] == 0]
        if content is not None:
            base, untouched = content, np.flatnonzero(content.columns["split"] == TRAINS)
        yield Job(split, "untouched", base, _drawn(untouched), tests, labels)
        return
    fit_rows = _drawn(fit_rows)
    tests, marginal = [Test(name, tested)], None
    if LABEL_SHIFT in task.history.metrics:
        target = metadata.label[task.rows(name)]
        shares = np.bincount(target, counts_of(task, name), minlength=len(metadata.labels))
        shares = shares[np.unique(metadata.label[ceiling])]
        marginal = tuple((shares / shares.sum()).tolist())
    yield Job(split, "ceiling", metadata, ceiling, tests, labels, marginal=marginal)
    yield Job(split, "ERM", metadata, fit_rows, tests, labels)
    if protocol == FAIRNESS:
        yield Job(split, "RWG", metadata, fit_rows, tests, labels, "rwg")
        yield Job(split, "SUBG", metadata, fit_rows, tests, labels, "subg")


def _drawn(rows: IntArray) -> IntArray:
    """Return `MOST_ROWS` of more rows."""
    if len(rows) <= MOST_ROWS:
        return rows
    return np.sort(rng("calibrate", "rows").choice(rows, MOST_ROWS, replace=False))


def _measured(
    metadata: Metadata,
    sources: dict[str, Source],
    job: Job,
    trial: Trial,
    training: Training,
    models: Models,
) -> list[Measure]:
    """Train the model of a job, unless another job has, and judge it on each test."""
    if job.identity not in models:
        begun = time.process_time()  # of one core, however busy the machine is
        model = train_model(sources[job.base.base], job, training, trial.network, trial.seed)
        models[job.identity] = model, time.process_time() - begun
    (model, seconds), measures = models[job.identity], []
    for test in job.tests:
        right = model.predict(test.rows, sources[metadata.base]) == metadata.label[test.rows]
        measures.append(_measure(metadata, job, test, trial, right, seconds))
    return measures


def _measure(
    metadata: Metadata, job: Job, test: Test, trial: Trial, right: NDArray[np.bool_], seconds: float
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
        network=trial.network,
        seed=trial.seed,
        mode=trial.mode,
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
