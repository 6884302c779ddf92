"""The front page: every dataset that is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.pages.shell import as_size, render
from shiftdata.serve.pages.sprites import as_webp
from shiftdata.untrusted.pictures import decoded_picture

#: Pictures of a card; the front page shows the first that exists.
PICTURES = ("preview.jpg", "groups.png")
#: The picture of a card, in pixels.
CARD = (480, 240)


#: Characters by which a dataset is found.
MOST_SEARCHED = 4000


def entry_of(known: Manifest, url: str, repo_id: str, picture: str = "") -> dict[str, str]:
    """Return what the front page shows of a dataset; `picture` is the address of its picture, or empty."""
    facts = f"{len(known.labels)} {known.roles.label}s, {len(known.nuisances)} {known.roles.nuisance}s"
    facts += f" in {len(known.severities)} severities" if len(known.severities) > 1 else ""
    facts += f"; {known.rows:,} rows, {as_size(known.bytes)}"
    facts += "" if known.pixels_included else "; splits only"
    texts = [known.name, known.title, known.summary, known.family, known.license]
    search = " ".join([*texts, *known.labels[:200], *known.nuisances[:200]]).lower()[:MOST_SEARCHED]
    return {
        "name": known.name,
        "title": known.title,
        "license": known.license,
        "facts": facts,
        "shift": known.family.replace("-", " "),
        "calibrated": str(known.calibration or ""),
        "url": url,
        "repo_id": repo_id,
        "picture": picture,
        "search": search,
    }


def catalog_page(
    entries: Sequence[Mapping[str, str]],
    *,
    root: str,
    index: str = "index.html",
    others: Sequence[tuple[str, Any]] = (),
    endpoint: str = "",
) -> str:
    """The front page. `others` are repos in other formats: the name of each, and its commit."""
    return render(
        "catalog.html",
        root=root,
        index=index,
        entries=entries,
        shifts=sorted({entry["shift"] for entry in entries}),
        licences=sorted({entry["license"] for entry in entries}),
        others=others,
        endpoint=endpoint,
    )


def card_picture(dataset: OpenDataset) -> bytes | None:
    """The upper left of the picture on a dataset's card, its first groups; None if the card has none."""
    name = next((name for name in PICTURES if name in dataset.manifest.files), None)
    if name is None:
        return None
    picture = decoded_picture(dataset.read_file(name), name=name)
    width = min(picture.width, max(CARD[0], round(picture.width * 0.6)))
    part = picture.crop((0, 0, width, min(picture.height, width * CARD[1] // CARD[0])))
    part.thumbnail(CARD, Image.Resampling.LANCZOS)
    return as_webp(part)
