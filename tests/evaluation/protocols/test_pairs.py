"""All ordered pairs of protocols: each is refused by name, or keeps what `PROMISES` states.

What is promised is counted here from the keys in the sets, by the statements, not by the code.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import pyarrow as pa
import pytest

import shiftdata as sd
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import LabelShift, Protocol, parse_protocol, protocols
from shiftdata.evaluation.protocols.base import PROMISES
from shiftdata.evaluation.sampling import dirichlet_marginal
from shiftdata.evaluation.tasks import LeakWarning, OnEmpty, Task
from tests.evaluation.protocols.made import NICO

STEPS = (0.0, 1.0, 2.0)
PER_DOMAIN = 4
#: Each protocol, and the variants whose rows differ; conditions and orders that users write.
WORDS = {
    "lodo": "leave-one-domain-out test=rock",
    "lodo paper": "leave-one-domain-out@paper test=rock",
    "logo": "leave-one-group-out group=2 groups=nico++",
    "classic": "classic-dg split=2",
    "domainbed": "domainbed test=rock",
    "domainbed code": "domainbed@code test=rock",
    "domainbed-v2": "domainbed-v2 test=rock,dim",
    "domainbed-v2 code": "domainbed-v2@code test=rock,dim",
    "listed": "listed test=rock lists=kfold",
    "wilds": "wilds",
    "official": "official",
    "oracle": "oracle test=rock,dim",
    "oracle of a test": "oracle",
    "oracle*": "oracle* test=rock",
    "oracle* of a test": "oracle* test=dim",
    "flexible": f"flexible-dg minor=3 test=2 per_domain={PER_DOMAIN}",
    "compositional": f"flexible-dg@compositional minor=3 test=2 per_domain={PER_DOMAIN}",
    "uda": "uda source=rock target=dim",
    "uda paired": "uda@paired source=rock target=dim",
    "uda paper": "uda@paper source=rock target=dim",
    "unida": "unida source=rock target=dim shared=2 source_private=1 target_private=1",
    "evaluate-only": "evaluate-only test=rock,dim",
    "continuous": "continuous",
    "continuous some": "continuous severities=0,2",
    "continuous cells": "continuous cells=true",
    "continuous paper": "continuous@paper",
    "continuous paper cells": "continuous@paper cells=true",
    "label-shift": "label-shift alpha=8",
    "label-shift code": "label-shift@code alpha=2 replacement=true",
    "label-shift domains": "label-shift alpha=8 source=rock,sand target=dim,water",
    "label-shift cut": "label-shift alpha=none source=rock,sand target=dim,water",
    "fairness": "group-fairness k=3 mu=0.2",
    "fairness of two": "group-fairness k=2 mu=0.3",
    "fairness code": "group-fairness@code-binary k=2 mu=0.4",
    "stream": "stream setting=continual order=correlated",
    "severity": "severity<=1",
    "quantile": "quantile<0.6",
    "fold": "fold>=10",
    "domain": "a!=rock",
    "label": "label!=label01",
}
#: Whose tests an upper bound may cut.
HOLD_OUT = ("lodo", "lodo paper", "logo", "classic", "domainbed", "domainbed code")
HOLD_OUT += ("domainbed-v2", "domainbed-v2 code", "flexible", "compositional")


def _table(
    shared: bool, each: Callable[[int], int], severities: tuple[float, ...] = (), whole: bool = True
) -> Metadata:
    """Four labels in ten domains, with files and lists. Not whole: some trajectories lack a severity."""
    rows, params = [], {}
    for label, domain in itertools.product(range(4), NICO):
        for number in range(each(label)):
            origin = f"o{label}-{number}" if shared else f"o{label}-{domain}-{number}"
            for step in severities or (None,):
                if not whole and step == 2.0 and (number + NICO.index(domain)) % 5 == 0:
                    continue
                key = f"{label}-{domain}-{number}-{step}"
                lists = {"train_kfold": number} if number % 10 < 7 else {"crossval_kfold": number}
                lists |= {
                    "test_kfold": number,
                    "": number,
                    ("train", "train", "val", "test")[number % 4]: number,
                }
                params[key] = json.dumps({"file": f"{key}.jpg", "lists": lists})
                rows.append({"key": key, "y": f"label{label:02d}", "a": domain, "o": origin, "s": step})
    severity = "s" if severities else None
    metadata = sd.metadata_from_table(
        pa.Table.from_pylist(rows), label="y", nuisance="a", origin="o", severity=severity
    )
    texts = pa.array([params[key] for key in metadata.table["key"].to_pylist()])
    return replace(metadata, source=metadata.table.append_column("params", texts))


@cache
def table(name: str) -> Metadata:
    return {
        "stylised": lambda: _table(True, lambda _: 30),
        "domains": lambda: _table(False, lambda _: 20),
        "continuous": lambda: _table(True, lambda _: 20, STEPS, whole=False),
        "trajectories": lambda: _table(False, lambda _: 10, STEPS),
        "skewed": lambda: _table(False, lambda label: 10 * (label + 1)),
    }[name]()


TABLES = ("stylised", "domains", "continuous", "trajectories", "skewed")


@dataclass(frozen=True)
class Row:
    key: str
    label: int
    domain: str
    origin: str
    severity: float | None
    fold: int

    @property
    def trajectory(self) -> tuple[str, str]:
        return self.origin, self.domain


Sets = Mapping[str, "Counter[Row]"]


@cache
def all_rows(name: str) -> tuple[Row, ...]:
    rows = table(name)
    return tuple(
        Row(row["key"], row["label"], rows.nuisances[row["a"]], row["origin"], row["severity"], row["fold"])
        for row in rows.table.to_pylist()
    )


def sets_of(task: Task, name: str) -> Sets:
    """The rows of each set, as often as they were drawn."""
    rows, rows_of_sets = all_rows(name), {}
    for name_of_set, of in task.sets.items():
        times = [1] * len(of.indices) if of.counts is None else of.counts.tolist()
        rows_of_sets[name_of_set] = Counter(
            dict(zip((rows[at] for at in of.indices.tolist()), times, strict=True))
        )
    return rows_of_sets


def joined(sets: Sets) -> Sets:
    """The sets before each was made into those of its domains or cells."""
    together: dict[str, Counter[Row]] = defaultdict(Counter)
    for name, rows in sets.items():
        together[name.partition("/")[0]] += rows
    return together


def made(words: str, name: str, on_empty: OnEmpty = "report") -> Task:
    chosen = parse_protocol(words)
    assert chosen is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)
        return sd.task(table(name), chosen, on_empty=on_empty)


@cache
def alone(words: str, name: str) -> Task | None:
    """The task of one protocol, None where it is refused for the table."""
    try:
        task = made(words, name)
    except InputError:
        return None
    return task if all(map(len, task.sets.values())) else None


def steps_of(words: str) -> list[Protocol]:
    chosen = parse_protocol(words)
    assert chosen is not None
    return list(getattr(chosen, "steps", (chosen,)))


# The promises, each counted from keys.


def apart(task: Task, sets: Sets) -> None:
    """No origin is on two sides, no row in two sets."""
    side = {name: task.sets[name].side or name for name in sets}
    where = defaultdict(set)
    for name, rows in sets.items():
        for row in rows:
            where[row.origin].add(side[name])
    assert all(len(sides) == 1 for sides in where.values())


def disjoint(sets: Sets) -> None:
    every = [row for rows in sets.values() for row in rows]
    assert len(every) == len(set(every))


def hidden(task: Task) -> None:
    """An unlabelled set shows its nuisance, severity and hashed keys alone."""
    for name, rows in task.sets.items():
        if rows.role == "unlabelled":
            shown = set(task.table(name).column_names)
            assert shown <= {"key", "a", "severity", "count"}
            assert not set(task.keys(name)) & {row.key for row in all_rows_of(task)}


def all_rows_of(task: Task) -> tuple[Row, ...]:
    return next(all_rows(name) for name in TABLES if table(name) is task.metadata)


def trajectories(sets: Sets, asked: set[float]) -> None:
    """Each trajectory of a set has each asked severity, as often as any other."""
    for rows in joined(sets).values():
        of = defaultdict(Counter)
        for row, times in rows.items():
            of[row.trajectory][row.severity] += times
        for steps in of.values():
            assert set(steps) == asked
            assert len(set(steps.values())) == 1


def whole_test(case: Case, sets: Sets) -> None:
    """Every row of the tested domains; where origins recur in other domains, those of the test's folds."""
    words = case.words
    tested = {"dim", "grass"} if "group-out" in words else {"rock"}
    tested = {"autumn", "winter", "dark", "dim"} if "classic" in words else tested
    tested = {"rock", "dim"} if "v2" in words else tested
    cut = case.shared and "paper" not in words and "code" not in words
    all_in_test(case, sets, tested, lambda row: not cut or row.fold >= 70)


