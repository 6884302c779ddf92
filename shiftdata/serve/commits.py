"""Commits: which files are to come and how, then the commit itself, its body decoded line by line."""

from __future__ import annotations

import binascii
import json
import re
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.files import git_blob_id
from shiftdata.serve.blobs import Incoming
from shiftdata.serve.names import Refusal, file_path, is_sha256, no_entry
from shiftdata.serve.repos import Commit, FileRecord
from shiftdata.serve.request import Json, base_url, mirror_of, part, pieces, repo_to_write, text_of, writes
from shiftdata.serve.uploaded import UploadedRepo

#: Bytes of a line at most, without the content.
LONGEST_LINE = 1 << 20

#: What ends the part of a line that is kept: the start of a content, or the end of the line. A quote after a
#: backslash belongs to another text.
CONTENT_OR_END = re.compile(rb'(?<!\\)"content"[ \t\r]{0,40}:[ \t\r]{0,40}"|\n')
LONGEST_START = 100

#: Operations of a commit at most; and lines of its body, blank ones too.
MOST_OPERATIONS = 100_000
MOST_LINES = 2 * MOST_OPERATIONS


@dataclass(frozen=True)
class Line:
    """One line that is complete; its content, if it `has_content`, has been handed out before as bytes."""

    key: str
    value: dict[str, Any]
    has_content: bool


class CommitLines:
    """Feed it a body in any pieces: it yields the bytes of files and, after those of each file, its line.

    A line is `{"key": "file", "value": {"content": "<base64>", "path": ...}}`: the content is decoded on the
    way, so that no file is in memory; the rest of the line must be short, and `json` reads it.
    """

    def __init__(self) -> None:
        self._kept = bytearray()  # of the line: all but the content
        self._rest = b""  # of what came: a content may begin in it
        self._lines = 0
        self._base64 = bytearray()  # less than a group of four letters, or one with a backslash
        self._has_content = self._in_content = self._padded = False

    def feed(self, data: bytes) -> Iterator[bytes | Line]:
        data, self._rest, at = self._rest + data, b"", 0
        while at < len(data):
            if self._in_content:
                quote = data.find(b'"', at)
                end = quote if quote >= 0 else len(data)
                yield self._decoded(data[at:end])
                self._end_content(data[end : end + 1])
                at = end + 1
                continue
            found = CONTENT_OR_END.search(data, at)
            end = found.end() if found else max(at, len(data) - LONGEST_START)
            self._kept += data[at:end]
            self._rest = b"" if found else data[end:]
            if len(self._kept) + len(self._rest) > LONGEST_LINE:
                raise Refusal(413, f"a line of the commit is longer than {LONGEST_LINE} bytes")
            at = end if found else len(data)
            if found and found[0] == b"\n":
                yield from self._line()
            elif found:
                self._start_content()

    def close(self) -> Iterator[Line]:
        """The body has ended, perhaps without a line feed."""
        if self._in_content:
            raise Refusal(400, "the body of the commit ends in the middle of a line")
        self._kept += self._rest
        yield from self._line()

    def _start_content(self) -> None:
        if self._has_content:
            raise Refusal(400, "a line of the commit has two contents")
        self._has_content = self._in_content = True
        self._padded = False

    def _decoded(self, letters: bytes) -> bytes:
        """Decode whole groups of four letters and keep the rest for the next piece."""
        self._base64 = (self._base64 + letters).replace(rb"\/", b"/")  # the one escape that base64 can need
        whole = (len(self._base64) - self._base64.endswith(b"\\")) // 4 * 4
        group = bytes(self._base64[:whole])
        del self._base64[:whole]
        if group and self._padded:
            raise Refusal(400, "the content of a file is not base64: letters follow its padding")
        self._padded = self._padded or group.endswith(b"=")
        try:
            return binascii.a2b_base64(group, strict_mode=True)
        except binascii.Error as error:
            raise Refusal(400, f"the content of a file is not base64: {error}") from None

    def _end_content(self, quote: bytes) -> None:
        if quote and self._base64:
            raise Refusal(400, "the content of a file is not base64: it is cut")
        self._in_content = not quote
        self._kept += quote

    def _line(self) -> Iterator[Line]:
        kept, has_content = bytes(self._kept), self._has_content
        self._kept.clear()
        self._has_content = False
        self._lines += 1
        if self._lines > MOST_LINES:
            raise Refusal(413, f"a commit has {MOST_LINES:,} lines at most: send several")
        if not kept.strip():
            return
        try:
            line = json.loads(kept)
        except (ValueError, RecursionError):
            raise Refusal(400, "a line of the commit is not JSON") from None
        if not isinstance(line, dict) or not isinstance(line.get("key"), str):
            raise Refusal(400, 'a line of the commit is not {"key": ..., "value": {...}}')
        value = line.get("value")
        if not isinstance(value, dict) or (has_content and value.get("content") != ""):
            raise Refusal(400, 'a line of the commit has no plain "value"')
        yield Line(line["key"], value, has_content)


