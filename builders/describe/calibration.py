"""The calibration on the card: what each kind of model can see on each split, and every training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from builders.describe.ranges import Cell, Figure, Range, cells_of, ranges
from shiftdata.data.format.front_matter import cell
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Calibration, Measure, span
from shiftdata.evaluation.metrics.statistics import wilson

#: The least gap between ceiling and ERM that is worth a benchmark.
LEAST_GAP = 0.05
UNTOUCHED, EVERY, CONTENT = "untouched", "every severity", "content"
AWARE = ("RWG", "SUBG")
FIGURES: tuple[Figure, ...] = ("mean", "worst")
KINDS = {
    ("image", "scratch"): "from scratch",
    ("image", "frozen"): "frozen features",
    ("text", "scratch"): "on n-grams",
    ("table", "scratch"): "on columns",
}
BEST = "best of RWG, SUBG"
SUMMARY = f"canonical split | kind of model | accuracy | chance | ceiling | ERM | {BEST}"
HEADER = "canonical split | trained on | network | set | mean | worst group | rows | trained rows | seconds"


def calibration_table(manifest: Manifest) -> str:
    """Return a line for each network and method: the range over its seeds."""
    if manifest.calibration is None:
        return ""
    trained: dict[tuple[Cell, str], list[Measure]] = {}
    for key, measures in cells_of(manifest.calibration.measures).items():
        for by in measures:
            trained.setdefault((key, by.network), []).append(by)
    return _table(HEADER, [_row(measures) for measures in trained.values()])


def _table(header: str, rows: Sequence[Sequence[str]]) -> str:
    names = header.split(" | ")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [names, ["---"] * len(names), *rows])


def _row(seeds: Sequence[Measure]) -> list[str]:
    by, worst = seeds[0], {seed.worst_cell for seed in seeds}
    return [
        f"`{by.split}`",
        cell(by.trained),
        f"{by.network} x {len(seeds)}",
        cell(by.set),
        span([seed.mean[0] for seed in seeds]),
        span([seed.worst[0] for seed in seeds]) + (f" {cell(by.worst_cell)}" if len(worst) == 1 else ""),
        f"{by.rows:,}",
        f"{by.fit:,}",
        f"{fmean(seed.seconds for seed in seeds):,.0f}",
    ]


class Kind:
    """The measures of one kind of model on one canonical split: its ceiling, its floor, methods of groups.

    Of severities the floor is a model of untouched examples, and both are judged at the greatest.
    """

    def __init__(self, manifest: Manifest, split: str, mode: str, cells: Mapping[Cell, Sequence[Measure]]):
        self.split = split
        self.name = KINDS.get((manifest.roles.modality, mode), mode)
        self.protocol = next(
            (of.protocol.split()[0] for of in manifest.canonical_splits if of.name == split), split
        )
        mine = {key[1]: key for key in cells if (key[0], key[3]) == (split, mode)}  # the last set of each
        self.ceiling = mine.get("ceiling") or mine.get(EVERY)
        self.floor = mine.get("ERM") or mine.get(UNTOUCHED)
        self.aware = [mine[name] for name in AWARE if name in mine]
        self.networks = list(dict.fromkeys(by.network for key in mine.values() for by in cells[key]))
        self.chance = cells[next(iter(mine.values()))][0].chance
        self._cells = cells

    @property
    def figure(self) -> Figure:
        """The figure that the protocol asks for."""
        return "worst" if self.protocol == "group-fairness" else "mean"

    def answer(self, of: Mapping[Cell, Range]) -> str:
        """Answer if the split shows a gap between ceiling and ERM to models of this kind."""
        if self.ceiling is None or self.floor is None:
            return "unknown"
        ceiling, floor = of[self.ceiling].middle, of[self.floor].middle
        if ceiling < (1 + self.chance) / 2:
            return "no (the ceiling is too low)"
        if ceiling - floor < LEAST_GAP:
            return "no (ERM reaches the ceiling)"
        high, low = (self._by_training(cell) for cell in (self.ceiling, self.floor))
        gaps = [high[training] - low[training] for training in high.keys() & low.keys()]
        return "yes" if min(gaps, default=0.0) >= LEAST_GAP else "weakly"

    def _by_training(self, cell: Cell) -> dict[tuple[str, int], float]:
        return {(by.network, by.seed): getattr(by, self.figure)[0] for by in self._cells[cell]}


def _kinds(manifest: Manifest, calibration: Calibration) -> list[Kind]:
    cells = cells_of(calibration.measures)
    return [
        Kind(manifest, split, mode, cells) for split, mode in dict.fromkeys((key[0], key[3]) for key in cells)
    ]


def calibration_answers(manifest: Manifest) -> list[str]:
    """Answer for each kind of model: which splits show a shift."""
    if manifest.calibration is None:
        return []
    of = {figure: ranges(manifest.calibration.measures, figure) for figure in FIGURES}
    answers: dict[str, dict[str, list[str]]] = {}
    for kind in _kinds(manifest, manifest.calibration):
        name = f"{kind.name} ({', '.join(kind.networks)})"
        splits = answers.setdefault(name, {}).setdefault(kind.answer(of[kind.figure]), [])
        splits.append(f"`{kind.split}`")
    lines = {
        name: [f"{answer} on {', '.join(splits)}" for answer, splits in each.items()]
        for name, each in answers.items()
    }
    return [f"**{name}**: {'; '.join(parts)}." for name, parts in lines.items()]


def calibration_summary(manifest: Manifest) -> str:
    """Return two lines for each split and kind of model: mean and worst group, with their intervals."""
    calibration = manifest.calibration
    if calibration is None:
        return ""
    of = {figure: ranges(calibration.measures, figure) for figure in FIGURES}
    rows, kinds = [], _kinds(manifest, calibration)
    for kind in kinds:
        better = max(kind.aware, key=lambda key: of["worst"][key].middle, default=None)
        for figure in FIGURES:
            shown = [_shown(of[figure], key) for key in (kind.ceiling, kind.floor, better)]
            named = "worst group" if figure == "worst" else figure
            rows.append([f"`{kind.split}`", kind.name, named, f"{kind.chance:.3g}", *shown])
    if any(kind.aware for kind in kinds):
        return _table(SUMMARY, rows)
    return _table(SUMMARY.removesuffix(f" | {BEST}"), [row[:-1] for row in rows])


def _shown(of: Mapping[Cell, Range], key: Cell | None) -> str:
    """Show the measured range, and the interval of another network."""
    if key is None:
        return ""
    expected = of[key].expected
    measured = span([of[key].low, of[key].high])
    return f"{measured} [{expected[0]:.2f}, {expected[1]:.2f}]" if expected else measured


def calibration_lines(manifest: Manifest) -> list[str]:
    """Return further findings, a sentence or two a line."""
    calibration = manifest.calibration
    if calibration is None:
        return []
    measures = calibration.measures
    apart = any(base.name == CONTENT for base in manifest.bases) and calibration.base != CONTENT
    of = f"untouched examples, the train rows of the base {CONTENT}" if apart else "untouched examples"
    lines = [*_falls(measures, manifest.roles.nuisance, of), _cells(measures)] if measures else []
    if calibration.left_out:
        lines.append(f"Not measured: {'; '.join(calibration.left_out)}.")
    return lines


def calibration_warning(manifest: Manifest) -> str:
    """Return a warning if the calibration is of another build, else an empty text."""
    calibration = manifest.calibration
    bases = {base.name: base.content_id for base in manifest.bases}
    if calibration is None or not manifest.files or bases.get(calibration.base) == calibration.content_id:
        return ""
    return (
        f"the calibration was measured on another build of `{calibration.base}` "
        f"(content {calibration.content_id[:12]}): run `shiftdata calibrate {manifest.name} --recipe FILE`"
    )


def _falls(measures: Sequence[Measure], nuisance: str, untouched: str) -> Iterator[str]:
    """For how many nuisances the accuracy falls at each severity, as the mean over networks and seeds."""
    for mode in dict.fromkeys(measure.mode for measure in measures):
        steps: dict[str, dict[str, float]] = {}
        for key, of in cells_of(measures).items():
            if (key[1], key[3]) == (UNTOUCHED, mode):
                steps[key[2]] = {name: fmean(by.by_nuisance[name] for by in of) for name in of[0].by_nuisance}
        falls = []
        for (_, before), (name, after) in pairwise(steps.items()):
            both = before.keys() & after.keys()
            fewer = sum(after[each] < before[each] for each in both)
            falls.append(f"{fewer} of {len(both)} at {name.removeprefix('severity ')}")
        if falls:
            yield (
                f"Trained on {untouched} ({KINDS['image', mode]}), the accuracy falls with the severity in "
                f"these {nuisance}s: {', '.join(falls)}."
            )


def _cells(measures: Sequence[Measure]) -> str:
    """Return the interval of the smallest cell as a sentence."""
    smallest = min(measure.smallest for measure in measures)
    low, high = wilson(smallest / 2, smallest)
    return (
        f"The smallest cell of a test has {smallest:,} rows: at an accuracy of 0.5, its 95 % interval is "
        f"{high - low:.2f} wide."
    )
