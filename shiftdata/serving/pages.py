"""What people see: which datasets there are, and how to read them. For programs: the catalog."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse

from shiftdata.format.manifest import FILE_NAME
from shiftdata.serving.library import Repo
from shiftdata.serving.names import Refusal
from shiftdata.serving.repos import OWNER, Changed, Commit
from shiftdata.serving.request import base_url, repo_of, visible_repos

#: Bytes of a card, and files of a repo, that a page shows.
MOST_CARD = 200_000
MOST_LISTED = 1000

PREVIEW = "preview.jpg"

PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'",
    "Cache-Control": "no-store",
}


def front_page(request: Request) -> HTMLResponse:
    """`/`: the datasets, and how to reach them."""
    rows: list[str] = []
    first = f"{OWNER}/<name>"
    for repo, commit in visible_repos(request):
        repo_id = f"{repo.owner}/{repo.name}"
        first = first if rows else repo_id
        link = _link(f"/datasets/{quote(repo_id)}", repo_id)
        rows.append(
            f'<tr><td>{link}<td class="n">{len(commit.files):,}<td class="n">{_size(commit.bytes)}'
            f"<td>{commit.date[:10]}"
        )
    head = '<tr><th>dataset<th class="n">files<th class="n">size<th>changed'
    table = f"<table>{head}{''.join(rows)}</table>" if rows else "<p>No datasets yet.</p>"
    about = "<h1>Datasets</h1><p>This server speaks the protocol of the Hugging Face Hub.</p>"
    return _page(request, "Datasets", first, about + table, "")


def dataset_page(request: Request) -> HTMLResponse:
    """`/datasets/<owner>/<name>`: its files and its card."""
    repo = repo_of(request, for_files=True)
    commit, repo_id = repo.commit("main"), f"{repo.owner}/{repo.name}"
    files = f"/datasets/{quote(repo_id)}/resolve/main/"
    size = f"{len(commit.files):,} files, {_size(commit.bytes)}, revision {commit.id[:12]}"
    top = f"<p>{_link('/', 'All datasets')}</p><h1>{escape(repo_id)}</h1><p>{size}</p>"
    if PREVIEW in commit.files:
        top += f'<p><img src="{files}{PREVIEW}" alt="Examples"></p>'
    rows = [
        f'<tr><td>{_link(files + quote(path), path)}<td class="n">{_size(file.size)}'
        for path, file in itertools.islice(commit.files.items(), MOST_LISTED)
    ]
    rest = f"<h2>Files</h2><table>{''.join(rows)}</table>"
    if (more := len(commit.files) - MOST_LISTED) > 0:
        rest += f"<p>and {more:,} more</p>"
    if card := _card(repo, commit):
        rest += f'<h2>Card</h2><pre class="card">{escape(card)}</pre>'
    return _page(request, repo_id, repo_id, top, rest)


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


def _card(repo: Repo, commit: Commit) -> str:
    if "README.md" not in commit.files:
        return ""
    try:
        descriptor = repo.open(commit, "README.md")
    except (Changed, Refusal):
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(MOST_CARD).decode(errors="replace")


def _page(request: Request, title: str, repo_id: str, top: str, rest: str) -> HTMLResponse:
    """A page with how to read `repo_id`, between what is on top and the rest."""
    texts = {"title": escape(title), "base": escape(base_url(request)), "repo_id": escape(repo_id)}
    return HTMLResponse(PAGE.substitute(texts, top=top, rest=rest), headers=HEADERS)


def _link(url: str, text: str) -> str:
    return f'<a href="{escape(url)}">{escape(text)}</a>'


def _size(size: int) -> str:
    if size >= 1e9:
        return f"{size / 1e9:,.2f} GB"
    return f"{size / 1e6:,.2f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
