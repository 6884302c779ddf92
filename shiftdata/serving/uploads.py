"""Large files by Git LFS: what is missing is asked for, comes by a PUT, and must have its hash."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse

from shiftdata.serving.blobs import Blobs
from shiftdata.serving.exchange import base_url, json_body, mirror_of, part, pieces, repo_to_write
from shiftdata.serving.paths import is_sha256
from shiftdata.serving.refusals import Refusal
from shiftdata.serving.store import StoredRepo

MOST_OBJECTS = 1000

NO_XET_URL = "/set/HF_HUB_DISABLE_XET=1/and-run-the-same-command-again"


async def lfs_batch(request: Request) -> JSONResponse:
    """`/datasets/<owner>/<name>.git/info/lfs/objects/batch`: where to put what is not here."""
    repo = await run_in_threadpool(repo_to_write, request)
    body = await json_body(request)
    objects = body.get("objects")
    if body.get("operation") != "upload" or not isinstance(objects, list) or len(objects) > MOST_OBJECTS:
        raise Refusal(400, f"'operation' must be 'upload', 'objects' a list of {MOST_OBJECTS} at most")
    answers = [await run_in_threadpool(_action, request, repo, one) for one in objects]
    headers = {"Content-Type": "application/vnd.git-lfs+json"}
    return JSONResponse({"transfer": "basic", "hash_algo": "sha256", "objects": answers}, headers=headers)


def _action(request: Request, repo: StoredRepo, wanted: Any) -> dict[str, Any]:
    """What to do for one object: nothing where it is stored."""
    oid, size = _object(wanted)
    said = {"oid": oid, "size": size, "authenticated": True}
    if repo.blobs.size(oid) == size:
        return said
    try:
        repo.blobs.room_for(size)
    except Refusal as refusal:
        return {"oid": oid, "size": size, "error": {"code": refusal.status, "message": str(refusal)}}
    place = _place(repo.owner, repo.name, oid)
    href = f"{base_url(request)}{place}"
    return {
        **said,
        "actions": {
            "upload": {"href": f"{href}?{mirror_of(request).signer.query(place, size)}"},
            "verify": {"href": f"{href}/verify"},
        },
    }


async def lfs_put(request: Request) -> JSONResponse:
    """Receive one object; its URL was signed by `lfs_batch`, since clients send no token here."""
    mirror = mirror_of(request)
    mirror.library.check_writable()
    owner, name, oid = part(request, "owner"), part(request, "name"), part(request, "oid")
    asked = (request.query_params.get(key, "") for key in ("size", "until", "signature"))
    size = mirror.signer.check(_place(owner, name, oid), *asked)
    repo = await run_in_threadpool(mirror.library.to_write, owner, name)
    async with mirror.writer():
        await run_in_threadpool(repo.blobs.room_for, size)
        await _receive(request, repo.blobs, oid, size)
    return JSONResponse({})


async def _receive(request: Request, blobs: Blobs, oid: str, size: int) -> None:
    incoming = await run_in_threadpool(blobs.receive)
    try:
        async for piece in pieces(request):
            if incoming.size + len(piece) > size:
                raise Refusal(400, f"more than the {size:,} bytes came that were announced")
            await run_in_threadpool(incoming.write, piece)
        if incoming.size != size or incoming.sha256 != oid:
            said = f"{incoming.size:,} bytes with sha256 {incoming.sha256}"
            raise Refusal(
                400, f"{said} came where {size:,} bytes with {oid} were announced: nothing was kept"
            )
        await run_in_threadpool(blobs.keep, incoming)
    finally:
        await run_in_threadpool(incoming.drop)


async def lfs_verify(request: Request) -> JSONResponse:
    """Say whether an object is stored."""
    repo = await run_in_threadpool(repo_to_write, request)
    oid, size = _object(await json_body(request))
    if repo.blobs.size(oid) != size:
        raise Refusal(404, "this object is not stored", "EntryNotFound")
    return JSONResponse({})


def no_xet(request: Request) -> RedirectResponse:
    """Refuse Xet. Its client shows nothing but the address that failed, so the address says what to do."""
    return RedirectResponse(NO_XET_URL, 307)


def without_xet(request: Request) -> JSONResponse:
    """Where `no_xet` leads: the same in words."""
    raise Refusal(
        400,
        "this mirror takes large files, and the shards of push_to_hub, without Xet only: "
        "set HF_HUB_DISABLE_XET=1 and run the same command again (python -m builders publish does so itself)",
    )


def _object(wanted: Any) -> tuple[str, int]:
    oid, size = (wanted.get("oid"), wanted.get("size")) if isinstance(wanted, dict) else (None, None)
    if not is_sha256(oid) or type(size) is not int or not 0 <= size < 1 << 50:
        raise Refusal(400, "an object is {'oid': <sha256>, 'size': <bytes>}")
    return str(oid), size


def _place(owner: str, name: str, oid: str) -> str:
    return f"/datasets/{owner}/{name}.git/info/lfs/objects/{oid}"
