"""Which runs a sweep needs, as a function of the records there are: kill it anywhere, and it goes on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from shiftdata.bench.job import HEADS, Identity, Job, TaskSpec, facts_of, identity, task_of
from shiftdata.bench.records import DONE, PLACE, Records, runs_of
from shiftdata.bench.search import Search, applied, drawn, suggested
from shiftdata.bench.selection import rule_of, run_scores, select
from shiftdata.bench.sweep import MethodSpec, Sweep
from shiftdata.bench.training import Unit

#: Heads that are trained together at most.
TOGETHER = 1000


#: What records say of a study: each trial's score by its first seed (nan: it failed), and the best trial.
Past: TypeAlias = tuple[Mapping[int, float], int]


class Plan:
    """The runs of a sweep, those of a search that depend on others once these are done."""

    def __init__(self, sweep: Sweep, device: str = "cpu") -> None:
        self.sweep, self.device = sweep, device
        self._facts: dict[TaskSpec, dict[str, str]] = {}

    def runs(self, records: Records | None) -> list[Identity]:
        """Every run that is known to be needed, done or not."""
        past = {} if records is None else _past(records, self.sweep.search)
        return [
            identity(part, self._facts_of(part.task), self.device)
            for spec, method, backbone in self.sweep.studies()
            for job in self._study(spec, method, backbone, past)
            for part in self._parts(job)
        ]

    def units(self, runs: Sequence[Identity], done: set[str]) -> list[Unit]:
        """What is left to do, cut so that how much is done already moves no border."""
        together: dict[object, list[Identity]] = {}
        for run in runs:
            job = run.job
            heads = job.backbone == HEADS and not run.refused
            key = (job.task, job.training.steps, job.training.evaluate_every) if heads else run.id
            together.setdefault(key, []).append(run)
        left = [
            tuple(run for run in of[begin : begin + TOGETHER] if run.id not in done)
            for of in together.values()
            for begin in range(0, len(of), TOGETHER)
        ]
        return [Unit(runs) for runs in left if runs]

    def _facts_of(self, spec: TaskSpec) -> dict[str, str]:
        if spec not in self._facts:
            self._facts[spec] = facts_of(spec)
        return self._facts[spec]

    def _parts(self, job: Job) -> Iterator[Job]:
        """The run itself, and one without each of the training domains where models are selected so."""
        yield job
        if self.sweep.leave_domains_out and "refused" not in self._facts_of(job.task):
            task = task_of(job.task)
            for domain in np.unique(task.metadata.nuisance[task.rows(task.set_of("fit"))]).tolist():
                yield replace(job, task=replace(job.task, held_out=task.metadata.nuisances[domain]))

    def _study(
        self, spec: TaskSpec, method: MethodSpec, backbone: str, past: Mapping[str, Past]
    ) -> Iterator[Job]:
        """The jobs of a study that are known: its trials so far, then the further seeds of the best."""
        search, sweep = self.sweep.search, self.sweep
        start = Job(
            sweep=sweep.name,
            task=spec,
            method=method.name,
            variant=method.variant,
            backbone=backbone,
            training=sweep.training,
            hyper=tuple(sorted(method.hyper.items())),
        )
        scores, best = past.get(start.study, ({}, -1))
        jobs = [
            _with(start, setting, trial)
            for trial, setting in enumerate(self._settings(start, method, scores))
        ]
        each = search.seeds if search.seeds_of == "each" else 1
        yield from (replace(job, seed=seed) for job in jobs for seed in range(each))
        whole = len(jobs) if search.kind == "grid" else search.trials
        if search.seeds_of == "best" and best >= 0 and len(scores) >= whole:
            yield from (replace(jobs[best], seed=seed) for seed in range(1, search.seeds))

    def _settings(self, job: Job, method: MethodSpec, scores: Mapping[int, float]) -> list[dict[str, float]]:
        """The settings of each trial that can begin."""
        search, heads = self.sweep.search, job.backbone == HEADS
        if search.kind == "defaults":
            return [{}]
        if search.kind == "grid":
            return search.grid(job.method, heads)
        space = search.space_of(job.method, heads)
        space = {name: hyper for name, hyper in space.items() if name not in method.hyper}
        names = f"{job.task.protocol} {job.backbone}", f"{job.method}@{job.variant}"
        if search.kind == "random":
            return [drawn(space, search.seed, names[1], trial) for trial in range(search.trials)]
        settings: list[dict[str, float]] = []
        while len(settings) < search.trials and all(trial in scores for trial in range(len(settings))):
            past = [(setting, scores[trial]) for trial, setting in enumerate(settings)]
            settings.append(suggested(space, search.seed, names, past))
        return settings


def _with(job: Job, settings: Mapping[str, float], trial: int) -> Job:
    training, hyper = applied(job.training, settings)
    own = dict(job.hyper) | dict(hyper)
    return replace(job, training=training, hyper=tuple(sorted(own.items())), trial=trial)


def _past(records: Records, search: Search) -> dict[str, Past]:
    """What is known of each study's trials, where the search asks for it."""
    if search.kind != "tpe" and search.seeds_of == "each":
        return {}
    rule, columns = rule_of(search.rule), [records.column(name) for name in (*PLACE, "status")]
    first = records.where(seed=0) if 0 in records.column("seed") else records
    best = {selected.study.id: selected.trial for selected in select(first, search.rule)}
    past: dict[str, Past] = {}
    for study, runs in runs_of(records):
        scores: dict[int, float] = {}
        for run in runs:
            trial, seed, domain, status = (column[run] for column in columns)
            if seed == 0 and not domain:
                scored = search.kind == "tpe" and status == DONE
                scores[trial] = max(run_scores(records, [run], rule)[run].values()) if scored else math.nan
        past[study.id] = scores, best.get(study.id, -1)
    return past
