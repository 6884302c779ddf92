"""The runs of records: what was asked for, what failed, and the exact versions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from shiftdata.bench.records import SWEEP, Records
from shiftdata.bench.reporting.kinds import clean
from shiftdata.bench.reporting.scores import SHORT, Score, Section, rule_label, scores_of, with_variant
from shiftdata.bench.selection import Selected
from shiftdata.tables import Table

#: Limits: runs that are named per reason, lines of a table, tasks in a line.
NAMED, MOST, MOST_TASKS = 3, 40, 24
#: The rule of records without a sweep.json.
USUAL = "iid"


class Facts:
    """The facts on how the sweeps of some records were run."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.about: list[dict[str, Any]] = [json.loads(text) for text in records.column("about")]

    @cached_property
    def sweeps(self) -> list[dict[str, Any]]:
        """The `sweep.json` of each folder that has one."""
        files = [folder / SWEEP for folder in self.records.folders]
        return [json.loads(path.read_text(encoding="utf-8")) for path in files if path.is_file()]

    def distinct(self, *names: str) -> list[Any]:
        """The distinct values of a column, or tuples of several columns."""
        columns = [self.records.column(name) for name in names]
        return list(dict.fromkeys(columns[0] if len(names) == 1 else zip(*columns, strict=True)))

    def code(self, runs: Iterable[int]) -> tuple[str, str]:
        """The commits and the versions of some runs."""
        runs = list(runs)
        commits = {clean(self.records.column("commit")[run] or "unknown") for run in runs}
        versions = {str(self.about[run].get("versions", {}).get("shiftdata", "unknown")) for run in runs}
        return ", ".join(sorted(commits)), ", ".join(sorted(versions))

    @cached_property
    def exact(self) -> dict[str, Counter[str]]:
        """Commits, versions, devices, code of methods: the number of runs of each value."""
        values: dict[str, Counter[str]] = {}
        for commit, method, about in zip(
            *map(self.records.column, ("commit", "method")), self.about, strict=True
        ):
            own = (source[:8] for source in about.get("own_code", {}).values())
            code = " ".join(["+".join(map(str, about.get("code_version", []))) or "-", *own])
            run = {"commit": commit or "unknown", **dict(sorted(about.get("versions", {}).items()))}
            run |= {name: about[name] for name in ("device", "pretraining") if about.get(name)}
            for name, value in (run | {f"code of {method}": code}).items():
                values.setdefault(clean(name), Counter())[clean(str(value))] += 1
        return values

    @property
    def title(self) -> str:
        return ", ".join(map(clean, self.distinct("sweep"))) or "no runs"

    def runs(self) -> Section:
        tasks = list(map(clean, self.distinct("protocol")))
        more = f" and {len(tasks) - MOST_TASKS:,} more" if len(tasks) > MOST_TASKS else ""
        statuses = Counter(self.records.column("status")).most_common()
        methods = dict.fromkeys(with_variant(*pair) for pair in self.distinct("method", "variant"))
        trials, seeds = (len(self.distinct(name)) for name in ("trial", "seed"))
        studies = len(self.records.studies())
        ended = ", ".join(f"{n:,} {status}" for status, n in statuses)
        seconds, processor, examples, peak = (
            [value or 0 for value in self.records.column(name)]
            for name in ("seconds", "processor_seconds", "examples", "peak_memory")
        )
        cost = (
            f"{_hours(sum(seconds))}, {_hours(sum(processor))} of processors, {sum(examples):,.0f} examples"
        )
        rows = [
            ["datasets", "; ".join(f"{clean(name)} ({of[:SHORT]})" for name, of in self._contents())],
            ["tasks", f"{len(tasks):,}: {'; '.join(tasks[:MOST_TASKS])}{more}"],
            ["methods", ", ".join(map(clean, methods))],
            ["backbones", ", ".join(map(clean, self.distinct("backbone")))],
            ["trials and seeds", f"up to {trials:,} trials a study, {seeds:,} seeds"],
            *([f"search of {clean(sweep['name'])}", _search(sweep["search"])] for sweep in self.sweeps),
            ["training", _training(self.distinct("training"))],
            ["runs", f"{len(self.records):,} in {studies:,} studies: {ended}"],
            ["cost", f"{cost}, at most {max(peak, default=0) / 2**20:,.0f} MiB"],
        ]
        about = [f"{clean(of['name'])}: {clean(of['about'])}" for of in self.sweeps if of.get("about")]
        return Section("What was run", (Table.plain("Runs", ["", "what"], rows),), tuple(about))

    def _contents(self) -> list[tuple[str, str]]:
        return self.distinct("dataset", "content_id")

    def failures(self, refused: Sequence[Selected]) -> Section:
        """Failed runs, and studies from which a rule could not choose."""
        failed = [(reason, which) for _, reason, which in self.records.failures()]
        no_test = "the chosen runs have no evaluation on a test set"
        rules = [
            (f"{rule_label(of.rule)}: {of.refused or no_test}", f"{of.study.method} on {of.study.protocol}")
            for of in refused
        ]
        tables = [
            *_counted("Runs that failed", ["reason", "runs"], failed),
            *_counted("Rules that could not choose", ["rule and reason", "studies"], rules),
        ]
        notes = () if tables else ("No run failed, and every rule could choose.",)
        return Section("Failures", tuple(tables), notes)

    def versions(self) -> Section:
        body = [
            [name, ", ".join(f"{value} ({n:,} runs)" for value, n in of.most_common())]
            for name, of in self.exact.items()
        ]
        body += [[f"content_id of {clean(name)}", content_id] for name, content_id in self._contents()]
        return Section("Exact versions", (Table.plain("Code and data", ["", "what"], body),))


