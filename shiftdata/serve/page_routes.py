"""Pages of the gallery over live data, made in `page_process`: a stranger's dataset may make them fail."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import IO, Any
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, JSONResponse, Response

from shiftdata.data.dataset import OpenDataset, opened
from shiftdata.data.format.licenses import rights
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.format.paths import README
from shiftdata.data.loading.sprites import for_browser
from shiftdata.data.places.store import FileInfo, MissingFileError, Store
from shiftdata.errors import ChangedError, InputError, NotFoundError, ShiftdataError
from shiftdata.evaluation.pages.shell import POLICY, render
from shiftdata.serve.folders import Changed, Commit, Repo
from shiftdata.serve.names import LOG, Refusal, no_entry
from shiftdata.serve.page_process import Ask
from shiftdata.serve.pages.finding import searches_examples
from shiftdata.serve.pages.pages import Place, card_of, card_picture, counts_of, cover, entry_of, page
from shiftdata.serve.pages.rows import MOST_ROWS, Rows

HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
#: Seconds in which the front page opens manifests: the rest follows when it is loaded again.
OPENING = 0.5


class CommitStore(Store):
    """The files of one commit of a repo, opened as the repo opens them: through no link, and never others."""

    def __init__(self, repo: Repo, commit: Commit) -> None:
        self.repo, self.commit = repo, commit
        self.address = f"{repo.owner}/{repo.name}"
        self.revision = commit.id

    def listing(self) -> dict[str, FileInfo]:
        return {path: self.info(path) for path in self.commit.files}

    def info(self, path: str) -> FileInfo:
        if path not in self.commit.files:
            raise MissingFileError(f"{self.address}/{path} does not exist")
        file = self.commit.files[path]
        return FileInfo(size=file.size, sha256=file.sha256, version=file.sha256)

    def open(self, path: str) -> IO[bytes]:
        self.info(path)
        try:
            return os.fdopen(self.repo.open(self.commit, path), "rb", buffering=0)
        except Changed:
            raise ChangedError(f"{self.address} has changed: load the page again") from None

    def close(self) -> None:
        """Nothing stays open."""


@lru_cache(maxsize=8)  # datasets whose metadata stay in memory
def dataset_of(repo: Repo, commit: Commit) -> OpenDataset | None:
    """The dataset of a repo at a commit; None where it is not one of ours."""
    if FILE_NAME not in commit.files:
        return None
    store = CommitStore(repo, commit)
    return opened(store, store.read(FILE_NAME))


def respond(ask: Ask) -> Response:
    """Make a page; what is wrong with a request or with a dataset is an answer, and ends nothing."""
    try:
        response: Response = globals()[ask.page](ask)  # a name of the table of routes
        return response
    except Refusal as refusal:
        return refusal.answer()
    except ShiftdataError as error:
        status = 409 if isinstance(error, ChangedError) else 404 if isinstance(error, NotFoundError) else 400
        return Refusal(status, str(error)).answer()
    except MemoryError:
        return Refusal(413, "this page needs more memory than the server gives to pages").answer()
    except Exception as error:  # the dataset is a stranger's: its files make our code fail in any way
        LOG.warning("%s of %s: %s: %s", ask.page, ask.path, type(error).__name__, str(error)[:300])
        text = f"this dataset cannot be shown: its files are not what a dataset has ({type(error).__name__})"
        return Refusal(422, text).answer()


def front_page(ask: Ask) -> HTMLResponse:
    """`/`: the datasets, and how to reach them."""
    until = time.monotonic() + OPENING
    found = [(_entry(repo, commit, until), f"{repo.owner}/{repo.name}", commit) for repo, commit in ask.heads]
    entries = [entry for entry, *_ in found if entry]
    others = [(name, commit) for entry, name, commit in found if not entry]
    known: dict[str, Any] = {"entries": entries, "others": others, "endpoint": ask.base_url}
    return HTMLResponse(render("catalog.html", root="/", index="", **known), headers=HEADERS)


#: Entries of the front page that stay in memory, by repo and commit.
MOST_ENTRIES = 5000
_entries = dict[tuple[str, str], dict[str, str] | None]()


def _entry(repo: Repo, commit: Commit, until: float) -> dict[str, str] | None:
    """Return a dataset for the front page; None for another repo, a damaged manifest, and if time is over."""
    name = f"{repo.owner}/{repo.name}"
    if (name, commit.id) in _entries or time.monotonic() > until:
        return _entries.get((name, commit.id))
    entry, url = None, f"/datasets/{quote(name)}"
    try:
        if (dataset := dataset_of(repo, commit)) is not None:
            entry = entry_of(dataset.manifest, url, name, f"{url}/card.webp?v={commit.id[:12]}")
    except ChangedError:
        return None
    except Exception as error:  # a stranger's manifest: its files are listed all the same
        LOG.warning("the manifest of %s is not read: %s", name, type(error).__name__)
    _entries[name, commit.id] = entry
    if len(_entries) > MOST_ENTRIES:
        del _entries[next(iter(_entries))]
    return entry


def dataset_page(ask: Ask) -> HTMLResponse:
    """`/datasets/<owner>/<name>`: its groups, tasks, card and files; of other repos their card and files."""
    ((repo, commit),) = ask.heads
    place = _place(ask, repo, commit)
    with suppress(ShiftdataError):
        dataset = dataset_of(repo, commit)
        if dataset is not None and not dataset.manifest.is_webdataset:
            return HTMLResponse(page(dataset, "dataset", place), headers=HEADERS)
    with_card = README in commit.files and commit.files[README].size < MOST_CARD
    card = card_of(CommitStore(repo, commit), place.file_url) if with_card else ""
    about = f"{len(commit.files):,} files, revision {commit.id[:12]}"
    return HTMLResponse(render("repo.html", **vars(place), about=about, card=card), headers=HEADERS)


#: Bytes of a card that a page shows.
MOST_CARD = 2_000_000


def _page_of_dataset(name: str) -> Callable[[Ask], Response]:
    """Return the route `/datasets/<owner>/<name>/<page>.html`."""

    def route(ask: Ask) -> HTMLResponse:
        return HTMLResponse(page(opened_dataset(ask), name, _place(ask, *ask.heads[0])), headers=HEADERS)

    return route


def card_image(ask: Ask) -> Response:
    """`/datasets/<owner>/<name>/card.webp`: its picture on the front page."""
    dataset = opened_dataset(ask)
    rows = Rows.of(dataset, dataset.manifest.default_base)
    data = rows.keep("card picture", lambda: card_picture(dataset))
    if data is None:
        raise no_entry("card.webp")
    return picture_answer(ask, dataset, data, "image/webp")


def _place(ask: Ask, repo: Repo, commit: Commit) -> Place:
    repo_id = f"{repo.owner}/{repo.name}"
    url = f"/datasets/{quote(repo_id)}"
    return Place(
        root="/",
        here=f"{url}/",
        up=url,
        index="",
        version=commit.id[:12],
        repo_id=repo_id,
        endpoint=ask.base_url,
        files=commit.files,
        file_url=f"{url}/resolve/main/",
    )


#: Licences by which a page lets its reader choose.
MOST_LICENSES = 100
#: Characters of the words of a task.
MOST_WORDS = 1000
#: A picture of more bytes goes to a wall of pictures as a smaller one.
SMALL = 24_000


def for_scripts(answer: Callable[[Ask, Rows], Any]) -> Callable[[Ask], Response]:
    """Make a route of a function of the rows of the base that the query names; it answers with JSON."""

    def route(ask: Ask) -> Response:
        dataset = opened_dataset(ask)
        base = ask.path.get("base") or _text(ask, "base") or dataset.manifest.default_base
        value = answer(ask, Rows.of(dataset, base))
        if isinstance(value, Response):
            return value
        return JSONResponse(value, headers={"Cache-Control": "no-store"})

    return route


@for_scripts
def rows_json(ask: Ask, rows: Rows) -> Mapping[str, Any]:
    """`data/rows.json`: a stretch of the rows that a query chooses, in its order, and their licences."""
    chosen = rows.choose(
        label=_number(ask, "label"),
        nuisance=_number(ask, "nuisance"),
        split=_text(ask, "split") or None,
        severity=_number(ask, "severity", float),
        license=_text(ask, "license") or None,
        use=_text(ask, "use") or None,
        text=_text(ask, "q"),
        sort=_text(ask, "sort"),
    )
    first, count = _number(ask, "from") or 0, _number(ask, "count")
    count = MOST_ROWS if count is None else min(count, MOST_ROWS)
    if first < 0 or count < 0:
        raise InputError(f"from={first} and count={count} must be 0 or more")
    read = rows.details if _text(ask, "full") == "1" else rows.listed
    return {
        "total": len(chosen),
        "rows": read(chosen[first : first + count]),
        "licenses": {name: rights(name)["commercial"] for name in rows.licenses[:MOST_LICENSES]},
        "searches_examples": searches_examples(rows),
    }


@for_scripts
def example_json(ask: Ask, rows: Rows) -> Mapping[str, Any]:
    """`data/example.json`: all that is known of one row, and the rows of its origin."""
    row = rows.row_of(_text(ask, "key"))
    same = rows.appearances(row)
    return rows.details([row])[0] | {"total": len(same), "appearances": rows.listed(same[:MOST_ROWS])}


@for_scripts
def counts_json(ask: Ask, rows: Rows) -> Mapping[str, Any]:
    """`data/counts.json`: the groups of every set of a task."""
    words = _text(ask, "task")
    if len(words) > MOST_WORDS:
        raise InputError(f"a task of {len(words):,} characters: at most {MOST_WORDS:,} are read")
    return counts_of(rows.dataset, rows.base, words)


@for_scripts
def picture(ask: Ask, rows: Rows) -> Response:
    """`data/picture/<base>/<row>`: one picture, by its bytes in the shard; with `side`, a small one of it."""
    row, side = ask.path["row"], _number(ask, "side") or 0
    if rows.modality != "image":
        raise InputError(f"{rows.dataset.manifest.name} has no pictures, but {rows.modality}s")
    data = rows.examples([row])[0]
    size = (SMALL, min(max(side, 16), 512)) if side else ()
    return picture_answer(ask, rows.dataset, *for_browser(data, *size))


@for_scripts
def cover_image(ask: Ask, rows: Rows) -> Response:
    """`data/covers/<base>-<label>-<step>.webp`: the line of a label in the matrix."""
    label, step = ask.path["label"], ask.path["step"]
    if label >= len(rows.metadata.labels) or step >= max(1, len(rows.severities)):
        raise NotFoundError(f"label {label} at step {step} does not exist")
    data = rows.keep(("cover", label, step), lambda: cover(rows, label, step))
    return picture_answer(ask, rows.dataset, data, "image/webp")


def opened_dataset(ask: Ask) -> OpenDataset:
    """Return the dataset that the path names; a repo without one is refused."""
    ((repo, commit),) = ask.heads
    try:
        dataset = dataset_of(repo, commit)
    except ShiftdataError as error:
        raise Refusal(404, f"{repo.owner}/{repo.name} cannot be shown: {error}") from None
    if dataset is None:
        raise Refusal(404, f"{repo.owner}/{repo.name} has no {FILE_NAME}: it has no pages of groups")
    return dataset


def picture_answer(ask: Ask, dataset: OpenDataset, data: bytes, kind: str) -> Response:
    """Answer with bytes that no browser takes for a page; cached if the address names their commit."""
    version = _text(ask, "v")
    if version and not (dataset.store.revision or "").startswith(version):
        raise Refusal(409, "the dataset has changed: load the page again")
    keep = "private, max-age=86400" if version else "no-cache"
    headers = {"Cache-Control": keep, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return Response(data, media_type=kind, headers=headers)


def _text(ask: Ask, name: str) -> str:
    return QueryParams(ask.query).get(name, "")


def _number(ask: Ask, name: str, kind: Callable[[str], Any] = int) -> Any:
    text = _text(ask, name)
    if not text:
        return None
    try:
        return kind(text[:30])
    except ValueError:
        raise InputError(f"{name}={text!r:.60} is not a number") from None


duplicates_page, example_page, severity_page = map(_page_of_dataset, ("duplicates", "example", "severity"))
