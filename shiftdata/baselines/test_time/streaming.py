"""`adapt`: a trained network over the stream of a task, as predictions with their curves over steps."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.models import Floats
from shiftdata.baselines.prediction import Prediction, task_identity
from shiftdata.baselines.pretrained.model import Pretrained
from shiftdata.baselines.run import Run
from shiftdata.baselines.test_time import Adapter, adapter_class
from shiftdata.baselines.test_time.adapter import View
from shiftdata.baselines.test_time.subjects import subject_of
from shiftdata.baselines.training import DivergedError
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.stream import Ordered, Stream, stream_of
from shiftdata.evaluation.tasks import Task
from shiftdata.progress import shows
from shiftdata.stable import hash64
from shiftdata.tables import Block, Table
from shiftdata.threads import torch_threads

if TYPE_CHECKING:
    from PIL import Image

#: Points of a curve at most.
POINTS = 40


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Adaptation(Prediction):
    """The predictions of the last round of a stream, and its course.

    `streamed` has a line a round of label numbers, in the order of the stream; `history` an entry a batch:
    round, segment, rows, mean entropy, and how often the network has begun again.
    """

    order: Ordered
    streamed: IntArray

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Return for each round and row of the stream True if it is right."""
        mask: NDArray[np.bool_] = self.streamed == self.task.metadata.label[self.order.rows]
        return mask

    def curve(self) -> list[dict[str, Any]]:
        """Return `history` with the accuracy of each batch, of its segment so far, and of all so far."""
        correct, result, begin, first, last = self.correct.ravel(), list[dict[str, Any]](), 0, 0, None
        for entry in self.history:
            if (entry["segment"], entry["round"]) != last:
                first, last = begin, (entry["segment"], entry["round"])
            end = begin + entry["rows"]
            shares = {"accuracy": (begin, end), "segment_so_far": (first, end), "so_far": (0, end)}
            means = {name: float(correct[slice(*ends)].mean()) for name, ends in shares.items()}
            result.append({**entry, **means})
            begin = end
        return result

    def segments(self) -> dict[str, float]:
        """Return the accuracy of each segment in the last round."""
        hits, rows = np.bincount(self.order.segment, self.correct[-1]), np.bincount(self.order.segment)
        return dict(zip(self.order.segments, (hits / rows).tolist(), strict=True))

    def picture(self) -> Image.Image:
        """Draw accuracy and mean entropy over the steps, each point the mean of a stretch of batches."""
        from shiftdata.evaluation.charts import chart, drawn_figure

        stretches = np.array_split(np.arange(len(self.history)), min(POINTS, len(self.history)))
        curve, cells = self.curve(), {}
        for name in ("accuracy", "so_far", "entropy"):
            for steps in stretches:
                values, rows = zip(*((curve[step][name], curve[step]["rows"]) for step in steps), strict=True)
                cells[name, str(steps[-1] + 1)] = f"{np.average(values, weights=rows):.4f}"
        block = Block.of("step", cells)
        title = f"{self.about['method']}: {self.task.describe()} of {self.task.metadata.name}"
        return drawn_figure(chart([Table(title, (block,), drawn=(block,))]))

    def save(self, folder: str | Path) -> None:
        """Write run.json, stream.parquet, and keys, predictions and scores of each test set."""
        super().save(folder)
        stream = pa.concat_tables([self.order.table()] * len(self.streamed))
        stream = stream.set_column(0, "position", pa.array(np.arange(len(stream))))
        labels = pa.array(self.task.metadata.labels).take(pa.array(self.streamed.ravel()))
        pq.write_table(stream.append_column("prediction", labels), Path(folder) / "stream.parquet")


