"""Pages of the gallery over live data, and the catalog for programs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.format.paths import README
from shiftdata.errors import ChangedError, InputError, NotFoundError, ShiftdataError
from shiftdata.evaluation.pages.shell import POLICY, asset_hash, assets, render
from shiftdata.serve.folders import OWNER, Commit, Repo
from shiftdata.serve.live import CommitStore, dataset_of
from shiftdata.serve.names import Refusal, no_entry
from shiftdata.serve.pages.catalog import Entry, card_picture, catalog_page
from shiftdata.serve.pages.counts import counts_of
from shiftdata.serve.pages.pages import Place, card_of, cover, page
from shiftdata.serve.pages.rows import MOST_ROWS, Rows
from shiftdata.serve.pages.sprites import for_browser
from shiftdata.serve.request import base_url, part, repo_of, visible_repos

#: Files of a repo that a page lists.
MOST_LISTED = 1000
HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
ENDINGS = {"css": "text/css", "js": "text/javascript"}


def front_page(request: Request) -> HTMLResponse:
    """`/`: the datasets, and how to reach them."""
    entries, others = [], []
    for repo, commit in visible_repos(request):
        repo_id, dataset = f"{repo.owner}/{repo.name}", None
        with suppress(ShiftdataError, Refusal):  # a damaged manifest: its files are listed all the same
            dataset = dataset_of(repo, commit)
        url = f"/datasets/{quote(repo_id)}"
        if dataset is None:
            facts = {"files": len(commit.files), "size": commit.bytes, "changed": commit.date[:10]}
            others.append({"url": url, "name": repo_id, **facts})
        else:
            picture = f"{url}/card.webp?v={commit.id[:12]}"
            entries.append(Entry(manifest=dataset.manifest, url=url, repo_id=repo_id, picture=picture))
    text = catalog_page(entries, root="/", index="", others=others, endpoint=base_url(request))
    return HTMLResponse(text, headers=HEADERS)


def dataset_page(request: Request) -> HTMLResponse:
    """`/datasets/<owner>/<name>`: its groups, tasks, card and files; of other repos their card and files."""
    repo, commit = repo_at_head(request)
    place = _place(request, repo, commit)
    with suppress(ShiftdataError, Refusal):
        dataset = dataset_of(repo, commit)
        if dataset is not None and not dataset.manifest.is_webdataset:
            return HTMLResponse(page(dataset, "dataset", place), headers=HEADERS)
    with_card = README in commit.files and commit.files[README].size < MOST_CARD
    card = card_of(CommitStore(repo, commit), place.file_url) if with_card else ""
    about = f"{len(commit.files):,} files, revision {commit.id[:12]}"
    return HTMLResponse(render("repo.html", **vars(place), about=about, card=card), headers=HEADERS)


#: Bytes of a card that a page shows.
MOST_CARD = 2_000_000


def _page_of_dataset(name: str) -> Callable[[Request], Response]:
    """Return the route `/datasets/<owner>/<name>/<page>.html`."""

    def route(request: Request) -> HTMLResponse:
        repo, commit, dataset = opened_dataset(request)
        return HTMLResponse(page(dataset, name, _place(request, repo, commit)), headers=HEADERS)

    return route


example_page, severity_page = map(_page_of_dataset, ("example", "severity"))


def asset(request: Request) -> Response:
    """`/assets/<file>`: a script or the style of the pages."""
    name = part(request, "name")
    if (file := assets().get(name)) is None:
        raise no_entry(name)
    caching = "public, max-age=31536000, immutable" if request.url.query == asset_hash(name) else "no-cache"
    kind = ENDINGS[name.rpartition(".")[2]]
    return Response(file.read_bytes(), media_type=kind, headers={"Cache-Control": caching})


def card_image(request: Request) -> Response:
    """`/datasets/<owner>/<name>/card.webp`: its picture on the front page."""
    *_, dataset = opened_dataset(request)
    rows = Rows.of(dataset, dataset.manifest.default_base)
    data = rows.keep("card picture", lambda: card_picture(dataset))
    if data is None:
        raise no_entry("card.webp")
    return picture_answer(request, dataset, data, "image/webp")


def catalog(request: Request) -> JSONResponse:
    """`/catalog.json`: where `shiftdata fetch` finds each dataset, and the hash of its manifest."""
    datasets = {}
    for repo, commit in sorted(
        visible_repos(request), key=lambda pair: pair[0].owner == OWNER
    ):  # its own win
        with suppress(Refusal):  # its list of files is damaged, which was reported
            manifest = commit.files.get(FILE_NAME)
            if manifest is not None:
                place = f"hf+{base_url(request)}/datasets/{repo.owner}/{repo.name}"
                datasets[repo.name] = {"manifest": manifest.sha256, "places": [place]}
    return JSONResponse(dict(sorted(datasets.items())))


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
        version=commit.id[:12],
        repo_id=repo_id,
        endpoint=base_url(request),
        files=listed,
        more_files=max(0, len(commit.files) - MOST_LISTED),
        file_url=file_url,
    )


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
    row, side = request.path_params["row"], _number(request, "side") or 0
    if rows.modality != "image":
        raise InputError(f"{rows.dataset.manifest.name} has no pictures, but {rows.modality}s")
    data = rows.examples([row])[0]
    size = (SMALL, min(max(side, 16), 512)) if side else ()
    return picture_answer(request, rows.dataset, *for_browser(data, *size))


@for_scripts
def cover_image(request: Request, rows: Rows) -> Response:
    """`data/covers/<base>-<label>-<step>.webp`: the line of a label in the matrix."""
    label, step = request.path_params["label"], request.path_params["step"]
    if label >= len(rows.metadata.labels) or step >= max(1, len(rows.severities)):
        raise NotFoundError(f"label {label} at step {step} does not exist")
    data = rows.keep(("cover", label, step), lambda: cover(rows, label, step))
    return picture_answer(request, rows.dataset, data, "image/webp")


def repo_at_head(request: Request) -> tuple[Repo, Commit]:
    """Return the repo that the path names, if the caller may read it, and its newest commit."""
    repo = repo_of(request)
    return repo, repo.commit("main")


def opened_dataset(request: Request) -> tuple[Repo, Commit, OpenDataset]:
    """Return them with the dataset in them; a repo without one is refused."""
    repo, commit = repo_at_head(request)
    try:
        dataset = dataset_of(repo, commit)
    except ShiftdataError as error:
        raise Refusal(404, f"{repo.owner}/{repo.name} cannot be shown: {error}") from None
    if dataset is None:
        raise Refusal(404, f"{repo.owner}/{repo.name} has no {FILE_NAME}: it has no pages of groups")
    return repo, commit, dataset


def picture_answer(request: Request, dataset: OpenDataset, data: bytes, kind: str) -> Response:
    """Answer with bytes that no browser takes for a page; cached if the address names their commit."""
    version = _text(request, "v")
    if version and not (dataset.store.revision or "").startswith(version):
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
