"""Numbers of records with the names by which tables of papers arrange them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from shiftdata.bench.records import PREDICT, Records, runs_of
from shiftdata.bench.reporting.forms import LAST, ORACLE, scenario_of
from shiftdata.bench.reporting.scores import Score, clean, gains, over_steps, scores_of
from shiftdata.bench.selection import RULES, run_scores
from shiftdata.evaluation.metrics.benchmarks import selection_leakage
from shiftdata.evaluation.metrics.statistics import spread
from shiftdata.evaluation.tasks.descriptions import steps_of
from shiftdata.untrusted.texts import read_json


@dataclass(frozen=True)
class Point:
    """A number of a study: its names along every axis, and its value for each seed."""

    names: Mapping[str, str]
    by_seed: Mapping[int, float]

    def __getitem__(self, axis: str) -> str:
        return self.names.get(axis, "")


#: The points of the scores of a rule; a name along the axis "figure" is what a score has several of.
Points: TypeAlias = Callable[[Records, "list[Score]"], Iterator[Point]]
#: Axes whose values are names of methods or models, which papers spell in their own way.
METHODS = ("method", "corrected", "model")


def names_of(records: Records, score: Score) -> dict[str, str]:
    """Return the name of a score along every axis that it has itself."""
    study, params, steps = score.selected.study, score.params, protocols_of(score)
    correction = re.match(r"(?:(rs|rw)\+)*(rs|rw)\b|", study.method)
    prefix = correction[0] if correction else ""
    features, at, encoder = study.backbone.partition("@")
    training = read_json(records.column("training")[score.selected.runs[0].run])
    probed = bool(at) or study.variant == "probe" or training.get("encoder_rate") == 0
    alpha = params.get("alpha")
    return {
        "method": "Oracle" if ORACLE in steps else study.label,
        "model": clean(re.sub(r"^\w+:", "", study.backbone)) if study.method == PREDICT else study.label,
        "dataset": score.dataset.partition("/")[0],
        "base": score.dataset,
        "scenario": scenario_of(score),
        "pair": clean(f"{params.get('source', '')} to {params.get('target', '')}"),
        "k": f"K={params.get('k', '')}",
        "rule": score.selected.rule,
        "alpha": "Alpha = None" if alpha is None else f"Alpha = {float(alpha):.1f}",
        "backbone": clean(study.backbone),
        "weights": clean(encoder or features),
        "tuning": "LP" if probed else "FT",
        "correction": {"": "None"}.get(prefix, prefix.upper()),
        "corrected": study.label.removeprefix(prefix).lstrip("+") or "erm",
        "tests": ", ".join(score.domains),
        "setting": "Comp." if params.get("variant") == "compositional" else "Rand.",
    }


def protocols_of(score: Score) -> set[str]:
    """Return the names of the protocols that made a score's task."""
    return {name for name, _ in steps_of(score.selected.study.task)}


def figure(name: str = "") -> Points:
    """Return the points of a figure, by default of the main one of each kind."""

    def points(records: Records, scores: list[Score]) -> Iterator[Point]:
        for score in scores:
            values = score.figures.get(name or score.kind.main)
            if values is not None:
                yield _point(records, score, "", values)

    return points


def _point(records: Records, score: Score, name: str, values: Any, **more: str) -> Point:
    names = names_of(records, score) | {"figure": name} | more
    return Point(names, dict(zip(score.seeds, np.asarray(values).tolist(), strict=True)))


def domains(records: Records, scores: list[Score]) -> Iterator[Point]:
    """Yield the accuracy in each test domain, and over all test rows as "Ova."."""
    for score in scores:
        for name, values in score.domains.items():
            yield _point(records, score, name, values)
        yield _point(records, score, "Ova.", score.figures["overall"])


def severities(records: Records, scores: list[Score]) -> Iterator[Point]:
    """Yield accuracy over rows, and its drop from severity 0, at each severity: CNS-Bench's table 2."""
    for score in scores:
        at = {
            name.removeprefix("rows@"): of for name, of in score.figures.items() if name.startswith("rows@")
        }
        at = {name: of / 100 for name, of in at.items()} or _by_severity(records, score)
        for name, values in at.items():
            yield _point(records, score, name, values, measure="accuracy")
            if "0" in at:
                yield _point(records, score, name, at["0"] - values, measure="accuracy drop")