@shows("adapt", on_rows=" rows")
def adapt(
    task: Task,
    model: Run | Pretrained | str | Path,
    method: str | type[Adapter] = "tent",
    *,
    size: int | None = None,
    batch_size: int = 64,
    seed: int = 0,
    device: str = "cpu",
    view: View | None = None,
    folder: str | Path | None = None,
    on_rows: Callable[[int], object] = lambda rows: None,
    **hyper: float,
) -> Adaptation:
    """Stream the test of a task through a model that adapts, and return its predictions.

    The model's own network stays as it is. An interrupted stream starts again: its state is the network's.

    Args:
        task: a task with a stream, as of sd.task("cns_glyphs", "continuous stream setting=continual").
        model: a run of `train` or its folder; or a pretrained model with a classifier, or its name.
        method: a name of `test_time.ADAPTERS`, or an `Adapter` of your own.
        size: pixels of a side, of a pretrained model by its name.
        batch_size: rows of a step.
        seed: of views and draws; that of the order is the stream's.
        device: "cpu", "cuda", "cuda:1", "mps".
        view: makes another view of a batch of pictures, for the adapters that need views.
        folder: the predictions are saved there.
        on_rows: gets the number of rows that were predicted since its last call; default: a bar.
        hyper: hyper-parameters of the adapter.

    """
    stream = stream_of(task)
    subject, order = subject_of(task, model, size), stream.order_of(task)
    kind = adapter_class(method)
    if "pixels" in kind.needs and not subject.source.is_pictures:
        raise InputError(f"{kind.__name__} makes views of pictures, and the model reads features or texts")
    batches, begun = order.batches(batch_size), time.monotonic()
    streamed = np.empty((stream.rounds, len(order.rows)), np.int64)
    scores = np.empty((len(order.rows), len(task.label_ids)), np.float32)
    history = []
    with torch_threads(), torch.random.fork_rng(devices=[]):
        network = copy.deepcopy(subject.network).to(device)
        adapter = kind(network, view=view, **hyper)
        if "source" in kind.needs:
            cuts = range(batch_size, len(subject.known), batch_size)
            known = [part for part in np.split(np.arange(len(subject.known)), cuts) if len(part) > 1]
            adapter.remember(subject.read(subject.known, known, device))
        read = partial(subject.read, order.rows, batches, device)
        for number, at, logits, entry in _streamed(adapter, batches, read, order, stream, seed):
            streamed[number, at], scores[at] = task.label_ids[logits.argmax(1)], logits
            history.append(entry)
            on_rows(len(at))
    about = {
        **task_identity(task),
        "stream_id": order.content_id(),
        "method": method if isinstance(method, str) else kind.__name__,
        "code_version": kind.code_version,
        "hyper": adapter.hyper,
        **subject.about,
        "batch": batch_size,
        "seed": seed,
        "resets": adapter.resets,
        "seconds": time.monotonic() - begun,
    }
    at = np.argsort(order.rows)
    result = Adaptation(
        task=task, about=about, sets=[name for name, rows in task.sets.items() if rows.role == "test"],
        rows=order.rows[at], scores=scores[at], outputs=task.label_ids, history=history,
        order=order, streamed=streamed,
    )  # fmt: skip
    about["segments"] = result.segments()
    if folder is not None:
        result.save(folder)
    return result


def _streamed(
    adapter: Adapter, batches: Sequence[IntArray], read: Callable[[], Iterator[Tensor]], order: Ordered,
    stream: Stream, seed: int,
) -> Iterator[tuple[int, IntArray, Floats, dict[str, Any]]]:  # fmt: skip
    """Yield the logits of each batch of each round, with its entry of the history."""
    step = 0
    for number in range(stream.rounds):
        last = None
        for positions, x in zip(batches, read(), strict=True):
            segment = order.segments[order.segment[positions[0]]]
            begins = stream.setting == "online" and segment != last
            if step and (begins or stream.setting == "episodic"):
                adapter.reset()
            torch.manual_seed(hash64(seed, "baselines", "stream", step))
            try:
                logits = adapter.predict(x).float().cpu()
            except ValueError as error:
                if "more than 1 value per channel" not in str(error):
                    raise
                why = "batch norm has no statistics of a batch of one row: take a larger batch_size"
                raise InputError(f"{why}, or a network whose norms are of each row") from error
            if not logits.isfinite().all():
                raise DivergedError(f"the logits of step {step + 1} are not finite: lower the rate")
            entry = {"round": number, "segment": segment, "rows": len(positions)}
            entry |= {"entropy": float(losses.tent(logits)), "resets": adapter.resets}
            yield number, positions, logits.numpy(), entry
            last, step = segment, step + 1
