"""What people see: which datasets there are, and how to read them. For programs: the catalog."""

from __future__ import annotations

import os
from html import escape
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse

from shiftdata.format.manifest import FILE_NAME
from shiftdata.serving.exchange import authorization, base_url, mirror_of, repo_of
from shiftdata.serving.folders import OWNER
from shiftdata.serving.repos import Changed, Commit, Repo

#: Bytes of a card, and files of a repo, that a page shows.
MOST_CARD = 200_000
MOST_LISTED = 1000

PREVIEW = "preview.jpg"

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 3rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; } h2 { font-size: 1.1rem; margin-top: 2.25rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } .n { text-align: right; } a { color: inherit; text-underline-offset: .2em; }
pre { background: var(--soft); padding: .9rem 1.1rem; border-radius: .5rem; overflow-x: auto; }
img { max-width: 100%; border-radius: .5rem; } td.n + td, th.n + th { padding-left: 1.5rem; }
.card { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def front_page(request: Request) -> HTMLResponse:
    """`/`: the datasets, and how to reach them."""
    mirror, base = mirror_of(request), base_url(request)
    mirror.access.check_server(authorization(request))
    rows: list[str] = []
    first = f"{OWNER}/<name>"
    for repo in _visible(request):
        commit = repo.commit("main")
        repo_id = f"{repo.owner}/{repo.name}"
        first = repo_id if not rows else first
        size = sum(file.size for file in commit.files.values())
        rows.append(
            f'<tr><td><a href="/datasets/{quote(repo_id)}">{escape(repo_id)}</a></td>'
            f'<td class="n">{len(commit.files):,}</td><td class="n">{_size(size)}</td>'
            f"<td>{commit.date[:10]}</td></tr>"
        )
    table = (
        '<table><tr><th>dataset</th><th class="n">files</th><th class="n">size</th><th>changed</th></tr>'
        + "".join(rows)
        + "</table>"
        if rows
        else "<p>No dataset yet.</p>"
    )
    return _page(
        "Datasets", f"<h1>Datasets</h1><p>A mirror with the Hub's protocol.</p>{table}{_how(base, first)}"
    )


def dataset_page(request: Request) -> HTMLResponse:
    """`/datasets/<owner>/<name>`: its files and its card."""
    repo = repo_of(request, for_files=True)
    commit = repo.commit("main")
    repo_id = f"{repo.owner}/{repo.name}"
    rows = "".join(
        f'<tr><td><a href="/datasets/{quote(repo_id)}/resolve/main/{quote(path)}">{escape(path)}</a></td>'
        f'<td class="n">{_size(file.size)}</td></tr>'
        for path, file in list(commit.files.items())[:MOST_LISTED]
    )
    more = len(commit.files) - MOST_LISTED
    note = f"<p>and {more:,} more</p>" if more > 0 else ""
    card = _card(repo, commit)
    shown = f'<h2>Card</h2><pre class="card">{escape(card)}</pre>' if card else ""
    body = (
        f'<p><a href="/">all datasets</a></p><h1>{escape(repo_id)}</h1><p>{len(commit.files):,} files, '
        f"{_size(sum(file.size for file in commit.files.values()))}, revision {commit.id[:12]}</p>"
        f"{_picture(repo_id, commit)}{_how(base_url(request), repo_id)}"
        f"<h2>Files</h2><table>{rows}</table>{note}{shown}"
    )
    return _page(repo_id, body)


def catalog(request: Request) -> JSONResponse:
    """`/catalog.json`: where `shiftdata fetch` finds each dataset, and the hash of its manifest."""
    mirror_of(request).access.check_server(authorization(request))
    found: dict[str, Any] = {}
    for repo in sorted(_visible(request), key=lambda repo: repo.owner == OWNER):  # ours has the last word
        manifest = repo.commit("main").files.get(FILE_NAME)
        if manifest is not None:
            place = f"hf+{base_url(request)}/datasets/{repo.owner}/{repo.name}"
            found[repo.name] = {"manifest": manifest.sha256, "places": [place]}
    return JSONResponse(dict(sorted(found.items())))


def _visible(request: Request) -> list[Repo]:
    mirror, header = mirror_of(request), authorization(request)
    return [repo for repo in mirror.library.repos() if mirror.access.sees(repo, header)]


def _how(base: str, repo_id: str) -> str:
    said = (
        f"export HF_ENDPOINT={base}\n\n"
        f'from datasets import load_dataset\ndataset = load_dataset("{repo_id}", streaming=True)\n\n'
        f"hf download {repo_id} --repo-type dataset"
    )
    return f"<h2>How to read</h2><pre>{escape(said)}</pre>"


def _picture(repo_id: str, commit: Commit) -> str:
    """The picture that a dataset of ours has of its examples."""
    if PREVIEW not in commit.files:
        return ""
    return f'<p><img src="/datasets/{quote(repo_id)}/resolve/main/{PREVIEW}" alt="Examples"></p>'


def _card(repo: Repo, commit: Commit) -> str:
    """The beginning of the card's text."""
    if "README.md" not in commit.files:
        return ""
    try:
        descriptor = repo.open(commit, "README.md")
    except Changed:
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(MOST_CARD).decode(errors="replace")


def _size(size: int) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.2f} MB"


def _page(title: str, body: str) -> HTMLResponse:
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    headers = {
        "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(f"{head}{view}<style>{STYLE}</style>{body}</html>", headers=headers)
