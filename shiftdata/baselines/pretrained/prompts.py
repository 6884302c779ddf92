"""Zero-shot classifiers: class names in prompt templates, encoded as texts into the space of the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.data.format.names import template_fault
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.predictions import NUMBERED
from shiftdata.files import open_regular
from shiftdata.untrusted.texts import read_toml

DEFAULT = ("a photo of a {}.",)
#: Templates at most (the longest published list has 80), and bytes of a file of them.
MOST, MOST_BYTES = 1000, 1 << 20


def prompts_of(task: Task, given: Sequence[str] | str | Path | None = None) -> tuple[str, ...]:
    """Return the prompt templates of a task: those given, those of the dataset, or the default.

    A string with a place for the name is a template; another is the path of a file with one in each line.
    """
    opened = task.metadata.dataset
    if given is None:
        return tuple(opened.manifest.prompts) if opened and opened.manifest.prompts else DEFAULT
    if isinstance(given, Path) or (isinstance(given, str) and "{" not in given):
        try:
            with open_regular(Path(given)) as stream:
                lines = stream.read(MOST_BYTES).decode("utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            raise InputError(f"the prompts {given} are no file of one a line: {error}") from error
        given = [line.strip() for line in lines if line.strip()]
    prompts = (given,) if isinstance(given, str) else tuple(given)
    for prompt in prompts:
        if fault := template_fault(prompt):
            raise InputError(f"the prompt {prompt[:60]!r} {fault}: write one such as {DEFAULT[0]!r}")
    if not 0 < len(prompts) <= MOST:
        raise InputError(f"{len(prompts):,} prompts: give 1 to {MOST:,}, such as {DEFAULT[0]!r}")
    return prompts


def mapping_of(option: str, given: Mapping[Any, Any] | str | Path | None) -> Mapping[Any, Any]:
    """Return a mapping that was given, or that of a TOML file."""
    if not isinstance(given, str | Path):
        return given or {}
    try:
        return read_toml(Path(given))
    except (OSError, ValueError) as error:
        raise InputError(f"{option}={given} cannot be read as TOML: {error}") from error


def names_of(task: Task, given: Mapping[str, str | Sequence[str]] | None = None) -> list[tuple[str, ...]]:
    """Return the words for each label of a task: those given, or the label without number and underscores."""
    for label in given or ():
        if label not in task.labels:
            raise not_found("label", label, task.labels, "names= has words for the labels of the task.")
    result = []
    for label in task.labels:
        number = NUMBERED.match(label)
        plain = label[number.end() if number else 0 :].replace("_", " ").strip() or label
        words = (given or {}).get(label) or plain  # "022_bald_eagle" is "bald eagle"
        words = [words] if isinstance(words, str) else words
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise InputError(f"names= gives {label} {words!r:.60}: give words, or a list of them")
        result.append(tuple(words))
    return result


def text_weights(model: Pretrained, names: Sequence[Sequence[str]], prompts: Sequence[str]) -> Tensor:
    """Return classes x features: the mean over prompts and names of normalised embeddings, normalised.

    Ensembling as in CLIP (Radford et al., 2021).
    """
    if model.caption is None:
        raise InputError(
            f"{model.name} encodes no texts, as a CLIP does: take head='labels', 'probe' or 'knn'"
        )
    rows = []
    with torch.inference_mode():
        for words in names:
            texts = [prompt.replace("{}", word) for prompt in prompts for word in words]
            embedded = normalize(model.caption(texts).float().cpu(), dim=1)
            rows.append(normalize(embedded.mean(0), dim=0))
    return torch.stack(rows)
