"""Pages of the gallery over live data, and the catalog for programs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.format.paths import README
from shiftdata.errors import ShiftdataError
from shiftdata.evaluation.pages.shell import POLICY, asset_hash, assets, render
from shiftdata.serve.library import Repo
from shiftdata.serve.live import CommitStore
from shiftdata.serve.names import Refusal, no_entry
from shiftdata.serve.page_data import opened_dataset, picture_answer, repo_at_head
from shiftdata.serve.pages.catalog import Entry, card_picture, catalog_page
from shiftdata.serve.pages.pages import Place, card_of, page
from shiftdata.serve.pages.rows import Rows
from shiftdata.serve.repos import OWNER, Commit
from shiftdata.serve.request import base_url, mirror_of, part, visible_repos

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
            dataset = mirror_of(request).live.dataset(repo, commit)
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
        dataset = mirror_of(request).live.dataset(repo, commit)
        if dataset is not None and not dataset.manifest.is_webdataset:
            return HTMLResponse(page(dataset, "dataset", place), headers=HEADERS)
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
    _, commit, dataset = opened_dataset(request)
    rows = Rows.of(dataset, dataset.manifest.default_base)
    data = rows.keep("card picture", lambda: card_picture(dataset))
    if data is None:
        raise no_entry("card.webp")
    return picture_answer(request, commit, data, "image/webp")


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
        live=True,
        version=commit.id[:12],
        repo_id=repo_id,
        endpoint=base_url(request),
        files=listed,
        more_files=max(0, len(commit.files) - MOST_LISTED),
        file_url=file_url,
    )
