"""Make and delete repos, branches and tags; change who may read; check the head of a card."""

from __future__ import annotations

from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serving.names import Refusal
from shiftdata.serving.repos import OWNER, Settings
from shiftdata.serving.request import Json, base_url, check_writer, json_body, part, text_of, writes
from shiftdata.serving.uploaded import UploadedRepo

#: Letters of a card's head: every client reads all of it, and so does the server, for anyone who asks.
LONGEST_HEAD = 500_000


async def create_repo(request: Request) -> JSONResponse:
    """`POST /api/repos/create`."""
    library = check_writer(request)
    body = await json_body(request)
    owner, name = _named(body)
    url = f"{base_url(request)}/datasets/{owner}/{name}"
    try:
        await run_in_threadpool(library.create, owner, name, _changed(Settings(), body))
    except Refusal as refusal:
        if refusal.status == 409:
            refusal.body["url"] = url
        raise
    return JSONResponse({"url": url, "name": f"{owner}/{name}", "id": f"{owner}/{name}"})


async def delete_repo(request: Request) -> JSONResponse:
    """`DELETE /api/repos/delete`."""
    library = check_writer(request)
    await run_in_threadpool(library.delete, *_named(await json_body(request)))
    return JSONResponse({})


def _named(body: Json) -> tuple[str, str]:
    if body.get("type") != "dataset":
        raise Refusal(400, "this mirror has datasets only: pass repo_type='dataset'")
    owner, slash, name = text_of(body, "name").rpartition("/")
    return (owner if slash else text_of(body, "organization", OWNER)), name


@writes
def change_settings(request: Request, repo: UploadedRepo, body: Json) -> Json:
    """`PUT /api/datasets/<owner>/<name>/settings`: private, gated."""
    settings = _changed(repo.settings(), body)
    repo.change_settings(settings)
    return {"private": settings.private, "gated": settings.gated}


def _changed(settings: Settings, body: Json) -> Settings:
    """What a client wants changed; older clients say `private`, newer ones `visibility`."""
    private, visibility, gated = body.get("private"), body.get("visibility"), body.get("gated")
    if visibility not in (None, "public", "private") or private not in (None, True, False):
        raise Refusal(400, "a dataset is public or private here")
    if gated not in (None, False, "auto", "manual"):
        raise Refusal(400, "'gated' is false, 'auto' or 'manual'")
    if visibility is not None or private is not None:
        settings = replace(settings, private=visibility == "private" or private is True)
    return settings if gated is None else replace(settings, gated=gated)


@writes
def change_branch(request: Request, repo: UploadedRepo, body: Json) -> None:
    """Make the branch at a `startingPoint`, or delete it."""
    name = part(request, "revision")
    if request.method == "DELETE":
        repo.delete_ref("heads", name)
    else:
        repo.add_ref("heads", name, text_of(body, "startingPoint", "main"))


@writes
def change_tag(request: Request, repo: UploadedRepo, body: Json) -> None:
    """Give the revision in the path the tag in the body, or delete the tag in the path."""
    name = part(request, "revision")
    if request.method == "DELETE":
        repo.delete_ref("tags", name)
    else:
        repo.add_ref("tags", text_of(body, "tag"), name)


async def validate_yaml(request: Request) -> JSONResponse:
    """`POST /api/validate-yaml`: whether a card's head can be read."""
    content = (await json_body(request)).get("content")
    problem = await run_in_threadpool(_card_problem, content) if isinstance(content, str) else "no content"
    errors = [{"message": problem}] if problem else []
    return JSONResponse({"warnings": [], "errors": errors}, 400 if errors else 200)


def _card_problem(content: str) -> str | None:
    import yaml  # comes with huggingface_hub

    lines = content.lstrip("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return None
    ends = [at for at, line in enumerate(lines[1:], 1) if line.strip() == "---"]
    text = "\n".join(lines[1 : ends[0]]) if ends else ""
    where = "the YAML at the head of the card"
    if len(text) > LONGEST_HEAD:
        return f"{where} is longer than {LONGEST_HEAD:,} letters"
    try:
        head = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return f"{where} cannot be read: {str(error)[:500]}"
    return None if head is None or isinstance(head, dict) else f"{where} is not a mapping"
