"""The examples of a set one by one, of a dataset or of an array: map-style datasets, as torch calls them."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from struct import pack
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.batches.arrays import Arrays
from shiftdata.data.loading.batches.decode import Pixels, Size, decode
from shiftdata.data.loading.byte_ranges import ExampleReader, read_ahead
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, IntegrityError
from shiftdata.stable import content_hash, hash64
from shiftdata.untrusted.texts import read_json

#: (x, y, what else is known), or where labels are hidden (x, what else is known).
Example: TypeAlias = tuple[Any, ...]
#: The examples of a batch, and how often each came before.
Job: TypeAlias = tuple[list[int], list[int]]
#: Batches whose memory is kept for the next ones.
SPARE = 2
#: Reads the examples of a part of a job.
ReadPart: TypeAlias = Callable[[slice], list[Any]]
#: Makes another x of one example's x, with a generator for what is random.
Transform: TypeAlias = Callable[[Any, np.random.Generator], Any]


class Examples:
    """The examples of some rows of the metadata: `(x, y, metadata)` each, read when they are asked for.

    x is a uint8 array of height x width x 3, or a text, or a row's features in the order of `features`, as
    float32: categories by their numbers, NaN where a value is not known. Where some feature is a text, x is
    the list of the features as they are stored. With `decode=False` x is the encoded bytes. y is the label's
    number, by `remapped` if that is given. `metadata` has key, group, nuisance and position: the row in
    `task.table(...)`. torch's DataLoader takes it as it is, with workers too. `reader` is one with options of
    its own.

    `names` has the names of labels, nuisances and groups by their numbers. Where `hashes` of the keys are
    given, labels are hidden: examples are `(x, metadata)` with key (the hash), nuisance and position.

    `transform` gets x and a generator keyed by seed, epoch, example, and how often the example came before in
    this epoch. `set_epoch` says which epoch it is, before workers start: then x is what a `Loader` of the
    same seed hands out. Without it, worker processes draw by the seed that torch gives them in each epoch.
    """

    def __init__(
        self,
        metadata: Metadata,
        indices: IntArray,
        counts: IntArray | None = None,
        *,
        hashes: IntArray | None = None,
        remapped: IntArray | None = None,
        reader: ExampleReader | None = None,
        transform: Transform | None = None,
        seed: int = 0,
        size: int | Size | None = None,
        decode: bool = True,
        names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        dataset = metadata.with_examples()
        self.reader = reader or ExampleReader(dataset, metadata.base)
        if (self.reader.dataset.sha256, self.reader.base) != (dataset.sha256, metadata.base):
            raise InputError(
                f"the reader is of {self.reader.dataset!r}, base {self.reader.base}, and the task of "
                f"{dataset!r}, base {metadata.base}: make the reader from `task.metadata.dataset`"
            )
        self.names = dict(names or {})
        self.name, self.modality = metadata.name, dataset.manifest.roles.modality
        #: The type of each feature of a table, or the names of its categories, in the order of x.
        self.features = dict(dataset.manifest.roles.example) if self.modality == "table" else {}
        self.transform, self.seed, self._decode = transform, seed, decode
        self.size = _size(size, self.modality if decode else "encoded bytes")
        positions = np.repeat(np.arange(len(indices)), 1 if counts is None else counts)
        self._rows = indices[positions]  # not public: neighbours in a file are of one group
        self.known = {"nuisance": metadata.nuisance[self._rows].astype(np.int64), "position": positions}
        self.labels: IntArray | None = None
        if hashes is not None:
            self.known["key"] = hashes[positions]
        else:
            label = metadata.label[self._rows].astype(np.int64)
            self.labels = label if remapped is None else remapped[label]
            self.known["group"] = metadata.group[self._rows].astype(np.int64)
            self._keys = metadata.keys(self._rows)
        self._epoch: int | None = None
        self._times = np.zeros(len(self) if transform else 0, np.int32)
        self._arrays, self._shape = Arrays(SPARE), tuple[int, ...]()

    def __repr__(self) -> str:
        labels = "labels hidden" if self.labels is None else f"{len(np.unique(self.labels)):,} labels"
        return f"<{type(self).__name__}: {len(self):,} of {self.name}, {labels}>"

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Example:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Example]:
        data = self.read(numbers)
        x = self._decoded(numbers, data) if self._decode else data
        epoch, times = self._drawing(), self.times(numbers, self._times)
        x = [self.transformed(*each, epoch) for each in zip(x, numbers, times, strict=True)]
        columns = {name: column[numbers].tolist() for name, column in self.known.items()}
        if self.labels is None:
            return list(zip(x, _rows_of(columns), strict=True))
        y = self.labels[numbers].tolist()
        return list(zip(x, y, _rows_of({"key": self.keys(numbers), **columns}), strict=True))

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next examples are of: `transform` draws by it."""
        self._epoch = epoch
        self._times[:] = 0

    def read(self, numbers: Sequence[int]) -> list[Any]:
        """Return the stored bytes of some examples."""
        return self.reader.read(self._rows[numbers].tolist())

    def read_ahead(self, jobs: Iterable[Job]) -> Generator[tuple[Job, ReadPart]]:
        """Yield each job, and what reads some of its examples: from afar those of many jobs together."""
        if not self.reader.ahead:
            yield from ((job, partial(self._read_part, job)) for job in jobs)
            return
        with closing(read_ahead(self.reader, ((job, self._rows[job[0]]) for job in jobs))) as fetched:
            yield from ((job, _Shared(read)) for job, read in fetched)

    def _read_part(self, job: Job, part: slice) -> list[Any]:
        return self.read(job[0][part])

    @property
    def are_lines(self) -> bool:
        """True if `block` returns the x of several examples as one array."""
        return False

    def block(self, numbers: Sequence[int]) -> NDArray[Any] | None:
        """Return the x of several examples as one array, if they lie in memory and are not transformed."""
        return None

    def check_unchanged(self) -> None:
        """Refuse to go on where the dataset is another one now."""
        self.reader.check_unchanged()

    def close(self) -> None:
        self.reader.close()

    def keys(self, numbers: Sequence[int]) -> list[str]:
        """Return the keys of some examples; their hashes where labels are hidden."""
        if self.labels is None:
            return [f"{key:016x}" for key in self.known["key"][numbers].view(np.uint64).tolist()]
        keys: list[str] = self._keys.take(pa.array(numbers)).to_pylist()
        return keys

    def identity(self) -> int:
        """Hash the rows of these examples and the seed."""
        return hash64("examples", self.seed, content_hash(self._rows.tobytes()))

    def _named(self, number: int, error: Exception) -> IntegrityError:
        position = self.known["position"][number]
        row = f"position {position:,}" if self.labels is None else f"row {self._rows[number]:,}"
        return IntegrityError(
            f"{self.keys([number])[0]}, {row} of {self.name}: {error}. `shiftdata verify` "
            "checks every file; fetch or build the dataset again"
        )

    def times(self, numbers: Sequence[int], seen: NDArray[np.int32]) -> list[int]:
        """Count how often each example came before, by `seen`, which is brought up to date."""
        if self.transform is None:
            return [0] * len(numbers)
        times = []
        for number in numbers:
            times.append(int(seen[number]))
            seen[number] += 1
        return times

    def transformed(self, x: Any, number: int, times: int, epoch: int) -> Any:
        """Transform the x of an example that came `times` times before in an epoch."""
        if self.transform is None:
            return x
        return self.transform(x, self._draws.rng(epoch, number, times))

    @cached_property
    def _draws(self) -> Draws:
        return Draws(self.seed, "transform")

    def _drawing(self) -> int:
        """Return the epoch; a worker process without one takes torch's seed."""
        if self._epoch is None and (torch := sys.modules.get("torch.utils.data")):
            worker = torch.get_worker_info()
            return 0 if worker is None else int(worker.seed)
        return self._epoch or 0

    def _decoded(self, numbers: Sequence[int], data: Sequence[Any]) -> Sequence[Any]:
        """Decode some examples, pictures of the size of the last ones into memory that is used again.

        The system clears fresh memory, which costs a fifth of the decoding of a picture.
        """
        # Who keeps a picture that came alone does not keep memory for many.
        is_batch = self._shape and len(data) > 1
        pixels = self._arrays.array(len(data), *self._shape) if is_batch else [None] * len(data)
        x = [self.decoded(*each) for each in zip(numbers, data, pixels, strict=True)]
        if self.modality == "image":
            self._shape = x[-1].shape
        return x

    def decoded(self, number: int, data: Any, out: Pixels | None = None) -> Any:
        """Decode an example that was read; a picture is put into `out` if it fits."""
        if self.modality == "image":
            try:
                return decode(data, size=self.size, out=out)
            except IntegrityError as error:
                raise self._named(number, error) from error
        if self.modality == "text":
            return data.decode()
        values = read_json(data)
        return values if "string" in self.features.values() else np.array(values, np.float32)


