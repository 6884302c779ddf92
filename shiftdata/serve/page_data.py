"""Answers to the scripts of the pages: rows, examples, counts of a task, pictures by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.errors import ChangedError, InputError, NotFoundError, ShiftdataError
from shiftdata.serve.library import Repo
from shiftdata.serve.names import Refusal
from shiftdata.serve.pages.counts import counts_of
from shiftdata.serve.pages.pages import cover
from shiftdata.serve.pages.rows import MOST_ROWS, Rows
from shiftdata.serve.pages.sprites import for_browser
from shiftdata.serve.repos import Commit
from shiftdata.serve.request import mirror_of, part, repo_of

#: Characters of the words of a task.
MOST_WORDS = 1000
#: A picture of more bytes goes to a wall of pictures as a smaller one.
SMALL = 24_000


def for_scripts(answer: Callable[[Request, Rows], Any]) -> Callable[[Request], Response]:
    """Make a route of a function of the rows of the base that the query names; it answers with JSON."""

    @wraps(answer)
    def route(request: Request) -> Response:
        try:
            _, _, dataset = opened_dataset(request)
            base = part(request, "base") or _text(request, "base") or dataset.manifest.default_base
            value = answer(request, Rows.of(dataset, base))
        except ChangedError as error:
            raise Refusal(409, str(error)) from None
        except NotFoundError as error:
            raise Refusal(404, str(error)) from None
        except ShiftdataError as error:
            raise Refusal(400, str(error)) from None
        if isinstance(value, Response):
            return value
        return JSONResponse(value, headers={"Cache-Control": "no-store"})

    return route


@for_scripts
def rows_json(request: Request, rows: Rows) -> Mapping[str, Any]:
    """`data/rows.json`: rows of a label, a nuisance, a split and a severity, a stretch of them."""
    chosen = rows.choose(
        label=_number(request, "label"),
        nuisance=_number(request, "nuisance"),
        split=_text(request, "split") or None,
        severity=_number(request, "severity", float),
    )
    first, count = _number(request, "from") or 0, _number(request, "count")
    count = MOST_ROWS if count is None else min(count, MOST_ROWS)
    if first < 0 or count < 0:
        raise InputError(f"from={first} and count={count} must be 0 or more")
    read = rows.details if _text(request, "full") == "1" else rows.listed
    return {"total": len(chosen), "rows": read(chosen[first : first + count])}


@for_scripts
def example_json(request: Request, rows: Rows) -> Mapping[str, Any]:
    """`data/example.json`: all that is known of one row, and the rows of its origin."""
    row = rows.row_of(_text(request, "key"))
    same = rows.appearances(row)
    return rows.details([row])[0] | {"total": len(same), "appearances": rows.listed(same[:MOST_ROWS])}


@for_scripts
def counts_json(request: Request, rows: Rows) -> Mapping[str, Any]:
    """`data/counts.json`: the groups of every set of a task."""
    words = _text(request, "task")
    if len(words) > MOST_WORDS:
        raise InputError(f"a task of {len(words):,} characters: at most {MOST_WORDS:,} are read")
    return counts_of(rows.dataset, rows.base, words)


@for_scripts
def picture(request: Request, rows: Rows) -> Response:
    """`data/picture/<base>/<row>`: one picture, by its bytes in the shard; with `side`, a small one of it."""
    _, commit = repo_at_head(request)
    row, side = request.path_params["row"], _number(request, "side") or 0
    if rows.modality != "image":
        raise InputError(f"{rows.dataset.manifest.name} has no pictures, but {rows.modality}s")
    data = rows.examples([row])[0]
    size = (SMALL, min(max(side, 16), 512)) if side else ()
    return picture_answer(request, commit, *for_browser(data, *size))


@for_scripts
def cover_image(request: Request, rows: Rows) -> Response:
    """`data/covers/<base>-<label>-<step>.webp`: the line of a label in the matrix."""
    _, commit = repo_at_head(request)
    label, step = request.path_params["label"], request.path_params["step"]
    if label >= len(rows.metadata.labels) or step >= max(1, len(rows.severities)):
        raise NotFoundError(f"label {label} at step {step} does not exist")
    data = rows.keep(("cover", label, step), lambda: cover(rows, label, step))
    return picture_answer(request, commit, data, "image/webp")


def repo_at_head(request: Request) -> tuple[Repo, Commit]:
    """Return the repo that the path names, if the caller may read it, and its newest commit."""
    repo = repo_of(request)
    return repo, repo.commit("main")


def opened_dataset(request: Request) -> tuple[Repo, Commit, OpenDataset]:
    """Return them with the dataset in them; a repo without one is refused."""
    repo, commit = repo_at_head(request)
    try:
        dataset = mirror_of(request).live.dataset(repo, commit)
    except ShiftdataError as error:
        raise Refusal(404, f"{repo.owner}/{repo.name} cannot be shown: {error}") from None
    if dataset is None:
        raise Refusal(404, f"{repo.owner}/{repo.name} has no {FILE_NAME}: it has no pages of groups")
    return repo, commit, dataset


def picture_answer(request: Request, commit: Commit, data: bytes, kind: str) -> Response:
    """Answer with bytes that no browser takes for a page; cached if the address names their commit."""
    version = _text(request, "v")
    if version and not commit.id.startswith(version):
        raise Refusal(409, "the dataset has changed: load the page again")
    keep = "private, max-age=86400" if version else "no-cache"
    headers = {"Cache-Control": keep, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return Response(data, media_type=kind, headers=headers)


def _text(request: Request, name: str) -> str:
    return request.query_params.get(name, "")


def _number(request: Request, name: str, kind: Callable[[str], Any] = int) -> Any:
    text = _text(request, name)
    if not text:
        return None
    try:
        return kind(text[:30])
    except ValueError:
        raise InputError(f"{name}={text!r:.60} is not a number") from None
