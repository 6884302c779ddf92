"""One training: what it is as data, its identity, and its run, with every evaluation, cost and failure."""

from __future__ import annotations

import json
import math
import platform
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shiftdata import __version__
from shiftdata.baselines import DivergedError, Training, make_method, train
from shiftdata.baselines.heads import HeadSpec, first_stage, train_grid
from shiftdata.baselines.method import code_of
from shiftdata.baselines.models import BACKBONES, TRAINED
from shiftdata.baselines.prediction import pretraining_flag
from shiftdata.baselines.pretrained.heads import HEADS as PREDICTING
from shiftdata.baselines.pretrained.model import FeatureEncoder, encoder_of
from shiftdata.baselines.pretrained.predicting import predict
from shiftdata.baselines.run import Run
from shiftdata.baselines.sets import modality_of
from shiftdata.bench.records import DONE, PREDICT, SCHEMA, evaluated, write_task
from shiftdata.data.arrays import IntArray
from shiftdata.data.executors.base import measured
from shiftdata.data.loading.encoders import FROZEN, fingerprint, weights_hash
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError, ShiftdataError, not_found
from shiftdata.evaluation.protocols import task as make_task
from shiftdata.evaluation.tasks import OnEmpty, Role, Task
from shiftdata.files import remove
from shiftdata.stable import content_hash

#: The backbone of linear heads on frozen features, n-grams or columns, hundreds of them trained at once.
HEADS = "heads"
#: The backbones that read features: of a trained model, if "@" and its name follow.
OF_FEATURES = (HEADS, "linear", "mlp", "mlp-bn")


@dataclass(frozen=True, kw_only=True)
class SweepTraining(Training):
    """Settings of a training whose length may be given in epochs, passes over the rows of the training set.

    Every `evaluate_epochs` the validation set is predicted. Without `epochs`, steps count.
    """

    epochs: int = 0
    evaluate_epochs: int = 1

    def of_rows(self, rows: int) -> Training:
        """Return the settings for a training set of this many rows."""
        settings = {field.name: getattr(self, field.name) for field in fields(Training)}
        if self.epochs:
            epoch = math.ceil(rows / max(1, self.batch))
            settings |= {"steps": self.epochs * epoch, "evaluate_every": self.evaluate_epochs * epoch}
        return Training(**settings)


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A task in a sweep: the dataset, and the protocol as on the command line.

    `unlabelled` is a set that methods also see without labels, such as the test set of adaptation. With
    `methods`, only these of the sweep's methods are trained on the task, such as ERM on an upper bound;
    `backbones` and `training` replace those of the sweep.
    """

    dataset: str
    protocol: str
    base: str | None = None
    unlabelled: str = ""
    on_empty: OnEmpty = "error"
    methods: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    training: SweepTraining | None = None

    def make(self) -> Task:
        task = make_task(base_of(self.dataset, self.base), self.protocol, on_empty=self.on_empty)
        return task.also(self.unlabelled, "unlabelled") if self.unlabelled else task


#: Runs share their base and their task.
base_of = lru_cache(maxsize=4)(read_metadata)
task_of = lru_cache(maxsize=4)(TaskSpec.make)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training. The data and the versions of the code are in its `Identity`.

    `trial` numbers the settings of a search; 0 has the defaults. `hyper` has the method's own settings.
    """

    sweep: str
    task: TaskSpec
    method: str
    backbone: str
    training: Training
    variant: str = "fixed"
    hyper: tuple[tuple[str, float], ...] = ()
    trial: int = 0
    seed: int = 0

    @property
    def study(self) -> str:
        """The id that all trials and seeds of a method on a task share."""
        dataset = self.task.dataset.rstrip("/").rsplit("/", 1)[-1]
        place = [dataset, self.task.base or "", self.task.protocol, self.task.unlabelled]
        return content_hash(self.sweep, *place, self.method, self.variant, self.backbone)[:32]