#: Sent by `publish`: it uploads by LFS, so that what has come need not come again.
UPLOAD_HEADER = "X-Shiftdata-Upload"


@writes
def preupload(request: Request, repo: UploadedRepo, body: Json) -> Json:
    """Say of each file whether it comes inside the commit or by LFS, and the id of the one that is there."""
    _refuse_pull_request(request)
    files = body.get("files")
    if not isinstance(files, list) or len(files) > MOST_OPERATIONS:
        raise Refusal(400, f"'files' must be a list of {MOST_OPERATIONS:,} at most")
    mirror = mirror_of(request)
    most = mirror.resumable_bytes if request.headers.get(UPLOAD_HEADER) == "lfs" else mirror.regular_bytes
    early = _deletes_shards_early(request.headers.get("user-agent", ""))
    head = repo.commit(part(request, "revision"))
    answers, is_here = [], repo.blobs.hasher()
    for wanted in files:
        if not isinstance(wanted, dict) or type(size := wanted.get("size")) is not int or size < 0:
            raise Refusal(400, "a file is {'path': <text>, 'size': <bytes>}")
        path = file_path(wanted.get("path"))
        regular = size <= most and not (early and path.endswith(".parquet"))
        answer = {"path": path, "uploadMode": "regular" if regular else "lfs", "shouldIgnore": False}
        file = head.files.get(path)
        if file is not None and file.size == size and is_here(file.sha256, size):
            # Clients compare plain files by git's id, and others by sha256, whatever they were before.
            answer["oid"] = (
                (file.git or git_blob_id(repo.blobs.path(file.sha256))) if regular else file.sha256
            )
        answers.append(answer)
    return {"files": answers, "commitOid": head.id}


def _deletes_shards_early(user_agent: str) -> bool:
    """Whether this is `push_to_hub` of a `datasets` that deletes each shard once it has asked how it comes.

    It takes for granted that a Parquet file comes by LFS, at once; at the commit it no longer exists.
    """
    found = re.match(r"datasets/(\d{1,4})\.(\d{1,4})\.", user_agent)
    return found is not None and (int(found[1]), int(found[2])) >= (4, 6)


def _refuse_pull_request(request: Request) -> None:
    if request.query_params.get("create_pr", "0").lower() not in ("", "0", "false"):
        text = "this mirror has no pull requests: commit to a branch instead (create_branch, then revision=)"
        raise Refusal(400, text)


async def commit(request: Request) -> JSONResponse:
    """Receive a commit, line by line, and add it when all of it is here."""
    mirror = mirror_of(request)
    repo = await run_in_threadpool(repo_to_write, request)
    _refuse_pull_request(request)
    receiving = _Receiving(repo, mirror.regular_bytes)
    try:
        async for piece in pieces(request):
            async with mirror.writing:
                await run_in_threadpool(receiving.feed, piece)
        made = await run_in_threadpool(receiving.finish, part(request, "revision"))
    finally:
        await run_in_threadpool(receiving.close)
    url = f"{base_url(request)}/datasets/{repo.owner}/{repo.name}/commit/{made.id}"
    return JSONResponse({"success": True, "commitOid": made.id, "commitUrl": url, "hookOutput": ""})


