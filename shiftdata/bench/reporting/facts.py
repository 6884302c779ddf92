"""What was run, what failed, what is missing, and with which versions: read from the records alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shiftdata.bench.records import DONE, Records
from shiftdata.bench.reporting.kinds import KINDS, OTHER, clean, kind_of
from shiftdata.bench.reporting.scores import rule_label
from shiftdata.bench.reporting.tables import SHORT, Section, Table, plain_table
from shiftdata.bench.selection import Selected, rule_of

SWEEP = "sweep.json"
#: Failures of one reason that are named, and reasons that are shown.
NAMED, MOST = 3, 40


class Facts:
    """What the records of some sweeps say of how they were made."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.about: list[dict[str, Any]] = [json.loads(one) for one in records.column("about")]

    @cached_property
    def sweeps(self) -> list[dict[str, Any]]:
        """What each folder was asked for."""
        files = [folder / SWEEP for folder in self.records.folders]
        return [json.loads(path.read_text(encoding="utf-8")) for path in files if path.is_file()]

    def code(self, runs: Iterable[int]) -> str:
        """The commits and versions of some runs, on a line."""
        runs = list(runs)
        commits = {clean(self.records.column("commit")[run] or "unknown") for run in runs}
        versions = {str(self.about[run].get("versions", {}).get("shiftdata", "unknown")) for run in runs}
        return f"commit {', '.join(sorted(commits))}; shiftdata {', '.join(sorted(versions))}"

    def rules(self) -> dict[str, list[str]]:
        """The rules that each sweep asks for."""
        found: dict[str, list[str]] = {}
        for one in self.sweeps:
            found.setdefault(one["name"], []).extend(one.get("rules", ()))
        return found

    def title(self) -> str:
        return ", ".join(map(clean, dict.fromkeys(self.records.column("sweep")))) or "no runs"

    def what(self) -> Section:
        """What was run: datasets, tasks, methods, budget, seeds, cost."""
        column = self.records.column
        datasets = dict.fromkeys(zip(column("dataset"), column("content_id"), strict=True))
        statuses = Counter(column("status"))
        counted = ", ".join(f"{n:,} {status}" for status, n in statuses.most_common())
        methods = dict.fromkeys(
            name if variant in ("", "fixed") else f"{name}@{variant}"
            for name, variant in zip(column("method"), column("variant"), strict=True)
        )
        trials, seeds = len(set(column("trial"))), len(set(column("seed")))
        rows = [
            ["datasets", "; ".join(f"{clean(name)} ({content_id[:SHORT]})" for name, content_id in datasets)],
            ["tasks", _listed(dict.fromkeys(column("protocol")))],
            ["methods", ", ".join(map(clean, methods))],
            ["backbones", ", ".join(map(clean, dict.fromkeys(column("backbone"))))],
            ["trials and seeds", f"up to {trials:,} trials a study, {seeds:,} seeds"],
            *([f"search of {clean(one['name'])}", _search(one)] for one in self.sweeps),
            ["training", _training(column("training"))],
            ["runs", f"{len(self.records):,} in {len(self.records.studies()):,} studies: {counted}"],
            ["cost", self._cost()],
        ]
        about = tuple(
            f"{clean(one['name'])}: {clean(one['about'])}" for one in self.sweeps if one.get("about")
        )
        return Section("What was run", (plain_table("Runs", ["", "what"], rows),), about)

    def _cost(self) -> str:
        def known(name: str) -> np.ndarray[Any, Any]:
            return np.array([one or 0 for one in self.records.column(name)], float)

        processor, peak = known("processor_seconds").sum(), known("peak_memory").max(initial=0)
        return (
            f"{_hours(known('seconds').sum())}, {_hours(processor)} of processors, "
            f"{known('examples').sum():,.0f} examples, at most {peak / 2**20:,.0f} MiB"
        )

    def failures(self, refused: Sequence[Selected]) -> Section:
        """Runs that did not end well, studies from which a rule could not choose, and what is not there."""
        tables = [*self._failed(), *_refused(refused), *self._missing()]
        notes: tuple[str, ...] = () if tables else ("Every run was done, and every rule could choose.",)
        if not self.sweeps:
            notes += (f"Without {SWEEP} nobody can say which runs are missing.",)
        return Section("Failures and missing runs", tuple(tables), notes)

    def _failed(self) -> list[Table]:
        names = ("status", "reason", "method", "task", "trial", "seed")
        found: dict[tuple[str, str], list[str]] = {}
        for status, reason, method, task, trial, seed in zip(*map(self.records.column, names), strict=True):
            if status != DONE:
                where = clean(f"{method} on {task}, trial {trial}, seed {seed}")
                found.setdefault((status, clean(reason or "")), []).append(where)
        if not found:
            return []
        order = sorted(found.items(), key=lambda one: -len(one[1]))
        body = [[f"{status}: {reason}", f"{len(runs):,}", _some(runs)] for (status, reason), runs in order]
        notes = [f"{len(body) - MOST:,} more reasons are left out."] if len(body) > MOST else []
        title = f"Runs that failed: {sum(map(len, found.values())):,} of {len(self.records):,}"
        return [plain_table(title, ["reason", "runs", "which"], body[:MOST], notes)]

    def _missing(self) -> list[Table]:
        """What the sweeps ask for and the records lack."""
        there: Counter[tuple[str, ...]] = Counter()
        names = ("sweep", "dataset", "protocol", "method", "variant", "backbone", "held_out")
        for sweep, dataset, *rest, held_out in zip(*map(self.records.column, names), strict=True):
            if not held_out:
                there[sweep, dataset.partition("/")[0], *rest] += 1
        body = []
        for sweep in self.sweeps:
            need = expected_runs(sweep["search"])
            for key in _asked(sweep):
                if need is not None and there[key] < need:
                    body.append(
                        [clean(f"{key[3]} on {key[2]} of {key[1]}, {key[5]}"), f"{there[key]:,}", f"{need:,}"]
                    )
        if not body:
            return []
        title = f"Runs that are missing, in {len(body):,} studies"
        notes = [f"{len(body) - MOST:,} more studies are left out."] if len(body) > MOST else []
        return [plain_table(title, ["study", "runs there", "runs asked for"], body[:MOST], notes)]

    def versions(self) -> Section:
        """Exactly which code and data the runs are of."""
        column = self.records.column
        versions = Counter(
            ", ".join(f"{name} {version}" for name, version in sorted(one.get("versions", {}).items()))
            for one in self.about
        )
        body = [["versions", "; ".join(f"{text} ({n:,} runs)" for text, n in versions.most_common())]]
        commits = Counter(clean(one or "unknown") for one in column("commit"))
        body.append(["commits", ", ".join(f"{one} ({n:,} runs)" for one, n in commits.most_common())])
        for name in ("device", "pretraining"):
            known = dict.fromkeys(clean(str(one[name])) for one in self.about if one.get(name))
            body.append([name, "; ".join(known) or "-"])
        methods = code_versions(column("method"), self.about)
        body.append(["code versions", ", ".join(f"{name} {version}" for name, version in methods.items())])
        ids = dict.fromkeys(zip(column("dataset"), column("content_id"), strict=True))
        body += [[f"content_id of {clean(name)}", content_id] for name, content_id in ids]
        tasks = dict.fromkeys(zip(column("task"), column("task_id"), strict=True))
        rows = [[clean(task), task_id[:SHORT]] for task, task_id in tasks]
        tables = (
            plain_table("Code and data", ["", "what"], body),
            plain_table("Tasks", ["task", "task_id"], rows),
        )
        return Section("Exact versions", tables)


