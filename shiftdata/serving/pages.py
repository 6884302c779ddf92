"""What people see: the gallery over live data; and the catalog, for programs."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from PIL import Image
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from shiftdata.dataset import OpenDataset
from shiftdata.errors import ChangedError, InputError, NotFoundError, ShiftdataError
from shiftdata.format.manifest import FILE_NAME
from shiftdata.format.paths import README
from shiftdata.gallery.catalog import Entry, card_picture, catalog_page
from shiftdata.gallery.counts import counts_of
from shiftdata.gallery.pages import Place, card_of, cover, page
from shiftdata.gallery.rows import MOST_ROWS, Choice, Rows
from shiftdata.gallery.sprites import as_webp, thumbnail
from shiftdata.pages.shell import POLICY, asset_hash, assets, render
from shiftdata.serving import sign_in
from shiftdata.serving.library import Repo
from shiftdata.serving.live import CommitStore
from shiftdata.serving.names import Refusal, no_entry
from shiftdata.serving.repos import OWNER, Commit
from shiftdata.serving.request import base_url, mirror_of, part, repo_of, visible_repos

#: Files of a repo that a page lists.
MOST_LISTED = 1000
#: Characters of the words of a task.
MOST_WORDS = 1000
#: Tasks that are made at once: a large dataset takes seconds and memory.
TASKS = threading.BoundedSemaphore(2)
#: A picture of more bytes goes to a wall of pictures as a smaller one.
SMALL = 24_000
#: What a picture may be; whatever else it says of itself goes out as bytes that no browser shows.
TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}

HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
ENDINGS = {"css": "text/css", "js": "text/javascript"}


def for_people(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Make a route of a page: who needs the token is asked for it, and errors are pages too."""

    @wraps(answer)
    def route(request: Request) -> Response:
        try:
            base_url(request)
            return answer(request)
        except Refusal as refusal:
            if refusal.status == 401:
                return sign_in.page(request)
            raise

    return route


def for_scripts(answer: Callable[[Request, Rows], Any]) -> Callable[[Request], Response]:
    """Make a route of what a page asks for: rows of the base that the query names, answered as JSON."""

    @wraps(answer)
    def route(request: Request) -> Response:
        base_url(request)
        try:
            _, _, dataset = _opened(request)
            value = answer(request, Rows.of(dataset, part(request, "base") or _text(request, "base")))
        except ChangedError as error:
            raise Refusal(409, str(error)) from None
        except NotFoundError as error:
            raise Refusal(404, str(error)) from None
        except ShiftdataError as error:
            raise Refusal(400, str(error)) from None
        return (
            value
            if isinstance(value, Response)
            else JSONResponse(value, headers={"Cache-Control": "no-store"})
        )

    return route


@for_people
def front_page(request: Request) -> HTMLResponse:
    """`/`: the datasets, and how to reach them."""
    entries, others = [], []
    for repo, commit in visible_repos(request):
        repo_id, dataset = f"{repo.owner}/{repo.name}", None
        with suppress(ShiftdataError, Refusal):  # a damaged manifest: its files are listed all the same
            dataset = mirror_of(request).live.dataset(repo, commit)
        url = f"/datasets/{quote(repo_id)}"
        if dataset is None:
            others.append(
                {
                    "url": url,
                    "name": repo_id,
                    "files": len(commit.files),
                    "size": commit.bytes,
                    "changed": commit.date[:10],
                }
            )
        else:
            picture = f"{url}/card.webp?v={commit.id[:12]}"
            entries.append(Entry(manifest=dataset.manifest, url=url, repo_id=repo_id, picture=picture))
    text = catalog_page(entries, root="/", index="", others=others, endpoint=base_url(request))
    return HTMLResponse(text, headers=HEADERS)


