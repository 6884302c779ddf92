"""Batches under way: threads decode parts of a batch, and the last to finish puts it together.

All threads are at work on the batch that is due next. It comes sooner than if each thread made a batch of its
own, few batches are in memory, and at the end of an epoch no thread is left with a whole one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from shiftdata.data.loading.batches.arrays import (
    Arrays,
    PinnedArrays,
    channels_first,
    gpu,
    pinned,
    stacked,
    tensor,
    torch_or_none,
)
from shiftdata.data.loading.batches.decode import Pixels
from shiftdata.data.loading.batches.examples import Examples, Job
from shiftdata.errors import InputError

#: x, y (unless labels are hidden), and what else is known of each example.
Batch: TypeAlias = tuple[Any, ...]
#: The examples of a part are located and checked together, which takes 0.1 ms: a fourth of one's decoding.
LEAST = 8
#: The batches that may be under way, so that a caller who pauses finds some.
UNDER_WAY = 4


@dataclass(eq=False)
class Underway:
    """A batch of which `left` parts are not done; the last of them sets `batch`."""

    job: Job
    read: Callable[[slice], list[Any]]
    epoch: int
    left: int
    arrays: Arrays | PinnedArrays
    x: list[Any]
    is_begun: bool = False
    #: The array of all pictures, and its tensor.
    memory: tuple[Pixels, Any] | None = None
    batch: Batch = ()
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> Batch:
        """Return the batch and forget it: then its memory is the caller's alone."""
        batch, self.batch, self.x, self.memory = self.batch, (), [], None
        return batch


#: A batch, and which of its examples.
Part: TypeAlias = tuple[Underway, slice]


class Assembler:
    """Makes batches of examples part by part, pictures of one size straight into the memory of the batch.

    With `pin`, tensors lie in memory that is pinned for the GPU of the thread that asks for `parts`.
    """

    def __init__(self, examples: Examples, *, pin: bool = False) -> None:
        self.examples, self._pin = examples, pin
        self._gpu: int | None = None
        #: Of the pictures of the batch made last: the next are expected to have it too.
        self._shape: tuple[int, ...] | None = None

    def parts(
        self, jobs: Iterable[tuple[Job, Callable[[slice], list[Any]]]], epoch: int, workers: int
    ) -> Iterator[Part]:
        """Cut each batch into parts for some threads."""
        self._gpu = gpu() if self._pin else None
        arrays = Arrays(UNDER_WAY + 2) if self._gpu is None else PinnedArrays()
        for job, read in jobs:
            size = len(job[0])
            # What lies in memory is taken at once, texts and tables are read by row group.
            whole = self.examples.modality != "image" or self.examples.are_lines
            count = 1 if whole else max(1, min(workers, size // LEAST))
            underway = Underway(job, read, epoch, count, arrays, [None] * size)
            cuts = [size * number // count for number in range(count + 1)]
            for begin, end in pairwise(cuts):
                yield underway, slice(begin, end)

    def make(self, part: Part) -> Underway | None:
        """Decode and transform a part; return the batch with its last part, when all others are done too."""
        underway, where = part
        if self._gpu is not None:  # else memory would be pinned for the first GPU
            torch_or_none().cuda.set_device(self._gpu)
        if not self.examples.are_lines:
            self._decode(underway, where)
        with underway.lock:
            underway.left -= 1
            is_last = not underway.left
        if is_last:
            underway.batch = self._batch(underway)
        return underway if where.stop == len(underway.job[0]) else None

    def _decode(self, underway: Underway, where: slice) -> None:
        examples, (wanted, times) = self.examples, underway.job
        pixels = self._memory(underway)
        for place, data in zip(range(where.start, where.stop), underway.read(where), strict=True):
            x = examples.decoded(wanted[place], data, None if pixels is None else pixels[place])
            underway.x[place] = examples.transformed(x, wanted[place], times[place], underway.epoch)

    def _memory(self, underway: Underway) -> Pixels | None:
        """Return the array of a batch; None if the shape was not known when its first part began."""
        with underway.lock:
            if not underway.is_begun and self._shape and self.examples.transform is None:
                underway.memory = underway.arrays.new(len(underway.x), *self._shape)
            underway.is_begun = True
        return underway.memory and underway.memory[0]

    def _x(self, underway: Underway) -> Any:
        """Return the x of a batch: pictures of one size in one tensor."""
        if (lines := self.examples.block(underway.job[0])) is not None:
            return channels_first(tensor(lines))
        x = underway.x
        if self.examples.transform is not None or self.examples.modality != "image":
            return stacked(x)
        shapes = {picture.shape for picture in x}
        if len(shapes) > 1:
            first, second, *_ = sorted(shapes)
            raise InputError(
                f"pictures differ in size, such as {first[:2]} and {second[:2]}: give size=(height, width)"
            )
        (self._shape,) = shapes
        if underway.memory is None or underway.memory[0].shape[1:] != self._shape:
            underway.memory = underway.arrays.new(len(x), *self._shape)
            np.stack(x, out=underway.memory[0])
        return channels_first(underway.memory[1])

    def _batch(self, underway: Underway) -> Batch:
        examples, wanted = self.examples, underway.job[0]
        x = self._placed(self._x(underway))
        known = {name: self._placed(tensor(column[wanted])) for name, column in examples.known.items()}
        if examples.labels is None:
            return x, known
        known["key"] = examples.keys(wanted)
        return x, self._placed(tensor(examples.labels[wanted])), known

    def _placed(self, value: Any) -> Any:
        return value if self._gpu is None else pinned(value)