def every_row(case: Case, sets: Sets) -> None:
    """Every row of the tested domains."""
    all_in_test(case, sets, {"rock", "dim"} if "evaluate" in case.words else set(NICO), lambda row: True)


def all_in_test(case: Case, sets: Sets, domains: set[str], of_test: Callable[[Row], bool]) -> None:
    """The test has all rows of some domains that the other protocol allows, of the labels that it keeps."""
    tested = set(joined(sets)["test"])
    labels = {row.label for row in tested}
    assert tested == {
        row
        for row in all_rows(case.name)
        if row.domain in domains and row.label in labels and of_test(row) and case.allowed(row)
    }


def ratio(case: Case, sets: Sets) -> None:
    """The shares of the origins that the docs state, of sets that are of the same rows."""
    words, shared = case.words, case.shared
    if case.other.startswith(("fold", "quantile")):
        return
    rowwise = "@code" in words  # a released code shuffles rows
    origins = {
        name: len(rows) if rowwise else len({row.trajectory for row in rows})
        for name, rows in joined(sets).items()
    }
    stated: Mapping[tuple[str, ...], tuple[float, ...]] = {("train", "validation"): (0.8, 0.2)}
    if words.startswith("oracle"):
        stated = {("train", "validation", "test"): (0.7, 0.1, 0.2)}
    elif words.startswith("label-shift"):
        stated = {("source_train", "source_test"): (0.8, 0.2)}
        if "none" in words:
            stated = {**stated, ("target_train", "target_test"): (0.8, 0.2)}
    elif words.startswith("uda@paper"):
        stated = {("source_train", "source_test"): (0.5, 0.5), ("target_train", "target_test"): (0.5, 0.5)}
    elif words.startswith(("uda", "unida")):
        stated = {("source_train", "source_validation"): (0.8, 0.2)}
    elif shared and "paper" not in words and "code" not in words and "listed" not in words:
        stated = {("train", "validation"): (5 / 7, 2 / 7)}
    for names, shares in stated.items():
        total = sum(origins[name] for name in names)
        assert [origins[name] / total for name in names] == pytest.approx(shares, abs=max(0.05, 4 / total))


