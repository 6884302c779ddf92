"""The results of a submission: official figures over seeds, with intervals over the test rows' origins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shiftdata.bench.leaderboard.card import Card
from shiftdata.metrics.arrays import FloatArray
from shiftdata.tasks import Evaluation, Task
from shiftdata.tasks.intervals import intervals_of

#: The figure that ranks, the first that a task has.
HEADLINES = ("worst", "mean_domain", "h_score", "mean_drop", "overall")


@dataclass(frozen=True)
class Score:
    """A figure: its mean over seeds, a 95 % interval over origins (nan for none), its spread over seeds.

    `influence` is how far each origin moves a figure that may rank, the mean over seeds; `reach` how many
    standard errors its interval reaches.
    """

    value: float
    low: float
    high: float
    spread: float
    n: int
    of: str
    origins: int = 0
    reach: float = math.nan
    influence: FloatArray | None = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> str:
        """The rows for a table, "300 of 34 origins" where these are fewer."""
        return f"{self.n:,}" + (f" of {self.origins:,} origins" if 0 < self.origins < self.n else "")

    def minus(self, other: Score) -> tuple[float, float]:
        """The 95 % interval of the difference from another method's figure, paired by origin."""
        if self.influence is None or other.influence is None:
            return math.nan, math.nan
        error = math.sqrt(float(((self.influence - other.influence) ** 2).sum()))
        middle, half = self.value - other.value, max(self.reach, other.reach) * error
        return middle - half, middle + half


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A submission's result on a set that tests.

    `repeated` counts the models among which its selection was repeated, 0 where it is only stated.
    `prints` are hashes of the predictions of each seed.
    """

    file: str
    card: Card
    task_id: str
    set: str
    task: str
    main: bool
    leaky: bool
    rows: int
    seeds: tuple[int, ...]
    scores: Mapping[str, Score]
    repeated: int
    trials: int
    prints: tuple[str, ...]

    @property
    def badge(self) -> str:
        """How its selection is known."""
        if not self.repeated:
            return "selection as stated"
        fewer = f", {self.trials} of {self.card.trials} trials" if self.trials < self.card.trials else ""
        return f"selection repeated ({self.repeated:,} models{fewer})"


def scores_of(results: Sequence[Evaluation], task: Task) -> dict[str, Score]:
    """Each official figure over seeds; an end of the interval is the mean of the seeds' ends."""
    scores, intervals = {}, [intervals_of(result, task) for result in results]
    for name, first in results[0].figures.items():
        figures = [result.figures[name] for result in results]
        values = np.array([figure.value for figure in figures])
        low, high = np.mean([of[name] for of in intervals], axis=0).tolist()
        linear = [figure.linear for figure in figures if figure.linear is not None]
        ranks = name in HEADLINES and len(linear) == len(figures)
        scores[name] = Score(
            float(values.mean()),
            low,
            high,
            float(values.std(ddof=1)) if len(values) > 1 else math.nan,
            first.n,
            first.of if len({figure.of for figure in figures}) == 1 else "another in each seed",
            first.origins,
            math.nan if first.linear is None else first.linear.reach,
            np.asarray(np.mean([of.influence() for of in linear], axis=0)) if ranks else None,
        )
    return scores
