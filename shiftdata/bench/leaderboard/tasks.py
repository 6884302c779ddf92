"""The board in the words of Croissant Tasks: an EvaluationTask for each method on each test set."""

from __future__ import annotations

import json
import math
from typing import Any, TypeAlias

from shiftdata.bench.leaderboard.board import Board
from shiftdata.bench.leaderboard.judging import Entry, Score
from shiftdata.data.format.problems import problem_id

Json: TypeAlias = dict[str, Any]

CONTEXT = {"cr": "http://mlcommons.org/croissant/", "sc": "https://schema.org/"}


def render_tasks(board: Board) -> str:
    """Render the accepted entries as JSON-LD; a problem has the identifier that croissant.json gives it."""
    entries = [_evaluation(entry) for table in board.tables for entry in table.entries]
    return json.dumps({"@context": CONTEXT, "@graph": entries}, indent=1, ensure_ascii=False) + "\n"


def _evaluation(entry: Entry) -> Json:
    card = entry.card
    problem = problem_id(card.content_id, card.tasks[entry.task_id].protocol or "canonical")
    program = {"sc:description": card.code, "sc:author": card.authors, "sc:url": card.url}
    stated = {"sc:name": card.method} | {name: value for name, value in program.items() if value}
    solution = {"@type": "cr:TaskSolution", "sc:name": card.method, "sc:isBasedOn": {"@id": problem}}
    solution |= {"cr:implementation": {"@type": "sc:SoftwareSourceCode", **stated}}
    figures = {name: score for name, score in entry.scores.items() if math.isfinite(score.value)}
    return {
        "@type": "cr:EvaluationTask",
        "sc:name": f"{card.method} on {entry.set} of {card.dataset}, {entry.task}",
        "sc:description": f"{len(entry.seeds)} seeds, {entry.rows:,} rows; selection: {card.rule}.",
        "cr:evaluatedSolution": solution,
        "cr:evaluationResults": [_result(name, score) for name, score in figures.items()],
    }


def _result(name: str, score: Score) -> Json:
    value: Json = {"@type": "sc:QuantitativeValue", "sc:value": score.value}
    if math.isfinite(score.low):
        value |= {"sc:minValue": score.low, "sc:maxValue": score.high}
    return {"@type": "cr:EvaluationResult", "cr:metric": name, "cr:value": value}