def per_cell(case: Case, sets: Sets) -> None:
    """A class trains with all rows of 2 domains and few of 3, and is tested with few of 2 others."""
    before = Counter((row.label, row.domain) for row in all_rows(case.name))
    dominant, minor, tested = 2, 3, 2
    by_name = joined(sets)
    trains = by_name["train"] + by_name["validation"]
    train, test = (Counter((row.label, row.domain) for row in rows) for rows in (trains, by_name["test"]))
    assert not set(train) & set(test)
    assert max(test.values()) <= PER_DOMAIN
    for label in range(4):
        of = {domain: count for (mine, domain), count in train.items() if mine == label}
        assert len(of) <= dominant + minor
        assert len([domain for mine, domain in test if mine == label]) <= tested
        # On data whose origins recur a dominant domain has its training folds.
        large = [domain for domain, count in of.items() if count > PER_DOMAIN]
        assert len(large) <= dominant
        assert all(of[domain] <= before[label, domain] for domain in large)


def mu(task: Task, sets: Sets, before: Sets) -> None:
    """The report states the share that the rows have."""
    for note in task.report().notes:
        stated = re.match(r"in (\S+), a minority group keeps (\S+) % of .*requested: mu = (\S+) %", note)
        if stated is None:
            continue
        base = Counter(
            (row.label, row.domain) for row in joined(before)[stated[1].partition("/")[0]].elements()
        )
        remaining = Counter(
            (row.label, row.domain) for row in joined(sets)[stated[1].partition("/")[0]].elements()
        )
        ratios = []
        for label in {label for label, _ in remaining}:
            shares = {group: count / base[group] for group, count in remaining.items() if group[0] == label}
            own = max(shares, key=lambda group: shares[group])
            ratios += [share / shares[own] for group, share in shares.items() if group != own]
        assert float(stated[2]) / 100 == pytest.approx(sum(ratios) / len(ratios), rel=1e-3)
        cautious = any(note.startswith(f"caution: mu in {stated[1]}") for note in task.report().notes)
        assert cautious == (float(stated[2]) >= 1.5 * float(stated[3]))


def balanced(task: Task, sets: Sets, before: Sets) -> None:
    """Each set but those to fit has every row of each of its groups."""
    roles = {name.partition("/")[0]: of.role for name, of in task.sets.items()}
    for name, rows in joined(sets).items():
        if roles[name] != "fit":
            groups = {(row.label, row.domain) for row in rows}
            assert rows == Counter(
                {row: n for row, n in joined(before)[name].items() if (row.label, row.domain) in groups}
            )


