"""A board as the Hub keeps it: results in model repos, and the leaderboard of a dataset.

Of each canonical split that `eval.yaml` names as a task, the first test set counts; oracles do not.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from huggingface_hub.utils import yaml_dump  # type: ignore[attr-defined]  # a name of its own cards

from shiftdata.bench.leaderboard.board import Board, Table
from shiftdata.bench.leaderboard.judging import Entry, Score
from shiftdata.data.exporting.folders.contents import folder_names
from shiftdata.data.format.benchmark import LEADERBOARD, benchmark_tasks
from shiftdata.data.places.search import NAMESPACE
from shiftdata.errors import InputError, MissingExtraError
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.protocols import parse_protocol

Json: TypeAlias = dict[str, Any]

#: The address of a model repo; of other addresses with two parts the first is one of these words.
MODEL = re.compile(
    r"https://(?:huggingface\.co|hf\.co)/(?!(?:blog|buckets|collections|datasets|docs|learn|papers|spaces)/)"
    r"([\w.-]+/[\w.-]+)/?"
)


@dataclass(frozen=True)
class Result:
    """The rank of a model on a task of the Hub, 1 for the best and for all that share its place."""

    rank: int
    headline: str
    entry: Entry

    @property
    def model(self) -> str:
        """The repo of the model, where the card's `url` is its address; else the name of the method."""
        card = self.entry.card
        match = MODEL.fullmatch(card.url)
        return match[1] if match else card.method

    @property
    def score(self) -> Score:
        return self.entry.scores[self.headline]

    @property
    def file(self) -> str:
        """The file of the model repo that has the result."""
        return f".eval_results/{self.entry.card.dataset}.yaml"

    @property
    def notes(self) -> str:
        """The figure with its interval, and what it depends on."""
        entry, score = self.entry, self.score
        interval = (
            "" if math.isnan(score.low) else f" [{number(score.low)}, {number(score.high)}] over origins"
        )
        seeds = f"{len(entry.seeds)} {'seed' if len(entry.seeds) == 1 else 'seeds'}"
        leaks = "; origins are in two sets" * entry.leaky
        return (
            f"{self.headline}{interval}; {seeds}; selected by {entry.card.rule}; pretraining: "
            f"{entry.card.pretraining.pretraining}{leaks}; content_id {entry.card.content_id[:16]}"
        )

    def listed(self) -> Json:
        """Return the entry of a leaderboard, as `HfApi.get_dataset_leaderboard` reads it."""
        card = self.entry.card
        return {
            "rank": self.rank,
            "modelId": self.model,
            "value": self.score.value,
            "filename": self.file,
            "verified": False,  # nobody knows that this model made the predictions
            "source": {"url": card.url, "name": card.method, "isExternal": True} if card.url else None,
            "author": {"type": "user", "name": self.model.rpartition("/")[0], "fullname": card.authors},
            "notes": self.notes,
        }

    def in_repo(self, task: str, owner: str) -> Json:
        """Return the fields of the entry for the model repo, as huggingface_hub names them."""
        card = self.entry.card
        return {
            "dataset_id": f"{owner}/{card.dataset}",
            "task_id": task,
            "value": self.score.value,
            "dataset_revision": self.entry.dataset.store.revision,
            "source_url": card.url or None,
            "source_name": card.method if card.url else None,
            "notes": self.notes,
        }


def hub_results(board: Board) -> dict[str, dict[str, list[Result]]]:
    """Return the results on each task of the `eval.yaml` of each dataset, the best first."""
    results: dict[str, dict[str, list[Result]]] = {}
    for table in board.tables:
        first = table.entries[0]
        task = "" if table.oracle or not first.main else hub_task(first)
        if task:
            results.setdefault(first.card.dataset, {}).setdefault(task, []).extend(_results(table))
    return results


def hub_task(entry: Entry) -> str:
    """Return the canonical split that an entry's task is, if `eval.yaml` names it; else an empty text."""
    manifest, name = entry.dataset.manifest, entry.card.tasks[entry.task_id]
    protocol = None
    with suppress(InputError):  # the name of a canonical split is none of a protocol
        protocol = parse_protocol(name.protocol)
    words = protocol.words() if protocol else name.protocol
    for task in () if name.unlabelled else benchmark_tasks(manifest):
        split = manifest.canonical(task)
        if split and split.base == entry.card.base and (task == name.protocol or split.protocol == words):
            return task
    return ""


def _results(table: Table) -> Iterator[Result]:
    for rank, entry in table.lines:
        if math.isfinite(entry.scores[table.headline].value):
            yield Result(1 + sum(place < rank for place, _ in table.lines), table.headline, entry)


def eval_results(board: Board, owner: str = NAMESPACE) -> dict[str, str]:
    """Return the files for model repos by their paths, a folder for each model; of a task its best result."""
    try:
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    except ImportError as error:
        raise MissingExtraError("this huggingface_hub knows no evaluation results: upgrade it") from error
    best: dict[tuple[str, str], dict[str, Result]] = defaultdict(dict)
    for tasks in hub_results(board).values():
        for task, results in tasks.items():
            for result in results:
                best[result.model, result.file].setdefault(task, result)
    models = list(dict.fromkeys(model for model, _ in best))
    folders = dict(zip(models, folder_names(models), strict=True))
    return {
        f"{folders[model]}/{file}": yaml_dump(
            eval_result_entries_to_yaml(
                [EvalResultEntry(**result.in_repo(task, owner)) for task, result in of.items()]
            )
        )
        for (model, file), of in best.items()
    }


def served_leaderboards(board: Board) -> Mapping[str, str]:
    """Return the files that lie next to the folders of datasets, by their names; tasks as in `eval.yaml`."""
    files = {}
    for dataset, tasks in hub_results(board).items():
        opened = next(iter(tasks.values()))[0].entry.dataset
        listed = {
            task: [result.listed() for result in tasks[task]]
            for task in benchmark_tasks(opened.manifest)
            if task in tasks
        }
        text = json.dumps({"manifest": opened.sha256, "tasks": listed}, indent=1, ensure_ascii=False)
        files[f"{dataset}{LEADERBOARD}"] = text + "\n"
    return files
