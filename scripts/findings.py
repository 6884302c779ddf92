"""The tables of docs/findings.md, from the records in docs/findings.

    python scripts/findings.py              print them
    python scripts/findings.py --write      write them to docs/findings.md
    python scripts/findings.py --photographs all/lite0=FOLDER task/lite0=FOLDER ...
                                            keep which rows saved predictions have right

Each claim is a contrast: one difference per task (the mean over its seeds), and Student's 95 % interval of
their mean. It "holds here" or "does not hold" if the interval excludes 0; a claim that methods are alike
holds if the interval lies within `ALIKE` points of 0. A claim to lead is tested against ERM.
"""

from __future__ import annotations

import argparse
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.bench import Records
from shiftdata.bench.records import runs_of
from shiftdata.bench.reporting.scores import scores_of
from shiftdata.bench.saved import SavedRuns
from shiftdata.bench.selection import RULES, run_scores
from shiftdata.bench.sweep import PRESETS
from shiftdata.evaluation.metrics import selection_leakage
from shiftdata.evaluation.metrics.differences import holm, student_test
from shiftdata.tables import markdown

DOCS = Path(__file__).parent.parent / "docs"
RECORDS = DOCS / "findings"
BEGIN, END = "<!-- written by scripts/findings.py -->", "<!-- end -->"
#: The fewest test rows of a task.
LEAST = 40
#: The largest difference, in points, of methods that are alike.
ALIKE = 5.0
HOLDS, FAILS, OPEN_YET = VERDICTS = ("holds here", "does not hold", "inconclusive")
UNTUNED = "not tuned: no verdict"
Means: TypeAlias = dict[tuple[str, str], dict[str, float]]
Differences: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Claim:
    """A paper's claim as a contrast: the mean of methods `more` minus that of `less`, on a sweep's tasks.

    `where` is a parameter of the task's protocol; the same contrast at `beyond` is subtracted, task by task.
    `alike` claims no difference. An `untuned` method gets no verdict. `rule` replaces the sweep's in `RULE`.
    """

    paper: str
    text: str
    sweep: str
    more: str
    less: str
    where: str = ""
    beyond: str = ""
    alike: bool = False
    untuned: str = ""
    rule: str = ""

    @property
    def contrast(self) -> str:
        more, less = (
            f"mean of {names.replace(' ', ', ')}" if " " in names else names
            for names in (self.more, self.less)
        )
        parts = {" (": self.untuned, ", ": self.where, " beyond ": self.beyond, ", selected by ": self.rule}
        ends = [f"{start}{text}{')' * (start == ' (')}" for start, text in parts.items() if text]
        return "".join([f"{more} - {less}", *ends])

    def differences(self, means: Means) -> Differences:
        first = self._at(means, self.where)
        return first - self._at(means, self.beyond) if self.beyond else first

    def _at(self, means: Means, where: str) -> Differences:
        def mean(scores: Mapping[str, float], names: str) -> float:
            return float(np.mean([scores.get(name, math.nan) for name in names.split()]))

        tasks = [
            scores for (name, protocol), scores in means.items() if where in ("", name, *protocol.split())
        ]
        return np.array([mean(scores, self.more) - mean(scores, self.less) for scores in tasks])


FAIR, UDA, WHOLE = "sma-fairness", "sma-uda", "uda-scratch"
FEATURES, SHIFT, OPEN = "dg-features", "rls-alpha", "sma-unida"
AWARE = "subg rwg group-dro"
RULE = {FAIR: "iid-worst", UDA: "last", WHOLE: "last", FEATURES: "iid", SHIFT: "iid", OPEN: "last"}
BACKBONE = {**dict.fromkeys((UDA, FEATURES, OPEN), ", frozen features"), WHOLE: ", from scratch"}
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
    Claim("DomainBed-v2", "SWAD, said to lead, beats ERM", FEATURES, "swad", "erm"),
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
)  # fmt: skip


