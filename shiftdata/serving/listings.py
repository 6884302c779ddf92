"""What clients ask about repos: listings, revisions, trees. The files themselves: `file_answers.py`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serving.library import Repo
from shiftdata.serving.names import Refusal, no_entry
from shiftdata.serving.repos import OWNER, Commit, FileRecord, git_blob_id
from shiftdata.serving.request import (
    Json,
    base_url,
    json_body,
    mirror_of,
    part,
    repo_of,
    visible_repos,
    whole_body,
)

#: Entries of a page of a tree; clients follow the link to the next one.
PAGE = 1000

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
        _describe(repo, repo.commit("main"))
        for repo in visible_repos(request)
        if author in (None, repo.owner)
        and all(text.lower() in f"{repo.owner}/{repo.name}".lower() for text in texts)
    ]
    return JSONResponse(found[: int(limit) if re.fullmatch("[0-9]{1,6}", limit) else None])


def dataset_info(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>` and `.../revision/<revision>`."""
    repo = repo_of(request)
    commit = repo.commit(part(request, "revision", "main"))
    blobs = _is_true(request.query_params.get("blobs"))
    siblings = [_sibling(path, file, blobs) for path, file in commit.files.items()]
    return JSONResponse(_describe(repo, commit) | {"siblings": siblings, "usedStorage": commit.bytes})


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


def _entry(path: str, file: FileRecord | None) -> Json:
    if file is None:
        return {"type": "directory", "path": path, "size": 0, "oid": git_blob_id(path.encode())}
    lfs = {} if file.git else {"lfs": {"oid": file.sha256, **_pointer(file)}}
    return {"type": "file", "path": path, "size": file.size, "oid": file.blob_id, **lfs}


def _pointer(file: FileRecord) -> Json:
    return {"size": file.size, "pointerSize": len(file.pointer)}


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true")


def tree(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/tree/<revision>[/<path>]`, in pages of one commit."""
    repo, query = repo_of(request), request.query_params
    commit = repo.commit(part(request, "revision"))
    path = part(request, "path").strip("/")
    recursive, expand = _is_true(query.get("recursive")), _is_true(query.get("expand"))
    entries = _entries(commit.files, f"{path}/" if path else "", recursive)
    if path and not entries:
        raise no_entry(path)
    cursor = query.get("cursor", "0")
    start = int(cursor) if re.fullmatch("[0-9]{1,9}", cursor) else 0
    page = dict(sorted(entries.items())[start : start + PAGE])
    headers = {}
    if start + PAGE < len(entries):
        url = f"{base_url(request)}/api/datasets/{repo.owner}/{repo.name}/tree/{commit.id}"
        url += f"/{quote(path, safe='')}" if path else ""
        following = urlencode({"recursive": recursive, "expand": expand, "cursor": start + PAGE})
        headers["Link"] = f'<{url}?{following}>; rel="next"'
    return JSONResponse(_listed(repo, commit, page, expand), headers=headers)


def _entries(files: Mapping[str, FileRecord], below: str, recursive: bool) -> dict[str, FileRecord | None]:
    """Files and folders (None) below a folder, which ends with a slash."""
    found: dict[str, FileRecord | None] = {}
    for path, file in files.items():
        if not path.startswith(below):
            continue
        parts = path[len(below) :].split("/")
        for depth in range(1, len(parts) if recursive else min(2, len(parts))):
            found[below + "/".join(parts[:depth])] = None
        if recursive or len(parts) == 1:
            found[path] = file
    return found


def _listed(repo: Repo, commit: Commit, entries: Mapping[str, FileRecord | None], expand: bool) -> list[Json]:
    changes = _last_changes(repo, commit, entries) if expand else {}
    return [_entry(path, file) | changes.get(path, {}) for path, file in entries.items()]


def _last_changes(repo: Repo, commit: Commit, paths: Iterable[str]) -> dict[str, Json]:
    """For each file, the commit that made it what it is; for a folder, the newest of its files."""
    found: dict[str, Json] = {}
    left = set(paths)
    for at, older in itertools.pairwise([*repo.history(commit.id), None]):
        assert at is not None
        before = older.files if older else {}
        changed = {path for path, file in at.files.items() if before.get(path) != file}
        for path in left & (changed | _folders(changed)):
            found[path] = {"lastCommit": {"id": at.id, "title": at.title, "date": at.date}}
        left -= found.keys()
        if not left:
            break
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
    commit = repo.commit(part(request, "revision"))
    folders = _folders(commit.files)
    asked = dict.fromkeys(path.strip("/") for path in paths)
    found = {path: commit.files.get(path) for path in asked if path in commit.files or path in folders}
    return JSONResponse(_listed(repo, commit, found, expand))


def _folders(paths: Iterable[str]) -> set[str]:
    folders = {path.rpartition("/")[0] for path in paths} - {""}
    return folders | {folder[:at] for folder in folders for at, letter in enumerate(folder) if letter == "/"}


def refs(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/refs`."""
    repo = repo_of(request)
    branches, tags = (
        [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": at} for name, at in found.items()]
        for kind, found in (("heads", repo.refs("heads")), ("tags", repo.refs("tags")))
    )
    return JSONResponse({"branches": branches, "tags": tags, "converts": [], "pullRequests": []})


def history(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/commits/<revision>`, newest first."""
    commits = []
    for commit in repo_of(request).history(part(request, "revision")):
        text = {"title": commit.title, "message": commit.message}
        authors = [{"user": OWNER}]
        commits.append({"id": commit.id, **text, "date": commit.date, "authors": authors, "formatted": text})
    return JSONResponse(commits)
