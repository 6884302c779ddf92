"""Large files by Git LFS: what is missing is asked for, comes by a PUT, and must have its hash."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse

from shiftdata.serve.blobs import Blobs
from shiftdata.serve.names import Refusal, is_sha256
from shiftdata.serve.request import Json, base_url, mirror_of, part, pieces, writes
from shiftdata.serve.uploaded import UploadedRepo

MOST_OBJECTS = 1000

NO_XET_URL = "/set/HF_HUB_DISABLE_XET=1/and-run-the-same-command-again"


@writes
def batch(request: Request, repo: UploadedRepo, body: Json) -> Json:
    """`/datasets/<owner>/<name>.git/info/lfs/objects/batch`: where to put what is not here."""
    objects = body.get("objects")
    if body.get("operation") != "upload" or not isinstance(objects, list) or len(objects) > MOST_OBJECTS:
        raise Refusal(400, f"'operation' must be 'upload', 'objects' a list of {MOST_OBJECTS} at most")
    is_here = repo.blobs.hasher()
    wanted = [_object(one) for one in objects]
    answers = [_action(request, repo, *one, is_here=is_here(*one)) for one in wanted]
    return {"transfer": "basic", "hash_algo": "sha256", "objects": answers}


def _action(request: Request, repo: UploadedRepo, oid: str, size: int, *, is_here: bool) -> Json:
    answer: Json = {"oid": oid, "size": size, "authenticated": True}
    if is_here:
        return answer
    try:
        repo.blobs.check_room(size)
    except Refusal as refusal:
        return {"oid": oid, "size": size, "error": {"code": refusal.status, "message": str(refusal)}}
    path = _path(repo.owner, repo.name, oid)
    url = f"{base_url(request)}{path}"
    upload = f"{url}?{mirror_of(request).upload_query(path, size)}"
    return {**answer, "actions": {"upload": {"href": upload}, "verify": {"href": f"{url}/verify"}}}


async def upload(request: Request) -> JSONResponse:
    """Receive one object; its URL was signed by `batch`, since clients send no token here."""
    mirror = mirror_of(request)
    mirror.library.check_writable()
    owner, name, oid = part(request, "owner"), part(request, "name"), part(request, "oid")
    size = mirror.announced_size(_path(owner, name, oid), request.query_params)
    repo = await run_in_threadpool(mirror.library.to_write, owner, name)
    await run_in_threadpool(repo.blobs.check_room, size)
    await _receive(request, repo.blobs, oid, size)
    return JSONResponse({})


async def _receive(request: Request, blobs: Blobs, oid: str, size: int) -> None:
    incoming = await run_in_threadpool(blobs.receive)
    try:
        async for piece in pieces(request):
            if incoming.size + len(piece) > size:
                raise Refusal(400, f"more bytes came than the {size:,} announced: nothing was stored")
            async with mirror_of(request).writing:
                await run_in_threadpool(incoming.write, piece)
        if incoming.size != size or incoming.sha256 != oid:
            came = f"{incoming.size:,} bytes with sha256 {incoming.sha256} came"
            raise Refusal(400, f"{came}, but {size:,} bytes with {oid} were announced: nothing was stored")
        await run_in_threadpool(blobs.keep, incoming)
    finally:
        await run_in_threadpool(incoming.drop)


@writes
def verify(request: Request, repo: UploadedRepo, body: Json) -> None:
    """Check that an object is stored."""
    oid, size = _object(body)
    if repo.blobs.has(oid, size) is None:
        raise Refusal(404, "this object is not stored", "EntryNotFound")


def no_xet(request: Request) -> RedirectResponse:
    """Refuse Xet. Its client shows nothing but the address that failed, so the address says what to do."""
    return RedirectResponse(NO_XET_URL, 307)


def explain_no_xet(request: Request) -> JSONResponse:
    """Where `no_xet` leads: the same as a sentence."""
    raise Refusal(
        400,
        "this mirror does not support Xet, which large files and push_to_hub would use: set "
        "HF_HUB_DISABLE_XET=1 and run the same command again (python -m builders publish does so itself)",
    )


def _object(wanted: Any) -> tuple[str, int]:
    oid, size = (wanted.get("oid"), wanted.get("size")) if isinstance(wanted, dict) else (None, None)
    if not is_sha256(oid) or type(size) is not int or not 0 <= size < 1 << 50:
        raise Refusal(400, "an object is {'oid': <sha256>, 'size': <bytes>}")
    return str(oid), size


def _path(owner: str, name: str, oid: str) -> str:
    return f"/datasets/{owner}/{name}.git/info/lfs/objects/{oid}"
