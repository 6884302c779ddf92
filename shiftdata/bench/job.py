"""What one run is, as data: a task, a method with its numbers, a backbone, how it is trained, a seed."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch

from shiftdata import __version__
from shiftdata.baselines import Training, make_method
from shiftdata.baselines.frozen import fingerprint
from shiftdata.baselines.method import Method, code_of
from shiftdata.baselines.models import BACKBONES, efficientnet_weights
from shiftdata.errors import InputError
from shiftdata.files import sha256_of
from shiftdata.metadata import Metadata, read_metadata
from shiftdata.protocols import task as task_of
from shiftdata.protocols.named import parse_protocol
from shiftdata.stable import content_hash
from shiftdata.tasks import OnEmpty, Task
from shiftdata.tasks.making import restrict

#: The backbone of linear heads on frozen features, n-grams or columns, hundreds of them trained at once.
HEADS = "heads"


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A task as a sweep names it: where the dataset is, and its protocol as the command line writes it.

    `unlabelled` is a set that methods see without labels besides, such as the test where methods adapt to it.
    With `held_out` nothing of that training domain is fitted, and its rows of the set to select by are what
    remains of that: the task that scores a setting for leave-one-domain-out selection.
    """

    dataset: str
    protocol: str
    base: str | None = None
    unlabelled: str = ""
    held_out: str = ""
    on_empty: OnEmpty = "error"
    #: The base whose train rows are fitted in the place of the task's own; then the last step counts.
    trained_on: str = ""

    def make(self) -> Task:
        """The task; what it asks for and the dataset lacks is an `InputError`."""
        metadata = base_of(self.dataset, self.base)
        split = self.protocol if self.protocol.isidentifier() else None
        task = task_of(metadata, split or parse_protocol(self.protocol), on_empty=self.on_empty)
        if self.unlabelled:
            task = task.also(self.unlabelled, "unlabelled")
        return without_domain(task, self.held_out) if self.held_out else task


@lru_cache(maxsize=4)
def base_of(dataset: str, base: str | None) -> Metadata:
    """A base of a dataset; the runs on it share it."""
    return read_metadata(dataset, base)


def without_domain(task: Task, domain: str) -> Task:
    """The task without a training domain, which is what models are then selected by; it tests nothing."""
    column, fit, select = task.metadata.nuisance_column, task.set_of("fit"), task.set_of("select")
    (number,) = task.metadata.numbers("nuisance", [domain])
    task = restrict(task, [[(column, "!=", number)]], to=[fit])
    task = restrict(task, [[(column, "==", number)]], to=[select])
    kept = {name: rows for name, rows in task.sets.items() if name in (fit, select)}
    if not all(len(rows) for rows in kept.values()):
        raise InputError(f"{domain} cannot be left out for selection: it has no rows in {select}")
    return replace(task, sets=kept, history=(*task.history, f"without {column} {domain}"))


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training, and everything that determines it but the data and the versions of the code.

    `trial` numbers the settings that a search tries, 0 being the defaults; `hyper` has those of the method.
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
        """The number of what competes: all trials and seeds of a method on a task share it."""
        task = replace(self.task, held_out="")
        place = [task.dataset.rstrip("/").rsplit("/", 1)[-1], task.base or "", task.protocol]
        place += [task.unlabelled, task.trained_on]
        return content_hash(self.sweep, *place, self.method, self.variant, self.backbone)[:32]

    def made_method(self) -> Method:
        return make_method(self.method, variant=self.variant, **dict(self.hyper))


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """What a task is, without its rows; where there is none, `refused` says why."""

    dataset: str
    content_id: str
    base: str
    task: str
    task_id: str = ""
    #: The content of the base that is trained on, if it is another one.
    trained_on: str = ""
    refused: str = ""

    @classmethod
    def of(cls, spec: TaskSpec) -> TaskFacts:
        metadata = base_of(spec.dataset, spec.base)
        assert metadata.dataset is not None  # it has a name
        manifest = metadata.dataset.manifest
        facts = cls(
            dataset=metadata.name,
            content_id=manifest.base(metadata.base).content_id,
            base=metadata.base,
            task=spec.protocol,
            trained_on=manifest.base(spec.trained_on).content_id if spec.trained_on else "",
        )
        try:
            task = spec.make()
            return replace(facts, task=task.describe(), task_id=task.content_id())
        except InputError as error:
            return replace(facts, refused=str(error))


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A job with the data and code that it meets: `id` is a hash of all of it.

    `refused` says why it cannot be trained, where that is known before.
    """

    job: Job
    task: str
    about: Mapping[str, Any]
    refused: str = ""

    @cached_property
    def id(self) -> str:
        return content_hash(json.dumps(self.about, sort_keys=True))


def identity(job: Job, facts: TaskFacts, device: str = "cpu") -> Identity:
    """What determines the run of a job."""
    about: dict[str, Any] = {
        "sweep": job.sweep,
        "dataset": facts.dataset,
        "base": facts.base,
        "content_id": facts.content_id,
        "protocol": job.task.protocol,
        "unlabelled": job.task.unlabelled,
        "held_out": job.task.held_out,
        "task_id": facts.task_id,
        "trained_on": facts.trained_on,
        "method": job.method,
        "variant": job.variant,
        "hyper": dict(job.hyper),
        "backbone": job.backbone,
        "backbone_hash": backbone_hash(job.backbone),
        "training": asdict(job.training),
        "trial": job.trial,
        "seed": job.seed,
        "device": device_class(device),
        "versions": {"shiftdata": __version__, "torch": str(torch.__version__), "numpy": np.__version__},
    }
    refused = facts.refused
    try:
        method = job.made_method()
        about |= {"hyper": method.hyper, **code_of(method)}
    except InputError as error:
        refused = refused or str(error)
    return Identity(job=job, task=facts.task, about=about, refused=refused)


@lru_cache
def backbone_hash(name: str) -> str:
    """The weights that a backbone begins with; nothing for one that is drawn."""
    if name in (HEADS, "linear", "mlp", "mlp-bn"):
        return _frozen()
    if name in BACKBONES and BACKBONES[name].pretraining:
        return sha256_of(efficientnet_weights())
    return ""


@lru_cache
def _frozen() -> str:
    """The network of frozen features; texts and tables need none, so its package may be missing."""
    try:
        return fingerprint()
    except ImportError:
        return ""


def device_class(device: str) -> str:
    """What kind of device equal numbers can be expected of."""
    if device.startswith("cuda"):
        return f"cuda {torch.cuda.get_device_name(device)}"
    return f"{device} {platform.machine()}"
