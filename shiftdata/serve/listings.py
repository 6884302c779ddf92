"""What clients ask about repos: listings, revisions, trees. The files themselves: `file_answers.py`."""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shiftdata.data.format.benchmark import LEADERBOARD
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.files import git_blob_id
from shiftdata.serve.file_answers import as_listed
from shiftdata.serve.folders import OWNER, Commit, FileRecord, Repo
from shiftdata.serve.names import Refusal, no_entry
from shiftdata.serve.request import base_url, check_reader, part, repo_of, visible_repos
from shiftdata.untrusted.texts import read_json

Json: TypeAlias = dict[str, Any]

#: Entries of a page of a tree at most; clients follow the link to the next one.
PAGE = 1000


def whoami(request: Request) -> JSONResponse:
    """`/api/whoami-v2`: everyone who may read is one user."""
    check_reader(request)
    token = {"displayName": "mirror", "role": "read"}
    user = {"type": "user", "id": OWNER, "name": OWNER, "fullname": OWNER, "isPro": False, "orgs": []}
    return JSONResponse({**user, "auth": {"type": "access_token", "accessToken": token}})


def auth_check(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/auth-check`: an error where the caller may not read."""
    repo_of(request)
    return JSONResponse({})


def list_datasets(request: Request) -> JSONResponse:
    """`/api/datasets`: by name, those of an `author`, those whose name has every text of `search`."""
    query = request.query_params
    author, texts, limit = query.get("author"), query.getlist("search"), query.get("limit", "")
    matches = [
        _describe(repo, commit)
        for repo, commit in visible_repos(request)
        if author in (None, repo.owner)
        and all(text.lower() in f"{repo.owner}/{repo.name}".lower() for text in texts)
    ]
    return JSONResponse(matches[: int(limit) if re.fullmatch("[0-9]{1,6}", limit) else None])


def dataset_info(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>` and `.../revision/<revision>`."""
    repo = repo_of(request)
    commit = as_listed(request, repo, part(request, "revision", "main"))
    with_sizes = _is_true(request.query_params.get("blobs"))
    siblings = [_sibling(path, file, with_sizes) for path, file in commit.files.items()]
    return JSONResponse(_describe(repo, commit) | {"usedStorage": commit.bytes, "siblings": siblings})


def _describe(repo: Repo, commit: Commit) -> Json:
    repo_id = f"{repo.owner}/{repo.name}"
    names = {"_id": git_blob_id(repo_id.encode())[:24], "id": repo_id, "author": repo.owner, "sha": commit.id}
    dates = {"lastModified": commit.date, "createdAt": commit.date}
    unused = {"private": False, "gated": False, "disabled": False, "downloads": 0, "likes": 0, "tags": []}
    return names | dates | unused


def _sibling(path: str, file: FileRecord, with_sizes: bool) -> Json:
    if not with_sizes:
        return {"rfilename": path}
    lfs = {"sha256": file.sha256, **_sizes(file)}
    return {"rfilename": path, "size": file.size, "blobId": file.blob_id, "lfs": lfs}


def _entry(commit: Commit, path: str, expand: bool) -> Json:
    """A file or a folder as JSON; with the commit that changed it last, where this is asked for."""
    last = {"lastCommit": {"id": commit.id, "title": TITLE, "date": commit.date}} if expand else {}
    file = commit.files.get(path)
    if file is None:
        return {"type": "directory", "path": path, "size": 0, "oid": git_blob_id(path.encode()), **last}
    lfs = {"oid": file.sha256, **_sizes(file)}
    return {"type": "file", "path": path, "size": file.size, "oid": file.blob_id, "lfs": lfs, **last}


def _sizes(file: FileRecord) -> Json:
    return {"size": file.size, "pointerSize": len(file.pointer)}


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true")


def tree(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/tree/<revision>[/<path>]`, in pages of one commit.

    The `cursor` of a page is the last path of the one before.
    """
    repo, query = repo_of(request), request.query_params
    commit = as_listed(request, repo, part(request, "revision"))
    folder = part(request, "path").strip("/")
    if folder and folder not in commit.folders:
        raise no_entry(folder)
    recursive, expand, size = _is_true(query.get("recursive")), _is_true(query.get("expand")), _limit(query)
    page = list(itertools.islice(_below(commit, folder, recursive, query.get("cursor", "")), size + 1))
    headers = {}
    if len(page) > size:
        url = f"{base_url(request)}/api/datasets/{repo.owner}/{repo.name}/tree/{commit.id}"
        url += f"/{quote(folder, safe='')}" if folder else ""
        following = {"recursive": recursive, "expand": expand, "limit": size, "cursor": page[size - 1]}
        headers["Link"] = f'<{url}?{urlencode(following)}>; rel="next"'
    return JSONResponse([_entry(commit, path, expand) for path in page[:size]], headers=headers)


def _below(commit: Commit, folder: str, recursive: bool, cursor: str) -> Iterator[str]:
    """The files and folders of a folder behind a cursor; the folder itself is not one of them."""
    start = f"{folder}/" if folder else ""
    first = max(bisect_left(commit.paths, start), bisect_right(commit.paths, cursor))
    for path in itertools.islice(commit.paths, first, None):
        if not path.startswith(start):
            return
        if recursive or "/" not in path[len(start) :]:
            yield path


def _limit(query: QueryParams) -> int:
    given = query.get("limit", "")
    return max(1, min(int(given), PAGE)) if re.fullmatch("[0-9]{1,9}", given) else PAGE


async def paths_info(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/paths-info/<revision>`: those of some paths that exist."""
    paths, expand = _form(await request.body())
    return await run_in_threadpool(_paths_info, request, paths, expand)


def _form(body: bytes) -> tuple[list[str], bool]:
    try:
        fields = parse_qsl(body.decode("ascii"), errors="strict")
    except ValueError:
        raise Refusal(400, "the body is not a form") from None
    expand = any(name == "expand" and _is_true(value) for name, value in fields)
    return [value for name, value in fields if name == "paths"], expand


def _paths_info(request: Request, paths: Sequence[str], expand: bool) -> JSONResponse:
    repo = repo_of(request)
    commit = as_listed(request, repo, part(request, "revision"))
    wanted = dict.fromkeys(path.strip("/") for path in paths)
    existing = [path for path in wanted if path in commit.files or path in commit.folders]
    return JSONResponse([_entry(commit, path, expand) for path in sorted(existing)])


def refs(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/refs`."""
    commit = repo_of(request).commit("main")
    main = {"name": "main", "ref": "refs/heads/main", "targetCommit": commit.id}
    return JSONResponse({"branches": [main], "tags": [], "converts": [], "pullRequests": []})


def catalog(request: Request) -> JSONResponse:
    """`/catalog.json`: where `shiftdata fetch` finds each dataset, and the hash of its manifest."""
    datasets = {}
    heads = visible_repos(request)
    for repo, commit in sorted(heads, key=lambda head: head[0].owner == OWNER):  # its own win
        if manifest := commit.files.get(FILE_NAME):
            place = f"hf+{base_url(request)}/datasets/{repo.owner}/{repo.name}"
            datasets[repo.name] = {"manifest": manifest.sha256, "places": [place]}
    return JSONResponse(dict(sorted(datasets.items())))


#: Bytes of a leaderboard at most: readers of files wait while it is parsed.
MOST_LEADERBOARD = 1 << 20


def leaderboard(request: Request) -> Response:
    """`/api/datasets/<owner>/<name>/leaderboard`: of the task `task_id`, by default the first."""
    repo, task = repo_of(request), request.query_params.get("task_id")
    commit = repo.commit("main")
    data = repo.read_next_to(LEADERBOARD, MOST_LEADERBOARD)
    if data is None:
        raise Refusal(404, f"{repo.owner}/{repo.name} has no leaderboard here", "EntryNotFound")
    try:
        manifest, tasks = _leaderboard(data)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Refusal(404, "the leaderboard cannot be read: make it again", "EntryNotFound") from None
    if FILE_NAME not in commit.files or commit.files[FILE_NAME].sha256 != manifest:
        raise Refusal(404, "the leaderboard is of another build of this dataset", "EntryNotFound")
    task = next(iter(tasks), "") if task is None else task
    if task not in tasks:
        raise Refusal(404, "the leaderboard has no such task", "EntryNotFound")
    return Response(tasks[task], media_type="application/json")


@lru_cache(maxsize=16)
def _leaderboard(data: bytes) -> tuple[str, dict[str, bytes]]:
    """Return the hash of the manifest that submissions were judged on, and the answer for each task."""
    board = read_json(data, "the leaderboard")
    return board["manifest"], {task: json.dumps(of).encode() for task, of in board["tasks"].items()}


TITLE = "The folder as it is"


def history(request: Request) -> JSONResponse:
    """`/api/datasets/<owner>/<name>/commits/<revision>`: the newest commit is the only one."""
    commit = repo_of(request).commit(part(request, "revision"))
    text = {"title": TITLE, "message": ""}
    described = {"id": commit.id, **text, "date": commit.date, "authors": [{"user": OWNER}]}
    return JSONResponse([described | {"formatted": text}])