@for_people
def dataset_page(request: Request) -> HTMLResponse:
    """`/datasets/<owner>/<name>`: its groups, tasks, card and files; of other repos their card and files."""
    repo, commit = _repo(request)
    with suppress(ShiftdataError, Refusal):
        dataset = mirror_of(request).live.dataset(repo, commit)
        if dataset is not None and not dataset.manifest.is_webdataset:
            return HTMLResponse(page(dataset, "dataset", _place(request, repo, commit)), headers=HEADERS)
    place = _place(request, repo, commit)
    store = CommitStore(repo, commit)
    with_card = README in commit.files and commit.files[README].size < MOST_CARD
    text = render(
        "repo.html",
        root="/",
        index="",
        repo_id=place.repo_id,
        endpoint=place.endpoint,
        about=f"{len(commit.files):,} files, revision {commit.id[:12]}",
        files=place.files,
        more_files=place.more_files,
        card=Markup(card_of(store.read(README), place.file_url)) if with_card else "",
    )
    return HTMLResponse(text, headers=HEADERS)


#: Bytes of a card that a page shows.
MOST_CARD = 2_000_000


@for_people
def example_page(request: Request) -> HTMLResponse:
    """`/datasets/<owner>/<name>/example.html`."""
    repo, commit, dataset = _opened(request)
    return HTMLResponse(page(dataset, "example", _place(request, repo, commit)), headers=HEADERS)


@for_people
def severity_page(request: Request) -> HTMLResponse:
    """`/datasets/<owner>/<name>/severity.html`."""
    repo, commit, dataset = _opened(request)
    return HTMLResponse(page(dataset, "severity", _place(request, repo, commit)), headers=HEADERS)


def asset(request: Request) -> Response:
    """`/assets/<file>`: a script or the style of the pages."""
    name = part(request, "name")
    if (file := assets().get(name)) is None:
        raise no_entry(name)
    kept = "public, max-age=31536000, immutable" if request.url.query == asset_hash(name) else "no-cache"
    kind = ENDINGS[name.rpartition(".")[2]]
    return Response(file.read_bytes(), media_type=kind, headers={"Cache-Control": kept})


def card_image(request: Request) -> Response:
    """`/datasets/<owner>/<name>/card.webp`: its picture on the front page."""
    _, commit, dataset = _opened(request)
    rows = Rows.of(dataset, dataset.manifest.default_base)
    made = rows.keep("card picture", lambda: card_picture(dataset))
    if made is None:
        raise no_entry("card.webp")
    return _picture(request, commit, made, "image/webp")


@for_scripts
def rows_json(request: Request, rows: Rows) -> Mapping[str, Any]:
    """`data/rows.json`: rows of a label, a nuisance, a split and a severity, a stretch of them."""
    chosen = rows.choose(
        Choice(
            label=_number(request, "label"),
            nuisance=_number(request, "nuisance"),
            split=_text(request, "split") or None,
            severity=_number(request, "severity", float),
        )
    )
    first, count = _number(request, "from") or 0, _number(request, "count")
    count = MOST_ROWS if count is None else min(count, MOST_ROWS)
    if first < 0 or count < 0:
        raise InputError(f"from={first} and count={count} must be 0 or more")
    some = chosen[first : first + count]
    full = _text(request, "full") == "1"
    return {"total": len(chosen), "rows": rows.details(some) if full else rows.listed(some)}


@for_scripts
def example_json(request: Request, rows: Rows) -> Mapping[str, Any]:
    """`data/example.json`: all that is known of one row, and the rows of its origin."""
    row = rows.row_of(_text(request, "key"))
    same = rows.appearances(row)[:MOST_ROWS]
    return rows.details([row])[0] | {"appearances": rows.listed(same)}


@for_scripts
def counts_json(request: Request, rows: Rows) -> Mapping[str, Any]:
    """`data/counts.json`: the groups of every set of a task."""
    words = _text(request, "task")
    if len(words) > MOST_WORDS:
        raise InputError(f"a task of {len(words):,} characters: at most {MOST_WORDS:,} are read")
    if not TASKS.acquire(timeout=10):
        raise Refusal(503, "too many tasks are being made: ask again", headers={"Retry-After": "5"})
    try:
        return counts_of(rows.dataset, rows.base, words)
    finally:
        TASKS.release()


