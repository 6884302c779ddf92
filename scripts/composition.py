"""Does the ranking of methods follow the kind and size of a shift? The parts of docs/kinds_of_shift.md.

    python scripts/composition.py --measure    measure the shift of every task, into docs/findings/composition
    python scripts/composition.py --write      draw the figure and write the tables, from docs/findings alone

The hypotheses were fixed before the sweep `composition` ran. Gains are points of accuracy on the test set, by
checkpoints that source validation selects. A block is the nine tasks (three mu x three alpha) of one dataset,
draw and kind of test domain: within it a gain is correlated (Spearman) with the measured size of a shift. The
unit of a test is the block: Student's interval of the mean over blocks, p-values by Holm over all hypotheses.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import shiftdata as sd
from shiftdata.baselines.sets import features_for
from shiftdata.bench import Records, read_sweep
from shiftdata.bench.reporting.scores import scores_of
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import NotFoundError
from shiftdata.evaluation.meters import measure_shifts
from shiftdata.evaluation.meters.kinds import LEAST
from shiftdata.evaluation.metrics import Interval, spearman
from shiftdata.evaluation.metrics.differences import holm, shown_p, student_test
from shiftdata.extras import require
from shiftdata.tables import markdown

DOCS = Path(__file__).parent.parent / "docs"
FOLDER, PAGE, FIGURE = (
    DOCS / "findings" / "composition",
    DOCS / "kinds_of_shift.md",
    DOCS / "kinds_of_shift.png",
)
BEGIN, END = "<!-- {} written by scripts/composition.py -->", "<!-- end of {} -->"

MEASURED = FOLDER / "shifts.json"
AWARE = "rwg group-dro"
SPURIOUS, LABEL, NEW, ALIKE = "spurious correlation", "label shift", "new domains", "alike"
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Hypothesis:
    """The gain of methods `more` over those of `less` rises with the size of a shift.

    `than`: it rises more with `by` than with this. `sign` -1: it falls. By `NEW`, tasks whose test domain
    training lacks are compared with the others; by `ALIKE`, tasks of like shifts rank all methods alike.
    """

    text: str
    by: str
    more: str = ""
    less: str = "erm"
    than: str = ""
    sign: int = 1


HYPOTHESES = (
    Hypothesis("group methods gain more over ERM with spurious correlation", SPURIOUS, AWARE),
    Hypothesis("... and more so than with label shift", SPURIOUS, AWARE, than=LABEL),
    Hypothesis("RS and RW gain more over ERM with label shift", LABEL, "rs+rw+erm"),
    Hypothesis("... and more so than with spurious correlation", LABEL, "rs+rw+erm", than=SPURIOUS),
    Hypothesis("RS and RW gain more over DANN with label shift", LABEL, "rs+rw+dann", "dann"),
    Hypothesis("DANN loses to ERM with label shift", LABEL, "dann", sign=-1),
    Hypothesis("DANN gains more over ERM in a new domain", NEW, "dann"),
    Hypothesis("CORAL gains more over ERM in a new domain", NEW, "coral"),
    Hypothesis("tasks of like shifts rank the methods alike", ALIKE),
)

#: Tasks of the page's table; "" is the canonical split.
FAIR = "group-fairness k={} mu=0.05"
COMPOSED = (
    ("sma_glyphs", ""),
    ("sma_glyphs_k8", "gf_k8_mu5"),
    ("sma_glyphs_k8", f"{FAIR.format(8)} label-shift alpha=1"),
    ("sma_glyphs_k8", f"leave-one-domain-out test=midnight {FAIR.format(4)} label-shift alpha=1"),
    ("sma_glyphs_k8", "uda source=amber target=mist label-shift alpha=1"),
    ("dom_glyphs", "leave-one-domain-out test=script"),
    ("dom_glyphs", "leave-one-domain-out test=script label-shift alpha=1"),
    ("nico_glyphs", "flexible"),
    ("cns_glyphs", "continuous"),
    ("cns_glyphs", f"{FAIR.format(4)} severity>=2"),
    ("digits_ink", "label-shift source=light target=medium alpha=1"),
    ("breast_cancer_texture", "uda source=smooth target=coarse"),
    ("emoji_names", ""),
    ("pacs", ""),
    ("pacs", "leave-one-domain-out test=sketch"),
    ("pacs", f"leave-one-domain-out test=sketch {FAIR.format(3)}"),
    ("fashion_mnist", f"{FAIR.format(4)} severity>=3"),
    ("heart", "leave-one-domain-out test=cleveland"),
    ("adult", ""),
)
KINDS = (
    "new domains",
    LABEL,
    "subpopulation shift",
    SPURIOUS,
    "covariate shift",
    "concept shift",
)


@dataclass(frozen=True, eq=False)
class Tried:
    """A task of the sweep: its block, its measured shift, and the accuracy of each method in per cent."""

    block: str
    mu: str
    alpha: str
    shift: Mapping[str, float]
    accuracy: Mapping[str, float]

    @property
    def new(self) -> bool:
        return self.shift[NEW] > LEAST

    @property
    def pair(self) -> str:
        """The dataset and draw that blocks with and without a new domain share."""
        return " ".join([self.block.partition(" ")[0], *re.findall(r"seed=\d+", self.block)])

    def gain(self, more: str, less: str = "erm") -> float:
        first, second = ([self.accuracy[name] for name in names.split()] for names in (more, less))
        return float(np.mean(first) - np.mean(second))


def name_of(dataset: str, protocol: str) -> str:
    return f"{dataset} {protocol}".strip()


@cache
def metadata_of(dataset: str) -> Metadata:
    return read_metadata(dataset)


def measure() -> None:
    """Measure the tasks of the page and of the sweep that are not measured yet, of datasets that are here.

    All are measured by their metadata first, then those of the page on features too.
    """
    found = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    tasks = [(spec.dataset, spec.protocol) for spec in read_sweep("composition").tasks]
    asked = [(*task, False) for task in (*COMPOSED, *tasks)] + [(*task, True) for task in COMPOSED]
    for number, (dataset, protocol, on_features) in enumerate(asked):
        name = name_of(dataset, protocol)
        try:
            metadata = metadata_of(dataset)
        except NotFoundError as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
            continue
        assert metadata.dataset is not None  # it has a name
        about = {"content_id": metadata.dataset.manifest.base(metadata.base).content_id}
        known = found.get(name, {})
        if known.get("content_id") == about["content_id"] and known["features"] >= on_features:
            continue
        print(f"{number + 1} of {len(asked)}: {name}", file=sys.stderr)
        task = sd.task(metadata, protocol or None, on_empty="report")
        shifts = measure_shifts(task, features=features_for(metadata) if on_features else None)
        values = {
            measure.kind: [round(number, 4) for number in (measure.value, *ends_of(measure.interval))]
            for measure in shifts.measures
        }
        found[name] = {
            **about,
            "features": on_features,
            "examples": shifts.examples,
            "kinds": shifts.kinds,
            "values": values,
            "notes": shifts.notes,
        }
        MEASURED.parent.mkdir(parents=True, exist_ok=True)
        MEASURED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def ends_of(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def tried(measured: Mapping[str, Any]) -> list[Tried]:
    """Join the records of the sweep with the measured shifts; incomplete blocks are left out."""
    accuracy: dict[str, dict[str, float]] = {}
    for score in scores_of(Records.read(FOLDER), "iid")[0]:
        study = score.selected.study
        dataset = study.dataset.partition("/")[0]
        accuracy.setdefault(name_of(dataset, study.protocol), {})[study.method] = float(score.main.mean())
    tasks = []
    for name, scores in accuracy.items():
        mu, alpha = (re.findall(rf"{key}=(\S+)", name)[0] for key in ("mu", "alpha"))
        block = re.sub(r" (mu|alpha)=\S+", "", name)
        values = {kind: value for kind, (value, *_) in measured[name]["values"].items()}
        tasks.append(Tried(block, mu, alpha, values, scores))
    methods = max((len(task.accuracy) for task in tasks), default=0)
    whole = {
        block for block, of in _blocks(tasks) if len(of) == 9 and all(len(t.accuracy) == methods for t in of)
    }
    return [task for task in tasks if task.block in whole]


def _blocks(tasks: Sequence[Tried]) -> Iterator[tuple[str, list[Tried]]]:
    for block in dict.fromkeys(task.block for task in tasks):
        yield block, [task for task in tasks if task.block == block]


def differences(hypothesis: Hypothesis, tasks: Sequence[Tried]) -> Floats:
    """Return a value for each block, or pair of blocks, whose mean is above 0 if the hypothesis holds."""
    if hypothesis.by == NEW:
        pairs: dict[str, dict[bool, list[float]]] = {}
        for task in tasks:
            gains = pairs.setdefault(task.pair, {}).setdefault(task.new, [])
            gains.append(task.gain(hypothesis.more, hypothesis.less))
        values = [float(np.mean(of[True]) - np.mean(of[False])) for of in pairs.values() if len(of) == 2]
    elif hypothesis.by == ALIKE:
        values = [_likeness(block) for _, block in _blocks(tasks)]
    else:
        values = []
        for _, block in _blocks(tasks):
            gains = [task.gain(hypothesis.more, hypothesis.less) for task in block]
            rho = {kind: spearman([task.shift[kind] for task in block], gains) for kind in (SPURIOUS, LABEL)}
            values.append(rho[hypothesis.by] - (rho[hypothesis.than] if hypothesis.than else 0))
    return hypothesis.sign * np.array([value for value in values if math.isfinite(value)], np.float64)


def _likeness(block: Sequence[Tried]) -> float:
    """Correlate, over pairs of tasks, the nearness of their shifts with the agreement of their rankings."""
    near, agree = [], []
    for first, second in combinations(block, 2):
        near.append(-sum(abs(first.shift[kind] - second.shift[kind]) for kind in (SPURIOUS, LABEL)))
        agree.append(
            spearman(*([task.accuracy[name] for name in first.accuracy] for task in (first, second)))
        )
    return spearman(near, agree)


def hypotheses_table(tasks: Sequence[Tried]) -> str:
    values = [differences(hypothesis, tasks) for hypothesis in HYPOTHESES]
    tests = [student_test(each) if len(each) > 2 else (math.nan,) * 3 for each in values]
    adjusted = holm([p for *_, p in tests])
    body = []
    for hypothesis, each, (low, high, _), p in zip(HYPOTHESES, values, tests, adjusted, strict=True):
        verdict = "inconclusive" if not p < 0.05 else "holds" if low > 0 else "does not hold"
        unit = "points" if hypothesis.by == NEW else "rho"
        mean = f"{hypothesis.sign * each.mean():+.2f} {unit}" if len(each) else "-"
        most = 1.0 if unit == "rho" and not hypothesis.than else math.inf  # what a correlation can be
        ends = sorted(float(np.clip(hypothesis.sign * end, -most, most)) for end in (low, high))
        interval = "{:+.2f} to {:+.2f}".format(*ends) if math.isfinite(low) else "-"
        body.append([hypothesis.text, mean, interval, f"{len(each)}", shown_p(p), verdict])
    table = markdown(["hypothesis", "mean", "95 % interval", "blocks", "p (Holm)", "here"], body)
    names = ", ".join(sorted({task.block.partition(" ")[0] for task in tasks}))
    runs, every = sum(len(task.accuracy) for task in tasks), len(list(read_sweep("composition").studies()))
    blocks = len({task.block for task in tasks})
    return f"{runs} of {every} runs: {blocks} whole blocks of nine tasks, of {names}.\n\n{table}"


def gains_table(tasks: Sequence[Tried]) -> str:
    """Return the accuracy of ERM and the mean gains over it at the corners of the grid."""
    methods = [name for name in COLOURS if name in tasks[0].accuracy and name != "erm"]
    body = []
    for new in (False, True):
        for mu, alpha in (("1", "none"), ("0.04", "none"), ("1", "0.3"), ("0.04", "0.3")):
            corner = [task for task in tasks if (task.new, task.mu, task.alpha) == (new, mu, alpha)]
            if not corner:
                continue
            what = [
                "new domain" if new else "",
                "spurious" if mu != "1" else "",
                "label" if alpha != "none" else "",
            ]
            erm = np.mean([task.accuracy["erm"] for task in corner])
            gains = (np.mean([task.gain(name) for task in corner]) for name in methods)
            body.append(
                [", ".join(filter(None, what)) or "none", f"{erm:.1f}", *(f"{gain:+.1f}" for gain in gains)]
            )
    return markdown(["shift", "erm", *methods], body)


def shifts_table(measured: Mapping[str, Any]) -> str:
    body = []
    for dataset, protocol in COMPOSED:
        about = measured.get(name_of(dataset, protocol))
        if about is None:
            continue
        cells = []
        for kind in KINDS:
            value = about["values"].get(kind)
            text = "" if value is None else f"{value[0]:.2f}"
            cells.append(f"**{text}**" if kind in about["kinds"] else text)
        body.append([dataset, f"`{protocol}`" if protocol else "canonical", *cells])
    header = [kind.replace(" shift", "").replace(" correlation", "") for kind in KINDS]
    return markdown(["dataset", "task", *header], body)


COLOURS = {
    "erm": "#9a9a9a", "rwg": "#1b6ca8", "group-dro": "#69b3e7", "coral": "#d9a400", "dann": "#d1495b",
    "rs+rw+erm": "#2e8b57", "rs+rw+dann": "#8e5ea2",
}  # fmt: skip


def size(points: float) -> float:
    """Return the area of a task's mark for a gain."""
    return 26 + 12 * points