def marginal(task: Task, sets: Sets, case: Case) -> None:
    """The labels of the drawn sets are those of the drawn marginal: floor(n P), or as many as there were."""
    before, replacement = case.before, "replacement" in case.words
    (protocol,) = (step for step in steps_of(case.words) if isinstance(step, LabelShift) and step.alpha)
    roles = {name.partition("/")[0]: of.role for name, of in task.sets.items()}
    shifted = [name for name, role in roles.items() if role == "unlabelled"]
    shifted += [name for name, role in roles.items() if role == "test"][:1]
    own = Counter(row.label for row in joined(before)[shifted[0]].elements())
    counts = np.array([own[label] for label in range(len(task.metadata.labels))])
    law = "code" if protocol.variant else "paper"
    drawn = dirichlet_marginal(
        counts / counts.sum(), protocol.alpha, variant=law, seed=protocol.seed, names=("label-shift",)
    )
    for name in shifted:
        had = Counter(row.label for row in joined(before)[name].elements())
        has = Counter(row.label for row in joined(sets)[name].elements())
        share = {label: drawn[label] for label in had if drawn[label] > 0}
        total = sum(share.values())
        assert set(has) <= set(share)
        if replacement:
            assert sum(has.values()) == sum(had.values())
            for label, p in share.items():
                p /= total
                size = sum(had.values()) / sizes_of_units(task, before, name)
                spread = math.sqrt(p * (1 - p) * size / sum(had.values()))
                assert abs(has[label] / sum(had.values()) - p) <= 5 * spread + 1e-9
            continue
        unit = sizes_of_units(task, before, name)
        units = {label: count // unit for label, count in had.items()}
        n = math.floor(min(units[label] / (p / total) for label, p in share.items()) + 1e-9)
        for label, p in share.items():
            assert has[label] == unit * min(units[label], math.floor(n * p / total + 1e-9))
        assert joined(sets)[name] <= joined(before)[name]


def sizes_of_units(task: Task, before: Sets, name: str) -> int:
    """Return the number of rows that are drawn together."""
    if "continuous" not in task.history.metrics:
        return 1
    (size,) = set(Counter(row.trajectory for row in joined(before)[name]).values()) or {1}
    return size


def one_cell(case: Case, sets: Sets) -> None:
    for rows in sets.values():
        assert len({row.domain for row in rows}) <= 1
        if "cells" in case.words:
            assert len({row.severity for row in rows}) <= 1


CONDITIONS: Mapping[str, Callable[[Row], bool]] = {
    "severity<=1": lambda row: row.severity is not None and row.severity <= 1,
    "fold>=10": lambda row: row.fold >= 10,
    "a!=rock": lambda row: row.domain != "rock",
    "label!=label01": lambda row: row.label != 1,
}


@dataclass(frozen=True)
class Case:
    """A pair on a table, and which rows the other protocol leaves to the first."""

    words: str
    other: str
    text: str
    name: str

    @property
    def shared(self) -> bool:
        return self.name in ("stylised", "continuous")

    def condition(self, row: Row) -> bool:
        if self.other == "quantile<0.6":  # a quantile is the dataset's matter
            return any(row in rows for rows in sets_of(alone(self.other, self.name), self.name).values())
        return CONDITIONS.get(self.other, lambda row: True)(row)

    @cached_property
    def asked(self) -> set[float]:
        """The severities that trajectories are to have."""
        steps = {0.0, 2.0} if "severities=0,2" in self.text else set(STEPS)
        return {step for step in steps if "severity<=1" not in self.text or step <= 1}

    @cached_property
    def complete(self) -> set[tuple[str, str]]:
        """The trajectories that have them; a later condition narrows those that have all."""
        late = self.text.find("severity<=1") > self.text.find("continuous") and "cells" not in self.text
        of = defaultdict(set)
        for row in all_rows(self.name):
            of[row.trajectory].add(row.severity)
        return {each for each, steps in of.items() if steps >= (set(STEPS) if late else self.asked)}

    def allowed(self, row: Row) -> bool:
        """Return True if the other, or both if they need trajectories, leave a row."""
        if "continuous" in self.text and (
            row.severity not in self.asked or row.trajectory not in self.complete
        ):
            return False
        return self.condition(row)

    @cached_property
    def before(self) -> Sets:
        """The sets of which a protocol chooses rows: the other's, and of its own cut."""
        base = None
        if self.words.startswith("label-shift"):
            own = re.sub(r"alpha=\S+", "alpha=none", self.words)
            base = f"{own} {self.other}" if "source" in own else self.other
        elif self.words.startswith("group-fairness"):
            base = self.other
        return {} if base is None else sets_of(alone(base, self.name), self.name)


def promises_left(case: Case, task: Task) -> set[str]:
    """Return the promises of the first that the other does not give up, which the report must say."""
    promised = {promise for step in steps_of(case.words) for promise in step.promised}
    given_up = {promise for step in steps_of(case.other) for promise in step.given_up}
    notes = task.report().notes
    for promise in promised & given_up:
        assert any(note.startswith("given up by") and PROMISES[promise] in note for note in notes), promise
    promised -= given_up
    if case.other.startswith("oracle") and not case.words.startswith("oracle"):
        promised &= {"apart", "trajectories", "hidden"}  # the test of the first is cut: another task
    return promised


def check(case: Case, task: Task) -> None:
    """Check the promises of one protocol, after or before another."""
    sets, promised = sets_of(task, case.name), promises_left(case, task)
    leaks = [step.variant in step.leaking for words in (case.words, case.other) for step in steps_of(words)]
    disjoint(sets)
    hidden(task)
    if not any(leaks) or "oracle" in (case.words, case.other):
        apart(task, sets)
    checks: Mapping[str, Callable[[], None]] = {
        "trajectories": lambda: trajectories(sets, case.asked),
        "whole-test": lambda: whole_test(case, sets),
        "every-row": lambda: every_row(case, sets),
        "ratio": lambda: ratio(case, sets),
        "per-cell": lambda: per_cell(case, sets),
        "mu": lambda: mu(task, sets, case.before) if case.before else None,
        "balanced": lambda: balanced(task, sets, case.before) if case.before else None,
        "marginal": lambda: marginal(task, sets, case),
        "one-cell": lambda: one_cell(case, sets),
    }
    assert promised <= {*checks, "apart", "hidden"}
    if "source=" in case.words and "group-fairness" not in case.other:
        ratio(case, sets)
    for promise in promised & set(checks):
        checks[promise]()


def refused(first: str, second: str, text: str, error: InputError) -> None:
    """A refusal names both protocols and says what to do."""
    for step in (steps_of(first)[0], steps_of(second)[0]):
        shown = step.id if step.id != "where" else str(step)
        assert shown in str(error), f"{text}: {error}"
    assert re.search(r"[Tt]ake|put|give|lower|leave|name|join|drop", str(error)), f"{text}: {error}"


assert {step.id for words in WORDS.values() for step in steps_of(words)} >= {each.id for each in protocols()}
FIRST = [name for name in WORDS if name not in ("severity", "quantile", "fold", "domain", "label")]


def tables_of(first: str, second: str) -> list[str]:
    """The tables on which both work alone; an upper bound without domains works on the test of another."""
    if "oracle of a test" in (first, second):
        rest = [words for words in (first, second) if words != "oracle of a test"]
        return (
            [name for name in TABLES if rest[0] in HOLD_OUT and alone(WORDS[rest[0]], name)] if rest else []
        )
    return [name for name in TABLES if alone(WORDS[first], name) and alone(WORDS[second], name)]


def check_pair(first: str, second: str, name: str) -> bool:
    """Check both orders of a pair; give whether any is made."""
    words, others = WORDS[first], WORDS[second]
    contents = set()
    for text in (f"{words} {others}", f"{others} {words}"):
        try:
            task = made(text, name)
        except InputError as error:
            refused(words, others, text, error)
            continue
        if not all(map(len, task.sets.values())):
            with pytest.raises(InputError, match=r"without a row|has no test set"):
                made(text, name, on_empty="error")
            continue
        check(Case(words, others, text, name), task)
        if second in FIRST:
            check(Case(others, words, text, name), task)
            contents.add(frozenset(frozenset(rows.items()) for rows in sets_of(task, name).values()))
    assert len(contents) < 2, "the order in which they are written matters"
    return bool(contents)


@pytest.mark.parametrize("first", FIRST)
def test_each_pair_keeps_its_promises_or_is_refused_by_both_names(first):
    """On one table for each pair: the slow sweep is over all of them."""
    for number, second in enumerate(WORDS):
        if known := tables_of(first, second):
            check_pair(first, second, known[(number + FIRST.index(first)) % len(known)])


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRST)
def test_each_pair_on_every_table(first):
    for second in WORDS:
        for name in tables_of(first, second):
            check_pair(first, second, name)