class Wanted:
    """Under which rules a study is reported: those given, else its sweep's, else its paper's."""

    def __init__(self, rules: Sequence[str], facts: Facts) -> None:
        of_sweeps = facts.rules()
        self._rules = {name: list(rules) or of_sweeps.get(name, []) for name in facts.records.column("sweep")}
        known = [rule for of in self._rules.values() for rule in of]
        if not all(self._rules.values()):
            known += [kind.rule for kind in (*KINDS, OTHER)]
        self.every = list(dict.fromkeys(known))
        for rule in self.every:
            rule_of(rule)

    def __call__(self, one: Selected) -> bool:
        return one.rule in (self._rules[one.study.sweep] or [kind_of(one.study.task).rule])


def code_versions(methods: Sequence[str], about: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The code versions of each method, one for each part that it has, and hashes of your own code."""
    found: dict[str, set[str]] = {}
    for method, one in zip(methods, about, strict=True):
        version = "+".join(map(str, one.get("code_version", []))) or "-"
        own = (source[:8] for source in one.get("own_code", {}).values())
        found.setdefault(clean(method), set()).add(" ".join([version, *own]))
    return {name: " and ".join(sorted(of)) for name, of in found.items()}


def expected_runs(search: Mapping[str, Any]) -> int | None:
    """How many runs a study has, those for leave-one-domain-out apart; None where records decide it."""
    trials, seeds = search["trials"], search["seeds"]
    if search["kind"] == "grid":
        return None
    return int(trials * seeds if search["seeds_of"] == "each" else trials + seeds - 1)


def _asked(sweep: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    for task in sweep["tasks"]:
        name = Path(task["dataset"].rstrip("/")).name
        for method in sweep["methods"]:
            for backbone in sweep["backbones"]:
                yield sweep["name"], name, task["protocol"], method["name"], method["variant"], backbone


def _refused(refused: Sequence[Selected]) -> list[Table]:
    found: dict[tuple[str, str], list[str]] = {}
    for one in refused:
        reason = one.refused or "the chosen runs have no evaluation of a test"
        where = clean(f"{one.study.method} on {one.study.protocol}")
        found.setdefault((rule_label(one.rule), clean(reason)), []).append(where)
    body = [[f"{rule}: {reason}", f"{len(of):,}", _some(of)] for (rule, reason), of in found.items()]
    return (
        [plain_table("Rules that could not choose", ["rule and reason", "studies", "which"], body)]
        if body
        else []
    )


def _search(sweep: Mapping[str, Any]) -> str:
    search = sweep["search"]
    seeds = f"{search['seeds']:,} seeds of {'each' if search['seeds_of'] == 'each' else 'the best'}"
    chosen = "" if search["seeds_of"] == "each" else f", chosen by {search['rule']}"
    return f"{search['kind']}: {search['trials']:,} trials a study, {seeds}{chosen}"


def _training(given: Sequence[str]) -> str:
    """What is the same in all trainings; what differs, by name."""
    settings = [json.loads(one) for one in dict.fromkeys(given)]
    names = dict.fromkeys(name for one in settings for name in one)
    values = {name: list(dict.fromkeys(str(one.get(name)) for one in settings)) for name in names}
    same = [f"{name} {of[0]}" for name, of in values.items() if len(of) == 1]
    return clean(", ".join(same + [f"{name} varies" for name, of in values.items() if len(of) > 1]))


def _some(runs: Sequence[str]) -> str:
    return "; ".join([*runs[:NAMED], *(["..."] if len(runs) > NAMED else [])])


def _hours(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 3600:,.1f} h"


def _listed(names: Iterable[str], most: int = 24) -> str:
    every = list(map(clean, names))
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return f"{len(every):,}: {'; '.join(every[:most])}{more}"
