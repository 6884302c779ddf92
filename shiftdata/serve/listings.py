"""What clients ask about repos: listings, revisions, trees. The files themselves: `file_answers.py`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from shiftdata.serve.addressed import as_listed
from shiftdata.serve.library import Repo
from shiftdata.serve.names import Refusal, no_entry
from shiftdata.serve.repos import BEHIND, OWNER, Commit, Entry, FileRecord, Files, git_blob_id, key
from shiftdata.serve.request import (
    Json,
    base_url,
    json_body,
    mirror_of,
    part,
    repo_of,
    visible_repos,
    whole_body,
)

#: Entries of a page of a tree; clients follow the link to the next one. So many at most with their commits.
PAGE = 1000
EXPANDED_PAGE = 100

#: Commits of a page of a history, if none or any number is asked for, and letters of their texts.
COMMITS = 50
MOST_COMMITS = 1000
MOST_LETTERS = 1 << 20

#: Files that are written at once, where a list of them is an answer.
AT_ONCE = 500

MOST_PATHS = 5000
LONGEST_FORM = 1 << 20


def whoami(request: Request) -> JSONResponse:
    """`/api/whoami-v2`: everyone with the token is one user."""
    mirror = mirror_of(request)
    mirror.check_owner(request)
    token = {"displayName": "mirror", "role": "write" if mirror.library.writable else "read"}
    user = {"type": "user", "id": OWNER, "name": OWNER, "fullname": OWNER, "isPro": False, "orgs": []}
    return JSONResponse({**user, "auth": {"type": "access_token", "accessToken": token}})


def auth_check(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/auth-check`: whether the caller may read the files."""
    repo_of(request, for_files=True)
    return JSONResponse({})


def list_datasets(request: Request) -> JSONResponse:
    """`/api/datasets`: by name, those of an `author`, those whose name has every text of `search`."""
    query = request.query_params
    author, texts, limit = query.get("author"), query.getlist("search"), query.get("limit", "")
    found = [
        _describe(repo, commit)
        for repo, commit in visible_repos(request)
        if author in (None, repo.owner)
        and all(text.lower() in f"{repo.owner}/{repo.name}".lower() for text in texts)
    ]
    return JSONResponse(found[: int(limit) if re.fullmatch("[0-9]{1,6}", limit) else None])


def dataset_info(request: Request) -> StreamingResponse:
    """`/api/datasets/<owner>/<name>` and `.../revision/<revision>`."""
    repo = repo_of(request)
    commit = as_listed(request, repo, part(request, "revision", "main"))
    blobs = _is_true(request.query_params.get("blobs"))
    described = _describe(repo, commit) | {"usedStorage": commit.bytes}
    siblings = (_sibling(path, file, blobs) for path, file in commit.files.items())
    first = list(itertools.islice(siblings, AT_ONCE))  # what is damaged is said before the answer begins
    return StreamingResponse(_written(described, first, siblings), media_type="application/json")


def _written(described: Json, first: list[Json], siblings: Iterator[Json]) -> Iterator[str]:
    """A description with its list of files, which need not be in memory."""
    yield f'{json.dumps(described)[:-1]}, "siblings": [' + json.dumps(first)[1:-1]
    while more := list(itertools.islice(siblings, AT_ONCE)):
        yield f", {json.dumps(more)[1:-1]}"
    yield "]}"


def _describe(repo: Repo, commit: Commit) -> Json:
    repo_id = f"{repo.owner}/{repo.name}"
    names = {"_id": git_blob_id(repo_id.encode())[:24], "id": repo_id, "author": repo.owner, "sha": commit.id}
    dates = {"lastModified": commit.date, "createdAt": commit.date}
    unused = {"disabled": False, "downloads": 0, "likes": 0, "tags": []}
    return names | dates | asdict(repo.settings()) | unused


def _sibling(path: str, file: FileRecord, blobs: bool) -> Json:
    if not blobs:
        return {"rfilename": path}
    lfs = {} if file.git else {"lfs": {"sha256": file.sha256, **_pointer(file)}}
    return {"rfilename": path, "size": file.size, "blobId": file.blob_id, **lfs}


def _entry(entry: Entry) -> Json:
    path, file = entry.path, entry.file
    if file is None:
        return {"type": "directory", "path": path, "size": 0, "oid": git_blob_id(path.encode())}
    lfs = {} if file.git else {"lfs": {"oid": file.sha256, **_pointer(file)}}
    return {"type": "file", "path": path, "size": file.size, "oid": file.blob_id, **lfs}


def _pointer(file: FileRecord) -> Json:
    return {"size": file.size, "pointerSize": len(file.pointer)}


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true")


