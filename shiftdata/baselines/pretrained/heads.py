"""Heads over the features of a trained model: its own classes, class names in prompts, a linear probe, k-NN.

A head reads labels of the training set and of the validation set alone, and only where it is fitted. Its
scores are logits: their softmax is the share of each label.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from shiftdata.baselines.methods import make_method
from shiftdata.baselines.models import Floats
from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.baselines.pretrained.probe import LinearProbe, best_of
from shiftdata.baselines.pretrained.prompts import mapping_of, names_of, prompts_of, text_weights
from shiftdata.baselines.sets import TaskSets
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.predictions import IMAGENET_CLASSES, NUMBERED, UNKNOWN, imagenet_outputs
from shiftdata.evaluation.tasks.sets import OneClassWarning
from shiftdata.threads import torch_threads

#: Features of rows of the base, a line each.
Features: TypeAlias = Callable[[IntArray], Floats]
#: Rows that are scored at a time, and bytes of their similarities to the training set.
CHUNK, CHUNK_BYTES = 4096, 64 << 20
#: Neighbours to choose from, and their number and temperature in DINO (Caron et al., 2021).
NEIGHBOURS, K, TEMPERATURE = (1, 5, 10, 20, 50, 100, 200), 20, 0.07
OTHERS = "take head='zero-shot', 'probe' or 'knn'"
#: The smallest share of a label, so that its logarithm is finite.
LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Head:
    """Logits of labels as a function of features; `outputs` has the label number of each column.

    The column of `UNKNOWN` is the highest of the outputs that are none of the task's labels. `about` has
    what a record should hold, as JSON values.
    """

    name: str
    outputs: IntArray
    about: Mapping[str, Any]
    logits: Callable[[Tensor], Tensor]

    def scores(self, features: Floats) -> Floats:
        """Return rows x outputs."""
        scores = np.empty((len(features), len(self.outputs)), np.float32)
        with torch_threads(), torch.inference_mode():
            for start in range(0, len(features), CHUNK):
                x = torch.tensor(np.asarray(features[start : start + CHUNK], np.float32))
                if not torch.isfinite(x).all():
                    raise InputError(f"features near row {start:,} are not finite: use precision='float32'")
                scores[start : start + CHUNK] = self.logits(x).float().cpu().numpy()
        return scores


def make_head(name: str, model: Pretrained, task: Task, features: Features, **options: Any) -> Head:
    """Return a head by its name, one of `HEADS`.

    "probe" and "knn" are fitted to the task's training set; `features` returns the model's features of rows
    of the base, and `options` are the keyword arguments of the head's function.
    """
    if name not in HEADS:
        raise not_found("head", name, HEADS)
    known = list(inspect.signature(HEADS[name]).parameters)[3:]
    for option in options:
        if option not in known:
            raise not_found(f"option of the head {name}", option, known)
    return HEADS[name](model, task, features, **options)


def label_map(
    model: Pretrained,
    task: Task,
    _: Features,
    *,
    labels: Mapping[str | int, str | int] | str | Path | None = None,
    compete: Literal["task", "all"] = "task",
) -> Head:
    """The model's own classifier, each of its outputs mapped to a label of the task or to none.

    A label of several outputs has the highest of their logits: then the prediction is the label of the first
    of the outputs that compete, as benchmarks report it, and a label gains nothing by having many.

    Args:
        labels: the label (name or number) of outputs (name or number), or a TOML file of these; default: by
            equal names, or by the numbers with which labels begin, as in `imagenet_outputs`.
        compete: "task" leaves out outputs without a label; with "all" they compete, as the 1,000 do in
            CNS-Bench, and a row that they win is `UNKNOWN`: wrong.

    """
    if compete not in ("task", "all"):
        raise not_found("compete", compete, ("task", "all"))
    label = labels_of_outputs(model, task, labels)
    ids = np.unique(label[label >= 0])
    if len(ids) < 2:
        raise InputError(f"the outputs of {model.name} are of {len(ids)} labels of the task: map two or more")
    column = torch.from_numpy(np.where(label >= 0, np.searchsorted(ids, label), len(ids)))
    others = compete == "all" and bool((label < 0).any())
    outputs, classifier = np.append(ids, UNKNOWN) if others else ids, model.classifier
    assert classifier is not None  # it has outputs

    def logits(x: Tensor) -> Tensor:
        return highest(_applied(classifier, x), column, len(ids) + 1)[:, : len(outputs)]

    absent = [name for name, number in zip(task.labels, task.label_ids, strict=True) if number not in ids]
    about = {"compete": compete, "outputs": int((label >= 0).sum()), "labels_without_output": absent}
    return Head("labels", outputs, about, logits)


def labels_of_outputs(
    model: Pretrained, task: Task, labels: Mapping[str | int, str | int] | str | Path | None = None
) -> IntArray:
    """Return the label number of each output of a model's classifier, -1 of none; see `label_map`."""
    if model.classifier is None:
        raise InputError(
            f"{model.name} has no classifier of its own: take head='zero-shot', 'probe' or 'knn'"
        )
    with torch.inference_mode():
        count = _applied(model.classifier, torch.zeros(1, model.n_features)).shape[1]
    given = mapping_of("labels", labels)
    return _explicit(model, task, count, given) if given else _by_name_or_number(model, task, count)