@lru_cache(maxsize=1024)
def facts_of(spec: TaskSpec) -> dict[str, Any]:
    """Return the ids of a task and its training rows; if it cannot be made, `refused` is the reason."""
    metadata = base_of(spec.dataset, spec.base)
    assert metadata.dataset is not None  # it has a name
    content_id = metadata.dataset.manifest.base(metadata.base).content_id
    facts = {"dataset": metadata.name, "base": metadata.base, "content_id": content_id}
    try:
        task = task_of(spec)
        rows = sum(len(task.rows(name)) for name, of in task.sets.items() if of.role == "fit")
        return facts | {"task": task.describe(), "task_id": task.content_id(), "rows": rows}
    except InputError as error:
        return facts | {"task": spec.protocol, "task_id": "", "rows": 1, "refused": str(error)}


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A job with its data and code, `about`; `id` is the hash of these.

    `refused` is the reason if the job cannot be trained.
    """

    job: Job
    task: str
    about: Mapping[str, Any]
    refused: str = ""

    @cached_property
    def id(self) -> str:
        return content_hash(json.dumps(self.about, sort_keys=True))


def identity(job: Job, device: str = "cpu") -> Identity:
    """Collect everything that determines the run of a job."""
    facts = facts_of(job.task)
    kind = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    own = ("sweep", "method", "variant", "backbone", "trial", "seed")
    about: dict[str, Any] = {
        **{name: facts[name] for name in ("dataset", "base", "content_id", "task_id")},
        **{name: getattr(job.task, name) for name in ("protocol", "unlabelled")},
        **{name: getattr(job, name) for name in own},
        "hyper": dict(job.hyper),
        "backbone_hash": backbone_hash(job.backbone),
        "training": asdict(job.training),
        "device": f"{device.partition(':')[0]} {kind}",  # runs on the same kind should agree
        "versions": {"shiftdata": __version__, "torch": str(torch.__version__), "numpy": np.__version__},
    }
    refused = facts.get("refused", "")
    try:
        about |= method_facts(job.method, job.variant, dict(job.hyper))
    except InputError as error:
        refused = refused or str(error)
    return Identity(job=job, task=facts["task"], about=about, refused=refused)


def method_facts(name: str, variant: str, hyper: Mapping[str, float]) -> dict[str, Any]:
    """Return a method's hyper-parameters and the versions of its code; refuse what does not exist."""
    if name != PREDICT:
        method = make_method(name, variant=variant, **hyper)
        return {"hyper": method.hyper, **code_of(method)}
    if variant not in ("fixed", *PREDICTING):
        raise not_found(f"head of {PREDICT}", variant, PREDICTING)
    return {"hyper": dict(hyper)}


def is_heads(backbone: str) -> bool:
    """Return True for batched heads, on the features of any model."""
    return backbone.partition("@")[0] == HEADS


def on_features(backbone: str) -> tuple[str, FeatureEncoder | None]:
    """Take "linear@efficientnet-lite1" apart: a backbone, and the trained model whose features it reads."""
    name, _, encoder = backbone.partition("@")
    return (name, _encoder(encoder)) if encoder and name in OF_FEATURES else (backbone, None)


_encoder = lru_cache(maxsize=4)(encoder_of)


@lru_cache
def backbone_hash(name: str) -> str:
    """Return the hash of the pretrained weights of a backbone; empty if it is trained from scratch."""
    if (encoder := on_features(name)[1]) is not None:
        return encoder.model.weights
    if name in OF_FEATURES:
        try:
            return fingerprint()
        except ImportError:  # texts and tables need no frozen network, so its package may be missing
            return ""
    if TRAINED.match(name):
        return _encoder(name).model.weights
    pretrained = name in BACKBONES and BACKBONES[name].pretraining
    return weights_hash(int(name[-1])) if pretrained else ""


#: Steps between two checkpoints; shorter runs have none.
SAVE_EVERY = 500


@dataclass(frozen=True)
class Unit:
    """The work of one process at a time: a run, or the heads of one task, which are trained together."""

    runs: tuple[Identity, ...]

    @property
    def name(self) -> str:
        return content_hash(*(run.id for run in self.runs))[:32]

    def __str__(self) -> str:
        job, more = self.runs[0].job, f" and {len(self.runs) - 1:,} more" if len(self.runs) > 1 else ""
        where = f"{job.method} on {job.task.dataset} {job.task.protocol}"
        return f"{where}, trial {job.trial}, seed {job.seed}{more}"