def tree(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/tree/<revision>[/<path>]`, in pages of one commit.

    The `cursor` of a page is the last entry of the one before; that of a folder ends with a slash.
    """
    repo, query = repo_of(request), request.query_params
    commit = as_listed(request, repo, part(request, "revision"))
    path = part(request, "path").strip("/")
    recursive, expand = _is_true(query.get("recursive")), _is_true(query.get("expand"))
    size = _limit(query, EXPANDED_PAGE if expand else PAGE)
    found = _entries(commit.files, path, recursive, query.get("cursor", ""))
    page = list(itertools.islice(found, size + 1))
    if path and not page and next(commit.files.below(path), None) is None:
        raise no_entry(path)
    headers = {}
    if len(page) > size:
        url = f"{base_url(request)}/api/datasets/{repo.owner}/{repo.name}/tree/{commit.id}"
        url += f"/{quote(path, safe='')}" if path else ""
        cursor = page[size - 1].path + "/" * (page[size - 1].file is None)
        following = urlencode({"recursive": recursive, "expand": expand, "limit": size, "cursor": cursor})
        headers["Link"] = f'<{url}?{following}>; rel="next"'
    return JSONResponse(_listed(repo, page[:size], expand), headers=headers)


def _entries(files: Files, folder: str, recursive: bool, cursor: str) -> Iterator[Entry]:
    """The files and folders of a folder behind a cursor; the folder itself is not one of them."""
    start = ""
    if cursor:
        start = key(cursor.removesuffix("/")) + (BEHIND if cursor.endswith("/") else "") + "\0"
    if not recursive:
        return files.children(folder, start)
    first = f"{key(folder)}\0" if folder else ""
    return itertools.takewhile(lambda entry: entry.key.startswith(first), files.entries(max(first, start)))


def _limit(query: QueryParams, most: int, default: int | None = None) -> int:
    given = query.get("limit", "")
    return max(1, min(int(given), most)) if re.fullmatch("[0-9]{1,9}", given) else default or most


def _listed(repo: Repo, entries: Iterable[Entry], expand: bool) -> list[Json]:
    """Entries as JSON, sorted by path; with the commits that changed them last, where these are asked for."""
    changes: dict[str, Json] = {}
    found = []
    for entry in sorted(entries):
        if expand and entry.by not in changes:
            by = repo.commit(entry.by)
            changes[by.id] = {"lastCommit": {"id": by.id, "title": by.title, "date": by.date}}
        found.append(_entry(entry) | changes.get(entry.by, {}))
    return found


async def paths_info(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/paths-info/<revision>`: those of some paths that exist."""
    if request.headers.get("content-type", "").startswith("application/json"):
        body = await json_body(request)
        given, expand = body.get("paths", []), bool(body.get("expand"))
        paths = [given] if isinstance(given, str) else given
    else:
        paths, expand = _form(await whole_body(request, LONGEST_FORM))
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise Refusal(400, "'paths' must be a list of texts")
    if len(paths) > MOST_PATHS:
        raise Refusal(413, f"ask for {MOST_PATHS:,} paths at most")
    return await run_in_threadpool(_paths_info, request, paths, expand)


def _form(body: bytes) -> tuple[list[str], bool]:
    try:
        fields = parse_qsl(body.decode("ascii"), errors="strict", max_num_fields=MOST_PATHS + 10)
    except ValueError:
        raise Refusal(400, "the body is not a form, or has too many fields") from None
    expand = any(name == "expand" and _is_true(value) for name, value in fields)
    return [value for name, value in fields if name == "paths"], expand


def _paths_info(request: Request, paths: Sequence[str], expand: bool) -> JSONResponse:
    repo = repo_of(request)
    commit = as_listed(request, repo, part(request, "revision"))
    found = (commit.files.entry(path) for path in dict.fromkeys(path.strip("/") for path in paths))
    return JSONResponse(_listed(repo, filter(None, found), expand))


def refs(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/refs`."""
    repo = repo_of(request)
    branches, tags = (
        [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": at} for name, at in found.items()]
        for kind, found in (("heads", repo.refs("heads")), ("tags", repo.refs("tags")))
    )
    return JSONResponse({"branches": branches, "tags": tags, "converts": [], "pullRequests": []})


def history(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/commits/<revision>`, newest first, in pages.

    The link to the next page begins at the commit that follows; a client may also count pages with `p`.
    """
    repo, query = repo_of(request), request.query_params
    size = _limit(query, MOST_COMMITS, COMMITS)
    formatted = "formatted" in (*query.getlist("expand"), *query.getlist("expand[]"))
    number = query.get("p", query.get("page", ""))
    skipped = int(number) * size if re.fullmatch("[0-9]{1,9}", number) else 0
    newest = repo.commit(part(request, "revision"))
    found: list[Json] = []
    left, headers = MOST_LETTERS, {}
    if skipped <= newest.number:
        for commit in itertools.islice(repo.history(newest.id), skipped, None):
            left -= len(commit.title) + len(commit.message)
            if found and (len(found) == size or left < 0):
                url = f"{base_url(request)}/api/datasets/{repo.owner}/{repo.name}/commits/{commit.id}"
                following = {"limit": size} | ({"expand[]": "formatted"} if formatted else {})
                headers["Link"] = f'<{url}?{urlencode(following)}>; rel="next"'
                break
            found.append(_described(commit, formatted))
    return JSONResponse(found, headers=headers)


def _described(commit: Commit, formatted: bool) -> Json:
    text = {"title": commit.title, "message": commit.message}
    more = {"formatted": text} if formatted else {}
    return {"id": commit.id, **text, "date": commit.date, "authors": [{"user": OWNER}], **more}