def highest(logits: Tensor, column: Tensor, columns: int) -> Tensor:
    """Return for each of some columns the highest of the logits that are mapped to it."""
    best = logits.new_full((len(logits), columns), -torch.inf)
    return best.scatter_reduce(1, column.expand(len(logits), -1), logits, "amax")


def _applied(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a classifier, which may be on a device; its logits come back."""
    weight = next(function.parameters(), x) if isinstance(function, nn.Module) else x
    return function(x.to(weight.device)).float().cpu()


def _explicit(model: Pretrained, task: Task, count: int, given: Mapping[str | int, str | int]) -> IntArray:
    label, places_of = np.full(count, -1, np.int64), _places(model.outputs)
    names = dict(zip(task.labels, task.label_ids.tolist(), strict=True))
    numbers = {number: number for number in names.values()}
    for output, wanted in given.items():
        places = places_of.get(_plain(str(output)), [])
        if isinstance(output, int) or (not places and output.isdecimal()):  # keys of TOML are texts
            places = [int(output)]
        if not places or not all(0 <= place < count for place in places):
            hint = f"{model.name} has {count:,} outputs, and a number is from 0 on."
            raise not_found("output", str(output), model.outputs, hint)
        number = numbers.get(wanted) if isinstance(wanted, int) else names.get(str(wanted))
        if number is None:
            raise not_found("label", str(wanted), names, "labels= maps outputs to labels of the task.")
        label[places] = number
    return label


def _by_name_or_number(model: Pretrained, task: Task, count: int) -> IntArray:
    places, label = _places(model.outputs[:count]), np.full(count, -1, np.int64)
    missing = [name for name in task.labels if _plain(name) not in places]
    if not missing:
        for name, number in zip(task.labels, task.label_ids.tolist(), strict=True):
            label[places[_plain(name)]] = number
        return label
    numbered = (NUMBERED.match(name) for name in task.labels)
    # A label that is a number alone, such as a digit, is no class of ImageNet.
    if count == IMAGENET_CLASSES and all(match and match[0].endswith("_") for match in numbered):
        return imagenet_outputs(task)
    raise InputError(
        f"{model.name} has no output named {', '.join(map(repr, missing[:5]))}: give labels={{output: "
        f"label}}, or {OTHERS}"
    )


def _places(outputs: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the outputs of each name."""
    places: dict[str, list[int]] = {}
    for number, name in enumerate(outputs):
        places.setdefault(_plain(name), []).append(number)
    return places


def _plain(name: str) -> str:
    return name.casefold().replace("_", " ").strip()


def zero_shot(
    model: Pretrained,
    task: Task,
    _: Features,
    *,
    prompts: Any = None,
    names: Mapping[str, str | Sequence[str]] | str | Path | None = None,
) -> Head:
    """Class names in prompt templates, encoded by the model: `scale` times the cosine with the features.

    Args:
        prompts: templates with one `{}`, or a file of one a line; default: the dataset's, else "a photo of
            a {}."
        names: words for labels, one or several each, or a TOML file of them; default: the label without
            number and underscores.

    """
    templates, words = prompts_of(task, prompts), names_of(task, mapping_of("names", names))
    weights = text_weights(model, words, templates)
    if weights.shape[1] != model.n_features:
        raise InputError(
            f"{model.name} has {model.n_features} features and captions of {weights.shape[1]}: its features "
            "are not in the space of its captions"
        )
    about = {"prompts": list(templates), "names": [list(each) for each in words], "scale": model.scale}
    return Head("zero-shot", task.label_ids, about, lambda x: model.scale * normalize(x, dim=1) @ weights.T)


class _Rows:
    """The training set of a head, and the validation set by which it chooses, if the task has one."""

    def __init__(self, task: Task, features: Features, by: str) -> None:
        sets = TaskSets.of(task, make_method("erm"), None)
        rows, self.task, self.by, self.features = sets.drawn(sets.fit), task, by, features
        label = task.metadata.label[rows]
        if len(np.unique(label)) < 2:
            raise InputError(f"{sets.fit} has {len(rows):,} rows of one class: give rows of two or more")
        self.y = task.remapped[label].astype(np.int64)
        self.x = np.asarray(features(rows), np.float32)
        if not np.isfinite(self.x).all():
            raise InputError(f"features of {sets.fit} are not finite: use precision='float32'")
        # Without rows of known labels a validation set chooses nothing.
        has_rows = sets.select and np.isin(task.metadata.label[task.rows(sets.select)], task.label_ids).any()
        self.select = sets.select if has_rows else None
        self.choice = {"chosen_on": self.select, "by": by} if has_rows else {"chosen_on": "nothing: defaults"}

    @cached_property
    def _select_x(self) -> Floats:
        assert self.select is not None
        return self.features(self.task.rows(self.select))

    def rated(self, head: Head) -> float:
        """Evaluate a head on the validation set."""
        places = head.scores(self._select_x).argmax(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OneClassWarning)
            return float(self.task.evaluate(places, self.select, outputs=head.outputs)[self.by])


def probe(
    _: Pretrained, task: Task, features: Features, *, l2: float | Sequence[float] = (), by: str = "accuracy"
) -> Head:
    """A linear probe (`LinearProbe`) of the training set.

    Args:
        l2: its strength, or strengths to choose from on the validation set; default: `probe.GRID`, and
            `probe.L2` without a validation set.
        by: the figure of the validation set that chooses: "accuracy", or an official one such as "worst".

    """
    strengths = [l2] if isinstance(l2, int | float) else list(l2)
    if not all(0 < each < np.inf for each in strengths):
        raise InputError(f"l2={l2}: give numbers above 0")
    rows, chooses = _Rows(task, features, by), len(strengths) != 1

    def head(weight: Tensor, bias: Tensor, about: Mapping[str, Any]) -> Head:
        return Head("probe", task.label_ids, about, lambda x: x.double() @ weight.T + bias)

    judge = (lambda weight, bias: rows.rated(head(weight, bias, {}))) if chooses and rows.select else None
    weight, bias, chosen = best_of(LinearProbe(rows.x, rows.y, len(task.label_ids)), judge, strengths)
    return head(weight, bias, {"l2": chosen, **(rows.choice if chooses else {})})


def knn(_: Pretrained, task: Task, features: Features, *, k: int | None = None, by: str = "accuracy") -> Head:
    """The k training rows of the highest cosine, weighted by exp(cosine / .07), as in DINO.

    Args:
        k: neighbours; default: of `NEIGHBOURS` the best on the validation set, and 20 without one.
        by: the figure of the validation set that chooses.

    """
    if k is not None and k < 1:
        raise InputError(f"k={k}: give a number above 0")
    rows, choice = _Rows(task, features, by), dict[str, Any]()
    bank, y = normalize(torch.from_numpy(rows.x), dim=1), torch.from_numpy(rows.y)
    size = max(1, CHUNK_BYTES // (4 * len(bank)))

    def head(k: int) -> Head:
        def votes(x: Tensor) -> Tensor:
            cosine, at = (normalize(x, dim=1) @ bank.T).topk(min(k, len(bank)))
            weight = ((cosine - cosine[:, :1]) / TEMPERATURE).exp()
            shares = torch.zeros(len(x), len(task.label_ids)).scatter_add_(1, y[at], weight)
            return (shares / shares.sum(1, keepdim=True)).clamp(min=LEAST).log()

        about = {"k": k, **choice}
        return Head("knn", task.label_ids, about, lambda x: torch.cat([*map(votes, torch.split(x, size))]))

    if k is None:
        choice = rows.choice
        return max(map(head, NEIGHBOURS), key=rows.rated) if rows.select else head(K)
    return head(k)


#: The heads by name.
HEADS: Mapping[str, Callable[..., Head]] = {
    "labels": label_map, "zero-shot": zero_shot, "probe": probe, "knn": knn,
}  # fmt: skip
