"""Zero-shot classifiers: class names in prompt templates, encoded as texts into the space of the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.data.format.names import template_fault
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.predictions import NUMBERED
from shiftdata.files import open_regular

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
        given = _lines(Path(given))
    prompts = (given,) if isinstance(given, str) else tuple(given)
    for prompt in prompts:
        if fault := template_fault(prompt):
            raise InputError(f"the prompt {prompt[:60]!r} {fault}: write one such as {DEFAULT[0]!r}")
    if not 0 < len(prompts) <= MOST:
        raise InputError(f"{len(prompts):,} prompts: give 1 to {MOST:,}, such as {DEFAULT[0]!r}")
    return prompts


def _lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as stream:
            text = stream.read(MOST_BYTES + 1).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"the prompts {path} cannot be read ({error}): give a file of one a line") from error
    if len(text) > MOST_BYTES:
        raise InputError(f"the prompts {path} have more than {MOST_BYTES:,} bytes: give one in each line")
    return [line.strip() for line in text.splitlines() if line.strip()]


def names_of(task: Task, given: Mapping[str, str | Sequence[str]] | None = None) -> list[tuple[str, ...]]:
    """Return the words for each label of a task: those given, or the label without number and underscores."""
    for label in given or ():
        if label not in task.labels:
            raise not_found("label", label, task.labels, "names= has words for the labels of the task.")
    chosen = [(given or {}).get(label) or _words(label) for label in task.labels]
    return [(each,) if isinstance(each, str) else tuple(each) for each in chosen]


def _words(label: str) -> str:
    """Return a label as words: "022_bald_eagle" is "bald eagle"."""
    number = NUMBERED.match(label)
    return label[number.end() if number else 0 :].replace("_", " ").strip() or label


def text_weights(model: Pretrained, names: Sequence[Sequence[str]], prompts: Sequence[str]) -> Tensor:
    """Return classes x features: the mean over prompts and names of normalised embeddings, normalised.

    Ensembling as in CLIP (Radford et al., 2021).
    """
    if model.caption is None:
        raise InputError(
            f"{model.name} encodes no texts: zero-shot needs one of pictures and captions, such as a CLIP; "
            "others take head='labels', 'probe' or 'knn'"
        )
    rows = []
    with torch.inference_mode():
        for words in names:
            texts = [prompt.replace("{}", word) for prompt in prompts for word in words]
            embedded = normalize(model.caption(texts).float().cpu(), dim=1)
            rows.append(normalize(embedded.mean(0), dim=0))
    return torch.stack(rows)