PROBE, TUNED = "pretraining-probe", "pretraining-finetune"
#: The initial weights of these two sweeps, by backbone.
STARTS = {
    "small-cnn": "random",
    "run:runs/erm": "supervised",
    "run:runs/simclr": "SimCLR's",
    "run:runs/moco": "MoCo's",
}


def line(paper: str, claim: str, contrast: str, differences: Differences, alike: bool = False) -> list[str]:
    """Return a line of the table of claims."""
    finite = differences[np.isfinite(differences)]
    low, high, _ = student_test(finite) if len(finite) > 1 else (math.nan, math.nan, math.nan)
    mean = f"{finite.mean():+.1f}" if len(finite) else "-"
    interval = f"{low:+.1f} to {high:+.1f}" if math.isfinite(low) else "-"
    holds, fails = low > 0, high < 0
    if alike:
        holds, fails = low > -ALIKE and high < ALIKE, low > ALIKE or high < -ALIKE
    verdict = HOLDS if holds else FAILS if fails else OPEN_YET
    if len(finite) < 3:  # two tasks that agree by luck have the narrowest interval
        verdict = OPEN_YET
    return [paper, claim, contrast, mean, interval, f"{len(finite)}", verdict]


def means(records: Records, rule: str, backbone: str = "") -> Means:
    """Return each method's mean over seeds, by task (dataset, protocol), with a backbone of several."""
    tasks: dict[tuple[str, str], dict[str, float]] = {}
    for score in scores_of(records, rule)[0]:
        study = score.selected.study
        if score.n >= LEAST and backbone in ("", study.backbone):
            task = tasks.setdefault((study.dataset.partition("/")[0], study.protocol), {})
            task[study.method] = float(score.main.mean())
    return tasks


def rules_differ(records: Records, more: str, less: str, without: str = "") -> Differences:
    """Return a rule's gain over another by task, the mean over methods; not at the parameter `without`."""
    first, second = means(records, more), means(records, less)
    tasks = [task for task in first if without not in task[1].split()]
    return np.array(
        [np.mean([first[task][method] - second[task][method] for method in first[task]]) for task in tasks]
    )


def leakage(records: Records) -> Differences:
    """Return the gain of an oracle of one test domain over an oracle of two (DomainBed-v2, section 2.2)."""
    gains = []
    for _, runs in runs_of(records):
        validation, tests = [], []
        for run, scores in run_scores(records, runs, RULES["iid"]).items():
            for step, score in scores.items():
                validation.append(score)
                tests.append(records.evaluation(run, "test", step).by("nuisance").accuracy.tolist())
        leaked = selection_leakage(validation, tests)
        first, second = (100 * float(np.mean(oracle - leaked.iid)) for oracle in leaked.oracle[:2])
        gains.append(first - second)
    return np.array(gains)


def starts(probe: Records, tuned: Records) -> list[list[str]]:
    """Return lines on initial weights: a linear probe against fine-tuning by ERM, SWAD against ERM."""
    body = []
    for backbone, start in STARTS.items():
        first, second = (means(records, "iid", backbone) for records in (probe, tuned))
        gain = np.array([first[task]["erm"] - second[task]["erm"] for task in first.keys() & second.keys()])
        text, contrast = "a linear probe beats fine-tuning", "probe - fine-tuned, erm"
        if start != "supervised":
            text, contrast, gain = "fine-tuning beats a linear probe", "fine-tuned - probe, erm", -gain
        body.append(line("DomainBed-v2", f"with {start} weights {text}", contrast, gain))
    for name, records in (("fine-tuned", tuned), ("a linear probe", probe)):
        for backbone, start in STARTS.items():
            tasks = means(records, "iid", backbone).values()
            gain = np.array([task["swad"] - task["erm"] for task in tasks if {"swad", "erm"} <= task.keys()])
            text = f"SWAD, said to lead, beats ERM with {start} weights"
            body.append(line("DomainBed-v2", text, f"swad - erm, {name}", gain))
    return body


