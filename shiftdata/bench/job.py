"""A training as data: a task, a method with its numbers, a backbone, settings, a seed; and its identity."""

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
from shiftdata.protocols import task as make_task
from shiftdata.protocols.named import parse_protocol
from shiftdata.stable import content_hash
from shiftdata.tasks import OnEmpty, Task
from shiftdata.tasks.making import restrict

#: The backbone of linear heads on frozen features, n-grams or columns, hundreds of them trained at once.
HEADS = "heads"


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A task as a sweep names it: where the dataset is, and its protocol as the command line writes it.

    `unlabelled` is a set that methods see without labels as well, such as the test where methods adapt to it.
    With `held_out` that training domain leaves the training set, and its rows alone stay in the validation
    set: the task that scores a setting for leave-one-domain-out selection.
    """

    dataset: str
    protocol: str
    base: str | None = None
    unlabelled: str = ""
    held_out: str = ""
    on_empty: OnEmpty = "error"

    def make(self) -> Task:
        """The task; what it asks for and the dataset lacks is an `InputError`."""
        metadata = base_of(self.dataset, self.base)
        split = self.protocol if self.protocol.isidentifier() else None
        task = make_task(metadata, split or parse_protocol(self.protocol), on_empty=self.on_empty)
        if self.unlabelled:
            task = task.also(self.unlabelled, "unlabelled")
        return without_domain(task, self.held_out) if self.held_out else task


@lru_cache(maxsize=4)
def base_of(dataset: str, base: str | None) -> Metadata:
    """A base of a dataset; the runs on it share it."""
    return read_metadata(dataset, base)


@lru_cache(maxsize=4)
def task_of(spec: TaskSpec) -> Task:
    """A task, which the runs on it share."""
    return spec.make()


def without_domain(task: Task, domain: str) -> Task:
    """The task without a training domain, which is what models are then selected by; it tests nothing."""
    column, fit, select = task.metadata.nuisance_column, task.set_of("fit"), task.set_of("select")
    (number,) = task.metadata.numbers("nuisance", [domain])
    task = restrict(task, [[(column, "!=", number)]], to=[fit])
    task = restrict(task, [[(column, "==", number)]], to=[select])
    sets = {name: rows for name, rows in task.sets.items() if name in (fit, select)}
    if not all(len(rows) for rows in sets.values()):
        raise InputError(f"{domain} cannot be left out for selection: it has no rows in {select}")
    return replace(task, sets=sets, history=(*task.history, f"without {column} {domain}"))


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
        dataset = self.task.dataset.rstrip("/").rsplit("/", 1)[-1]
        place = [dataset, self.task.base or "", self.task.protocol, self.task.unlabelled]
        return content_hash(self.sweep, *place, self.method, self.variant, self.backbone)[:32]

    def make_method(self) -> Method:
        return make_method(self.method, variant=self.variant, **dict(self.hyper))


def facts_of(spec: TaskSpec) -> dict[str, str]:
    """What a task is, without its rows; where there is none, `refused` says why."""
    metadata = base_of(spec.dataset, spec.base)
    assert metadata.dataset is not None  # it has a name
    facts = {
        "dataset": metadata.name,
        "base": metadata.base,
        "content_id": metadata.dataset.manifest.base(metadata.base).content_id,
    }
    try:
        task = spec.make()
        return facts | {"task": task.describe(), "task_id": task.content_id()}
    except InputError as error:
        return facts | {"task": spec.protocol, "task_id": "", "refused": str(error)}


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


def identity(job: Job, facts: Mapping[str, str], device: str = "cpu") -> Identity:
    """What determines the run of a job, on a task with these facts."""
    about: dict[str, Any] = {name: facts[name] for name in ("dataset", "base", "content_id", "task_id")}
    about |= {name: getattr(job.task, name) for name in ("protocol", "unlabelled", "held_out")}
    about |= {
        name: getattr(job, name) for name in ("sweep", "method", "variant", "backbone", "trial", "seed")
    }
    about |= {
        "hyper": dict(job.hyper),
        "backbone_hash": backbone_hash(job.backbone),
        "training": asdict(job.training),
        "device": device_class(device),
        "versions": {"shiftdata": __version__, "torch": str(torch.__version__), "numpy": np.__version__},
    }
    refused = facts.get("refused", "")
    try:
        method = job.make_method()
        about |= {"hyper": method.hyper, **code_of(method)}
    except InputError as error:
        refused = refused or str(error)
    return Identity(job=job, task=facts["task"], about=about, refused=refused)


@lru_cache
def backbone_hash(name: str) -> str:
    """The weights that a backbone begins with; nothing for one that is drawn."""
    if name in (HEADS, "linear", "mlp", "mlp-bn"):
        try:
            return fingerprint()
        except ImportError:  # texts and tables need no frozen network, so its package may be missing
            return ""
    pretrained = name in BACKBONES and BACKBONES[name].pretraining
    return sha256_of(efficientnet_weights()) if pretrained else ""


def device_class(device: str) -> str:
    """What kind of device equal numbers can be expected of."""
    if device.startswith("cuda"):
        return f"cuda {torch.cuda.get_device_name(device)}"
    return f"{device} {platform.machine()}"