@for_scripts
def picture(request: Request, rows: Rows) -> Response:
    """`data/picture/<base>/<row>`: one picture, by its bytes in the shard; with `side`, a small one of it."""
    _, commit = _repo(request)
    row, side = request.path_params["row"], _number(request, "side") or 0
    data = rows.examples([row])[0]
    if rows.modality != "image":
        raise InputError(f"{rows.dataset.manifest.name} has no pictures, but {rows.modality}s")
    if side and len(data) > SMALL:
        return _picture(request, commit, as_webp(thumbnail(data, min(max(side, 16), 512))), "image/webp")
    kind = "application/octet-stream"
    with (
        suppress(OSError, SyntaxError, ValueError, Image.DecompressionBombError),
        Image.open(io.BytesIO(data)) as opened,
    ):
        kind = TYPES.get(opened.format or "", kind)
    return _picture(request, commit, data, kind)


@for_scripts
def cover_image(request: Request, rows: Rows) -> Response:
    """`data/covers/<base>-<label>-<step>.webp`: the line of a label in the matrix."""
    _, commit = _repo(request)
    label, step = request.path_params["label"], request.path_params["step"]
    if label >= len(rows.metadata.labels) or step >= max(1, len(rows.severities)):
        raise NotFoundError(f"there is no label {label} at step {step}")
    made = rows.keep(("cover", label, step), lambda: cover(rows, label, step))
    return _picture(request, commit, made, "image/webp")


def catalog(request: Request) -> JSONResponse:
    """`/catalog.json`: where `shiftdata fetch` finds each dataset, and the hash of its manifest."""
    found = {}
    for repo, commit in sorted(visible_repos(request), key=lambda one: one[0].owner == OWNER):  # its own win
        with suppress(Refusal):  # its list of files is damaged, which was reported
            manifest = commit.files.get(FILE_NAME)
            if manifest is not None:
                place = f"hf+{base_url(request)}/datasets/{repo.owner}/{repo.name}"
                found[repo.name] = {"manifest": manifest.sha256, "places": [place]}
    return JSONResponse(dict(sorted(found.items())))


def _repo(request: Request) -> tuple[Repo, Commit]:
    repo = repo_of(request, for_files=True)
    return repo, repo.commit("main")


def _opened(request: Request) -> tuple[Repo, Commit, OpenDataset]:
    repo, commit = _repo(request)
    try:
        dataset = mirror_of(request).live.dataset(repo, commit)
    except ShiftdataError as error:
        raise Refusal(404, f"{repo.owner}/{repo.name} cannot be shown: {error}") from None
    if dataset is None:
        raise Refusal(404, f"{repo.owner}/{repo.name} has no {FILE_NAME}: it has no pages of groups")
    return repo, commit, dataset


def _place(request: Request, repo: Repo, commit: Commit) -> Place:
    repo_id = f"{repo.owner}/{repo.name}"
    url = f"/datasets/{quote(repo_id)}"
    file_url = f"{url}/resolve/main/"
    listed = [
        {"path": path, "url": file_url + quote(path), "size": file.size}
        for path, file in itertools.islice(commit.files.items(), MOST_LISTED)
    ]
    return Place(
        root="/",
        here=f"{url}/",
        up=url,
        index="",
        live=True,
        version=commit.id[:12],
        repo_id=repo_id,
        endpoint=base_url(request),
        files=listed,
        more_files=max(0, len(commit.files) - MOST_LISTED),
        file_url=file_url,
    )


def _picture(request: Request, commit: Commit, data: bytes, kind: str) -> Response:
    """Bytes that no browser takes for a page; kept where the address names the commit that they are of."""
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