def draw(tasks: Sequence[Tried]) -> None:
    """Draw each task where its shifts lie, coloured by the method ahead, its area by the gain over ERM."""
    matplotlib = require("matplotlib", "a figure")
    matplotlib.use("Agg")
    plt = require("matplotlib.pyplot", "a figure")
    panels = [new for new in (False, True) if any(task.new == new for task in tasks)]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(1.4 + 3.9 * len(panels), 4), sharey=True, squeeze=False, layout="constrained"
    )
    best = {task: max(task.accuracy, key=task.accuracy.__getitem__) for task in tasks}
    ahead = Counter(best.values())
    for axis, new in zip(axes.flat, panels, strict=True):
        panel = [task for task in tasks if task.new == new]
        axis.set_title("test on a new domain" if new else "test on domains of training", fontsize=10)
        axis.grid(color="#eeeeee")
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel(f"{LABEL} (total variation)")
        axis.scatter(
            [task.shift[LABEL] for task in panel],
            [task.shift[SPURIOUS] for task in panel],
            s=[size(task.gain(best[task])) for task in panel],
            c=[COLOURS[best[task]] for task in panel],
            alpha=0.85,
            linewidths=0.6,
            edgecolors="white",
        )
    axes.flat[0].set_ylabel(SPURIOUS)
    corner = axes.flat[-1]
    marks = [
        corner.scatter([], [], s=60, color=COLOURS[name], label=f"{name} ahead: {n}")
        for name, n in ahead.most_common()
    ]
    grey = [
        corner.scatter([], [], s=size(n), color="#cccccc", label=f"{n} points over ERM") for n in (0, 5, 20)
    ]
    figure.legend(handles=[*marks, *grey], loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=100, metadata={"Software": None})


def written(page: str, tasks: Sequence[Tried], measured: Mapping[str, Any]) -> str:
    """Return the page with each part between its marks."""
    parts = {
        "shifts": shifts_table(measured),
        "hypotheses": hypotheses_table(tasks),
        "gains": gains_table(tasks),
    }
    for name, part in parts.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{part}\n\n{end}{rest.partition(end)[2]}"
    return page


def write() -> None:
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    tasks = tried(measured)
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tasks, measured), encoding="utf-8")
    draw(tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.measure:
        measure()
    if given.write:
        write()


if __name__ == "__main__":
    main()
