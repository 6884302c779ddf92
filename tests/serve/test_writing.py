"""Real clients make repos and upload to them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import huggingface_hub.constants
import pytest
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationCopy,
    CommitOperationDelete,
    HfApi,
    HfFileSystem,
    hf_hub_download,
)
from huggingface_hub.errors import (
    BadRequestError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from shiftdata.serve.commits import UPLOAD_HEADER
from tests.serve.serving import TOKEN, Running, client, client_env, request, serving

MINE = {"repo_id": "lab/mine", "repo_type": "dataset"}
LARGE = bytes(range(256)) * 1000  # above the 100,000 bytes that the fixture takes inside a commit


@pytest.fixture
def api(writer: Running) -> HfApi:
    """A client with the token, and a repo `lab/mine`."""
    one = HfApi(endpoint=writer.endpoint, token=TOKEN)
    one.create_repo(**MINE)
    return one


@pytest.fixture
def no_xet(monkeypatch: pytest.MonkeyPatch) -> None:
    """As HF_HUB_DISABLE_XET=1, which is read at import; and a client that does not mind its own old habit."""
    warnings.filterwarnings("ignore", "Use 'content=<...>'", DeprecationWarning)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)


def content(api: HfApi, path: str, revision: str = "main", token: str | None = TOKEN) -> bytes:
    system = HfFileSystem(endpoint=api.endpoint, token=token, skip_instance_cache=True)
    read: bytes = system.cat_file(f"datasets/lab/mine@{revision}/{path}")
    return read


def put(api: HfApi, path: str, data: bytes, **options: str):
    return api.upload_file(path_or_fileobj=data, path_in_repo=path, **MINE, **options)


def stored(writer: Running) -> set[str]:
    return {path.name for path in (writer.library.folder / "blobs").glob("*/*")}


def left_over(writer: Running) -> list[Path]:
    return list(writer.library.blobs.tmp.iterdir())


def test_push_to_hub_and_load_again(writer, tmp_path):
    code = """
import json
from datasets import Dataset, DatasetDict, load_dataset
rows = Dataset.from_dict({"x": list(range(50)), "label": [n % 2 for n in range(50)]})
rows.push_to_hub("lab/rows")
rows.push_to_hub("lab/rows", "second", split="test")
DatasetDict({"train": rows, "test": rows.select(range(5))}).push_to_hub("lab/both")
rows.push_to_hub("alone")
rows.to_iterable_dataset(num_shards=2).push_to_hub("lab/stream")
said = [
    load_dataset("lab/rows", "default", split="train")["x"][:],
    load_dataset("lab/rows", "second", split="test").num_rows,
    {name: part.num_rows for name, part in load_dataset("lab/both").items()},
    load_dataset("shift/alone", split="train").num_rows,
    sum(1 for _ in load_dataset("lab/stream", split="train", streaming=True)),
]
print(json.dumps(said))
"""
    said = client(writer.endpoint, tmp_path / "home", code, HF_HUB_DISABLE_XET="1")
    assert said == [list(range(50)), 50, {"train": 50, "test": 5}, 50, 50]
    assert left_over(writer) == []


def test_a_folder_of_small_files(api, writer, tmp_path):
    for name in ("a.txt", "deep/er/b.bin", "empty"):
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name == "empty" else name.encode() * 1000)
    first = api.upload_folder(folder_path=tmp_path / "folder", **MINE)
    assert sorted(api.list_repo_files(**MINE)) == ["a.txt", "deep/er/b.bin", "empty"]
    assert content(api, "deep/er/b.bin") == b"deep/er/b.bin" * 1000
    assert api.upload_folder(folder_path=tmp_path / "folder", **MINE).oid == first.oid  # nothing new
    files = {
        file.path: file for file in api.list_repo_tree(recursive=True, **MINE) if hasattr(file, "blob_id")
    }
    checked = subprocess.run(
        ["git", "hash-object", tmp_path / "folder" / "a.txt"], capture_output=True, text=True, check=True
    )
    assert files["a.txt"].blob_id == checked.stdout.strip()
    assert not any(line.startswith("PUT") for line in writer.asked)


def test_large_files_come_by_lfs(api, writer, no_xet):
    put(api, "data/large.bin", LARGE)
    assert content(api, "data/large.bin") == LARGE
    (file,) = api.get_paths_info(paths=["data/large.bin"], **MINE)
    assert file.lfs.sha256 == hashlib.sha256(LARGE).hexdigest()
    puts = sum(line.startswith("PUT") for line in writer.asked)
    assert puts == 1
    put(api, "again.bin", LARGE)  # the same bytes under another name are not sent
    assert sum(line.startswith("PUT") for line in writer.asked) == puts
    assert len(stored(writer)) == 1


def test_publish_uploads_small_files_so_that_they_need_not_come_again(writer, no_xet):
    api = HfApi(endpoint=writer.endpoint, token=TOKEN, headers={UPLOAD_HEADER: "lfs"})
    api.create_repo(**MINE)
    put(api, "a.bin", bytes(1001))
    put(api, "b.bin", bytes(1000))
    assert [line.split("/")[-1] for line in writer.asked if line.startswith("PUT")] == [
        hashlib.sha256(bytes(1001)).hexdigest()
    ]


def test_with_xet_a_large_file_is_refused_with_what_to_do(writer, tmp_path):
    """What the real client shows: the words of the server."""
    (tmp_path / "large.bin").write_bytes(LARGE)
    command = [
        str(Path(sys.executable).with_name("hf")),
        "upload",
        "lab/new",
        str(tmp_path / "large.bin"),
        "--repo-type",
        "dataset",
    ]
    refused = subprocess.run(
        command, env=client_env(writer.endpoint, tmp_path), capture_output=True, text=True
    )
    assert refused.returncode != 0
    assert "HF_HUB_DISABLE_XET=1" in refused.stdout + refused.stderr
    done = subprocess.run(
        command,
        env=client_env(writer.endpoint, tmp_path, HF_HUB_DISABLE_XET="1"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    api = HfApi(endpoint=writer.endpoint, token=TOKEN)
    assert api.list_repo_files("lab/new", repo_type="dataset") == ["large.bin"]


def test_with_xet_the_card_is_pushed_and_for_push_to_hub_it_says_what_to_do(api, writer, tmp_path):
    """`datasets` wants its shards to come at once, which with Xet they cannot."""
    code = """
