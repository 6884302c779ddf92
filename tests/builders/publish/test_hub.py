"""What is asked of the Hub, and in which order; a stand-in for its client keeps the commits in memory."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete
from huggingface_hub.errors import RepositoryNotFoundError

from builders.publish import hub
from builders.publish.hub import RepoOptions
from builders.publish.publishing import Publication, target_of
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.places.hubs import HubRepo
from shiftdata.data.places.store import FileInfo
from shiftdata.errors import InputError, IntegrityError
from tests.builders.publish.versions import PICTURE, contents
from tests.web import answering

SECRET = "hf_SecretSecretSecret"
WEB = "https://huggingface.co/datasets/shift/tiny/resolve/main"


@dataclass
class Hub:
    """The methods of the client that are called, and what they were called with.

    `tells` is the hash that its listing has: of git, of LFS, or one that nobody knows. `flip` is a file that
    the server damages.
    """

    tells: str = "git"
    flip: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    commits: list[dict[str, bytes]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=lambda: {"private": False, "gated": False})
    made_with: dict[str, Any] = field(default_factory=dict)
    token: str | None = SECRET

    def __call__(self, **options: Any) -> Hub:
        self.made_with = options
        return self

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def dataset_info(self, repo_id: str) -> Any:
        if not self.commits:
            raise missing(404)
        return SimpleNamespace(sha=oid(len(self.commits)), **self.settings)

    def create_repo(self, repo_id: str, **options: Any) -> None:
        self.calls.append(("create", options))
        self.settings["private"] = bool(options["private"])
        self.commits.append({".gitattributes": b"*.parquet filter=lfs"})

    def update_repo_settings(self, repo_id: str, **options: Any) -> None:
        self.calls.append(("settings", options))
        self.settings |= {name: options[name] for name in ("private", "gated") if options[name] is not None}

    def preupload_lfs_files(self, repo_id: str, additions: Any, **options: Any) -> None:
        self.calls.append(("send", [addition.path_in_repo for addition in additions]))

    def create_commit(self, repo_id: str, operations: Any, **options: Any) -> Any:
        self.calls.append(("commit", [(type(operation), operation.path_in_repo) for operation in operations]))
        assert options["parent_commit"] == oid(len(self.commits))
        held = dict(self.commits[-1])
        for operation in operations:
            if isinstance(operation, CommitOperationDelete):
                del held[operation.path_in_repo]
            else:
                data = Path(operation.path_or_fileobj).read_bytes()
                held[operation.path_in_repo] = data[::-1] if operation.path_in_repo == self.flip else data
        self.commits.append(held)
        return SimpleNamespace(oid=oid(len(self.commits)))

    def info(self, data: bytes) -> FileInfo:
        """What a listing says of a file."""
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        sha256 = hashlib.sha256(data).hexdigest()
        known = {"git": {"git": git}, "lfs": {"sha256": sha256}, "none": {"git": "?"}}[self.tells]
        return FileInfo(size=len(data), **known)

    def store(self, repo: HubRepo) -> Any:
        """The store that reads a commit."""
        files = self.at(str(repo.revision))
        return SimpleNamespace(
            listing=lambda: {path: self.info(data) for path, data in files.items() if path[0] != "."},
            read=lambda path: files[path],
            sha256=lambda path: hashlib.sha256(files[path]).hexdigest(),
        )

    def at(self, revision: str) -> dict[str, bytes]:
        return self.commits[int(revision, 16) - 1]


def oid(number: int) -> str:
    return f"{number:040x}"


def missing(status: int) -> RepositoryNotFoundError:
    response: Any = SimpleNamespace(status_code=status, headers={}, request=None)
    return RepositoryNotFoundError("no such repo", response=response)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Hub:
    standing_in = Hub()
    monkeypatch.setattr(hub, "HfApi", standing_in)
    monkeypatch.setattr(hub, "Hub", standing_in.store)
    return standing_in


@pytest.mark.parametrize("tells", ["git", "lfs", "none"])
def test_data_first_the_manifest_last_and_later_only_what_changed(publish, tiny, later, server, tells):
    server.tells = tells
    publish(tiny, "--to", "hf://")
    (operations,) = [asked for name, asked in server.calls if name == "commit"]
    assert [path for _, path in operations][-5:] == [
        *("README.md", "croissant.json", "eval.yaml", "names.json"),
        FILE_NAME,
    ]
    assert server.names().index("send") < server.names().index("commit")
    assert contents(tiny, WEB).items() <= server.commits[-1].items()
    server.calls.clear()
    said = publish(later, "--to", "hf://")
    (operations,) = [asked for name, asked in server.calls if name == "commit"]
    changed = [path for kind, path in operations if kind is CommitOperationAdd]
    assert changed == [PICTURE, "README.md", FILE_NAME]
    assert (CommitOperationDelete, "groups.png") in operations
    assert ".gitattributes" in server.commits[-1]
    assert ".gitattributes" not in said


def test_a_repo_is_private_before_anything_lies_in_it(publish, tiny, server):
    publish(tiny, "--to", "hf://me/mine", "--private", "--gated", "auto")
    assert server.calls[0][0] == "create"
    assert server.calls[0][1]["private"] is True
    assert server.names().index("settings") < server.names().index("send")
    assert server.settings == {"private": True, "gated": "auto"}


def test_a_dry_run_makes_no_repo(publish, tiny, server):
    said = publish(tiny, "--to", "hf://", "--private", "--dry-run")
    assert "there is no such repo, or you may not see it: it will be made, private" in said
    assert server.calls == []


@pytest.mark.parametrize("tells", ["git", "lfs", "none"])
def test_what_the_server_damaged_is_named_and_the_manifest_withdrawn(publish, tiny, server, tells):
    server.tells, server.flip = tells, PICTURE
    said = publish(tiny, "--to", "hf://", fails=True)
    assert f"{PICTURE} is not at hf://datasets/shift/tiny@000000000000 as it was sent" in said
    assert FILE_NAME in server.commits[-2]
    assert FILE_NAME not in server.commits[-1]
    server.flip = ""
    publish(tiny, "--to", "hf://")
    assert contents(tiny, WEB).items() <= server.commits[-1].items()


def test_a_file_that_changes_meanwhile_is_in_no_commit(home, copy, server):
    planned = Publication.prepare(copy, "hf://")
    (copy / PICTURE).write_bytes(b"another")
    with pytest.raises(IntegrityError, match=f"{PICTURE} was changed while it was sent"):
        planned.carry_out()
    assert server.commits == [{".gitattributes": b"*.parquet filter=lfs"}]


def test_the_stored_token_is_for_the_hub_alone(publish, tiny, server, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "login").write_text("hf_the_stored_login\n")
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "login"))
    publish(tiny, "--to", "hf://")
    assert server.made_with["token"] == "hf_the_stored_login"
    server.commits.clear()
    publish(tiny, "--to", "http://lab:8000")
    assert server.made_with["endpoint"] == "http://lab:8000"
    assert server.made_with["token"] is False


@pytest.mark.parametrize(
    ("to", "address"),
    [
        ("hf://", "hf://datasets/shift/tiny"),
        ("hf://datasets/me/mine/", "hf://datasets/me/mine"),
        ("http://lab:8000", "hf+http://lab:8000/datasets/shift/tiny"),
        ("hf+http://lab/datasets/me/mine", "hf+http://lab/datasets/me/mine"),
        ("s3://bucket", "s3://bucket/tiny"),
        ("s3://bucket/a/tiny/", "s3://bucket/a/tiny"),
        ("/data/shift", "/data/shift/tiny"),
        ("file:///data", "/data/tiny"),
    ],
)
def test_addresses(to, address, tmp_path):
    assert target_of(to, "tiny", tmp_path, RepoOptions()).address == address


@pytest.mark.parametrize("to", ["http://lab/some/page", "hf://me/mine/more", "hf://datasets/a/b@v1"])
def test_addresses_that_name_no_repo(to, tmp_path, tiny):
    with pytest.raises(InputError, match=r"not a dataset on a Hub|names a revision"):
        target_of(to, "tiny", tmp_path, RepoOptions()).compare(SimpleNamespace())  # type: ignore[arg-type]


class Echo(BaseHTTPRequestHandler):
    """A server that repeats the token which it was given."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("X-Error-Message", f"no right for {self.headers['Authorization']}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.mark.parametrize("secret", [SECRET, "plain-mirror-token"])
def test_a_token_that_a_server_repeats_is_not_printed(publish, tiny, home, monkeypatch, secret):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    (home / "token").write_text(secret)
    with answering(Echo) as url:
        said = publish(tiny, "--to", url, "--token-file", "token", fails=True)
        (home / "tokens.json").write_text(json.dumps({url: secret}))
        monkeypatch.setenv("SHIFTDATA_TOKENS", str(home / "tokens.json"))
        said += publish(tiny, "--to", url, fails=True)
    assert "you have no right to write there" in said
    assert "***" in said
    assert secret not in said
