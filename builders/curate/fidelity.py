"""How much of what is painted stays recognisable in each style: fidelity, as Stylized Meta-Album defines it.

A trial draws three styles and three classes. A linear classifier of frozen features learns the classes from
stylized pictures; its accuracy on others, over that of one for the untouched pictures, is the fidelity of a
style in this trial.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from builders.curate.content import Content
from builders.curate.filtering import KEPT, LEFT, SCORES, read_kept
from builders.curate.trials import CLASSES, TRIAL_VERSION, Plan, describer, trial_of
from builders.shifts.styles.listed import read_listed, read_rows, write_rows
from builders.shifts.stylizers import Stylizer
from shiftdata.data.executors import Executor
from shiftdata.evaluation.charts import COLOURS, drawn_figure, new_figure
from shiftdata.files import whole_file
from shiftdata.stable import content_hash

TABLE, CHART, TRIALS = "fidelity.tsv", "fidelity.png", ".trials"
COLUMNS = ("style", "fidelity", "sem", "n", "kept")


@dataclass(frozen=True)
class StyleFidelity:
    """Of one style: the mean over `n` trials, and its standard error where there are two or more."""

    style: str
    fidelity: float
    sem: float
    n: int
    kept: bool

    def __str__(self) -> str:
        if not self.n:
            return f"{self.style}: in no trial, left out: more --trials"
        error = f" ± {self.sem:.3f}" if self.n > 1 else ""
        return f"{self.style}: {self.fidelity:.3f}{error} (n = {self.n}){'' if self.kept else ', left out'}"


@dataclass(frozen=True)
class Fidelity:
    """Of all styles, the best first. `original` is the mean accuracy on untouched pictures."""

    styles: tuple[StyleFidelity, ...]
    features: str
    trials: int
    original: float

    def __str__(self) -> str:
        original = f"untouched pictures: accuracy {self.original:.3f}, {self.trials} trials"
        if self.original < 0.6:
            original += f", not far from chance ({1 / CLASSES:.3f}): fidelity says little, give other content"
        return "\n".join([*map(str, self.styles), f"features: {self.features}", original])


def measure(
    out: Path,
    content: Content,
    executor: Executor,
    stylizer: Stylizer,
    *,
    trials: int = 100,
    keep: int = 20,
    on_done: Callable[[int], object] = lambda count: None,
) -> Fidelity:
    """Measure the styles of a folder in trials, and write which `keep` stay, with a chart.

    Where the folder has scores, only pictures that they keep take part. Trials that were made stay, for a
    call that was killed or one with more of them.
    """
    pictures = read_kept(out, out / SCORES) if (out / SCORES).is_file() else list(read_listed(out))
    plan = Plan(out, tuple(pictures), content, stylizer)
    plan.check()
    name, about, _ = describer()
    identity = content_hash(
        *(f"{one.style} {one.sha256}" for one in pictures),
        content.fingerprint(), stylizer.fingerprint(), about, str(TRIAL_VERSION),
    )  # fmt: skip
    folder = out / TRIALS / identity[:16]
    files = [folder / f"{number:05}.json" for number in range(trials)]
    missing = [number for number, file in enumerate(files) if not file.is_file()]
    on_done(trials - len(missing))
    for _ in executor.run(partial(trial_of, plan, folder), missing):
        on_done(1)
    done = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    result = _summed(plan.styles, done, name, keep)
    rows = [
        (one.style, _number(one.fidelity), _number(one.sem), one.n, KEPT if one.kept else LEFT)
        for one in result.styles
    ]
    write_rows(out / TABLE, COLUMNS, rows)
    with whole_file(out / CHART) as temporary:
        chart(result).save(temporary, "PNG")
    return result


def read_kept_styles(file: Path) -> set[str]:
    """The styles that a table of fidelity keeps."""
    return {row["style"] for _, row in read_rows(file, COLUMNS) if row["kept"] == KEPT}


def _summed(styles: Sequence[str], done: Sequence[dict[str, Any]], features: str, keep: int) -> Fidelity:
    """Ratios by style. A trial whose untouched pictures were all mistaken has none."""
    ratios: dict[str, list[float]] = {style: [] for style in styles}
    for trial in done:
        for style, accuracy in trial["styles"].items():
            if trial["original"] > 0:
                ratios[style].append(accuracy / trial["original"])
    means = {style: float(np.mean(of)) if of else float("nan") for style, of in ratios.items()}
    order = sorted(styles, key=lambda style: (not ratios[style], -np.nan_to_num(means[style]), style))
    found = []
    for place, style in enumerate(order):
        of = ratios[style]
        sem = float(np.std(of, ddof=1) / np.sqrt(len(of))) if len(of) > 1 else float("nan")
        found.append(StyleFidelity(style, means[style], sem, len(of), kept=bool(of) and place < keep))
    return Fidelity(tuple(found), features, len(done), float(np.mean([one["original"] for one in done])))


def _number(value: float) -> str:
    return f"{value:.6f}" if np.isfinite(value) else ""


def chart(result: Fidelity) -> Image.Image:
    """A bar a style, the best first, with standard errors; a line between those kept and the others."""
    shown = [one for one in result.styles if one.n]
    figure = new_figure(max(5, 1.5 + 0.36 * len(shown)), 4.2)
    axes = figure.subplots()
    kept = sum(one.kept for one in shown)
    axes.bar(
        range(len(shown)), [one.fidelity for one in shown], 0.75,
        yerr=[one.sem for one in shown], capsize=2,
        color=[COLOURS[4] if one.kept else "0.75" for one in shown],
    )  # fmt: skip
    if kept < len(shown):
        axes.axvline(kept - 0.5, color=COLOURS[0], linewidth=2)
    axes.set_xticks(range(len(shown)), [f"{one.style} ({one.n})" for one in shown], rotation=90, fontsize=8)
    axes.set_xlim(-0.6, len(shown) - 0.4)
    axes.set_ylabel("fidelity ± standard error")
    title = (
        f"fidelity over {result.trials} trials (of each style: n), {kept} of {len(result.styles)} styles kept"
    )
    axes.set_title(f"{title}\n{result.features}", loc="left", fontsize=8)
    return drawn_figure(figure)
