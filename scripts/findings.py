"""What the papers' findings look like when rerun: the tables of docs/findings.md, from the records beside it.

    python scripts/findings.py              print them
    python scripts/findings.py --write      put them into docs/findings.md

Each claim is a contrast: one difference a task (the mean over its seeds), and Student's 95 % interval of
their mean. It "holds here" or "does not hold" where the interval excludes 0 to that side; else it cannot be
told. A claim that methods are alike holds where the interval lies within `ALIKE` points of 0. That a method
leads is held against ERM: to beat ERM is necessary for that, not sufficient.
"""

from __future__ import annotations

import argparse
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.bench import Records
from shiftdata.bench.records import runs_of
from shiftdata.bench.reporting.scores import scores_of
from shiftdata.bench.selection import RULES, run_scores
from shiftdata.bench.sweep import PRESETS
from shiftdata.evaluation.metrics import selection_leakage
from shiftdata.evaluation.metrics.differences import student_test
from shiftdata.tables import markdown

DOCS = Path(__file__).parent.parent / "docs"
RECORDS = DOCS / "findings"
BEGIN, END = "<!-- written by scripts/findings.py -->", "<!-- end -->"
#: A task whose test has fewer rows says nothing.
LEAST = 40
#: Points within which methods count as alike.
ALIKE = 5.0
#: The verdict on a method whose numbers were not chosen for these tasks.
UNTUNED = "not tuned: no verdict"
Means: TypeAlias = dict[tuple[str, str], dict[str, float]]
Differences: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Claim:
    """What a paper says, as a contrast: the mean of some methods minus that of others, on a sweep's tasks.

    `where` is a parameter that the task's protocol has; with `beyond` the same contrast there is subtracted,
    task by task. `alike`: the claim is that there is no difference.
    """

    paper: str
    text: str
    sweep: str
    more: str
    less: str
    where: str = ""
    beyond: str = ""
    alike: bool = False
    #: A method that was run with a number that nobody chose for these tasks; its place says nothing of it.
    untuned: str = ""
    #: What models are selected by, where it is not the sweep's own rule in `RULE`.
    rule: str = ""

    @property
    def contrast(self) -> str:
        more, less = (
            f"mean of {names.replace(' ', ', ')}" if " " in names else names
            for names in (self.more, self.less)
        )
        text = f"{more} - {less}" + (f" ({self.untuned})" if self.untuned else "")
        return (
            text
            + (f", {self.where}" if self.where else "")
            + (f" beyond {self.beyond}" if self.beyond else "")
            + (f", selected by {self.rule}" if self.rule else "")
        )

    def differences(self, of: Means) -> Differences:
        first = self._at(of, self.where)
        return first - self._at(of, self.beyond) if self.beyond else first

    def _at(self, of: Means, where: str) -> Differences:
        tasks = [
            mine for (name, protocol), mine in of.items() if not where or where in (name, *protocol.split())
        ]
        return np.array([_mean(mine, self.more) - _mean(mine, self.less) for mine in tasks])


def _mean(of: Mapping[str, float], names: str) -> float:
    """The mean of some methods."""
    return float(np.mean([of.get(name, math.nan) for name in names.split()]))