#: Which rows of `imagenette continuous@paper` a family of models has right, by what competes.
PHOTOGRAPHS = RECORDS / "imagenette.parquet"
COMPETE = {"all": "among 1,000 classes", "task": "among the ten"}
AXES = ("compete", "model", "photograph", "shift", "severity")


def keep(places: Sequence[str]) -> None:
    """Write which rows each of some saved predictions, COMPETE/MODEL=FOLDER, has right."""
    saved = SavedRuns.read(*places)
    task, columns = saved.task, saved.task.metadata.columns
    rows = task.rows("test")
    photograph = np.unique(task.metadata.origin[rows], return_inverse=True)[1]
    tables = []
    for number, name in enumerate(saved.column("method")):
        compete, _, model = name.partition("/")
        right = saved.predicted(number) == task.metadata.label[rows]
        shift = np.array(task.metadata.nuisances)[task.metadata.nuisance[rows]]
        values = [[compete] * len(rows), [model] * len(rows), photograph, shift, columns["severity"][rows]]
        tables.append(pa.table([*values, right], [*AXES, "right"]))
    table = pa.concat_tables(tables).sort_by([(axis, "ascending") for axis in AXES])
    pq.write_table(table, PHOTOGRAPHS, compression="zstd")


def places(right: Differences, axis: int, name: str) -> list[str]:
    """Return a line on whether each of a pair of models is ahead somewhere along an axis, by Holm."""
    others = tuple(each for each in (2, 3) if each != axis)
    accuracy = right.mean(axis=others)  # model, photograph, place
    pairs = list(combinations(range(len(right)), 2))
    leads = np.array([(accuracy[a] - accuracy[b]).T for a, b in pairs])  # pair, place, photograph
    tests = [student_test(lead)[2] for pair in leads for lead in pair]
    sure = np.array(holm(tests)).reshape(leads.shape[:2]) < 0.05  # nan, where all photographs agree, is not
    ahead, behind = sure & (leads.mean(-1) > 0), sure & (leads.mean(-1) < 0)
    changed = (ahead.any(1) & behind.any(1)).sum()
    kept = (ahead.all(1) | behind.all(1)).all()
    verdict = HOLDS if changed else FAILS if kept else OPEN_YET
    contrast = f"pairs of which each is surely ahead at some of the {name}, {len(tests)} comparisons by Holm"
    return ["CNS-Bench", f"models change places between {name}", contrast, f"{changed} of {len(pairs)}",
            "-", f"{right.shape[1]}", verdict]  # fmt: skip


def photographs() -> list[list[str]]:
    """Return lines on CNS-Bench's claims, each difference of one photograph under all corruptions."""
    table = pq.read_table(PHOTOGRAPHS)
    shape = [len(table[axis].unique()) for axis in AXES]
    body = []
    for compete, right in zip(
        sorted(COMPETE), table["right"].to_numpy().astype(float).reshape(shape), strict=True
    ):
        where = f", {COMPETE[compete]}"
        drop = 100 * (right[..., 0] - right[..., -1]).mean(2)
        for a, b in ((0, 2), (0, 1), (1, 2)):
            contrast = f"drop at severity 5, lite{a} - lite{b}{where}"
            body.append(line("CNS-Bench", "larger models of a family drop less", contrast, drop[a] - drop[b]))
        for axis, name in ((2, "shifts"), (3, "severities")):
            cells = places(right, axis, name)
            body.append([*cells[:2], cells[2] + where, *cells[3:]])
    return body


