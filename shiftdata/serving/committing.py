"""Commits: first which files are to come and how, then the commit itself, read as a stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serving.blobs import Incoming
from shiftdata.serving.exchange import (
    Limits,
    base_url,
    json_body,
    mirror_of,
    part,
    pieces,
    repo_to_write,
    text_of,
)
from shiftdata.serving.ndjson import CommitLines, Line
from shiftdata.serving.paths import file_path, is_sha256
from shiftdata.serving.refusals import Refusal, no_entry
from shiftdata.serving.repos import Commit, FileRecord
from shiftdata.serving.store import StoredRepo

MOST_OPERATIONS = 100_000

#: Sent by `publish`: it uploads by LFS, so that what has come need not come again.
UPLOAD_HEADER = "X-Shiftdata-Upload"


async def preupload(request: Request) -> JSONResponse:
    """Say of each file whether it comes inside the commit or by LFS, and the id of the one that is there."""
    repo = await run_in_threadpool(repo_to_write, request)
    _no_pull_request(request)
    body = await json_body(request)
    files = body.get("files")
    if (
        not isinstance(files, list)
        or len(files) > MOST_OPERATIONS
        or not all(isinstance(one, dict) for one in files)
    ):
        raise Refusal(400, "'files' must be a list of objects")
    limits = mirror_of(request).limits
    most = limits.resumable_bytes if request.headers.get(UPLOAD_HEADER) == "lfs" else limits.regular_bytes
    early = _deletes_shards_early(request.headers.get("user-agent", ""))

    def is_regular(path: str, size: int) -> bool:
        return size <= most and not (early and path.endswith(".parquet"))

    return JSONResponse(await run_in_threadpool(_modes, repo, part(request, "revision"), files, is_regular))


def _deletes_shards_early(user_agent: str) -> bool:
    """Whether this is `push_to_hub` of a `datasets` that deletes each shard once it has asked how it comes.

    It takes for granted that a Parquet file comes by LFS, at once; for the commit it would be gone.
    """
    found = re.match(r"datasets/(\d{1,4})\.(\d{1,4})\.", user_agent)
    return found is not None and (int(found[1]), int(found[2])) >= (4, 6)


def _modes(
    repo: StoredRepo, revision: str, files: Iterable[dict[str, Any]], is_regular: Callable[[str, int], bool]
) -> dict[str, Any]:
    there = repo.commit(revision)
    said = []
    for wanted in files:
        path, size = file_path(wanted.get("path")), wanted.get("size")
        if type(size) is not int or size < 0:
            raise Refusal(400, "the size of a file must be a number of bytes")
        regular = is_regular(path, size)
        answer = {"path": path, "uploadMode": "regular" if regular else "lfs", "shouldIgnore": False}
        if (file := there.files.get(path)) is not None and file.size == size:
            # Clients compare plain files by git's id, and others by sha256, whatever they were before.
            answer["oid"] = (file.git or repo.blobs.git_id(file.sha256)) if regular else file.sha256
        said.append(answer)
    return {"files": said, "commitOid": there.id}


def _no_pull_request(request: Request) -> None:
    if request.query_params.get("create_pr", "0").lower() not in ("", "0", "false"):
        raise Refusal(
            400,
            "this mirror has no pull requests: commit to a branch instead (create_branch, then revision=)",
        )


async def commit(request: Request) -> JSONResponse:
    """Receive a commit, line by line, and add it when all of it is here."""
    mirror = mirror_of(request)
    repo = await run_in_threadpool(repo_to_write, request)
    _no_pull_request(request)
    branch = part(request, "revision")
    receiving = _Receiving(repo, mirror.limits)
    async with mirror.writer():
        try:
            async for piece in pieces(request):
                await run_in_threadpool(receiving.feed, piece)
            made = await run_in_threadpool(receiving.finish, branch)
        finally:
            await run_in_threadpool(receiving.close)
    base = base_url(request)
    url = f"{base}/datasets/{repo.owner}/{repo.name}/commit/{made.id}"
    return JSONResponse({"success": True, "commitOid": made.id, "commitUrl": url, "hookOutput": ""})


class _Receiving:
    """The operations of one commit, as they come; files go to the blobs at once, the tree changes last."""

    def __init__(self, repo: StoredRepo, limits: Limits) -> None:
        self._repo, self._limits = repo, limits
        self._lines = CommitLines()
        self._header: dict[str, Any] | None = None
        self._operations: list[tuple[str, str, Any]] = []
        self._stack = ExitStack()
        self._file: Incoming | None = None

    def close(self) -> None:
        """Forget a file that was not finished."""
        self._stack.close()

    def feed(self, piece: bytes) -> None:
        """Take a piece of the body."""
        for made in self._lines.feed(piece):
            self._take(made)

    def finish(self, branch: str) -> Commit:
        """The body has come whole: make the commit."""
        for line in self._lines.close():
            self._take(line)
        if self._header is None:
            raise Refusal(400, "the commit has no header line")
        title = text_of(self._header, "summary")
        message = text_of(self._header, "description", "")
        parent = text_of(self._header, "parentCommit", "") or None
        return self._repo.add_commit(branch, self._changed, title=title, message=message, parent=parent)

    def _take(self, made: bytes | Line) -> None:
        if isinstance(made, bytes):
            self._write(made)
            return
        if made.has_content and made.key != "file":
            raise Refusal(400, f"a line {made.key[:100]!a} has no content")
        if made.key == "header":
            self._header = made.value
            return
        if len(self._operations) >= MOST_OPERATIONS:
            raise Refusal(413, f"a commit changes {MOST_OPERATIONS:,} files at most: send several")
        reader = self._readers.get(made.key)
        if reader is None:
            raise Refusal(400, f"this mirror knows no operation {made.key[:100]!a} in a commit")
        path = made.value.get("path")
        if made.key == "deletedFolder" and isinstance(path, str):
            path = path.rstrip("/")
        self._operations.append((made.key, file_path(path), reader(self, made)))

    def _write(self, content: bytes) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(self._repo.blobs.receive())
        self._file.write(content)
        if self._file.size > self._limits.regular_bytes:
            raise Refusal(
                413, f"a file above {self._limits.regular_bytes:,} bytes comes by LFS, not inside a commit"
            )

    def _read_file(self, line: Line) -> FileRecord:
        """A file inside the commit: keep what has come of it."""
        if line.value.get("encoding") != "base64" or not line.has_content:
            raise Refusal(400, "a file of a commit has a 'content' with the 'encoding' 'base64'")
        self._write(b"")
        assert self._file is not None
        size = self._file.size
        sha256 = self._repo.blobs.keep(self._file)
        self._stack.close()
        self._file = None
        return FileRecord(size, sha256, self._repo.blobs.git_id(sha256))

    def _read_lfs(self, line: Line) -> FileRecord:
        """A file that was uploaded before."""
        oid = line.value.get("oid")
        size = self._repo.blobs.size(str(oid)) if is_sha256(oid) else None
        if size is None or line.value.get("size", size) != size:
            raise Refusal(
                400, f"the file {str(line.value.get('path'))[:200]!a} of the commit was not uploaded"
            )
        return FileRecord(size, str(oid))

    def _read_copy(self, line: Line) -> FileRecord:
        """A file of some commit of this repo, again."""
        source = line.value.get("srcPath")
        found = self._repo.commit(text_of(line.value, "srcRevision", "main")).files.get(str(source))
        if found is None:
            raise no_entry(str(source))
        return found

    def _read_nothing(self, line: Line) -> None:
        """A path is all that deleting takes."""

    _readers: ClassVar[Mapping[str, Callable[[_Receiving, Line], FileRecord | None]]] = {
        "file": _read_file,
        "lfsFile": _read_lfs,
        "copyFile": _read_copy,
        "deletedFile": _read_nothing,
        "deletedFolder": _read_nothing,
    }

    def _changed(self, before: Commit) -> Mapping[str, FileRecord]:
        """The files of a commit after these operations, in their order."""
        files = dict(before.files)
        for key, path, file in self._operations:
            if file is not None:
                files[path] = file
            elif key == "deletedFile":
                if files.pop(path, None) is None:
                    raise no_entry(path)
            else:
                gone = [name for name in files if name.startswith(f"{path}/")]
                if not gone:
                    raise no_entry(path)
                for name in gone:
                    del files[name]
        return dict(sorted(files.items()))