def shifts(records: Records, scores: list[Score]) -> Iterator[Point]:
    """Yield the accuracy under each shift at each severity."""
    for score in scores:
        cells = records.tasks[score.task_id][score.test].cells
        for severity in cells.names.get("severity", ()):
            for name in cells.names[_nuisance(score, records)]:
                values = _accuracy(records, score, {"severity": severity, _nuisance(score, records): name})
                if np.isfinite(values).all():
                    yield _point(records, score, clean(name), values, severity=f"scale {severity}")


def _by_severity(records: Records, score: Score) -> dict[str, Any]:
    names = records.tasks[score.task_id][score.test].cells.names.get("severity", ())
    return {f"{float(name):g}": _accuracy(records, score, {"severity": name}) for name in names}


def _nuisance(score: Score, records: Records) -> str:
    return records.tasks[score.task_id][score.test].nuisance


def _accuracy(records: Records, score: Score, at: Mapping[str, str]) -> Any:
    """The share of right rows in some cells, for each seed."""
    cells = records.tasks[score.task_id][score.test].cells
    mask = np.all(
        [cells.codes[column] == cells.names[column].index(name) for column, name in at.items()], axis=0
    )
    places = [records.places[of.run][score.test, of.step] for of in score.selected.runs]
    with np.errstate(invalid="ignore"):
        return records.correct(places)[:, mask].sum(axis=1) / cells.n[mask].sum()


def failures(records: Records, scores: list[Score]) -> Iterator[Point]:
    """Yield the share of the failing trajectories that fail first at each severity: CNS-Bench's table 3."""
    for score in scores:
        for name, values in score.figures.items():
            if name.startswith("failures@"):
                yield _point(records, score, name.removeprefix("failures@"), values / 100)


def stability(records: Records, scores: list[Score]) -> Iterator[Point]:
    """Yield NICO++'s table 4: the SD over the last epochs and over seeds, and the gain of the oracle."""
    best = {score.selected.study.id: score.by_seed for score in scores_of(records, ORACLE)[0]}
    for score in scores:
        epochs = [spread(of) for of in over_steps(records, score, LAST) if len(of) > 1]
        gap = [-gain for gain in gains(score, best.get(score.selected.study.id, {}))]
        numbers = {"epoch spread": epochs, "seed spread": [spread(score.main)], "oracle gap": gap}
        for name, values in numbers.items():
            if values and np.isfinite(values).all():
                names = names_of(records, score) | {"figure": name}
                yield Point(names, {0: float(np.mean(values))})


def leakage(records: Records, scores: list[Score]) -> Iterator[Point]:
    """Yield DomainBed-v2's table 4: accuracy by how many test domains choose the setting, seed by seed."""
    studies = {score.selected.study.id: score for score in scores}
    for study, runs in runs_of(records):
        if (score := studies.get(study.id)) is None or len(score.domains) < 2:
            continue
        for seed in sorted({records.column("seed")[run] for run in runs}):
            of_seed = [run for run in runs if records.column("seed")[run] == seed and records.steps(run)]
            if len(of_seed) < 2:
                continue
            scored = run_scores(records, of_seed, RULES["iid"])
            candidates = [(run, step, value) for run, of in scored.items() for step, value in of.items()]
            tests = [
                records.evaluation(run, score.test, step).by("nuisance").accuracy
                for run, step, _ in candidates
            ]
            leaked = selection_leakage([value for *_, value in candidates], tests)
            lines = {"IID": leaked.iid} | {f"Oracle, K={k}": of for k, of in enumerate(leaked.oracle, 1)}
            for row, accuracies in lines.items():
                for name, value in zip(score.domains, accuracies.tolist(), strict=True):
                    names = names_of(records, score) | {"figure": name, "chosen": row}
                    yield Point(names, {seed: 100 * value})