@dataclass(frozen=True)
class Setting:
    """The settings of all units: the sweep's folder, device, commit of the code, modules to import.

    Each `rank` has its own folder of checkpoints.
    """

    folder: Path
    device: str = "cpu"
    commit: str = ""
    imports: tuple[str, ...] = ()
    rank: int = 0

    def start(self) -> Callable[[Unit], list[dict[str, Any]]]:
        """Import the methods in this process, and return the function that runs a unit."""
        import_methods(self.imports)
        return self.rows_of

    def rows_of(self, unit: Unit) -> list[dict[str, Any]]:
        """Run a unit, and return a row of records for each of its runs, however it ended."""
        rows = [_row(self, run, status="refused", reason=run.refused) for run in unit.runs if run.refused]
        left = [run for run in unit.runs if not run.refused]
        try:
            if left:
                job = left[0].job
                run = _trained if job.method == PREDICT else _heads if is_heads(job.backbone) else _network
                rows += run(self, left)
            return rows
        except Exception as error:
            status, reason = reason_of(error)
            return rows + [_row(self, run, status=status, reason=reason) for run in left]

    def rows_lost(self, unit: Unit, reason: str) -> list[dict[str, Any]]:
        """Return the rows of a unit whose process died repeatedly."""
        status = "out of memory" if "SIGKILL" in reason else "error"
        return [_row(self, run, status=status, reason=reason) for run in unit.runs]


def reason_of(error: Exception) -> tuple[str, str]:
    """Return status and reason of a failed run; an error that other runs would also meet is raised again."""
    text = str(error)
    if isinstance(error, DivergedError):
        return "diverged", text
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in text:
        return "out of memory", f"lower batch, or use fewer workers: {text}"
    if isinstance(error, InputError):
        return "refused", text
    if isinstance(error, ShiftdataError | OSError):
        raise error  # of the dataset, the disk or an extra
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "error", f"{type(error).__name__}: {text} ({Path(last.filename).name}, line {last.lineno})"


def _network(setting: Setting, runs: Sequence[Identity]) -> list[dict[str, Any]]:
    (identity,) = runs
    job, task = identity.job, task_of(identity.job.task)
    steps = job.training.steps
    folder = setting.folder / "running" / str(setting.rank) / identity.id[:32]
    backbone, encoder = on_features(job.backbone)
    with measured() as cost:
        run = train(
            task,
            job.method,
            variant=job.variant,
            backbone=backbone,
            encoder=encoder.model if encoder else None,
            training=job.training,
            seed=job.seed,
            device=setting.device,
            test_steps=bool(job.training.evaluate_every),
            folder=folder if steps > SAVE_EVERY else None,
            save_every=SAVE_EVERY,
            on_rows=int,  # the sweep has a bar of its own
            **dict[str, Any](job.hyper),
        )
    remove(folder)
    if setting.device.startswith("cuda"):
        cost["peak_memory"] = torch.cuda.max_memory_allocated(setting.device)
    cost["examples"] = steps * (job.training.batch or len(task.rows(task.set_of("fit"))))
    about = {name: run.about[name] for name in ("pretraining", "trains_on_select")}
    return [
        _row(setting, identity, about, **cost, **_judged(setting, identity, task, _predicted(run, steps)))
    ]


def _predicted(run: Run, steps: int) -> Iterator[tuple[int, dict[str, IntArray]]]:
    """Yield step and predicted labels by set; those of the validation set are of the source model."""
    task, labels = run.task, run.model.outputs
    validation, tests = _sets(task, "select")[:1], _sets(task, "test")
    last = max([steps, *(entry["step"] for entry in run.history)])

    def tested(predicted: IntArray) -> dict[str, IntArray]:
        return {name: predicted[np.searchsorted(run.rows, task.rows(name))] for name in tests}

    for entry in run.history:
        if entry["step"] < last:
            predicted = {}
            for name in validation:
                # `entry` has only rows of training labels; for other rows every prediction is wrong.
                trained = np.isin(task.metadata.label[task.rows(name)], task.label_ids)
                predicted[name] = np.full(len(trained), labels[0], np.int64)
                predicted[name][trained] = labels[entry["predicted"].numpy()]
            yield entry["step"], predicted | tested(labels[entry["tested"].numpy()])
    source = {name: labels[run.scores_of(name).argmax(axis=1)] for name in validation}
    yield last, source | tested(run.predicted)