import json
from datasets import Dataset
from huggingface_hub import DatasetCard
DatasetCard("---\\nlicense: mit\\n---\\n# Mine\\n").push_to_hub("lab/mine")
said = [DatasetCard.load("lab/mine").data.license]
try:
    Dataset.from_dict({"x": [1]}).push_to_hub("lab/rows")
except Exception as error:
    said.append(str(error))
print(json.dumps(said))
"""
    licence, refusal = client(writer.endpoint, tmp_path / "home", code)
    assert licence == "mit"
    assert "HF_HUB_DISABLE_XET=1" in refusal


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("a: [", "cannot be read"),
        ("- a", "is not a mapping"),
        ("a: " + "x" * 600_000, "is longer than"),
        ("- " * 200_000, "nested more than 50 levels"),
        ("a: " + "[" * 25_000, "nested more than 50 levels"),
        ("a: *b", "refers to 'b'"),
        ("a: !!python/object:os.system x", "unknown type"),
        ("a: 1\n--- \nb: 1\n...\n--- c", None),
        ("a: 1\n...\nb: 2", "cannot be read"),
        # What is well formed is not built: neither a merge bomb, nor a number of 240,000 digits to base 60.
        ("".join(f"a{at}: &a{at} {{<<: [{f'*a{at - 1}, ' * 9 * (at > 0)}]}}\n" for at in range(60)), None),
        ("a: " + ":".join("1" * 240_000), None),
        ("a: 2001-99-99", None),
        ("? [a, {b: c}]\n: 1", None),
        ("~", None),
        ("", None),
        ("a: &b 1\nc: *b", None),
    ],
)
def test_the_head_of_a_card_is_checked(writer: Running, head: str, problem: str | None):
    body = json.dumps({"content": f"---\n{head}\n---\n# Card", "repoType": "dataset"}).encode()
    answer = request(writer.port, "POST", "/api/validate-yaml", body, token=TOKEN)
    assert answer.status == (400 if problem else 200)
    assert (problem or "[]") in str(answer.json["errors"])


def test_cards_of_clients_without_a_token_are_not_read(writer: Running, reader: Running):
    """`DatasetCard.push_to_hub` asks without one."""
    for running in (writer, reader):
        assert request(running.port, "POST", "/api/validate-yaml", b"[" * 25_000).status == 200


def test_files_change_and_go_and_old_revisions_stay(api):
    first = put(api, "a.txt", b"one").oid
    put(api, "folder/b.txt", b"two")
    api.create_tag(tag="v1", revision=first, **MINE)
    put(api, "a.txt", b"three")
    api.delete_file("a.txt", **MINE)
    api.delete_folder("folder", **MINE)
    assert api.list_repo_files(**MINE) == []
    assert content(api, "a.txt", "v1") == content(api, "a.txt", first) == b"one"
    titles = [commit.title for commit in api.list_repo_commits(**MINE)]
    assert len(titles) == 6
    assert titles[-1] == "initial commit"
    with pytest.raises(HfHubHTTPError):
        api.delete_file("nothing", **MINE)


def test_branches_and_tags(api):
    put(api, "a.txt", b"main")
    api.create_branch(branch="try/this", **MINE)
    put(api, "a.txt", b"branch", revision="try/this")
    assert (content(api, "a.txt"), content(api, "a.txt", "try%2Fthis")) == (b"main", b"branch")
    api.create_tag(tag="v1.0", revision="try/this", **MINE)
    refs = api.list_repo_refs(**MINE)
    assert [branch.name for branch in refs.branches] == ["main", "try/this"]
    assert [(tag.name, tag.target_commit) for tag in refs.tags] == [("v1.0", refs.branches[1].target_commit)]
    with pytest.raises(HfHubHTTPError, match="already"):
        api.create_branch(branch="try/this", **MINE)
    api.create_branch(branch="try/this", exist_ok=True, **MINE)
    api.delete_tag(tag="v1.0", **MINE)
    api.delete_branch(branch="try/this", **MINE)
    with pytest.raises(RevisionNotFoundError):
        api.delete_tag(tag="v1.0", **MINE)
    with pytest.raises(HfHubHTTPError, match="main cannot"):
        api.delete_branch(branch="main", **MINE)
    with pytest.raises(RevisionNotFoundError):
        put(api, "a.txt", b"x", revision="nothing")


def test_a_commit_of_many_operations(api):
    put(api, "old.txt", b"old")
    api.create_commit(
        operations=[
            CommitOperationAdd("new.txt", b"new"),
            CommitOperationAdd("folder/x", b"x"),
            CommitOperationDelete("old.txt"),
        ],
        commit_message="many",
        commit_description="of them",
        **MINE,
    )
    assert api.list_repo_files(**MINE) == ["folder/x", "new.txt"]
    assert next((one.title, one.message) for one in api.list_repo_commits(**MINE)) == ("many", "of them")
    with pytest.raises(BadRequestError, match="a file and the folder"):
        put(api, "new.txt/inside", b"x")


def test_files_are_copied_without_being_sent(api, writer, no_xet):
    put(api, "small.txt", b"small")
    put(api, "large.bin", LARGE)
    puts = sum(line.startswith("PUT") for line in writer.asked)
    copies = [
        CommitOperationCopy("small.txt", "b/small.txt"),
        CommitOperationCopy("large.bin", "b/large.bin"),
    ]
    api.create_commit(operations=copies, commit_message="copy", **MINE)
    assert (content(api, "b/small.txt"), content(api, "b/large.bin")) == (b"small", LARGE)
    assert sum(line.startswith("PUT") for line in writer.asked) == puts


def test_a_listing_says_which_commit_changed_what(api):
    put(api, "a/one.txt", b"1")
    put(api, "a/two.txt", b"2")
    put(api, "three.txt", b"3")
    listed = api.list_repo_tree(recursive=True, expand=True, **MINE)
    titles = {entry.path: entry.last_commit.title for entry in listed}
    assert titles == {
        f"{path}": f"Upload {path} with huggingface_hub" for path in ("a/one.txt", "a/two.txt", "three.txt")
    } | {"a": "Upload a/two.txt with huggingface_hub"}


def test_of_two_commits_with_one_parent_one_is_refused(api):
    parent = api.dataset_info("lab/mine").sha
    results: list[str | int] = []

    def commit(name: str) -> None:
        try:
            results.append(
                api.create_commit(
                    operations=[CommitOperationAdd(name, b"x")],
                    commit_message=name,
                    parent_commit=parent,
                    **MINE,
                ).oid
            )
        except HfHubHTTPError as error:
            results.append(error.response.status_code)

    threads = [threading.Thread(target=commit, args=(f"{at}.txt",)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.count(412) == 3
    assert len(api.list_repo_files(**MINE)) == 1


def test_commits_at_once_without_a_parent_all_count(api):
    threads = [threading.Thread(target=put, args=(api, f"{at}.txt", b"x")) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(api.list_repo_files(**MINE)) == 8
    assert len(api.list_repo_commits(**MINE)) == 9


def test_private_and_gated(api, writer):
    put(api, "a.txt", b"text")
    stranger = HfApi(endpoint=writer.endpoint, token="wrong")
    api.update_repo_settings(gated="auto", **MINE)
    assert stranger.dataset_info("lab/mine").gated == "auto"
    with pytest.raises(GatedRepoError):
        hf_hub_download("lab/mine", "a.txt", repo_type="dataset", endpoint=writer.endpoint, token="wrong")
    assert content(api, "a.txt") == b"text"
    api.update_repo_settings(private=True, gated=False, **MINE)
    with pytest.raises(RepositoryNotFoundError):
        stranger.dataset_info("lab/mine")
    assert [one.id for one in stranger.list_datasets()] == []
    assert [one.id for one in api.list_datasets()] == ["lab/mine"]
    hidden, missing = (request(writer.port, "GET", f"/api/datasets/lab/{name}") for name in ("mine", "none"))
    assert (hidden.status, hidden.json["error"].replace("mine", "none")) == (
        missing.status,
        missing.json["error"],
    )
    assert b"lab/mine" not in request(writer.port, "GET", "/").body
    api.update_repo_settings(private=False, **MINE)
    assert stranger.dataset_info("lab/mine").private is False


def test_repos_are_made_and_deleted(api, writer):
    with pytest.raises(HfHubHTTPError, match="already"):
        api.create_repo(**MINE)
    assert api.create_repo(**MINE, exist_ok=True).repo_id == "lab/mine"
    with pytest.raises(HfHubHTTPError, match="datasets only"):
        api.create_repo("lab/model")
    assert api.whoami()["name"] == "shift"
    put(api, "a.txt", b"text")
    api.delete_repo(**MINE)
    with pytest.raises(RepositoryNotFoundError):
        api.dataset_info("lab/mine")
    api.create_repo(**MINE)
    assert api.list_repo_files(**MINE) == []
    with pytest.raises(HfHubHTTPError, match="no pull requests"):
        api.upload_file(path_or_fileobj=b"x", path_in_repo="x", create_pr=True, **MINE)


def test_a_folder_cannot_be_changed_by_clients(tiny_out, copy, tmp_path):
    with serving(copy.parent.parent, writable=True, token=TOKEN) as running:
        api = HfApi(endpoint=running.endpoint, token=TOKEN)
        for act in (
            lambda: api.upload_file(
                path_or_fileobj=b"x", path_in_repo="x", repo_id="shift/tiny", repo_type="dataset"
            ),
            lambda: api.delete_repo("shift/tiny", repo_type="dataset"),
            lambda: api.create_tag("shift/tiny", tag="v1", repo_type="dataset"),
        ):
            with pytest.raises(HfHubHTTPError, match="publish under another name"):
                act()
        with pytest.raises(HfHubHTTPError, match="as a folder"):
            api.create_repo("shift/tiny", repo_type="dataset")
        api.create_repo("shift/other", repo_type="dataset")
        assert [one.id for one in api.list_datasets()] == ["shift/other", "shift/tiny"]


def test_on_this_machine_any_token_will_do_but_one_must_be_given(tmp_path):
    with serving(tmp_path, writable=True) as running:
        HfApi(endpoint=running.endpoint, token="any").create_repo(**MINE)
        answer = request(running.port, "POST", "/api/repos/create", b'{"name": "x", "type": "dataset"}')
        assert (answer.status, "any token is accepted" in answer.json["error"]) == (401, True)