def claims(records: Mapping[str, Records]) -> list[list[str]]:
    """Return a line for every claim."""
    means_by: dict[tuple[str, str], Means] = {}
    body = []
    for claim in CLAIMS:
        key = claim.sweep, claim.rule or RULE[claim.sweep]
        means_by[key] = means_by.get(key) or means(records[claim.sweep], key[1])
        contrast = claim.contrast + BACKBONE.get(claim.sweep, "")
        cells = line(claim.paper, claim.text, contrast, claim.differences(means_by[key]), claim.alike)
        body.append([*cells[:-1], UNTUNED if claim.untuned else cells[-1]])
    top = rules_differ(records[FAIR], "iid-worst-m", "iid-worst", "k=2")
    text = "where K >= 4, choosing by the 3 worst groups raises the worst"
    body.append(line("SMA", text, "iid-worst-m - iid-worst", top))
    gap = rules_differ(records[FEATURES], "oracle", "iid")
    text = "choosing by the test gains points"
    body.append(line("DomainBed-v2", text, "oracle - iid, frozen features", gap))
    text = "an oracle of two test domains gains less"
    gains = leakage(records["dg-leakage"])
    body.append(line("DomainBed-v2", text, "its gain for one - for two", gains))
    return [*body, *starts(records[PROBE], records[TUNED]), *photographs()]


def costs(folder: Path, records: Records) -> list[str]:
    """Return a line on a sweep and its cost; a preset that has changed since is described too."""
    plan = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
    about = plan["about"]
    ships = tomllib.loads((PRESETS / f"{folder.name}.toml").read_text(encoding="utf-8"))["about"]
    if ships != about:
        about = f"{about}. The preset that ships is another: {ships}"
    hours = sum(seconds or 0 for seconds in records.column("processor_seconds")) / 3600
    done = records.column("status").count("done")
    ids = zip(records.column("dataset"), records.column("content_id"), strict=True)
    content = sorted({f"{name.partition('/')[0]} {content_id[:12]}" for name, content_id in ids})
    commits = ", ".join(sorted(set(records.column("commit"))))
    studies = math.prod(len(plan[name]) for name in ("tasks", "methods", "backbones"))
    trials, seeds = plan["search"]["trials"], plan["search"]["seeds"]
    of_study = trials * seeds if plan["search"]["seeds_of"] == "each" else trials + seeds - 1
    size = f"{done:,} of {studies * of_study:,}"
    return [f"`shiftdata sweep {folder.name}`", about, size, f"{hours:.2f}", ", ".join(content), commits]


def written() -> str:
    """Return all tables, in Markdown."""
    folders = [folder for folder in sorted(RECORDS.iterdir()) if (folder / "records").is_dir()]
    records = {folder.name: Records.read(folder) for folder in folders}
    header = ["command", "what", "runs done", "core hours", "datasets", "commit"]
    parts = ["## What was run", "", _table(header, [costs(of, records[of.name]) for of in folders]), ""]
    by_paper: dict[str, list[list[str]]] = {}
    for paper, *line in claims(records):
        by_paper.setdefault(paper, []).append(line)
    header = ["paper", "claims", *VERDICTS, UNTUNED]
    counts = [[paper, *_counts([line[-1] for line in lines])] for paper, lines in by_paper.items()]
    parts += ["## Claims", "", markdown(header, counts), ""]
    header = ["claim", "contrast", "points", "95 % interval", "tasks", "here"]
    for paper, lines in by_paper.items():
        parts += [f"<details><summary>{paper}: {len(lines)} claims</summary>", ""]
        parts += [_table(header, lines), "", "</details>", ""]
    return "\n".join(parts)


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table whose first two columns are texts, which stand on the left."""
    return markdown(header, lines).replace("--:", "---", 1)


def _counts(verdicts: Sequence[str]) -> list[str]:
    return [str(len(verdicts)), *(str(verdicts.count(verdict)) for verdict in (*VERDICTS, UNTUNED))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--photographs", nargs="+", metavar="COMPETE/MODEL=FOLDER")
    given = parser.parse_args()
    if given.photographs:
        keep(given.photographs)
    text, path = written(), DOCS / "findings.md"
    if not given.write:
        print(text)
        return
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
