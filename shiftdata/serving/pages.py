"""What people see: which datasets there are, and how to read them. For programs: the catalog."""

from __future__ import annotations

import os
from html import escape
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse

from shiftdata.format.manifest import FILE_NAME
from shiftdata.serving.library import Repo
from shiftdata.serving.repos import OWNER, Changed, Commit
from shiftdata.serving.request import base_url, repo_of, visible_repos

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
img { max-width: 100%; border-radius: .5rem; } .n + td, .n + th { padding-left: 1.5rem; }
.card { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style>{body}</html>"""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'",
    "Cache-Control": "no-store",
}
HOW = """<h2>How to read</h2><pre>export HF_ENDPOINT={base}    # in the shell, before Python starts

from datasets import load_dataset
dataset = load_dataset("{repo_id}", streaming=True)

hf download {repo_id} --repo-type dataset</pre>"""


def front_page(request: Request) -> HTMLResponse:
    """`/`: the datasets, and how to reach them."""
    rows: list[str] = []
    base, first = base_url(request), f"{OWNER}/<name>"
    for repo in visible_repos(request):
        commit, repo_id = repo.commit("main"), f"{repo.owner}/{repo.name}"
        first = first if rows else repo_id
        link = _link(f"/datasets/{quote(repo_id)}", repo_id)
        rows.append(
            f'<tr><td>{link}<td class="n">{len(commit.files):,}<td class="n">{_size(commit.bytes)}'
            f"<td>{commit.date[:10]}"
        )
    head = '<tr><th>dataset<th class="n">files<th class="n">size<th>changed'
    table = f"<table>{''.join([head, *rows])}</table>" if rows else "<p>No datasets yet.</p>"
    about = "<h1>Datasets</h1><p>This server speaks the protocol of the Hugging Face Hub.</p>"
    return _page("Datasets", f"{about}{table}{_how_to_read(base, first)}")


def dataset_page(request: Request) -> HTMLResponse:
    """`/datasets/<owner>/<name>`: its files and its card."""
    repo = repo_of(request, for_files=True)
    commit, repo_id = repo.commit("main"), f"{repo.owner}/{repo.name}"
    files = f"/datasets/{quote(repo_id)}/resolve/main/"
    picture = f'<p><img src="{files}{PREVIEW}" alt="Examples"></p>' if PREVIEW in commit.files else ""
    rows = [
        f'<tr><td>{_link(files + quote(path), path)}<td class="n">{_size(file.size)}'
        for path, file in list(commit.files.items())[:MOST_LISTED]
    ]
    more = len(commit.files) - MOST_LISTED
    note = f"<p>and {more:,} more</p>" if more > 0 else ""
    card = escape(_card(repo, commit))
    shown = f'<h2>Card</h2><pre class="card">{card}</pre>' if card else ""
    size = f"{len(commit.files):,} files, {_size(commit.bytes)}, revision {commit.id[:12]}"
    head = f"<p>{_link('/', 'All datasets')}</p><h1>{escape(repo_id)}</h1><p>{size}</p>{picture}"
    how = _how_to_read(base_url(request), repo_id)
    return _page(repo_id, f"{head}{how}<h2>Files</h2><table>{''.join(rows)}</table>{note}{shown}")


def catalog(request: Request) -> JSONResponse:
    """`/catalog.json`: where `shiftdata fetch` finds each dataset, and the hash of its manifest."""
    found = {}
    for repo in sorted(visible_repos(request), key=lambda repo: repo.owner == OWNER):  # its own win
        manifest = repo.commit("main").files.get(FILE_NAME)
        if manifest is not None:
            place = f"hf+{base_url(request)}/datasets/{repo.owner}/{repo.name}"
            found[repo.name] = {"manifest": manifest.sha256, "places": [place]}
    return JSONResponse(dict(sorted(found.items())))


def _card(repo: Repo, commit: Commit) -> str:
    if "README.md" not in commit.files:
        return ""
    try:
        descriptor = repo.open(commit, "README.md")
    except Changed:
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(MOST_CARD).decode(errors="replace")


def _page(title: str, body: str) -> HTMLResponse:
    return HTMLResponse(PAGE.format(title=escape(title), style=STYLE, body=body), headers=HEADERS)


def _how_to_read(base: str, repo_id: str) -> str:
    return HOW.format(base=escape(base), repo_id=escape(repo_id))


def _link(url: str, text: str) -> str:
    return f'<a href="{escape(url)}">{escape(text)}</a>'


def _size(size: int) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.2f} MB"
