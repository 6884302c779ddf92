"""Sources of a backbone: pixels and texts as they stream, or features that are computed first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from shiftdata.baselines.models import backbone_of, is_estimator
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.schema import Feature
from shiftdata.data.loading.encodings import Columns, HashedNgrams, TextBytes
from shiftdata.data.loading.features import Encoder, features_of
from shiftdata.data.loading.frozen import PRETRAINING, FrozenFeatures
from shiftdata.data.loading.sources import Source as Source
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, not_found

#: The network is trained from scratch, or a head on the features of a frozen one.
Mode: TypeAlias = Literal["scratch", "frozen"]
MODES: tuple[Mode, ...] = ("scratch", "frozen")
#: The form in which examples are read: for either mode, and texts also as bytes or unchanged.
Form: TypeAlias = Literal["scratch", "frozen", "bytes", "texts"]
SIDE = 40  # pixels of a picture for a network that is trained


def form_of(metadata: Metadata, backbone: Any) -> tuple[Form, int]:
    """Return the form in which a backbone reads examples, and the side of pictures."""
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
    """Return the source of rows of a base in a form.

    Pixels, and texts for a tokenizer, stream. Everything else has a line for each row, computed now: frozen
    features of pictures, hashed n-grams or bytes of texts, columns of tables. Lines are cached in the user's
    cache folder (True) or another one; by default only frozen features are. `on_rows` gets the number of
    lines that became ready since its last call.
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
    array = features_of(
        metadata, wanted, encoder, cache=form == "frozen" if cache is None else cache, on_rows=on_rows
    )
    line_of = np.full(len(metadata), -1)
    line_of[wanted] = metadata.picture[wanted]
    return Source(array, pretraining=PRETRAINING if form == "frozen" else "", line_of=line_of)


def modality_of(metadata: Metadata) -> str:
    """Return the modality of a base: image, text or table."""
    return "table" if metadata.dataset is None else str(metadata.dataset.manifest.roles.modality)


def features_of_table(metadata: Metadata) -> Mapping[str, Feature]:
    """Return the features of a table's examples."""
    if metadata.dataset is None:
        raise InputError(f"{metadata.name} is a table of your own, without examples: give features=ARRAY")
    return dict(metadata.dataset.manifest.roles.example)