FAIR, UDA, WHOLE = "sma-fairness", "sma-uda", "uda-scratch"
FEATURES, SCRATCH, SHIFT = "dg-features", "dg-scratch", "rls-alpha"
OPEN, VIEWS = "sma-unida", "rls-views"
AWARE = "subg rwg group-dro"
RULE = {FAIR: "iid-worst", UDA: "last", WHOLE: "last", FEATURES: "iid", SCRATCH: "iid", SHIFT: "iid"}
RULE |= {OPEN: "last", VIEWS: "last"}
BACKBONE = dict.fromkeys((UDA, FEATURES, OPEN), ", frozen features")
BACKBONE |= dict.fromkeys((WHOLE, SCRATCH, VIEWS), ", from scratch")
GROWS = "RS and RW mend it more as the shift grows"
CORRECTIONS = (
    ("RS helps where the shift is severe", "rs+erm", "erm"),
    ("RW helps where the shift is severe", "rw+erm", "erm"),
    ("RS and RW help where the shift is severe", "rs+rw+erm", "erm"),
    ("RS and RW mend DANN", "rs+rw+dann", "dann"),
    ("RS and RW mend CDAN", "rs+rw+cdan", "cdan"),
)
CLAIMS = (
    Claim("SMA", "SUBY and RWY are as good as JTT, or better", FAIR, "suby rwy", "jtt"),
    Claim("SMA", "SUBG and RWG come close to GroupDRO", FAIR, "subg rwg", "group-dro", alike=True),
    Claim("SMA", "methods that know the groups beat ERM", FAIR, AWARE, "erm"),
    Claim("SMA", "their gain is larger where mu is smaller", FAIR, AWARE, "erm", "mu=0.05", "mu=0.2"),
    Claim("SMA", "with a small mu SUBG gains most", FAIR, "subg", "rwg group-dro", "mu=0.05"),
    Claim("SMA", "at K = 12 SUBY does not beat ERM", FAIR, "erm", "suby", "k=12"),
    Claim("SMA", "at K = 12 RWY does not beat ERM", FAIR, "erm", "rwy", "k=12"),
    Claim("SMA", "at K = 12 JTT does not beat ERM", FAIR, "erm", "jtt", "k=12"),
    Claim("SMA", "CDAN, said to be best, beats DANN", UDA, "cdan", "dann"),
    Claim("SMA", "CDAN, said to be best, beats DeepJDOT", UDA, "cdan", "deepjdot"),
    Claim("SMA", "CDAN is better than the source alone", UDA, "cdan", "erm"),
    Claim("SMA", "DANN is better than the source alone", UDA, "dann", "erm"),
    Claim("SMA", "DeepJDOT is better than the source alone", UDA, "deepjdot", "erm"),
    Claim("SMA", "CDAN, said to be best, beats DANN", WHOLE, "cdan", "dann"),
    Claim("SMA", "CDAN, said to be best, beats DeepJDOT", WHOLE, "cdan", "deepjdot"),
    Claim("SMA", "CDAN is better than the source alone", WHOLE, "cdan", "erm"),
    Claim("SMA", "DANN is better than the source alone", WHOLE, "dann", "erm"),
    Claim("SMA", "DeepJDOT is better than the source alone", WHOLE, "deepjdot", "erm"),
    Claim("SMA", "OVANet, said to be best on balanced sets, beats OSBP", OPEN, "ovanet", "osbp"),
    Claim("SMA", "OVANet, said to be best on balanced sets, beats UAN", OPEN, "ovanet", "uan"),
    Claim("SMA", "OVANet, said to be best on balanced sets, beats UniOT", OPEN, "ovanet", "uniot"),
    Claim("NICO++", "IRM is far behind", FEATURES, "erm", "irm", untuned="irm at weight 100, not tuned"),
    Claim("NICO++", "EoA, said to be among the leading, beats ERM", FEATURES, "eoa", "erm"),
    Claim("NICO++", "CORAL, said to be among the leading, beats ERM", FEATURES, "coral", "erm"),
    Claim("NICO++", "SWAD, said to be among the leading, beats ERM", FEATURES, "swad", "erm"),
    Claim("NICO++", "StableNet, said to be among the leading, beats ERM", FEATURES, "stablenet", "erm"),
    Claim("NICO++", "CORAL, said to be among the leading, beats ERM", SCRATCH, "coral", "erm"),
    Claim("DomainBed-v2", "SWAD, said to lead, beats ERM", FEATURES, "swad", "erm"),
    Claim("DomainBed-v2", "SWAD, said to lead, beats ERM", SCRATCH, "swad", "erm"),
    Claim("DomainBed-v2", "Mixup, said to lead, beats ERM", SCRATCH, "mixup", "erm", "nico_glyphs"),
    Claim("RLSbench", "uncorrected DANN falls below source-only", SHIFT, "erm", "dann", "alpha=0.5"),
    Claim("RLSbench", "uncorrected CDAN falls below source-only", SHIFT, "erm", "cdan", "alpha=0.5"),
    Claim("RLSbench", "pseudo-labels fall below source-only", SHIFT, "erm", "pseudo-label", "alpha=0.5"),
    *(
        Claim("RLSbench", text, SHIFT, more, less, "alpha=0.5", rule=rule)
        for rule in ("", "oracle")  # by source validation, and in the paper's appendix by the test
        for text, more, less in CORRECTIONS
    ),
    Claim("RLSbench", GROWS, SHIFT, "rs+rw+dann", "dann", "alpha=0.5", "alpha=none"),
    Claim("RLSbench", GROWS, SHIFT, "rs+rw+cdan", "cdan", "alpha=0.5", "alpha=none"),
    Claim("RLSbench", "RS costs little without a shift", SHIFT, "rs+erm", "erm", "alpha=none", alike=True),
    Claim("RLSbench", "FixMatch falls below source-only", VIEWS, "erm-aug", "fixmatch", "alpha=0.5"),
    Claim("RLSbench", "SENTRY falls below source-only", VIEWS, "erm-aug", "sentry", "alpha=0.5"),
    Claim("RLSbench", "NoisyStudent does not", VIEWS, "noisy-student", "erm-aug", "alpha=0.5"),
    Claim("RLSbench", "RS and RW mend FixMatch", VIEWS, "rs+rw+fixmatch", "fixmatch", "alpha=0.5"),
    Claim("RLSbench", "so mended it beats ERM-aug", VIEWS, "rs+rw+fixmatch", "rs+rw+erm-aug"),
)  # fmt: skip


def line(paper: str, claim: str, contrast: str, differences: Differences, alike: bool = False) -> list[str]:
    """A line of the table of claims."""
    known = differences[np.isfinite(differences)]
    low, high, _ = student_test(known) if len(known) > 1 else (math.nan, math.nan, math.nan)
    mean = f"{known.mean():+.1f}" if len(known) else "-"
    interval = f"{low:+.1f} to {high:+.1f}" if math.isfinite(low) else "-"
    return [paper, claim, contrast, mean, interval, f"{len(known)}", verdict(low, high, alike)]