def _plain(text: str) -> str:
    """A text that a terminal may show: without escape codes and other control characters."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)


class _Receiving:
    """The operations of one commit, as they come; files go to the blobs at once, the tree changes last."""

    def __init__(self, repo: UploadedRepo, most_bytes: int) -> None:
        self._repo, self._most_bytes = repo, most_bytes
        self._lines = CommitLines()
        self._header: Json | None = None
        self._operations: list[tuple[str, str, FileRecord | None]] = []
        self._file: Incoming | None = None

    def close(self) -> None:
        if self._file is not None:
            self._file.drop()
            self._file = None

    def feed(self, piece: bytes) -> None:
        for made in self._lines.feed(piece):
            if isinstance(made, Line):
                self._take(made)
            else:
                self._write(made)

    def finish(self, branch: str) -> Commit:
        for line in self._lines.close():
            self._take(line)
        if self._header is None:
            raise Refusal(400, "the commit has no header line")
        title = _plain(text_of(self._header, "summary"))
        message = _plain(text_of(self._header, "description", ""))
        parent = text_of(self._header, "parentCommit", "") or None
        return self._repo.add_commit(branch, self._changed, title=title, message=message, parent=parent)

    def _write(self, content: bytes) -> None:
        if self._file is None:
            self._file = self._repo.blobs.receive()
        self._file.write(content)
        if self._file.size > self._most_bytes:
            raise Refusal(413, f"a file above {self._most_bytes:,} bytes comes by LFS, not inside a commit")

    def _take(self, line: Line) -> None:
        if line.has_content and line.key != "file":
            raise Refusal(400, f"a line {line.key[:100]!a} has no content")
        if line.key == "header":
            self._header = line.value
            return
        if len(self._operations) >= MOST_OPERATIONS:
            raise Refusal(413, f"a commit changes {MOST_OPERATIONS:,} files at most: send several")
        path = line.value.get("path")
        if line.key == "deletedFolder" and isinstance(path, str):
            path = path.rstrip("/")
        self._operations.append((line.key, file_path(path), self._record(line)))

    def _record(self, line: Line) -> FileRecord | None:
        """The file that an operation puts at its path; None where it deletes."""
        match line.key:
            case "file":
                return self._keep_file(line)
            case "lfsFile":  # uploaded before
                oid = line.value.get("oid")
                size = self._repo.blobs.has(str(oid), most=0) if is_sha256(oid) else None
                if size is None or line.value.get("size", size) != size:
                    path = str(line.value.get("path"))[:200]
                    raise Refusal(400, f"the file {path!a} of the commit was not uploaded")
                return FileRecord(size, str(oid))
            case "copyFile":  # a file of some commit of this repo
                source = str(line.value.get("srcPath"))
                found = self._repo.commit(text_of(line.value, "srcRevision", "main")).files.get(source)
                if found is None:
                    raise no_entry(source)
                return found
            case "deletedFile" | "deletedFolder":
                return None
        raise Refusal(400, f"this mirror knows no operation {line.key[:100]!a} in a commit")

    def _keep_file(self, line: Line) -> FileRecord:
        if line.value.get("encoding") != "base64" or not line.has_content or self._file is None:
            raise Refusal(400, "a file of a commit has a 'content' with the 'encoding' 'base64'")
        sha256 = self._repo.blobs.keep(self._file)
        record = FileRecord(self._file.size, sha256, git_blob_id(self._repo.blobs.path(sha256)))
        self.close()
        return record

    def _changed(self, before: Commit) -> Mapping[str, FileRecord | None]:
        """The files that these operations change, in their order: what they become, or None where they go."""
        changes: dict[str, FileRecord | None] = {}
        added: list[str] = []  # sorted
        for key, path, file in self._operations:
            if file is not None:
                if changes.get(path) is None:
                    insort(added, path)
                changes[path] = file
                continue
            # In order, what is in a folder stands together: "0" comes next after "/".
            first, last = (f"{path}/", f"{path}0") if key == "deletedFolder" else (path, f"{path}\0")
            here = slice(bisect_left(added, first), bisect_left(added, last))
            gone = added[here]
            del added[here]
            for name in gone:
                del changes[name]
            old = before.files.below(path) if key == "deletedFolder" else [before.files.entry(path)]
            deleted = [entry.path for entry in old if entry and entry.file and entry.path not in changes]
            if not gone and not deleted:
                raise no_entry(path)
            changes.update(dict.fromkeys(deleted))
        return changes
