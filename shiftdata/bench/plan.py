"""Which runs a sweep needs, as a function of the records there are: kill it anywhere, and it goes on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shiftdata.bench.job import HEADS, Identity, Job, TaskFacts, TaskSpec, identity
from shiftdata.bench.records import DONE, Records, runs_of
from shiftdata.bench.search import Search, applied, drawn, show_trials, suggested
from shiftdata.bench.selection import rule_of, run_scores, select
from shiftdata.bench.sweep import MethodSpec, Sweep
from shiftdata.bench.training import Unit, task_of

#: Heads that are trained together at most.
TOGETHER = 1000


class Plan:
    """The runs of a sweep, those of a search that depend on others once these are done."""

    def __init__(self, sweep: Sweep, device: str = "cpu") -> None:
        self.sweep, self.device = sweep, device
        self._facts: dict[TaskSpec, TaskFacts] = {}

    def runs(self, records: Records | None) -> list[Identity]:
        """Every run that is known to be needed, done or not."""
        past = {} if records is None else _past(records, self.sweep.search)
        made = []
        for spec, method, backbone in self.sweep.studies():
            for job in self._study(spec, method, backbone, past):
                for one in self._parts(job):
                    made.append(identity(one, self._facts_of(one.task), self.device))
        return made

    def units(self, runs: Sequence[Identity], done: set[str]) -> list[Unit]:
        """What is left to do, cut so that how much is done already moves no border."""
        together: dict[object, list[Identity]] = {}
        for one in runs:
            job = one.job
            heads = job.backbone == HEADS and not one.refused
            key = (job.task, job.training.steps, job.training.evaluate_every) if heads else one.id
            together.setdefault(key, []).append(one)
        units = []
        for some in together.values():
            for at in range(0, len(some), TOGETHER):
                left = [one for one in some[at : at + TOGETHER] if one.id not in done]
                if left:
                    units.append(Unit(tuple(left)))
        return units

    def _facts_of(self, spec: TaskSpec) -> TaskFacts:
        if spec not in self._facts:
            self._facts[spec] = TaskFacts.of(spec)
        return self._facts[spec]

    def _parts(self, job: Job) -> Iterator[Job]:
        """The run itself, and one without each of the training domains where models are selected so."""
        yield job
        if self.sweep.leave_domains_out and not self._facts_of(job.task).refused:
            for domain in self._domains(job.task):
                yield replace(job, task=replace(job.task, held_out=domain))

    def _domains(self, spec: TaskSpec) -> list[str]:
        task = task_of(spec)
        numbers = np.unique(task.metadata.nuisance[task.rows(task.set_of("fit"))])
        return [task.metadata.nuisances[one] for one in numbers.tolist()]

    def _study(
        self, spec: TaskSpec, method: MethodSpec, backbone: str, past: Mapping[str, _Past]
    ) -> Iterator[Job]:
        """The jobs of a study that are known: its trials so far, then the further seeds of the best."""
        search, sweep = self.sweep.search, self.sweep
        start = Job(
            sweep=sweep.name, task=spec, method=method.name, variant=method.variant, backbone=backbone,
            training=sweep.training, hyper=tuple(sorted(method.hyper.items())),
        )  # fmt: skip
        known = past.get(start.study, _Past())
        settings = self._settings(start, method, known)
        each = search.seeds if search.seeds_of == "each" else 1
        jobs = [_with(start, one, trial) for trial, one in enumerate(settings)]
        yield from (replace(job, seed=seed) for job in jobs for seed in range(each))
        if search.seeds_of == "best" and search.seeds > 1:
            whole = len(jobs) if search.kind == "grid" else search.trials
            if known.best >= 0 and len(known.scores) >= whole:
                yield from (replace(jobs[known.best], seed=seed) for seed in range(1, search.seeds))

    def _settings(self, job: Job, method: MethodSpec, known: _Past) -> list[dict[str, float]]:
        """The settings of each trial that can begin."""
        search, heads = self.sweep.search, job.backbone == HEADS
        if search.kind == "defaults":
            return [{}]
        if search.kind == "grid":
            return search.grid(job.method, heads)
        whole = search.space_of(job.method, heads)
        space = {name: one for name, one in whole.items() if name not in method.hyper}
        names = f"{job.task.protocol} {job.backbone}", f"{job.method}@{job.variant}"
        if search.kind == "random":
            return [drawn(space, search.seed, names[1], trial) for trial in range(search.trials)]
        made: list[dict[str, float]] = []
        for trial in range(search.trials):
            scores = [known.scores[at] for at in range(trial) if at in known.scores]
            if len(scores) < trial:
                break
            made.append(suggested(space, search.seed, names, list(zip(made, scores, strict=True))))
        if search.storage:
            ended = [known.scores[at] for at in range(len(made)) if at in known.scores]
            show_trials(search.storage, " ".join(names), space, list(zip(made, ended, strict=False)))
        return made


@dataclass(frozen=True)
class _Past:
    """What records say of a study: each trial's score by its first seed (nan: it failed), and the best."""

    scores: Mapping[int, float] = field(default_factory=dict)
    best: int = -1


def _with(job: Job, settings: Mapping[str, float], trial: int) -> Job:
    training, hyper = applied(job.training, settings)
    own = dict(job.hyper) | dict(hyper)
    return replace(job, training=training, hyper=tuple(sorted(own.items())), trial=trial)


def _past(records: Records, search: Search) -> dict[str, _Past]:
    """What is known of each study's trials, where the search asks for it."""
    if search.kind != "tpe" and search.seeds_of == "each":
        return {}
    rule, columns = (
        rule_of(search.rule),
        [records.column(name) for name in ("trial", "seed", "held_out", "status")],
    )
    first = records.where(seed=0) if 0 in records.column("seed") else records
    best = {one.study.id: one.trial for one in select(first, search.rule)}
    made = {}
    for study, runs in runs_of(records):
        scores: dict[int, float] = {}
        for run in runs:
            trial, seed, out, status = (values[run] for values in columns)
            if seed == 0 and not out:
                fine = search.kind == "tpe" and status == DONE
                scores[trial] = max(run_scores(records, [run], rule)[run].values()) if fine else math.nan
        made[study.id] = _Past(scores, best.get(study.id, -1))
    return made
