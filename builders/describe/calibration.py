"""The calibration on the card: ceiling and floor of each protocol, and every training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from shiftdata.data.format.front_matter import cell
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Measure
from shiftdata.evaluation.metrics.statistics import wilson

#: A ceiling below this leaves little room between itself and chance.
ENOUGH = 0.85
UNTOUCHED, CONTENT = "untouched", "content"
AWARE = ("RWG", "SUBG")
SUMMARY = (
    "protocol | mode | chance | ceiling: mean / worst | ERM | the best of ERM, RWG, SUBG | use this mode"
)
HEADER = (
    "canonical split | trained on | mode | set | mean [95 %] | worst [95 %] | rows | trained rows | seconds"
)


def calibration_table(manifest: Manifest) -> str:
    """Return a line for each measure."""
    if manifest.calibration is None:
        return ""
    rows = [_row(manifest, measure) for measure in manifest.calibration.measures]
    header = HEADER.split(" | ")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows])


def _row(manifest: Manifest, measure: Measure) -> list[str]:
    trained = f"{manifest.roles.nuisance} (probe)" if measure.trained == "nuisance" else measure.trained
    return [
        f"`{measure.split}`",
        cell(trained),
        measure.mode,
        cell(measure.set),
        _shown(measure.mean),
        f"{_shown(measure.worst)} {cell(measure.worst_cell)}",
        f"{measure.rows:,}",
        f"{measure.fit:,}",
        f"{measure.seconds:,.0f}",
    ]


def _shown(share: tuple[float, float, float]) -> str:
    return f"{share[0]:.2f} [{share[1]:.2f}, {share[2]:.2f}]"


def calibration_summary(manifest: Manifest) -> str:
    """Return a line for each protocol and mode: chance, ceiling, floor, and if methods have room between."""
    calibration = manifest.calibration
    if calibration is None:
        return ""
    protocol = {split.name: split.protocol.split()[0] for split in manifest.canonical_splits}
    of: dict[tuple[str, str], list[Measure]] = {}
    for measure in calibration.measures:
        of.setdefault((protocol.get(measure.split, measure.split), measure.mode), []).append(measure)
    rows = [SUMMARY.split(" | "), ["---"] * 7]
    for (name, mode), measures in of.items():
        high, low = _ends(measures)
        if not high or not low:
            continue
        ceiling = fmean(measure.mean[0] for measure in high)
        splits = len({measure.split for measure in measures})
        rows.append(
            [
                f"{name} ({splits} {'split' if splits == 1 else 'splits'})",
                mode,
                f"{high[0].chance:.3g}",
                _both(high),
                _both(low),
                _both([max(low + better, key=lambda measure: measure.worst[0])])
                if (better := [measure for measure in measures if measure.trained in AWARE])
                else "",
                "yes" if ceiling >= ENOUGH else f"no: its ceiling is below {ENOUGH}",
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _ends(measures: Sequence[Measure]) -> tuple[list[Measure], list[Measure]]:
    """Return ceiling and floor: of severities, a model of untouched examples on the first and last."""
    severities = [measure for measure in measures if measure.trained == UNTOUCHED]
    if severities:
        return severities[:1], severities[-1:]
    ceilings, floors = (
        [measure for measure in measures if measure.trained == name] for name in ("ceiling", "ERM")
    )
    return ceilings, floors


def _both(measures: Sequence[Measure]) -> str:
    return " / ".join(
        f"{fmean(getattr(measure, name)[0] for measure in measures):.2f}" for name in ("mean", "worst")
    )


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
    """For how many nuisances the accuracy falls at each severity."""
    for mode in dict.fromkeys(measure.mode for measure in measures):
        steps = [measure for measure in measures if measure.mode == mode and measure.trained == UNTOUCHED]
        falls = []
        for before, after in pairwise(steps):
            both = before.by_nuisance.keys() & after.by_nuisance.keys()
            fewer = sum(after.by_nuisance[name] < before.by_nuisance[name] for name in both)
            falls.append(f"{fewer} of {len(both)} at {after.set.removeprefix('severity ')}")
        if falls:
            yield (
                f"Trained on {untouched} ({mode}), the accuracy falls with the severity in "
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
