"""Sources of x: lines of an array, or pictures and texts that are decoded when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.batches import Examples, Lines, Loader
from shiftdata.data.loading.batches.examples import Transform
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.features import pixels_of
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError

#: Features, or counts of n-grams in texts, or the columns of a table.
LinesAre: TypeAlias = Literal["features", "counts", "columns"]
#: Bytes of a base's pictures up to which decoded pixels are kept on this machine, for later epochs and runs.
DECODED = 256 << 20
#: Rows that are predicted at a time, and bytes of their pixels at most.
CHUNK, CHUNK_BYTES = 512, 16 << 20


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of a base for a loader.

    Either `array` has a line for each row of the base (`line_of` says which, if not the row's own number):
    numbers, of which `lines_are` says what they are, or pixels as uint8. Or `metadata` names examples, which
    are decoded as they are asked for, pictures in the height and width `size`. `pretraining` names
    the weights of the network whose features these are.
    """

    array: NDArray[Any] | None = None
    metadata: Metadata | None = None
    size: int | tuple[int, int] | None = None
    pretraining: str = ""
    line_of: IntArray | None = None
    lines_are: LinesAre = "features"

    def loader(
        self,
        rows: IntArray,
        sampler: Any = None,
        *,
        transform: Transform | None = None,
        seed: int = 0,
        **options: Any,
    ) -> Loader:
        """Load rows of the base; batches are (x, metadata), whose `position` is the place among the rows."""
        if self.array is not None:
            lines = rows if self.line_of is None else self.line_of[rows]
            if (lines < 0).any():
                raise InputError(f"{(lines < 0).sum():,} of {len(rows):,} rows have no line in the array")
            if transform is None:
                options["workers"] = 0  # a line is taken sooner than a thread is asked
            return Loader(Lines(self.array, lines, transform=transform, seed=seed), sampler, **options)
        assert self.metadata is not None
        given: dict[str, Any] = {"transform": transform, "seed": seed}
        if self.is_pictures and len(self.metadata) * int(np.prod(self.shape)) <= DECODED:
            pixels = pixels_of(self.metadata, rows, size=self.size)
            return Loader(Lines(pixels, self.metadata.picture[rows], **given), sampler, **options)
        # Nobody here reads keys or labels: rows replace the hashes of keys.
        examples = Examples(self.metadata, rows, hashes=rows, reader=self._reader, size=self.size, **given)
        return Loader(examples, sampler, **options)

    def lines(self, rows: IntArray) -> NDArray[Any] | None:
        """Return the lines of rows of the base, where they are features or numbers."""
        if self.array is None or self.array.ndim != 2:
            return None
        return self.array[rows if self.line_of is None else self.line_of[rows]]

    @property
    def is_pictures(self) -> bool:
        """True if x has pixels."""
        return self.size is not None if self.array is None else self.array.ndim == 4

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row's x, in the order of its storage; of texts empty."""
        if self.array is not None:
            return self.array.shape[1:]
        height, width = self.size if isinstance(self.size, tuple) else (self.size, self.size)
        return () if height is None or width is None else (height, width, 3)

    @property
    def chunk(self) -> int:
        """Rows to predict at a time."""
        return max(1, min(CHUNK, CHUNK_BYTES // int(np.prod(self.shape)))) if self.is_pictures else CHUNK

    @cached_property
    def _reader(self) -> ExampleReader:
        assert self.metadata is not None  # there is no array
        assert self.metadata.dataset is not None  # a table of one's own has no examples to decode
        return ExampleReader(self.metadata.dataset, self.metadata.base)