def _trained(setting: Setting, runs: Sequence[Identity]) -> list[dict[str, Any]]:
    """Let a model that comes trained predict; its features are cached, so a killed run goes on."""
    (identity,) = runs
    job, task = identity.job, task_of(identity.job.task)
    head = "auto" if job.variant == "fixed" else job.variant
    with measured() as cost:
        prediction = predict(
            task, job.backbone, head=head, device=setting.device, on_rows=int, **dict[str, Any](job.hyper)
        )
    cost["examples"] = len(prediction.rows)
    about = {name: prediction.about[name] for name in ("pretraining", "head")}
    sets = {
        name: prediction.predicted[np.searchsorted(prediction.rows, task.rows(name))]
        for name in prediction.sets
    }
    return [_row(setting, identity, about, **cost, **_judged(setting, identity, task, [(0, sets)]))]


def _sets(task: Task, role: Role) -> list[str]:
    return [name for name, rows in task.sets.items() if rows.role == role and len(rows)]


def _heads(setting: Setting, runs: Sequence[Identity]) -> list[dict[str, Any]]:
    task, training = task_of(runs[0].job.task), runs[0].job.training
    specs = [
        HeadSpec(
            method=job.method,
            learning_rate=job.training.learning_rate,
            weight_decay=job.training.weight_decay,
            momentum=job.training.momentum,
            seed=job.seed,
            hyper=dict(job.hyper),
        )
        for job in (run.job for run in runs)
    ]
    with measured() as cost:
        encoder = on_features(runs[0].job.backbone)[1]
        heads = train_grid(task, specs, steps=training.steps, every=training.evaluate_every, encoder=encoder)
    cost |= {name: cost[name] / len(runs) for name in ("seconds", "processor_seconds")}
    cost["examples"] = training.steps * len(task.rows(task.set_of("fit")))
    weights = encoder.model if encoder else FROZEN if modality_of(task.metadata) == "image" else ""
    about = {"pretraining": pretraining_flag(task, weights), "trains_on_select": False}
    rows = []
    for place, run in enumerate(runs):
        if reason := heads.failed.get(place):
            rows.append(_row(setting, run, about, status="diverged", reason=reason, **cost))
            continue
        begins = first_stage(specs[place], training.steps)
        predicted = (
            (step, {name: task.label_ids[of[place, number]] for name, of in heads.predicted.items()})
            for number, step in enumerate(heads.steps)
            if step > begins or step == training.steps
        )
        rows.append(_row(setting, run, about, **cost, **_judged(setting, run, task, predicted)))
    return rows


def _judged(
    setting: Setting, run: Identity, task: Task, predicted: Iterable[tuple[int, Mapping[str, IntArray]]]
) -> dict[str, Any]:
    evaluations, labels = [], []
    for step, sets in predicted:
        results = {name: task.evaluate(of, name) for name, of in sets.items()}
        write_task(setting.folder, run.about["task_id"], results)
        evaluations += [evaluated(step, result) for result in results.values()]
        labels += [of.tolist() for of in sets.values()]
    return {"evaluations": evaluations, "predicted": labels}


def _row(
    setting: Setting,
    run: Identity,
    about: Mapping[str, Any] | None = None,
    *,
    status: str = DONE,
    reason: str = "",
    **measured: Any,
) -> dict[str, Any]:
    return {
        **{name: value for name, value in run.about.items() if name in SCHEMA.names},
        "id": run.id,
        "study": run.job.study,
        "task": run.task,
        "hyper": json.dumps(run.about["hyper"], sort_keys=True),
        "training": json.dumps(asdict(run.job.training), sort_keys=True),
        "about": json.dumps({**run.about, **(about or {})}, sort_keys=True),
        "status": status,
        "reason": reason,
        "commit": setting.commit,
        "evaluations": [],
        "predicted": [],
        **measured,
    }


def import_methods(modules: Sequence[str]) -> None:
    """Import modules that register methods of your own."""
    here = str(Path.cwd())
    if modules and here not in sys.path:  # the command `shiftdata` does not add it
        sys.path.append(here)
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            hint = f"run this in the folder of {name.partition('.')[0]}, or add it to PYTHONPATH"
            raise InputError(f"the sweep imports {name}, which fails in {here} ({error}): {hint}") from error