def selected_scores(facts: Facts, rules: Sequence[str]) -> tuple[list[Score], list[Selected]]:
    """Scores by the given rules, else by those of each sweep; and studies without a choice."""
    asked = {sweep["name"]: list(rules or sweep["rules"]) for sweep in facts.sweeps}
    own = {name: asked.get(name, list(rules) or [USUAL]) for name in facts.distinct("sweep")}
    scores: list[Score] = []
    refused: list[Selected] = []
    for rule in dict.fromkeys(rule for of in own.values() for rule in of):
        chosen, lost = scores_of(facts.records, rule)
        scores += [score for score in chosen if rule in own[score.selected.study.sweep]]
        refused += [selected for selected in lost if rule in own[selected.study.sweep]]
    return scores, refused


def _counted(title: str, header: Sequence[str], lines: Iterable[tuple[str, str]]) -> tuple[Table, ...]:
    """A table of reasons, the most frequent first, with counts and examples; none without reasons."""
    reasons: dict[str, list[str]] = {}
    for reason, which in lines:
        reasons.setdefault(clean(reason), []).append(clean(which))
    order = sorted(reasons.items(), key=lambda item: -len(item[1]))
    body = [
        [reason, f"{len(of):,}", "; ".join([*of[:NAMED], *(["..."] if len(of) > NAMED else [])])]
        for reason, of in order[:MOST]
    ]
    notes = [f"{len(order) - MOST:,} more reasons are left out."] if len(order) > MOST else []
    title = f"{title}: {sum(map(len, reasons.values())):,}"
    return (Table.plain(title, [*header, "which"], body, notes),) if body else ()


def _search(search: Mapping[str, Any]) -> str:
    each = search["seeds_of"] == "each"
    seeds = f"{search['seeds']:,} seeds of {'each' if each else 'the best, chosen by ' + search['rule']}"
    return f"{search['kind']}: {search['trials']:,} trials a study, {seeds}"


def _training(given: Sequence[str]) -> str:
    """The settings that all trainings share, and the names of the others."""
    settings = [json.loads(text) for text in given]
    names = dict.fromkeys(name for of in settings for name in of)
    values = {name: {str(of.get(name)) for of in settings} for name in names}
    same = [f"{name} {next(iter(of))}" for name, of in values.items() if len(of) == 1]
    return clean(", ".join(same + [f"{name} varies" for name, of in values.items() if len(of) > 1]))


def _hours(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 3600:,.1f} h"
