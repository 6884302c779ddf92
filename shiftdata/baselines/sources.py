"""What a network reads of a base's rows: lines of an array, or pictures and texts as they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from shiftdata.baselines.frozen import PRETRAINING, FrozenFeatures
from shiftdata.baselines.models import backbone_of, is_estimator
from shiftdata.errors import InputError, not_found
from shiftdata.format.schema import Feature
from shiftdata.loading.batches import Examples, Lines, Loader
from shiftdata.loading.batches.examples import Transform
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.loading.encodings import Columns, HashedNgrams, TextBytes
from shiftdata.loading.features import Encoder, features_of
from shiftdata.metadata import Metadata
from shiftdata.metrics.arrays import IntArray

#: How a model begins: all of it is trained, or a head on the features of a network that is not.
Mode: TypeAlias = Literal["scratch", "frozen"]
MODES: tuple[Mode, ...] = ("scratch", "frozen")
#: How examples are read: for either, and texts also as their bytes, or as they are.
Form: TypeAlias = Literal["scratch", "frozen", "bytes", "texts"]
SIDE = 40  # pixels of a picture for a network that is trained
#: Bytes of a base's pictures up to which decoded pixels are kept on this machine, for later epochs and runs.
DECODED = 512 << 20
#: Rows that are predicted at a time, and bytes of their pixels at most.
CHUNK, CHUNK_BYTES = 512, 16 << 20
#: The lines of each base that is in use, by what they are of: the runs of a sweep encode a text once.
_in_memory: WeakKeyDictionary[Metadata, tuple[tuple[str, bytes], NDArray[Any]]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of a base for a loader.

    Either `array` has a line for each row of the base (`line_of` says which, if not the row's own number):
    features, numbers, bytes of texts, or pixels as uint8. Or `metadata` names examples, which are decoded as
    they are asked for, pictures in the height and width `size`. `pretraining` says what the network has seen
    whose features these are.
    """

    array: NDArray[Any] | None = None
    metadata: Metadata | None = None
    size: int | None = None
    pretraining: str = ""
    line_of: IntArray | None = None

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
        # The rows stand for their keys: nobody here reads these, nor labels.
        examples = Examples(
            self._described,
            rows,
            hashes=rows,
            reader=self._reader,
            transform=transform,
            seed=seed,
            size=self.size,
        )
        return Loader(examples, sampler, decoded=self._is_small, **options)

    def lines(self, rows: IntArray) -> NDArray[Any] | None:
        """Return the lines of rows of the base, where they are features or numbers."""
        if self.array is None or self.array.ndim != 2 or self.array.dtype == np.uint8:
            return None
        return self.array[rows if self.line_of is None else self.line_of[rows]]

    @property
    def is_pictures(self) -> bool:
        """Whether x has pixels."""
        return self.size is not None if self.array is None else self.array.ndim == 4

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row's x, in the order of its storage; of texts empty."""
        if self.array is not None:
            return self.array.shape[1:]
        return () if self.size is None else (self.size, self.size, 3)

    @property
    def chunk(self) -> int:
        """How many rows to predict at a time."""
        return max(1, min(CHUNK, CHUNK_BYTES // int(np.prod(self.shape)))) if self.is_pictures else CHUNK

    @cached_property
    def _reader(self) -> ExampleReader:
        dataset = self._described.dataset
        assert dataset is not None  # a table of one's own has no examples to decode
        return ExampleReader(dataset, self._described.base)

    @property
    def _described(self) -> Metadata:
        assert self.metadata is not None  # there is no array
        return self.metadata

    @property
    def _is_small(self) -> bool:
        return self.is_pictures and len(self._described) * int(np.prod(self.shape)) <= DECODED


def form_of(metadata: Metadata, backbone: Any) -> tuple[Form, int]:
    """Return how a backbone reads examples, and pictures in what size."""
    modality = modality_of(metadata)
    if is_estimator(backbone):
        return ("frozen" if modality == "image" else "scratch"), SIDE
    about = backbone_of(backbone) if isinstance(backbone, str) else None
    if about is None or modality == "table":
        return "scratch", SIDE
    if modality == "text":
        forms: dict[str, Form] = {"bytes": "bytes", "texts": "texts"}
        return forms.get(about.reads, "scratch"), SIDE
    return ("frozen" if about.reads == "numbers" else "scratch"), about.side


def source_of(
    metadata: Metadata,
    form: Form,
    *rows: IntArray,
    side: int = SIDE,
    cache: bool | str | Path | None = None,
    on_rows: Callable[[int], object] = int,
) -> Source:
    """Return what reads rows of a base in a form.

    Pixels, and texts for a tokenizer, stream. Everything else has a line for each row, which is made now:
    frozen features of pictures, hashed n-grams or bytes of texts, columns of tables. The lines are kept in
    the user's cache folder (True) or another; by default those of frozen features are. `on_rows` gets how
    many lines became ready since its last call.
    """
    modality = modality_of(metadata)
    if form not in get_args(Form):
        raise not_found("form", form, get_args(Form))
    if (form == "frozen") > (modality == "image") or (form in ("bytes", "texts")) > (modality == "text"):
        fitting = "pictures" if form == "frozen" else "texts"
        raise InputError(f"{form!r} is for {fitting}, and {metadata.name} is of the modality {modality}")
    if (modality, form) in (("image", "scratch"), ("text", "texts")):
        return Source(metadata=metadata, size=side if modality == "image" else None)
    encoder: Encoder
    if form == "frozen":
        encoder = FrozenFeatures()
    elif modality == "text":
        encoder = TextBytes() if form == "bytes" else HashedNgrams()
    else:
        encoder = Columns(features_of_table(metadata))
    wanted = np.unique(np.concatenate([np.zeros(0, np.int64), *rows]))
    kept = form == "frozen" if cache is None else cache
    array = _lines_of(metadata, wanted, encoder, kept, on_rows)
    line_of = np.full(len(metadata), -1)
    line_of[wanted] = metadata.picture[wanted]
    return Source(array, pretraining=PRETRAINING if form == "frozen" else "", line_of=line_of)


def _lines_of(
    metadata: Metadata,
    rows: IntArray,
    encoder: Encoder,
    cache: bool | str | Path,
    on_rows: Callable[[int], object],
) -> NDArray[Any]:
    """Encode rows; without a cache on disk, take the lines of the last run of the same rows again."""
    if cache is not False:
        return features_of(metadata, rows, encoder, cache=cache, on_rows=on_rows)
    key = encoder.fingerprint, rows.tobytes()
    if metadata not in _in_memory or _in_memory[metadata][0] != key:
        _in_memory[metadata] = key, features_of(metadata, rows, encoder, cache=False, on_rows=on_rows)
    else:
        on_rows(len(rows))
    return _in_memory[metadata][1]


def modality_of(metadata: Metadata) -> str:
    """Return what the examples of a base are: image, text or table."""
    return "table" if metadata.dataset is None else str(metadata.dataset.manifest.roles.modality)


def features_of_table(metadata: Metadata) -> Mapping[str, Feature]:
    """Return the features of a table's examples."""
    if metadata.dataset is None:
        raise InputError(f"{metadata.name} is a table of your own, without examples: give features=ARRAY")
    return dict(metadata.dataset.manifest.roles.example)
