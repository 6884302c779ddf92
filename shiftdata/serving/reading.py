"""What clients ask of repos: listings, revisions, trees. Files themselves: `sending.py`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serving.exchange import authorization, base_url, json_body, mirror_of, part, pieces, repo_of
from shiftdata.serving.folders import OWNER
from shiftdata.serving.refusals import Refusal, no_entry
from shiftdata.serving.repos import Commit, FileRecord, Repo, git_blob_id

#: Entries of a page of a tree; clients follow the link to the next one.
PAGE = 1000

MOST_PATHS = 5000


def whoami(request: Request) -> JSONResponse:
    """`/api/whoami-v2`: everyone with the token is one user."""
    mirror_of(request).access.check_owner(authorization(request))
    token = {"displayName": "mirror", "role": "write" if mirror_of(request).library.writable else "read"}
    said = {"type": "user", "id": OWNER, "name": OWNER, "fullname": OWNER, "isPro": False, "orgs": []}
    return JSONResponse({**said, "auth": {"type": "access_token", "accessToken": token}})


def auth_check(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/auth-check`: whether the caller may read the files."""
    repo_of(request, for_files=True)
    return JSONResponse({})


def list_datasets(request: Request) -> JSONResponse:
    """`/api/datasets`: by name, those of an `author`, those that hold every text of `search`."""
    mirror, query = mirror_of(request), request.query_params
    mirror.access.check_server(authorization(request))
    author, words = query.get("author"), [word.lower() for word in query.getlist("search")]
    limit = query.get("limit", "")
    most = int(limit) if re.fullmatch("[0-9]{1,6}", limit) else None
    seen = [
        _described(repo, repo.commit("main"), with_files=False)
        for repo in mirror.library.repos()
        if author in (None, repo.owner)
        and all(word in f"{repo.owner}/{repo.name}".lower() for word in words)
        and mirror.access.sees(repo, authorization(request))
    ]
    return JSONResponse(seen[:most])


