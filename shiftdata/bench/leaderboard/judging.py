"""Judge submissions: compute every number from predictions, or refuse with a reason."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.baselines.pretrained.registry import Contamination, contamination
from shiftdata.bench.leaderboard.submission import Card, Submission, tests_of
from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.hidden import Answers
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics.differences import paired_test
from shiftdata.evaluation.metrics.groups import Linear
from shiftdata.evaluation.metrics.records import some
from shiftdata.evaluation.metrics.statistics import reach, student
from shiftdata.evaluation.protocols import parse_protocol, protocols
from shiftdata.evaluation.protocols import task as make_task
from shiftdata.evaluation.tasks import Evaluation, Task, TaskWarning
from shiftdata.evaluation.tasks.descriptions import steps_of
from shiftdata.evaluation.tasks.predictions import predicted_rows

#: The figure by which a table is ranked: the first that its task has.
HEADLINES = ("worst", "worst_identity", "worst_region", "mean_domain", "h_score", "mean_drop", "overall")


@dataclass(frozen=True)
class Lead:
    """The difference of two methods: its 95 % interval, and the p-value that they are equally good."""

    value: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    origins: int = 0


@dataclass(frozen=True, eq=False)
class Pairs:
    """A figure by origin: the influence of each, the mean over seeds, and its right rows, the sum over seeds.

    `group` is the one group on whose rows the figure is a share, None where it depends on several; there the
    test of two methods is `paired_test`, elsewhere Student's on the influences. `effective` is Kish's number
    of origins.
    """

    influence: FloatArray
    right: IntArray
    group: int | None
    seeds: int
    effective: float
    origins: int

    @classmethod
    def of(cls, seeds: Sequence[Linear]) -> Pairs | None:
        parts = [of.groups.clusters for of in seeds if of.groups.clusters is not None]
        if not parts or len(parts) < len(seeds):
            return None
        used = np.flatnonzero(np.any([of.derivatives != 0 for of in seeds], axis=0)).tolist()
        right = np.sum(
            [np.bincount(of.origin, of.right * np.isin(of.group, used), of.origins) for of in parts], axis=0
        )
        return cls(
            np.mean([of.influence() for of in seeds], axis=0),
            np.rint(right).astype(np.int64),
            used[0] if len(used) == 1 else None,
            len(seeds),
            seeds[0].effective,
            seeds[0].origins,
        )


@dataclass(frozen=True)
class Score:
    """A figure: its mean over seeds, a 95 % interval over origins (nan for none), its spread over seeds.

    `pairs` is what a headline figure's comparison with another method's needs.
    """

    value: float
    low: float
    high: float
    spread: float
    rows: str
    of: str
    pairs: Pairs | None = field(default=None, repr=False, compare=False)

    def minus(self, other: Score) -> Lead:
        """The difference from another method's figure on the same rows, paired by origin."""
        lead, mine, theirs = self.value - other.value, self.pairs, other.pairs
        if mine is None or theirs is None:
            return Lead(lead)
        error = math.sqrt(float(((mine.influence - theirs.influence) ** 2).sum()))
        effective = min(mine.effective, theirs.effective)
        half = reach(effective) * error
        if mine.group is not None and mine.group == theirs.group:
            seeds = math.gcd(mine.seeds, theirs.seeds)  # each method's right rows count as often
            p = paired_test(mine.right * (theirs.seeds // seeds) - theirs.right * (mine.seeds // seeds))
        elif error > 0:
            p = 1 - student(lead / error, max(1, math.floor(effective) - 1))
        else:
            p = math.nan if lead else 1.0
        return Lead(lead, lead - half, lead + half, p, mine.origins)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The result of a submission on a test set; `main` marks the first test set of its task."""

    dataset: OpenDataset = field(repr=False, compare=False)

    file: str
    card: Card
    task_id: str
    task: str
    set: str
    main: bool
    leaky: bool
    contamination: Contamination
    rows: int
    seeds: tuple[int, ...]
    scores: Mapping[str, Score]


def task_named(metadata: Metadata, protocol: str, unlabelled: str = "") -> Task:
    """The task of a canonical split or of protocols; a path of a file is refused."""
    file = protocol.endswith(".parquet")  # parsed as a protocol, which is unknown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TaskWarning)  # the board says it in `Table.about`
        task = make_task(metadata, parse_protocol(protocol) if file else protocol, on_empty="report")
    return task.also(unlabelled, "unlabelled") if unlabelled else task


def judge(
    submission: Submission,
    file: str,
    metadata: Metadata,
    named: Callable[[Metadata, str, str], Task] = task_named,
    answers: Answers | None = None,
) -> list[Entry]:
    """Return a result for each test set of its tasks; any fault is an `InputError`.

    Without the `answers` that a dataset hides, predictions are checked, and nothing has a score.
    """
    card = submission.card
    assert metadata.dataset is not None  # it was opened by a name
    here = metadata.dataset.manifest.base(card.base).content_id
    if here != card.content_id:
        build = f"another build of {card.dataset}, {card.base}: content_id {card.content_id[:16]}"
        hint = "predict this build, or judge it where that build is"
        raise InputError(f"it is for {build}, here {here[:16]}: {hint}")
    answered = metadata if answers is None else metadata.with_answers(answers)
    given = {part.task_id for part in submission.parts}
    if unnamed := sorted(given - set(card.tasks)):
        raise InputError(f"it predicts the task {unnamed[0]!r:.80}, which its card does not name")
    entries = []
    for task_id, name in card.tasks.items():
        task = named(metadata, name.protocol, name.unlabelled)
        if (here := task.content_id()) != task_id:
            tasks = f"is the task {here[:16]}, and the submission has {task_id[:16]!r}"
            hint = "the protocol has another version, or its rows were changed"
            raise InputError(f"{name.protocol} of this dataset {tasks}: {hint}")
        if answers is not None:  # the task is that of the public rows: labels would cut some in other ways
            task = replace(task, metadata=answered)
        entries += _entries(submission, file, task_id, task)
    return entries


def _entries(submission: Submission, file: str, task_id: str, task: Task) -> list[Entry]:
    tests, seen = tests_of(task), _admitted(submission.card, task)
    seeds: dict[str, dict[int, pa.Table]] = {name: {} for name in tests}
    for part, rows in submission.parts.items():
        if part.task_id != task_id:
            continue
        if part.set not in seeds:
            raise not_found("test set", part.set[:100], tests, f"It is for {task.describe()}.")
        seeds[part.set][part.seed] = rows
    every = {seed for of in seeds.values() for seed in of} or {0}
    for name, of in seeds.items():
        if missing := every - set(of):
            raise InputError(
                f"{task.describe()} is tested on {', '.join(tests)}, and predictions for seed {min(missing)} "
                f"of {name} are missing: give a label for each key"
            )
    dataset = task.metadata.dataset
    assert dataset is not None
    leaky = task.history.leaky or task.report().leaks > 0  # a task from a file of keys has no history
    return [
        Entry(
            dataset=dataset,
            file=file,
            card=submission.card,
            task_id=task_id,
            task=task.describe(),
            set=name,
            main=name == tests[0],
            leaky=leaky,
            contamination=seen,
            rows=len(task.sets[name]),
            seeds=tuple(sorted(every)),
            scores=scores_of(_evaluated(task, name, of)),
        )
        for name, of in seeds.items()
    ]


def _admitted(card: Card, task: Task) -> Contamination:
    """Say whether the card's weights have seen the dataset; refuse those that a protocol of the task does."""
    pretraining = card.pretraining.pretraining
    answer = contamination(pretraining, card.dataset, task.content_id())
    strict = {protocol.id for protocol in protocols() if protocol.self_supervised}
    asking = [name for name, _ in steps_of(task.describe()) if name in strict]
    if not asking or (pretraining.supervision == "none" and pretraining.known and answer.flag != "contained"):
        return answer
    if not pretraining.known:
        why, hint = answer.reason, "give their sha256, or state supervision and corpora in the card"
    else:
        why = answer.reason if pretraining.supervision == "none" else f"these are {pretraining}"
        hint = "train from scratch or from other weights, such as moco-v2, or submit to domainbed"
    raise InputError(
        f"{asking[0]} admits weights without labels and captions that did not see its data; {why}: {hint}"
    )


def _evaluated(task: Task, name: str, seeds: Mapping[int, pa.Table]) -> list[Evaluation]:
    """Evaluate each seed; none where the labels are hidden."""
    hidden = (task.metadata.label[task.rows(name)] < 0).any()
    results = []
    for seed, rows in sorted(seeds.items()):
        try:
            _check_names(task, rows["prediction"])
            predicted = predicted_rows(task, name, rows)[1]
            results += [] if hidden else [task.evaluate(predicted, name)]
        except InputError as error:
            raise InputError(f"{name}, seed {seed}: {error}") from error
    return results


def _check_names(task: Task, names: pa.ChunkedArray) -> None:
    """Refuse a prediction that is not exactly the name of a label of the task."""
    labels = np.array(task.metadata.labels, object)[task.remapped >= 0].tolist()
    labels += ["unknown"] if "universal" in task.history.metrics else []
    for name, rows in (count.values() for count in pc.value_counts(names).to_pylist()):
        if name not in labels:
            shown = f"{rows:,} predictions are {name if name is None else name[:60]!a}"
            hint = f"not a label of the task, character by character: it has {some(labels, 20)}"
            raise InputError(f"{shown}, which is {hint}")


def scores_of(results: Sequence[Evaluation]) -> dict[str, Score]:
    """Each official figure over seeds; the ends of intervals are means over seeds."""
    scores = {}
    for name, first in results[0].figures.items() if results else ():
        figures = [result.figures[name] for result in results]
        values = np.array([figure.value for figure in figures])
        low, high = np.mean([figure.interval for figure in figures], axis=0).tolist()
        linear = [figure.linear for figure in figures if figure.linear is not None]
        paired = name in HEADLINES and len(linear) == len(figures)
        scores[name] = Score(
            float(values.mean()),
            low,
            high,
            float(values.std(ddof=1)) if len(values) > 1 else math.nan,
            first.rows,
            first.of if len({figure.of for figure in figures}) == 1 else "another in each seed",
            Pairs.of(linear) if paired else None,
        )
    return scores
