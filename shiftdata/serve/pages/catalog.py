"""The front page: every dataset that is here, results on them, and the public datasets that can be built."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from PIL import Image

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.pages.shell import render
from shiftdata.serve.pages.pages import calibrated
from shiftdata.serve.pages.sprites import as_webp, opened_picture

#: The pictures of a card of which one stands on the front page.
PICTURES = ("preview.jpg", "groups.png")
#: The picture of a card, in pixels.
CARD = (480, 240)
REAL = "real_datasets.json"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A dataset on the front page; `picture` is the address of its picture, if it has one."""

    manifest: Manifest
    url: str
    repo_id: str
    picture: str = ""

    @property
    def shift(self) -> str:
        return self.manifest.family.replace("-", " ")

    @property
    def calibrated(self) -> str:
        return calibrated(self.manifest)

    @property
    def search(self) -> str:
        one = self.manifest
        texts = [one.name, one.title, one.summary, one.family, one.license]
        return " ".join([*texts, *one.labels[:200], *one.nuisances[:200]]).lower()


def catalog_page(
    entries: Sequence[Entry],
    *,
    root: str,
    index: str = "index.html",
    results: Sequence[Mapping[str, Any]] = (),
    others: Sequence[Mapping[str, Any]] = (),
    endpoint: str = "",
) -> str:
    """The front page. `others` are repos in other formats, `results` pages of predictions."""
    here = {one.manifest.name for one in entries}
    real = [one | {"state": "built here" if one["name"] in here else "to build"} for one in real_datasets()]
    return render(
        "catalog.html",
        root=root,
        index=index,
        entries=entries,
        shifts=sorted({one.shift for one in entries}),
        licences=sorted({one.manifest.license for one in entries}),
        real=real,
        results=results,
        others=others,
        endpoint=endpoint,
    )


def real_datasets() -> list[dict[str, Any]]:
    """The public datasets that recipes read from their authors' files, with what each needs."""
    text = files("shiftdata.serve.pages").joinpath(REAL).read_text(encoding="utf-8")
    known: list[dict[str, Any]] = json.loads(text)
    return known


def card_picture(dataset: OpenDataset) -> bytes | None:
    """A dataset's picture: the upper left of what its card shows, the first groups; None if it shows none."""
    known = [name for name in PICTURES if name in dataset.manifest.files]
    if not known:
        return None
    with opened_picture(dataset.read_file(known[0])) as opened:
        picture = opened.convert("RGB")
    width = min(picture.width, max(CARD[0], round(picture.width * 0.6)))
    part = picture.crop((0, 0, width, min(picture.height, width * CARD[1] // CARD[0])))
    part.thumbnail(CARD, Image.Resampling.LANCZOS)
    return as_webp(part)
