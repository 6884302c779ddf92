"""Pages of results served with the datasets: predictions, reports, leaderboards, as they are."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from shiftdata.errors import InputError, ShiftdataError
from shiftdata.evaluation.pages.shell import data_script
from shiftdata.serve.folders import open_below
from shiftdata.serve.names import no_entry
from shiftdata.serve.pages import RECORD
from shiftdata.serve.request import mirror_of, part, visible_repos

#: Files of a page of results; nothing else in its folder is sent.
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".webp": "image/webp"}
PLACE = "data/place.js"


def read_results(places: Sequence[Path]) -> dict[str, Path]:
    """Return folders of `shiftdata evaluate --page`, and HTML files of reports and leaderboards, by name."""
    results: dict[str, Path] = {}
    for place in places:
        name = place.resolve().name
        if not ((place / RECORD).is_file() or (place.suffix == ".html" and place.is_file())):
            raise InputError(
                f"--results {place}: give a folder of `shiftdata evaluate --page`, or a report's HTML file"
            )
        if name in results:
            raise InputError(f"--results {place}: there are two called {name}: give one of them another name")
        results[name] = place.resolve()
    return results


def listed(request: Request) -> list[dict[str, Any]]:
    """Return the records of results for the front page."""
    records: list[dict[str, Any]] = []
    for name, place in mirror_of(request).results.items():
        if place.is_dir():
            record = json.loads((place / RECORD).read_text(encoding="utf-8"))
            records.append(record | {"url": f"/results/{quote(name)}/index.html"})
        else:
            url = f"/results/{quote(name)}"
            records.append({"title": place.stem, "dataset": "", "task": "a report", "lines": [], "url": url})
    return records


def answer(request: Request) -> Response:
    """`/results/<name>` and `/results/<name>/<path>`: a file of a page of results."""
    name, path = part(request, "name"), part(request, "path")
    place = mirror_of(request).results.get(name)
    kind = KINDS.get(PurePosixPath(path or name).suffix)
    if place is None or kind is None or bool(path) != place.is_dir():
        raise no_entry(name)
    if path == PLACE:
        script = data_script("place", {"dataset": _pages_of(request, place), "live": True})
        return Response(script, media_type=kind)
    root, parts = (place, tuple(path.split("/"))) if path else (place.parent, (place.name,))
    if {"", ".", ".."} & set(parts):
        raise no_entry(path)
    try:
        with os.fdopen(open_below(root, parts), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise no_entry(path)
            data = file.read()
    except OSError:
        raise no_entry(path) from None
    return Response(data, media_type=kind, headers={"Cache-Control": "no-cache"})


def _pages_of(request: Request, place: Path) -> str:
    """Return the address of the dataset that predictions are about; "" if it is not served here."""
    content_id = json.loads((place / RECORD).read_text(encoding="utf-8"))["content_id"]
    for repo, commit in visible_repos(request):
        with suppress(ShiftdataError):
            dataset = mirror_of(request).live.dataset(repo, commit)
            if dataset is not None and dataset.manifest.content_id == content_id:
                return f"/datasets/{quote(f'{repo.owner}/{repo.name}')}/"
    return ""
