"""A task as the trainer takes it: its sets by role, checked before a read, and the source of their examples.

A source has pixels and texts as they stream, or features that are computed first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from shiftdata.baselines.method import Data, Method, no_rows
from shiftdata.baselines.models import backbone_of
from shiftdata.baselines.pretrained.model import FeatureEncoder, encoder_of
from shiftdata.baselines.training import Training
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.encoders import FROZEN, Columns, FrozenFeatures, Grams
from shiftdata.data.loading.features import Encoder, features_of
from shiftdata.data.loading.sources import LinesAre
from shiftdata.data.loading.sources import Source as Source
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import CellBatches, RowSampler, Sampler
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.rows import counts_of, hides_labels
from shiftdata.evaluation.tasks.sets import Role

#: The network is trained from scratch, or a head on the features of a frozen one.
Mode: TypeAlias = Literal["scratch", "frozen"]
MODES: tuple[Mode, ...] = ("scratch", "frozen")
#: The form in which examples are read: for either mode, and texts also unchanged.
Form: TypeAlias = Literal["scratch", "frozen", "texts"]
#: The form by the modality of a base and by what a backbone reads; any other pair is read as "scratch".
FORMS: Mapping[tuple[str, str], Form] = {("image", "numbers"): "frozen", ("text", "texts"): "texts"}
SIDE = 40  # pixels of a picture for a network that is trained
#: The n-grams of the last training set of each base.
_counted: WeakKeyDictionary[Metadata, tuple[bytes, Grams]] = WeakKeyDictionary()


def source_of(
    metadata: Metadata,
    form: Form,
    *rows: IntArray,
    side: int = SIDE,
    encoder: FeatureEncoder | None = None,
    on_rows: Callable[[int], object] = int,
) -> Source:
    """Return the source of rows of a base in a form.

    Pixels, and texts for a tokenizer, stream. Everything else has a line for each row, computed now: frozen
    features of pictures, or of an `encoder` of pictures or texts, cached in the user's cache folder; columns
    of tables; counts of those n-grams of texts that are the commonest in the first of `rows`, the training
    set. `on_rows` gets the number of lines
    that became ready since its last call.
    """
    modality = modality_of(metadata)
    reads = encoder.modality if encoder else "image"
    if form == "frozen" and modality != reads:
        name = encoder.model.name if encoder else "EfficientNet-Lite0"
        raise InputError(f"{name} encodes {reads}s, and {metadata.name} is of the modality {modality}")
    if (modality, form) in (("image", "scratch"), ("text", "texts")):
        return Source(metadata=metadata, size=side if modality == "image" else None)
    if metadata.dataset is None:
        raise InputError(f"{metadata.name} is a table of your own, without examples: give features=ARRAY")
    makes: Encoder
    lines_are: LinesAre
    if form == "frozen":
        makes, lines_are = encoder or FrozenFeatures(), "features"
    elif modality == "text":
        makes, lines_are = _grams(metadata, rows[0]), "counts"
    else:
        makes, lines_are = Columns(dict(metadata.dataset.manifest.roles.example)), "columns"
    every = np.unique(np.concatenate([no_rows(), *rows]))
    array = features_of(metadata, every, makes, cache=form == "frozen", on_rows=on_rows)
    line_of = np.full(len(metadata), -1)
    line_of[every] = metadata.picture[every]
    pretraining = FROZEN if form == "frozen" else ""
    if encoder:
        pretraining = encoder.model.name
    return Source(array, pretraining=pretraining, line_of=line_of, lines_are=lines_are)


def _grams(metadata: Metadata, rows: IntArray) -> Grams:
    """Return the n-grams of a training set, which the runs of a sweep count once."""
    key = rows.tobytes()
    if metadata not in _counted or _counted[metadata][0] != key:
        batches = Source(metadata=metadata).loader(rows, batch_size=256, rank=0, world=1)
        _counted[metadata] = key, Grams.of(text for texts, _ in batches for text in texts)
    return _counted[metadata][1]


def features_for(metadata: Metadata, model: str = "") -> Callable[[IntArray], NDArray[Any]]:
    """Return a function of rows that gives a line of numbers for each.

    They are features of a model, as `predict` names it; without one EfficientNet-Lite0's of pictures, counts
    of n-grams in texts, the columns of tables.
    """
    encoder = encoder_of(model) if model else None
    form: Form = "frozen" if encoder or modality_of(metadata) == "image" else "scratch"

    def lines(rows: IntArray) -> NDArray[Any]:
        found = source_of(metadata, form, rows, encoder=encoder).lines(rows)
        assert found is not None  # neither form gives pictures or texts
        return found

    return lines


def modality_of(metadata: Metadata) -> str:
    """Return the modality of a base: image, text or table."""
    return "table" if metadata.dataset is None else str(metadata.dataset.manifest.roles.modality)


@dataclass(frozen=True, eq=False)
class TaskSets:
    """The sets of a task by their use in a training; those that a method does not need are None."""

    task: Task
    method: Method
    fit: str
    target: str | None
    select: str | None
    #: The rows of all test sets.
    tested: IntArray

    @classmethod
    def of(cls, task: Task, method: Method, name: str | None) -> TaskSets:
        """Find the sets of a task; `name` is the training set, by default the first with the role "fit"."""
        fit = name or task.set_of("fit")
        check_needs(task, method, fit)
        target = next((name for name, rows in task.sets.items() if "unlabelled" in rows.roles), None)
        select = next((name for name, rows in task.sets.items() if rows.role == "select"), None)
        tests = [task.rows(name) for name, rows in task.sets.items() if rows.role == "test"]
        tested = np.unique(np.concatenate([no_rows(), *tests]))
        return cls(task, method, fit, target if "target" in method.needs else None, select, tested)

    def source(
        self,
        backbone: Any,
        side: int | None = None,
        on_rows: Callable[[int], object] = int,
        encoder: FeatureEncoder | None = None,
    ) -> Source:
        """Return the source that a backbone reads, or an encoder's features, computed now or cached."""
        task, metadata = self.task, self.task.metadata
        validation = [task.rows(name) for name, rows in task.sets.items() if rows.role == "select"]
        rows = [task.rows(self.fit), self.tested, *validation]
        if self.target:
            rows.append(task.rows(self.target, "unlabelled"))
        about = backbone_of(backbone) if isinstance(backbone, str) else None
        form = FORMS.get((modality_of(metadata), about.reads), "scratch") if about else "scratch"
        side = side or (about.side if about else SIDE)
        form = "frozen" if encoder else form
        return source_of(metadata, form, *rows, side=side, encoder=encoder, on_rows=on_rows)

    def data(self, source: Source, training: Training, seed: int, *, test_steps: bool = False) -> Data:
        """Return the rows as a method sees them; with `test_steps` evaluations predict the test set too."""
        task, metadata = self.task, self.task.metadata
        rows = self.drawn(self.fit)
        check_rows(rows, task.label_ids)
        _, group = np.unique(metadata.group[rows], return_inverse=True)
        _, domain = np.unique(metadata.nuisance[rows], return_inverse=True)
        sampler = self._sampler(training.batch, int(domain.max()) + 1, seed)
        assert isinstance(sampler, RowSampler | CellBatches)  # batches were not asked for
        target, target_sampler = no_rows(), None
        if self.target is not None and len(target := self.drawn(self.target, "unlabelled")):
            target_sampler = task.sampler("shuffle", self.target, role="unlabelled", seed=seed + 1)
        assert target_sampler is None or isinstance(target_sampler, RowSampler)  # batches were not asked for
        select = no_rows() if self.select is None else task.rows(self.select)
        select = select[np.isin(metadata.label[select], task.label_ids)]
        return Data(
            source,
            rows,
            task.remapped[metadata.label[rows]],
            len(task.label_ids),
            group,
            domain,
            sampler,
            target=target,
            target_sampler=target_sampler,
            select=select,
            select_y=task.remapped[metadata.label[select]],
            select_group=metadata.group[select],
            tested=self.tested if test_steps else None,
        )

    def _sampler(self, batch: int, domains: int, seed: int) -> Sampler:
        rule = self.method.sampler
        if rule != "per-domain":
            return self.task.sampler(rule, self.fit, seed=seed)
        if batch < domains:
            raise InputError(f"a batch of {batch} has no room for {domains} domains: give {domains} or more")
        equal = batch - batch % domains  # the same number of rows of each domain
        return self.task.sampler(rule, self.fit, seed=seed, batch_size=equal)

    def drawn(self, name: str, role: Role | None = None) -> IntArray:
        """Return the rows of a set, each as often as it was drawn."""
        rows, counts = self.task.rows(name, role), counts_of(self.task, name, role)
        return rows if counts is None else np.repeat(rows, counts)


