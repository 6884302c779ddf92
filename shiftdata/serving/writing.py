"""Making and deleting repos, branches and tags; who may read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serving.exchange import (
    authorization,
    base_url,
    json_body,
    mirror_of,
    part,
    repo_to_write,
    text_of,
)
from shiftdata.serving.folders import OWNER
from shiftdata.serving.refusals import Refusal
from shiftdata.serving.repos import Settings

#: Letters of a card's head: every client reads all of it, and so does the server, for anyone who asks.
LONGEST_HEAD = 500_000


async def create_repo(request: Request) -> JSONResponse:
    """`POST /api/repos/create`."""
    owner, name, body = await _named(request)
    url = f"{base_url(request)}/datasets/{owner}/{name}"
    try:
        await run_in_threadpool(mirror_of(request).library.create, owner, name, _settings(Settings(), body))
    except Refusal as refusal:
        if refusal.status == 409:
            refusal.body["url"] = url
        raise
    return JSONResponse({"url": url, "name": f"{owner}/{name}", "id": f"{owner}/{name}"})


async def delete_repo(request: Request) -> JSONResponse:
    """`DELETE /api/repos/delete`."""
    owner, name, _ = await _named(request)
    library = mirror_of(request).library
    await run_in_threadpool(library.to_write, owner, name)
    await run_in_threadpool(library.store.delete, owner, name)
    return JSONResponse({})


async def _named(request: Request) -> tuple[str, str, dict[str, Any]]:
    """The repo that a body names, of who may change it."""
    mirror = mirror_of(request)
    mirror.library.check_writable()
    mirror.access.check_owner(authorization(request))
    body = await json_body(request)
    if body.get("type") != "dataset":
        raise Refusal(400, "this mirror holds datasets only: say repo_type='dataset'")
    owner, slash, name = text_of(body, "name").rpartition("/")
    return (owner if slash else text_of(body, "organization", OWNER)), name, body


async def set_settings(request: Request) -> JSONResponse:
    """`PUT /api/datasets/<owner>/<name>/settings`: private, gated."""
    repo = await run_in_threadpool(repo_to_write, request)
    settings = _settings(repo.settings(), await json_body(request))
    await run_in_threadpool(repo.set, settings)
    return JSONResponse({"private": settings.private, "gated": settings.gated})


def _settings(settings: Settings, body: dict[str, Any]) -> Settings:
    """What a client wants changed; older clients say `private`, newer ones `visibility`."""
    private, visibility, gated = body.get("private"), body.get("visibility"), body.get("gated")
    if visibility not in (None, "public", "private") or private not in (None, True, False):
        raise Refusal(400, "a dataset is public or private here")
    if gated not in (None, False, "auto", "manual"):
        raise Refusal(400, "'gated' is false, 'auto' or 'manual'")
    if visibility is not None or private is not None:
        settings = replace(settings, private=visibility == "private" or private is True)
    return settings if gated is None else replace(settings, gated=gated)


async def create_branch(request: Request) -> JSONResponse:
    """`POST /api/datasets/<owner>/<name>/branch/<branch>`."""
    repo = await run_in_threadpool(repo_to_write, request)
    start = text_of(await json_body(request), "startingPoint", "main")
    await run_in_threadpool(repo.add_ref, "heads", part(request, "revision"), start)
    return JSONResponse({})


async def create_tag(request: Request) -> JSONResponse:
    """`POST /api/datasets/<owner>/<name>/tag/<revision>`, with the tag in the body."""
    repo = await run_in_threadpool(repo_to_write, request)
    tag = text_of(await json_body(request), "tag")
    await run_in_threadpool(repo.add_ref, "tags", tag, part(request, "revision"))
    return JSONResponse({})


def delete_branch(request: Request) -> JSONResponse:
    """`DELETE /api/datasets/<owner>/<name>/branch/<branch>`."""
    repo_to_write(request).delete_ref("heads", part(request, "revision"))
    return JSONResponse({})


def delete_tag(request: Request) -> JSONResponse:
    """`DELETE /api/datasets/<owner>/<name>/tag/<tag>`."""
    repo_to_write(request).delete_ref("tags", part(request, "revision"))
    return JSONResponse({})


async def validate_yaml(request: Request) -> JSONResponse:
    """`POST /api/validate-yaml`: whether a card's head can be read."""
    content = (await json_body(request)).get("content")
    problem = await run_in_threadpool(_card_problem, content) if isinstance(content, str) else "no content"
    errors = [{"message": problem}] if problem else []
    return JSONResponse({"warnings": [], "errors": errors}, 400 if errors else 200)


def _card_problem(content: str) -> str | None:
    """What is wrong with the head of a card, if anything."""
    import yaml  # comes with huggingface_hub

    lines = content.lstrip("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return None
    ends = [at for at, line in enumerate(lines[1:], 1) if line.strip() == "---"]
    text = "\n".join(lines[1 : ends[0]]) if ends else ""
    if len(text) > LONGEST_HEAD:
        return f"the YAML at the head of the card is longer than {LONGEST_HEAD:,} letters"
    try:
        head = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return f"the YAML at the head of the card cannot be read: {str(error)[:500]}"
    return (
        None if head is None or isinstance(head, dict) else "the YAML at the head of the card is no mapping"
    )
