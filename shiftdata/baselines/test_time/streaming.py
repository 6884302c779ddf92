"""`adapt`: a trained network over the stream of a task, as predictions with their curves over steps."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.models import Floats
from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.baselines.run import Run, task_identity
from shiftdata.baselines.test_time import Adapter, adapter_class
from shiftdata.baselines.test_time.adapter import View
from shiftdata.baselines.test_time.subjects import subject_of
from shiftdata.baselines.training import DivergedError
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.stream import Ordered, Stream, stream_of
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.evaluation import Evaluation
from shiftdata.stable import hash64
from shiftdata.tables import Block, Table
from shiftdata.threads import torch_threads

if TYPE_CHECKING:
    from PIL import Image

#: Points of a curve at most.
POINTS = 40


@dataclass(frozen=True, eq=False)
class Adaptation:
    """The predictions of a stream. `about` is the record.

    `predicted` has a line a round of label numbers, in the order of the stream; `scores` are the logits of
    the last round; `history` has an entry a batch: round, segment, rows, mean entropy, and how often the
    network has begun again.
    """

    task: Task
    about: Mapping[str, Any]
    order: Ordered
    predicted: IntArray
    scores: Floats
    history: list[dict[str, Any]]

    def predictions(self, name: str | None = None) -> dict[str, str]:
        """Return the name of the label that the last round predicts, by key, of a test set."""
        name = name or self.task.set_of("test")
        labels = np.array(self.task.metadata.labels)[self.predicted[-1][self._places(name)]]
        return dict(zip(self.task.keys(name), labels.tolist(), strict=True))

    def evaluate(self, name: str | None = None) -> Evaluation:
        """Return the task's official metrics of the last round, on its test set or the test set `name`."""
        name = name or self.task.set_of("test")
        return self.task.evaluate(self.predicted[-1][self._places(name)], name)

    def curve(self) -> list[dict[str, Any]]:
        """Return `history` with the accuracy of each batch, of its segment so far, and of all so far."""
        correct = (self.predicted == self.task.metadata.label[self.order.rows]).ravel()
        result: list[dict[str, Any]] = []
        begin = first = 0
        for entry in self.history:
            if (
                not result
                or entry["segment"] != result[-1]["segment"]
                or entry["round"] != result[-1]["round"]
            ):
                first = begin
            end = begin + entry["rows"]
            shares = {"accuracy": (begin, end), "segment_so_far": (first, end), "so_far": (0, end)}
            result.append(
                entry | {name: float(correct[slice(*ends)].mean()) for name, ends in shares.items()}
            )
            begin = end
        return result

    def segments(self) -> dict[str, float]:
        """Return the accuracy of each segment in the last round."""
        correct = self.predicted[-1] == self.task.metadata.label[self.order.rows]
        hits, rows = np.bincount(self.order.segment, correct), np.bincount(self.order.segment)
        return dict(zip(self.order.segments, (hits / rows).tolist(), strict=True))

    def picture(self) -> Image.Image:
        """Draw accuracy and mean entropy over the steps, each point the mean of a stretch of batches."""
        from shiftdata.evaluation.charts import chart, drawn_figure

        stretches = np.array_split(np.arange(len(self.history)), min(POINTS, len(self.history)))
        curve, cells = self.curve(), {}
        for name in ("accuracy", "so_far", "entropy"):
            for steps in stretches:
                rows = np.array([curve[step]["rows"] for step in steps])
                values = np.array([curve[step][name] for step in steps])
                cells[name, str(steps[-1] + 1)] = f"{(rows * values).sum() / rows.sum():.4f}"
        block = Block.of("step", cells)
        title = f"{self.about['method']}: {self.task.describe()} of {self.task.metadata.name}"
        return drawn_figure(chart([Table(title, (block,), drawn=(block,))]))

    def save(self, folder: str | Path) -> None:
        """Write run.json, stream.parquet, and keys, predictions and scores of each test set."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (name for name, rows in self.task.sets.items() if rows.role == "test"):
            predicted, scores = self.predictions(name), self.scores[self._places(name)]
            lists = pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), scores.shape[1])
            table = {"key": list(predicted), "prediction": list(predicted.values()), "scores": lists}
            pq.write_table(pa.table(table), folder / f"predictions-{name.replace('/', '-')}.parquet")
        rounds = len(self.predicted)
        stream = pa.concat_tables([self.order.table()] * rounds)
        stream = stream.set_column(0, "position", pa.array(np.arange(len(stream))))
        labels = pa.array(self.task.metadata.labels).take(pa.array(self.predicted.ravel()))
        pq.write_table(stream.append_column("prediction", labels), folder / "stream.parquet")
        text = json.dumps({**self.about, "history": self.history}, indent=1)
        (folder / "run.json").write_text(text + "\n", encoding="utf-8")

    @cached_property
    def _sorted(self) -> IntArray:
        return np.argsort(self.order.rows)

    def _places(self, name: str) -> IntArray:
        """Return where the rows of a set are in the stream."""
        rows = self.task.rows(name)
        if self.task.sets[name].role != "test":
            raise InputError(
                f"{name} has the role {self.task.sets[name].role}: a stream is of the test alone"
            )
        return self._sorted[np.searchsorted(self.order.rows[self._sorted], rows)]


def adapt(
    task: Task,
    model: Run | Pretrained | str | Path,
    method: str | type[Adapter] = "tent",
    *,
    batch_size: int = 64,
    seed: int = 0,
    device: str = "cpu",
    threads: int = 1,
    view: View | None = None,
    variant: str = "fixed",
    folder: str | Path | None = None,
    on_rows: Callable[[int], object] = lambda rows: None,
    **hyper: float,
) -> Adaptation:
    """Stream the test of a task through a model that adapts, and return its predictions.

    The model's own network stays as it is. An interrupted stream starts again: its state is the network's.

    Args:
        task: a task with a stream, as of sd.task("cns_glyphs", "continuous stream setting=continual").
        model: a run of `train`, the folder of one, or a pretrained model that has a classifier.
        method: a name of `test_time.ADAPTERS`, or an `Adapter` of your own.
        batch_size: rows of a step.
        seed: of views and draws; that of the order is the stream's.
        device: "cpu", "cuda", "cuda:1", "mps".
        threads: of a processor.
        view: makes another view of a batch of pictures, for the adapters that need views.
        variant: of the adapter.
        folder: the predictions are saved there.
        on_rows: gets the number of rows that were predicted since its last call.
        hyper: hyper-parameters of the adapter.

    """
    stream = stream_of(task)
    subject, order = subject_of(task, model), stream.order_of(task)
    kind = adapter_class(method)
    if "pixels" in kind.needs and not subject.source.is_pictures:
        raise InputError(f"{kind.__name__} makes views of pictures, and the model reads features or texts")
    batches, begun = order.batches(batch_size), time.monotonic()
    predicted = np.empty((stream.rounds, len(order.rows)), np.int64)
    scores = np.empty((len(order.rows), len(task.label_ids)), np.float32)
    history = []
    with torch_threads(threads), torch.random.fork_rng(devices=[]):
        network = copy.deepcopy(subject.network).to(device)
        adapter = kind(network, view=view, variant=variant, **hyper)
        if "source" in kind.needs:
            cuts = range(batch_size, len(subject.known), batch_size)
            known = [part for part in np.split(np.arange(len(subject.known)), cuts) if len(part) > 1]
            adapter.remember(subject.read(subject.known, known, device))
        read = partial(subject.read, order.rows, batches, device)
        for number, at, logits, entry in _streamed(adapter, batches, read, order, stream, seed):
            predicted[number, at], scores[at] = task.label_ids[logits.argmax(1)], logits
            history.append(entry)
            on_rows(len(at))
    about = {
        **task_identity(task),
        "stream_id": order.content_id(),
        "method": method if isinstance(method, str) else kind.__name__,
        "variant": adapter.variant,
        "code_version": kind.code_version,
        "hyper": adapter.hyper,
        **subject.about,
        "outputs": list(task.labels),
        "batch": batch_size,
        "seed": seed,
        "resets": adapter.resets,
        "seconds": time.monotonic() - begun,
    }
    result = Adaptation(task, about, order, predicted, scores, history)
    if folder is not None:
        result.save(folder)
    return result


def _streamed(
    adapter: Adapter,
    batches: Sequence[IntArray],
    read: Callable[[], Iterator[Tensor]],
    order: Ordered,
    stream: Stream,
    seed: int,
) -> Iterator[tuple[int, IntArray, Floats, dict[str, Any]]]:
    """Yield the logits of each batch of each round, with its entry of the history."""
    step = 0
    for number in range(stream.rounds):
        last = None
        for positions, x in zip(batches, read(), strict=True):
            segment = int(order.segment[positions[0]])
            begins = stream.setting == "online" and segment != last
            if step and (begins or stream.setting == "episodic"):
                adapter.reset()
            torch.manual_seed(hash64(seed, "baselines", "stream", step))
            logits = _predicted(adapter, x).float().cpu()
            if not logits.isfinite().all():
                raise DivergedError(f"the logits of step {step + 1} are not finite: lower the rate")
            entry = {
                "round": number,
                "segment": order.segments[segment],
                "rows": len(positions),
                "entropy": float(losses.tent(logits)),
                "resets": adapter.resets,
            }
            yield number, positions, logits.numpy(), entry
            last, step = segment, step + 1


def _predicted(adapter: Adapter, x: Tensor) -> Tensor:
    try:
        return adapter.predict(x)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            "batch norm has no statistics of a batch of one row: take a larger batch_size, or a network "
            "whose norms are of each row"
        ) from error