def check_rows(rows: IntArray, outputs: IntArray) -> None:
    """Refuse a training set without rows or without two classes."""
    if not len(rows) or len(outputs) < 2:
        raise InputError(f"{len(rows):,} rows of {len(outputs)} classes: give rows of two classes or more")


def check_needs(task: Task, method: Method, name: str) -> None:
    """Refuse a task that lacks what a method needs, before anything is read."""
    if hides_labels(task, name):
        raise InputError(
            f"the labels of {name} are hidden, as its role is unlabelled: name a set with role fit"
        )
    metadata, fit = task.metadata, task.rows(name)
    sets = task.sets.values()
    needs = {
        "groups": (len(np.unique(metadata.group[fit])) > 1, f"rows of several groups, and {name} has one"),
        "domains": (
            len(np.unique(metadata.nuisance[fit])) > 1, f"rows of several domains, and {name} has one",
        ),
        "target": (
            any("unlabelled" in rows.roles for rows in sets),
            "a set with the role 'unlabelled': a task of uda or label-shift has one, "
            "and task.also('test', 'unlabelled') gives a set that role besides",
        ),
        "select": (any(rows.role == "select" for rows in sets), "a set with the role 'select'"),
        "pixels": (modality_of(metadata) == "image", "pictures"),
        "unknown": (
            "universal" in task.history.metrics,
            "a task whose target has classes of its own, such as unida",
        ),
    }  # fmt: skip
    for need in sorted(method.needs & needs.keys()):
        has, lack = needs[need]
        if not has:
            names = ", ".join(f"{name} ({rows.role})" for name, rows in task.sets.items())
            raise InputError(f"{type(method).__name__} needs {lack}; {task.describe()} has {names}")