def _rows_of(columns: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Make a dictionary of each row of some columns."""
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


class _Shared:
    """Reads the examples of a job when the first part of them is asked for."""

    def __init__(self, read: Callable[[], list[Any]]) -> None:
        self._read, self._data, self._lock = read, list[Any](), threading.Lock()

    def __call__(self, part: slice) -> list[Any]:
        with self._lock:
            self._data = self._data or self._read()
        return self._data[part]


class Draws:
    """Generators keyed by names, such as a seed and a purpose, and by numbers.

    `stable.rng` takes 12 us, most of it in numpy's `SeedSequence`, which spreads a poor seed over the
    generator's state. A hash is spread already, so its bytes are the state.
    """

    def __init__(self, *names: str | int) -> None:
        self._key = hash64(*names).to_bytes(8, "big")

    def rng(self, *numbers: int) -> np.random.Generator:
        """Make the generator of some numbers from 0 to 2**64 - 1."""
        data = pack(f"<{len(numbers)}Q", *numbers)
        state: Any = _Hash(hashlib.blake2b(data, key=self._key, digest_size=32).digest())
        return np.random.Generator(np.random.PCG64(state))


class _Hash(ISeedSequence):
    """Hand a hash to a bit generator as its state."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        return np.frombuffer(self._digest, dtype, n_words)


def _size(given: int | tuple[int, int] | None, what: str) -> Size | None:
    size = (given, given) if isinstance(given, int) else given
    if size is not None and (len([*size]) != 2 or min(size) < 1):
        raise InputError(f"size is a height and a width in pixels, or one number for both; got {given}")
    if size is not None and what != "image":
        raise InputError(f"size is for pictures that are decoded, and these are {what}: leave it out")
    return size


class Lines(Examples):
    """The lines `rows` of an array, which has one for each row of the base: features, numbers or pixels.

    `known` are columns with an entry for each of the rows, `labels` their labels. Pixels are uint8, lines x
    height x width x 3. What the array holds is not part of a loader's identity.
    """

    def __init__(
        self,
        array: NDArray[Any],
        rows: IntArray,
        *,
        labels: IntArray | None = None,
        keys: pa.Array | None = None,
        known: Mapping[str, IntArray] | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        transform: Transform | None = None,
        seed: int = 0,
    ) -> None:
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(array):
            raise InputError(f"rows {rows.min()} to {rows.max()} of an array of {len(array):,} lines")
        self.array, self._rows, self.labels, self._keys = array, rows, labels, keys
        self.known = {"position": np.arange(len(rows)), **(known or {})}
        self.names, self.features = dict(names or {}), {}
        self.name, self.modality = "an array", "image" if array.ndim == 4 else "table"
        self.transform, self.seed, self.size = transform, seed, None
        self._epoch, self._times, self._decode = None, np.zeros(len(rows), np.int32), True

    def identity(self) -> int:
        shape, kind = str(self.array.shape[1:]), str(self.array.dtype)
        return hash64("lines", self.seed, self.name, shape, kind, content_hash(self._rows.tobytes()))

    def keys(self, numbers: Sequence[int]) -> list[str]:
        if self._keys is None and "key" not in self.known:
            return [str(row) for row in self._rows[numbers]]
        return super().keys(numbers)

    @property
    def are_lines(self) -> bool:
        return self.transform is None

    def block(self, numbers: Sequence[int]) -> NDArray[Any] | None:
        return np.take(self.array, self._rows[numbers], axis=0) if self.are_lines else None

    def read(self, numbers: Sequence[int]) -> list[Any]:
        return list(np.take(self.array, self._rows[numbers], axis=0))

    def read_ahead(self, jobs: Iterable[Job]) -> Generator[tuple[Job, ReadPart]]:
        return ((job, partial(self._read_part, job)) for job in jobs)

    def _decoded(self, numbers: Sequence[int], data: Sequence[Any]) -> Sequence[Any]:
        return data

    def decoded(self, number: int, data: Any, out: Any = None) -> Any:
        return data

    def check_unchanged(self) -> None:
        """Do nothing: the array is the caller's."""

    def close(self) -> None:
        """Do nothing: no file is open."""
