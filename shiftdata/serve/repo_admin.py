"""Make and delete repos, branches and tags; change who may read; check the head of a card."""

from __future__ import annotations

from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serve.names import Refusal
from shiftdata.serve.repos import OWNER, Settings
from shiftdata.serve.request import (
    Json,
    base_url,
    check_writer,
    json_body,
    mirror_of,
    part,
    text_of,
    writes,
)
from shiftdata.serve.uploaded import UploadedRepo

#: Letters of a card's head at most, and levels of it: every client reads all of it.
LONGEST_HEAD = 500_000
DEEPEST_HEAD = 50


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
    settings = repo.change_settings(lambda now: _changed(now, body))
    return {"private": settings.private, "gated": settings.gated}


def _changed(settings: Settings, body: Json) -> Settings:
    """What a client wants changed; older clients say `private`, newer ones `visibility`."""
    private, visibility, gated = body.get("private"), body.get("visibility"), body.get("gated")
    if visibility not in (None, "public", "private") or not isinstance(private, bool | None):
        raise Refusal(400, "a dataset is public or private here")
    if gated not in (None, "auto", "manual") and gated is not False:
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
    """`POST /api/validate-yaml`: whether a card's head can be read.

    Only whoever may write gets a check. Clients that ask without a token, as `DatasetCard.push_to_hub` does,
    get "no errors", and nothing of their body is read.
    """
    mirror, problem = mirror_of(request), None
    if mirror.private:
        mirror.check_owner(request)
    if mirror.library.writable and mirror.is_owner(request):
        content = (await json_body(request)).get("content")
        problem = await run_in_threadpool(card_problem, content) if isinstance(content, str) else "no content"
    errors = [{"message": problem}] if problem else []
    return JSONResponse({"warnings": [], "errors": errors}, 400 if errors else 200)


def card_problem(content: str) -> str | None:
    """What is wrong with the YAML at the head of a card; None if nothing is.

    It is read as a flat stream of events: no value is built, so none can be too deep, too large or too slow.
    """
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
        problem = _events_problem(text)
    except (yaml.YAMLError, ValueError) as error:
        problem = f"cannot be read: {str(error)[:500]}"
    return f"{where} {problem}" if problem else None


def _events_problem(text: str) -> str | None:
    import yaml

    depth, root = 0, None
    anchors: set[str | None] = set()
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        if depth == 0:
            if root is not None:
                return "has more than one document"
            root = event
        depth += isinstance(event, yaml.CollectionStartEvent)
        if depth > DEEPEST_HEAD:
            return f"is nested more than {DEEPEST_HEAD} levels deep"
        if not isinstance(event, yaml.AliasEvent):
            anchors.add(event.anchor)
            tag = getattr(event, "tag", None)
            if tag not in (None, "!") and tag not in yaml.SafeLoader.yaml_constructors:
                return f"has a value of the unknown type {tag[:100]!a}"
        elif event.anchor not in anchors:
            return f"refers to {str(event.anchor)[:100]!a}, which it does not define"
    is_empty = isinstance(root, yaml.ScalarEvent) and root.value in ("", "~", "null")
    return (
        None if root is None or is_empty or isinstance(root, yaml.MappingStartEvent) else "is not a mapping"
    )