def dataset_info(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>` and `.../revision/<revision>`."""
    repo = repo_of(request)
    commit = repo.commit(part(request, "revision") if "revision" in request.path_params else "main")
    return JSONResponse(
        _described(repo, commit, blobs=request.query_params.get("blobs", "") in ("1", "true", "True"))
    )


def _described(repo: Repo, commit: Commit, *, with_files: bool = True, blobs: bool = False) -> dict[str, Any]:
    settings, repo_id = repo.settings(), f"{repo.owner}/{repo.name}"
    said = {
        "_id": git_blob_id(repo_id.encode())[:24],
        "id": repo_id,
        "author": repo.owner,
        "sha": commit.id,
        "lastModified": commit.date,
        "createdAt": commit.date,
        "private": settings.private,
        "gated": settings.gated,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
    }
    if with_files:
        size = sum(file.size for file in commit.files.values())
        said |= {
            "siblings": [_sibling(path, file, blobs) for path, file in commit.files.items()],
            "usedStorage": size,
        }
    return said


def _sibling(path: str, file: FileRecord, blobs: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"rfilename": path}
    if blobs:
        said |= {"size": file.size, "blobId": file.blob_id}
        if file.is_lfs:
            said["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": len(file.pointer)}
    return said


def tree(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/tree/<revision>[/<path>]`, in pages of one commit."""
    repo, query = repo_of(request), request.query_params
    commit = repo.commit(part(request, "revision"))
    path = part(request, "path").strip("/") if "path" in request.path_params else ""
    recursive, expand = (query.get(name, "").lower() in ("1", "true") for name in ("recursive", "expand"))
    entries = _entries(commit.files, f"{path}/" if path else "", recursive)
    if path and not entries:
        raise no_entry(path)
    cursor = query.get("cursor", "0")
    start = int(cursor) if re.fullmatch("[0-9]{1,9}", cursor) else 0
    names = sorted(entries)[start : start + PAGE]
    changes = _last_changes(repo, commit, names) if expand else {}
    headers = {}
    if start + PAGE < len(entries):
        place = f"{base_url(request)}/api/datasets/{repo.owner}/{repo.name}/tree/{commit.id}"
        place += f"/{quote(path, safe='')}" if path else ""
        asked = urlencode({"recursive": recursive, "expand": expand, "cursor": start + PAGE})
        headers["Link"] = f'<{place}?{asked}>; rel="next"'
    return JSONResponse(
        [_entry(name, entries[name]) | changes.get(name, {}) for name in names], headers=headers
    )


def _entries(files: Mapping[str, FileRecord], below: str, recursive: bool) -> dict[str, FileRecord | None]:
    """Files and folders (None) below a folder, which ends with a slash."""
    found: dict[str, FileRecord | None] = {}
    for path, file in files.items():
        if not path.startswith(below):
            continue
        parts = path[len(below) :].split("/")
        depths = range(1, len(parts)) if recursive else range(1, min(2, len(parts)))
        for depth in depths:
            found[below + "/".join(parts[:depth])] = None
        if recursive or len(parts) == 1:
            found[path] = file
    return found


def _entry(path: str, file: FileRecord | None) -> dict[str, Any]:
    if file is None:
        return {"type": "directory", "path": path, "size": 0, "oid": git_blob_id(path.encode())}
    said: dict[str, Any] = {"type": "file", "path": path, "size": file.size, "oid": file.blob_id}
    if file.is_lfs:
        said["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": len(file.pointer)}
    return said


def _last_changes(repo: Repo, commit: Commit, paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each file, the commit that made it what it is; for a folder, the newest of its files."""
    found: dict[str, dict[str, Any]] = {}
    history = [*repo.history(commit.id), None]
    left = set(paths)
    for commit_here, older in itertools.pairwise(history):
        assert commit_here is not None
        before = older.files if older else {}
        changed = {path for path, file in commit_here.files.items() if before.get(path) != file}
        said = {"id": commit_here.id, "title": commit_here.title, "date": commit_here.date}
        for path in left & (changed | _folders(changed)):
            found[path] = {"lastCommit": said}
            left.discard(path)
        if not left:
            break
    return found


async def paths_info(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/paths-info/<revision>`: those of some paths that are there."""
    paths, expand = await _asked_paths(request)
    if len(paths) > MOST_PATHS:
        raise Refusal(413, f"ask for {MOST_PATHS:,} paths at most")
    return await run_in_threadpool(_paths_info, request, paths, expand)


async def _asked_paths(request: Request) -> tuple[list[str], bool]:
    if request.headers.get("content-type", "").startswith("application/json"):
        body = await json_body(request)
        paths = body.get("paths", [])
        if isinstance(paths, str):
            paths = [paths]
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise Refusal(400, "'paths' must be a list of texts")
        return paths, bool(body.get("expand"))
    return await _form_paths(request)


async def _form_paths(request: Request) -> tuple[list[str], bool]:
    body = bytearray()
    async for piece in pieces(request):
        body += piece
        if len(body) > 1 << 20:
            raise Refusal(413, "the body is longer than 1 MiB")
    try:
        fields = parse_qsl(body.decode("ascii"), errors="strict", max_num_fields=MOST_PATHS + 10)
    except ValueError:
        raise Refusal(400, "the body is no form, or has too many fields") from None
    paths = [value for name, value in fields if name == "paths"]
    return paths, ("expand", "True") in fields or ("expand", "true") in fields


def _paths_info(request: Request, paths: Sequence[str], expand: bool) -> JSONResponse:
    repo = repo_of(request)
    commit = repo.commit(part(request, "revision"))
    folders = _folders(commit.files)
    asked = dict.fromkeys(path.strip("/") for path in paths)
    there = [path for path in asked if path in commit.files or path in folders]
    changes = _last_changes(repo, commit, there) if expand else {}
    return JSONResponse([_entry(path, commit.files.get(path)) | changes.get(path, {}) for path in there])


def _folders(paths: Iterable[str]) -> set[str]:
    """Every folder that some files lie in."""
    folders = {path.rpartition("/")[0] for path in paths} - {""}
    return folders | {folder[:at] for folder in folders for at, letter in enumerate(folder) if letter == "/"}


def refs(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/refs`."""
    found = repo_of(request).refs()
    branches = [
        {"name": name, "ref": f"refs/heads/{name}", "targetCommit": at} for name, at in found.branches.items()
    ]
    tags = [{"name": name, "ref": f"refs/tags/{name}", "targetCommit": at} for name, at in found.tags.items()]
    return JSONResponse({"branches": branches, "tags": tags, "converts": [], "pullRequests": []})


def commits(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/commits/<revision>`, newest first."""
    history = repo_of(request).history(part(request, "revision"))
    return JSONResponse(
        [
            {
                "id": commit.id,
                "title": commit.title,
                "message": commit.message,
                "date": commit.date,
                "authors": [{"user": OWNER}],
                "formatted": {"title": commit.title, "message": commit.message},
            }
            for commit in history
        ]
    )