def verdict(low: float, high: float, alike: bool) -> str:
    """What an interval says of a claim."""
    holds, fails = low > 0, high < 0
    if alike:
        holds, fails = low > -ALIKE and high < ALIKE, low > ALIKE or high < -ALIKE
    return "holds here" if holds else "does not hold" if fails else "inconclusive"


def means(records: Records, rule: str) -> Means:
    """Of each task (dataset, protocol) every method's mean over its seeds."""
    made: dict[tuple[str, str], dict[str, float]] = {}
    for one in scores_of(records, rule)[0]:
        study = one.selected.study
        if one.n < LEAST:
            continue
        task = made.setdefault((study.dataset.partition("/")[0], study.protocol), {})
        task[study.method] = float(one.main.mean())
    return made


def rules_differ(records: Records, more: str, less: str, without: str = "") -> Differences:
    """What one rule gains over another, a task's mean over methods; not where a parameter is `without`."""
    of, other = means(records, more), means(records, less)
    tasks = [task for task in of if without not in task[1].split()]
    return np.array([np.mean([of[task][one] - other[task][one] for one in of[task]]) for task in tasks])


def leakage(records: Records) -> Differences:
    """DomainBed-v2, section 2.2: what an oracle of one test domain gains, beyond one of two."""
    cut = []
    for _, runs in runs_of(records):
        validation, tests = [], []
        for run, scores in run_scores(records, runs, RULES["iid"]).items():
            for step, score in scores.items():
                validation.append(score)
                tests.append(records.evaluation(run, "test", step).by("nuisance").accuracy.tolist())
        found = selection_leakage(validation, tests, most=2)
        one, two = (100 * float(np.mean(of - found.iid)) for of in found.oracle)
        cut.append(one - two)
    return np.array(cut)


def claims(there: Mapping[str, Records]) -> list[list[str]]:
    """Every claim for which there are records."""
    of: dict[tuple[str, str], Means] = {}
    body = []
    for one in CLAIMS:
        if one.sweep in there:
            key = one.sweep, one.rule or RULE[one.sweep]
            of[key] = of.get(key) or means(there[one.sweep], key[1])
            backbone = BACKBONE.get(one.sweep, "")
            cells = line(one.paper, one.text, one.contrast + backbone, one.differences(of[key]), one.alike)
            body.append([*cells[:-1], UNTUNED if one.untuned else cells[-1]])
    if FAIR in there:
        top = rules_differ(there[FAIR], "iid-worst-m", "iid-worst", "k=2")
        body.append(
            line(
                "SMA",
                "where K >= 4, choosing by the 3 worst groups raises the worst",
                "iid-worst-m - iid-worst",
                top,
            )
        )
    if FEATURES in there:
        gap = rules_differ(there[FEATURES], "oracle", "iid")
        body.append(
            line("DomainBed-v2", "choosing by the test gains points", "oracle - iid, frozen features", gap)
        )
    if "dg-leakage" in there:
        cut = leakage(there["dg-leakage"])
        body.append(
            line(
                "DomainBed-v2", "an oracle of two test domains gains less", "its gain for one - for two", cut
            )
        )
    return body


def about_of(name: str, ran: str) -> str:
    """What a sweep was, and what the preset of its name is now where that is something else."""
    ships = tomllib.loads((PRESETS / f"{name}.toml").read_text(encoding="utf-8"))["about"]
    return ran if ships == ran else f"{ran}. The preset that ships is another: {ships}"


def costs(folders: Iterable[Path]) -> list[list[str]]:
    """What each sweep was, and what it cost."""
    body = []
    for folder in folders:
        records = Records.read(folder)
        sweep = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
        hours = sum(one or 0 for one in records.column("processor_seconds")) / 3600
        done = sum(status == "done" for status in records.column("status"))
        content = sorted(
            {
                f"{name.partition('/')[0]} {content[:12]}"
                for name, content in zip(records.column("dataset"), records.column("content_id"), strict=True)
            }
        )
        command, commits = (
            f"`shiftdata sweep {folder.name}`",
            ", ".join(sorted(set(records.column("commit")))),
        )
        size = f"{done:,} of {len(records):,}"
        body.append(
            [
                command,
                about_of(folder.name, sweep["about"]),
                size,
                f"{hours:.2f}",
                ", ".join(content),
                commits,
            ]
        )
    return [["command", "what", "runs done", "core hours", "datasets", "commit"], *body]


def written() -> str:
    """All tables, in Markdown."""
    there = {
        folder.name: Records.read(folder)
        for folder in sorted(RECORDS.iterdir())
        if (folder / "records").is_dir()
    }
    parts = ["## What was run", "", markdown(*_table(costs(RECORDS / name for name in there))), ""]
    header = ["paper", "claim", "contrast", "points", "95 % interval", "tasks", "here"]
    parts += ["## Claims", "", markdown(header, claims(there)), ""]
    return "\n".join(parts)


def _table(lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    return lines[0], lines[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    text, path = written(), DOCS / "findings.md"
    if not given.write:
        print(text)
        return
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
