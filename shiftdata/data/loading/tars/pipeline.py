"""A pipeline of the `webdataset` library over samples that know their epoch and where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial as bound
from itertools import islice
from typing import Any

from webdataset import DataPipeline
from webdataset.compat import FluidInterface
from webdataset.filters import default_collation_fn

from shiftdata.data.loading.tars.samples import Iteration, Samples


class Pipeline(DataPipeline, FluidInterface):  # type: ignore[misc]  # the library has no types
    """An iterable dataset: `.map(...)`, `.to_tuple(...)`, `.batched(...)` and all else that the library has.

    Each iteration is the next epoch, in this process and in the workers of a `DataLoader`, persistent or not;
    `set_epoch` chooses one. State counts samples as they leave the source: stages that hold some back, such
    as the library's own `.shuffle`, lose these when it is resumed; `.batched` holds back none.
    """

    @property
    def samples(self) -> Samples:
        """Where the samples come from."""
        source: Samples = self.pipeline[0]
        return source

    def __iter__(self) -> Iterator[Any]:
        # Now, not with the first sample: the workers of a loader take the epoch as they are started.
        epochs = self._epochs(self.samples.begin())
        return islice(epochs, self.nsamples) if self.repetitions != 1 and self.nsamples > 0 else epochs

    def _epochs(self, now: Iteration | None) -> Iterator[Any]:
        for _ in range(self.repetitions):
            stream: Any = self.samples(now or self.samples.begin())
            for step in self.pipeline[1:]:
                stream = self.invoke(step, stream)
            empty = True
            for sample in stream:
                empty = False
                yield sample
            if empty:
                return
            now = None

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Choose the epoch of the next iteration, workers' too, and the sample of this rank it starts from.

        With workers, `start` counts whole batches of `batch_size`, and they are as many as before.
        """
        self.samples.set_epoch(epoch, start)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is, fit for JSON: after the sample that was handed out last.

        In the workers of torchdata's `StatefulDataLoader`, each has a state of its own.
        """
        return self.samples.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the sample at which the state was taken."""
        self.samples.load_state_dict(state)

    def batched(
        self,
        batchsize: int,
        collation_fn: Callable[[list[Any]], Any] | None = default_collation_fn,
        partial: bool = True,
    ) -> Pipeline:
        """Batches of a size, as the library makes them; workers share whole ones."""
        made: Pipeline = self.compose(bound(_batches, size=batchsize, collate=collation_fn, partial=partial))
        made.pipeline[0] = self.samples.in_batches(batchsize)
        return made

    def listed(self, batchsize: int, partial: bool = True) -> Pipeline:
        """Lists of a size."""
        return self.batched(batchsize, None, partial)


def _batches(
    samples: Iterable[Any], *, size: int, collate: Callable[[list[Any]], Any] | None, partial: bool
) -> Iterator[Any]:
    """Hand out a batch with its last sample; the library's own function first asks for the next one."""
    batch: list[Any] = []
    for sample in samples:
        batch.append(sample)
        if len(batch) == size:
            yield batch if collate is None else collate(batch)
            batch = []
    if batch and partial:
        yield batch if collate is None else collate(batch)
