"""What models read: the examples of some rows of a base, read once, and kept in memory or in files."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import PIL
from numpy.typing import NDArray

from shiftdata.baselines.features import FeatureCache
from shiftdata.baselines.frozen import PRETRAINING, FrozenFeatures, fingerprint
from shiftdata.baselines.models import Floats
from shiftdata.errors import InputError, not_found
from shiftdata.loading.batches import Examples, Loader
from shiftdata.metadata import Metadata
from shiftdata.metrics.arrays import IntArray

#: How a model begins: all of it is trained, or a linear layer on the features of a network that is not.
Mode: TypeAlias = Literal["scratch", "frozen"]
MODES: tuple[Mode, ...] = ("scratch", "frozen")
#: How examples are read: for either, and texts also as their bytes, or as they are.
Form: TypeAlias = Literal["scratch", "frozen", "bytes", "texts"]

SIDE = 40  # pixels of a picture for a network that is trained
FROZEN_SIDE = 96  # and for one that is not
GRAMS = (1, 2, 3, 4)  # characters
BUCKETS = 4096
LENGTH = 256  # bytes of a text that are read
BATCH = 256
#: Raised with every change of inputs that are not frozen features.
INPUTS_VERSION = 1


@dataclass(frozen=True, eq=False)
class Inputs:
    """The examples of some rows: `x` has uint8 pixels (n x height x width x 3) or features (n x numbers).

    `place` has the position in `x` of each row of the base, -1 for a row that was not read. `x` may be a map
    of a file that has room for more rows: take rows by their positions. `pretraining` says what the network
    has seen whose features these are.
    """

    x: NDArray[Any]
    place: IntArray
    pretraining: str = ""

    @property
    def is_pictures(self) -> bool:
        return self.x.ndim == 4

    def positions(self, rows: IntArray) -> IntArray:
        """Where some rows of the base are in `x`."""
        places: IntArray = self.place[rows]
        if (places < 0).any():
            raise InputError(
                f"{(places < 0).sum():,} of {len(rows):,} rows were not read: give them to read_inputs too"
            )
        return places

    def followed_by(self, other: Inputs) -> Inputs:
        """With the examples of another base: its row r is row len(self.place) + r."""
        mine, others = self._in_memory(), other._in_memory()
        place = np.where(others.place < 0, -1, others.place + len(mine.x))
        return Inputs(
            np.concatenate([mine.x, others.x]), np.concatenate([mine.place, place]), self.pretraining
        )

    def _in_memory(self) -> Inputs:
        """Only what was read, of a file that has room for all rows."""
        if not isinstance(self.x, np.memmap):
            return self
        read = self.place >= 0
        used, which = np.unique(self.place[read], return_inverse=True)
        place = np.full_like(self.place, -1)
        place[read] = which
        return Inputs(self.x[used], place, self.pretraining)


def read_inputs(
    metadata: Metadata,
    mode: Form,
    *rows: IntArray,
    side: int = SIDE,
    cache: bool | str | Path | None = None,
    on_rows: Callable[[int], object] = int,
) -> Inputs:
    """Read the examples of some rows of a base.

    Pictures become pixels of one small size, or ("frozen") the features of EfficientNet-Lite0. Texts become
    hashed n-grams of characters, tables their numbers, with a column for each category; neither has "frozen"
    features. With `cache` they are kept in the user's cache folder, or in the one given, and computed only
    where they are not there; by default frozen features are. `on_rows` gets how many rows were read since its
    last call.
    """
    wanted = np.unique(np.concatenate([np.zeros(0, np.int64), *rows]))
    modality = _modality(metadata, mode, len(wanted))
    # By the first row that shows a picture: untouched ones start many trajectories.
    first, which = np.unique(metadata.picture[wanted], return_inverse=True)
    size = (FROZEN_SIDE if mode == "frozen" else side) if modality == "image" else None
    kept = _cache(metadata, mode, size, cache)
    x, where = _kept_or_made(metadata, mode, size, first, kept, on_rows)
    place = np.full(len(metadata), -1)
    place[wanted] = where[which]
    return Inputs(x, place, PRETRAINING if mode == "frozen" else "")


def _modality(metadata: Metadata, mode: Form, wanted: int) -> str:
    """What the examples are, if they can be read so."""
    if mode not in get_args(Form):
        raise not_found("mode", mode, get_args(Form))
    if not wanted:
        raise InputError(f"no rows of {metadata.name} were given: give rows, such as task.rows('train')")
    modality = "table" if metadata.dataset is None else str(metadata.dataset.manifest.roles.modality)
    if mode == "frozen" and modality != "image":
        raise InputError(f"{metadata.name} has no pictures, so it lacks frozen features: use 'scratch'")
    if mode in ("bytes", "texts") and modality != "text":
        raise InputError(f"{metadata.name} is of the modality {modality}, and {mode!r} is for texts")
    return modality


def _cache(
    metadata: Metadata, mode: Form, size: int | None, cache: bool | str | Path | None
) -> FeatureCache | None:
    """Where such inputs of that base are kept, if they are."""
    if cache is None:
        cache = mode == "frozen"
    opened = metadata.dataset
    if cache is False or opened is None or mode == "texts":  # a table of one's own has no identity
        return None
    about = {
        "content_id": opened.manifest.base(metadata.base).content_id,
        "base": metadata.base,
        "mode": mode,
        "side": size,
        "made_by": fingerprint() if mode == "frozen" else f"{INPUTS_VERSION} pillow {PIL.__version__}",
    }
    return FeatureCache(None if cache is True else Path(cache), about, len(metadata))


def _kept_or_made(
    metadata: Metadata,
    mode: Form,
    size: int | None,
    rows: IntArray,
    kept: FeatureCache | None,
    on_rows: Callable[[int], object],
) -> tuple[NDArray[Any], IntArray]:
    """The inputs of some rows, and where each is among them."""
    new = rows if kept is None else rows[kept.missing(rows)]
    if len(new) < len(rows):
        on_rows(len(rows) - len(new))
    made, not_kept = [], []
    if len(new):
        examples = Examples(metadata, new, size=size)
        describe = _described(examples, mode)
        # Every process reads all rows: it trains on batches that all of them draw, and caches what it read.
        for x, _, known in Loader(examples, None, batch_size=BATCH, rank=0, world=1):
            one, some = describe(x), new[np.asarray(known["position"])]
            if kept is None or not kept.put(some, one):
                made.append(one)
                not_kept.append(some)
            on_rows(len(some))
    if kept is None:
        return np.concatenate(made), np.argsort(np.concatenate(not_kept))  # of sorted rows
    lost = np.setdiff1d(rows[kept.missing(rows)], np.concatenate([rows[:0], *not_kept]))
    if len(lost):  # another process has thrown them away meanwhile
        return _kept_or_made(metadata, mode, size, rows, None, lambda _: None)
    if not made and kept.x is not None:
        return kept.x, rows
    return _together(kept, rows, np.concatenate(not_kept), np.concatenate(made))


def _together(
    kept: FeatureCache, rows: IntArray, new: IntArray, made: NDArray[Any]
) -> tuple[NDArray[Any], IntArray]:
    """In memory, what was made and could not be kept, and the rest from the files."""
    x = np.empty((len(rows), *made.shape[1:]), made.dtype)
    is_new = np.isin(rows, new)
    x[np.searchsorted(rows, new)] = made
    if kept.x is not None and not is_new.all():
        x[~is_new] = kept.x[rows[~is_new]]
    return x, np.arange(len(rows))


def _described(examples: Examples, mode: Form) -> Callable[[Any], NDArray[Any]]:
    """What makes the inputs of a batch of examples."""
    if examples.modality == "text":
        describe_text = {"bytes": text_bytes, "texts": lambda texts: np.array(list(texts), object)}
        return describe_text.get(mode, hashed_ngrams)
    if examples.modality == "image":
        describe: Callable[[Any], NDArray[Any]] = FrozenFeatures() if mode == "frozen" else np.array
        return lambda x: describe(x.permute(0, 2, 3, 1).numpy())  # torch is here: models need it
    features = list(examples.features.values())
    if all(feature == "string" for feature in features):
        raise InputError(
            f"{examples.name} has only texts as features: none of them is a number to learn from"
        )
    return lambda rows: np.concatenate(
        [_column(feature, rows, at) for at, feature in enumerate(features)], axis=1
    )


def _column(feature: Any, rows: Any, at: int) -> Floats:
    """A feature as columns: its number, one column a category, none for a text."""
    if feature == "string":
        return np.zeros((len(rows), 0), np.float32)
    values = np.array([row[at] for row in rows], np.float32)
    if isinstance(feature, str):
        return values[:, None]
    return np.equal(values[:, None], np.arange(len(feature))).astype(np.float32)


def text_bytes(texts: Iterable[str]) -> NDArray[np.uint8]:
    """The first bytes of each text, 0 after its end."""
    rows = [text.encode()[:LENGTH] for text in texts]
    return np.stack([np.frombuffer(one.ljust(LENGTH, b"\0"), np.uint8) for one in rows])


def hashed_ngrams(texts: Iterable[str]) -> Floats:
    """How often each text has each n-gram of characters, by hash, as logarithms, each row of length 1."""
    rows = []
    for text in texts:
        row = np.zeros(BUCKETS, np.float32)
        for bucket, times in Counter(_buckets(f" {text.lower()} ")).items():
            row[bucket] = np.log1p(times)
        rows.append(row / max(float(np.linalg.norm(row)), 1e-6))
    return np.stack(rows)


def _buckets(text: str) -> Sequence[int]:
    return [
        zlib.crc32(text[at : at + size].encode()) % BUCKETS
        for size in GRAMS
        for at in range(len(text) - size + 1)
    ]
