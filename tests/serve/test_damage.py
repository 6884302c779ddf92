"""One entry on the disk is damaged: it is reported, and everything else is served."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import RevisionNotFoundError

from shiftdata.serve import names
from tests.serve.hostile import commit, file_line
from tests.serve.serving import TOKEN, Answer, Process, Running, request, serving

ENV = {"SHIFTDATA_MIRROR_TOKEN": TOKEN}


def create(running: Running, name: str) -> Answer:
    body = json.dumps({"name": name, "organization": "lab", "type": "dataset"}).encode()
    return request(running.port, "POST", "/api/repos/create", body, token=TOKEN)


@pytest.fixture
def two(writer: Running) -> Running:
    """A writable mirror with the repos `lab/mine`, which will be damaged, and `lab/good`."""
    for name in ("good", "mine"):
        assert create(writer, name).status == 200
    assert commit(writer, file_line("a.txt", b"plain")).status == 200
    return writer


def repo(running: Running, name: str = "mine") -> Path:
    return running.library.folder / "repos" / "datasets" / "lab" / name


def head(folder: Path, ending: str = "json") -> Path:
    return folder / "commits" / f"{(folder / 'heads' / 'main').read_text()}.{ending}"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def nested(path: Path) -> None:
    path.write_text("[" * 100_000)


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def emptied(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a commit is cut": lambda folder: cut(head(folder)),
    "a commit is empty": lambda folder: head(folder).write_bytes(b""),
    "a commit is nested": lambda folder: nested(head(folder)),
    "a commit is gone": lambda folder: head(folder).unlink(),
    "a commit is a pipe": lambda folder: to_pipe(head(folder)),
    "a commit is 2 GB": lambda folder: os.truncate(head(folder), 2 << 30),
    "a list is cut": lambda folder: cut(head(folder, "files")),
    "a list is gone": lambda folder: head(folder, "files").unlink(),
    "a list is other bytes": lambda folder: (
        (path := head(folder, "files")).write_bytes(b"\xff" * path.stat().st_size) and None
    ),
    "main is garbage": lambda folder: (folder / "heads" / "main").write_bytes(b"\xff\n../.."),
    "main is empty": lambda folder: (folder / "heads" / "main").write_bytes(b""),
    "main is gone": lambda folder: (folder / "heads" / "main").unlink(),
    "main is a pipe": lambda folder: to_pipe(folder / "heads" / "main"),
    "main is a folder": lambda folder: to_folder(folder / "heads" / "main"),
    "the heads are gone": lambda folder: shutil.rmtree(folder / "heads"),
    "the commits are gone": lambda folder: shutil.rmtree(folder / "commits"),
    "everything is gone but the folder": emptied,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_repo_is_reported_and_the_others_are_served(two: Running, damage: str, caplog):
    names._reported.clear()
    DAMAGE[damage](repo(two))
    for path in ("/", "/api/datasets", "/catalog.json", "/api/datasets/lab/good"):
        answer = request(two.port, "GET", path)
        assert answer.status == 200, path
    assert [one["id"] for one in request(two.port, "GET", "/api/datasets").json][:1] == ["lab/good"]
    for path in (
        "/api/datasets/lab/mine",
        "/api/datasets/lab/mine/tree/main",
        "/api/datasets/lab/mine/refs",
        "/datasets/lab/mine",
        "/datasets/lab/mine/resolve/main/a.txt",
    ):
        answer = request(two.port, "GET", path, token=TOKEN)
        assert answer.status in (200, 410), (path, answer.body)
        assert answer.status == 410 or "refs" in path or "list" in damage
    assert (
        "is damaged on the server"
        in request(two.port, "GET", "/api/datasets/lab/mine/tree/main", token=TOKEN).json["error"]
    )
    assert commit(two, file_line("b.txt", b"x")).status == 410
    assert sum("lab/mine" in line or "the commit" in line for line in caplog.messages) > 0
    assert len(caplog.messages) == len(set(caplog.messages))  # once each
    # What is damaged can be deleted, and made anew.
    body = json.dumps({"name": "mine", "organization": "lab", "type": "dataset"}).encode()
    assert request(two.port, "DELETE", "/api/repos/delete", body, token=TOKEN).status == 200
    assert create(two, "mine").status == 200
    assert commit(two, file_line("a.txt", b"plain")).status == 200


@pytest.mark.parametrize(
    "written", ["", "{", "[]", '{"private": "no"}', '{"private": false, "gated": []}', "[" * 100_000]
)
def test_with_damaged_settings_it_is_private_until_they_are_set(two: Running, written: str):
    (repo(two) / "settings.json").write_text(written)
    assert request(two.port, "GET", "/api/datasets/lab/mine").status == 401
    assert [one["id"] for one in request(two.port, "GET", "/api/datasets").json] == ["lab/good"]
    body = json.dumps({"private": False}).encode()
    path = "/api/datasets/lab/mine/settings"
    assert request(two.port, "PUT", path, body, token=TOKEN).status == 200
    assert request(two.port, "GET", "/api/datasets/lab/mine").status == 200


def test_damaged_branches_and_tags_are_left_out(two: Running):
    api = HfApi(endpoint=two.endpoint, token=TOKEN)
    api.create_tag("lab/mine", tag="v1", repo_type="dataset")
    tags = repo(two) / "tags"
    (tags / "v2").write_text("no commit")
    (tags / "v3").write_text("0" * 40)
    for name in (b"line\nbreak", b"\xff\xfe", b"%2F%2F", b"a" * 200):
        Path(os.fsdecode(os.fsencode(tags) + b"/" + name)).write_text("0" * 40)
    refs = api.list_repo_refs("lab/mine", repo_type="dataset")
    assert [tag.name for tag in refs.tags] == ["v1", "v3"]
    for name in ("v2", "v3"):
        answer = request(two.port, "GET", f"/api/datasets/lab/mine/revision/{name}")
        assert (answer.status, "commit" in answer.json["error"]) == (410, True)
        api.delete_tag("lab/mine", tag=name, repo_type="dataset")
        with pytest.raises(RevisionNotFoundError):
            api.dataset_info("lab/mine", revision=name)


def test_a_name_means_one_thing(two: Running):
    api = HfApi(endpoint=two.endpoint, token=TOKEN)
    api.create_tag("lab/mine", tag="v1", repo_type="dataset")

    def make(kind: str, name: str, **body: str) -> int:
        path = f"/api/datasets/lab/mine/{kind}/{name}"
        return request(two.port, "POST", path, json.dumps(body).encode(), token=TOKEN).status

    assert make("branch", "v1") == 409
    assert make("tag", "main", tag="main") == 409
    assert make("branch", "0" * 40) == make("tag", "main", tag="0" * 40) == 400
    for name in ("a" + "+" * 99, "a" + "%2Fb" * 49):
        assert make("branch", name) in (200, 400)
        assert request(two.port, "GET", f"/api/datasets/lab/mine/revision/{name}").status in (200, 404)


def test_what_is_not_a_repo_is_reported(two: Running, caplog):
    names._reported.clear()
    uploaded = two.library.folder / "repos" / "datasets"
    (uploaded / "stray").write_text("a file")
    (uploaded / "lab" / "stray").write_text("a file")
    (uploaded / "lab" / "a\nb").mkdir()
    Path(os.fsdecode(os.fsencode(uploaded) + b"/\xff")).mkdir()
    assert [one["id"] for one in request(two.port, "GET", "/api/datasets").json] == ["lab/good", "lab/mine"]
    assert sum("stray" in line for line in caplog.messages) == 2
    body = json.dumps({"name": "x", "organization": "stray", "type": "dataset"}).encode()
    assert request(two.port, "POST", "/api/repos/create", body, token=TOKEN).status == 409
    assert create(two, "stray").status == 409


def test_the_server_starts_with_damaged_entries(tmp_path: Path):
    served = tmp_path / "served"
    (served / "fine").mkdir(parents=True)
    (served / "fine" / "README.md").write_text("text")
    (served / "loop").symlink_to("loop")
    (served / "fine" / "loop").symlink_to("loop")
    (served / "fine" / "nowhere").symlink_to("nothing")
    Path(os.fsdecode(os.fsencode(served) + b"/\xff\xfe")).mkdir()
    (served / "line\nbreak").mkdir()
    (served / "fine" / "escape\x1b[31m.txt").write_text("x")
    os.mkfifo(served / "pipe")
    os.mkfifo(served / "fine" / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(served / "fine" / "socket"))
    (served / "giant").mkdir()
    with (served / "giant" / "manifest.json").open("wb") as stream:
        stream.truncate(100 << 20)
    (served / "deep").mkdir()
    (served / "deep" / "manifest.json").write_text("[" * 100_000)
    damaged = served / ".mirror" / "repos" / "datasets" / "lab" / "bad"
    (damaged / "heads").mkdir(parents=True)
    (damaged / "heads" / "main").write_text("garbage")
    (damaged / "settings.json").write_text('{"private": false, "gated": false}')
    server = Process(served)
    try:
        found = request(server.port, "GET", "/api/datasets")
        assert [one["id"] for one in found.json] == ["shift/deep", "shift/fine", "shift/giant"]
        assert request(server.port, "GET", "/").status == 200
        assert request(server.port, "GET", "/api/datasets/shift/fine").json["siblings"] == [
            {"rfilename": "README.md"}
        ]
        assert request(server.port, "GET", "/api/datasets/lab/bad").status == 410
    finally:
        server.kill()
    assert "loop: it is not served: it is a symbolic link" in server.said
    assert "lab/bad is damaged" in server.said or "lab/bad: its branch main names no commit" in server.said
    assert "\x1b" not in server.said
    assert "Traceback" not in server.said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_repo_that_may_not_be_read_stops_no_other(two: Running):
    head(repo(two)).chmod(0)
    assert request(two.port, "GET", "/api/datasets/lab/mine").status == 410
    assert request(two.port, "GET", "/").status == 200


def test_files_and_folders_that_come_and_go_while_they_are_listed(tmp_path: Path):
    (tmp_path / "stays").mkdir()
    (tmp_path / "stays" / "a.txt").write_text("text")
    end = threading.Event()

    def change() -> None:
        while not end.is_set():
            for name in ("x", "y", "z"):
                (tmp_path / name / "deep").mkdir(parents=True, exist_ok=True)
                (tmp_path / name / "deep" / "a.txt").write_text(name)
            for name in ("x", "y", "z"):
                shutil.rmtree(tmp_path / name)

    with serving(tmp_path) as running:
        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(60):
                running.library._looked = 0.0
                for path in ("/", "/api/datasets", "/catalog.json"):
                    assert request(running.port, "GET", path).status == 200
        finally:
            end.set()
            thread.join()


@pytest.mark.slow
def test_lists_while_repos_are_made_and_deleted(two: Running):
    end = threading.Event()
    statuses: set[int] = set()

    def change(at: int) -> None:
        body = json.dumps({"name": f"new{at}", "organization": "lab", "type": "dataset"}).encode()
        while not end.is_set():
            for method, path in (("POST", "/api/repos/create"), ("DELETE", "/api/repos/delete")):
                statuses.add(request(two.port, method, path, body, token=TOKEN).status)

    threads = [threading.Thread(target=change, args=(at // 2,)) for at in range(4)]  # two for each name
    for thread in threads:
        thread.start()
    try:
        for at in range(50):
            for path in ("/", "/api/datasets", "/catalog.json"):
                assert request(two.port, "GET", path).status == 200
            path = f"/api/datasets/lab/new{at % 2}"
            for more in ("", "/refs", "/commits/main", "/tree/main"):
                assert request(two.port, "GET", path + more, token=TOKEN).status in (200, 404)
            put = request(two.port, "PUT", f"{path}/settings", b'{"private": true}', token=TOKEN)
            assert put.status in (200, 404)
    finally:
        end.set()
        for thread in threads:
            thread.join()
    assert statuses <= {200, 404, 409}


def test_settings_that_are_changed_at_once_all_count(two: Running):
    path = "/api/datasets/lab/mine/settings"
    for _ in range(10):
        assert (
            request(two.port, "PUT", path, b'{"private": false, "gated": false}', token=TOKEN).status == 200
        )
        bodies = [b'{"private": true}', b'{"gated": "auto"}'] * 2
        threads = [
            threading.Thread(target=request, args=(two.port, "PUT", path, body), kwargs={"token": TOKEN})
            for body in bodies
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        info = request(two.port, "GET", "/api/datasets/lab/mine", token=TOKEN).json
        assert (info["private"], info["gated"]) == (True, "auto")


def test_of_a_branch_and_a_tag_made_at_once_one_is_refused(two: Running):
    for at in range(20):
        statuses: list[int] = []

        def make(kind: str, name: str, statuses: list[int] = statuses, at: int = at) -> None:
            path = f"/api/datasets/lab/mine/{kind}/{name}"
            body = json.dumps({"tag": f"n{at}"}).encode()
            statuses.append(request(two.port, "POST", path, body, token=TOKEN).status)

        threads = [
            threading.Thread(target=make, args=given) for given in (("branch", f"n{at}"), ("tag", "main")) * 2
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 409, 409, 409]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A repo with 66 commits and 1,264 files."""
    with serving(tmp_path_factory.mktemp("long"), writable=True, token=TOKEN) as running:
        create(running, "mine")
        assert commit(running, file_line("first", b"1")).status == 200

        def copies(paths: list[str]) -> list[bytes]:
            values = [{"path": path, "srcPath": "first"} for path in paths]
            return [json.dumps({"key": "copyFile", "value": value}).encode() for value in values]

        assert commit(running, *copies([f"d{at % 3}/e-{at % 5}/{at}" for at in range(1200)])).status == 200
        for at in range(63):
            assert commit(running, *copies([f"new/{at}"])).status == 200
        yield running


def test_a_history_comes_in_pages(long: Running):
    api = HfApi(endpoint=long.endpoint)
    commits = api.list_repo_commits("lab/mine", repo_type="dataset")
    assert len({one.commit_id for one in commits}) == len(commits) == 66
    assert commits[-1].title == "initial commit"
    formatted = api.list_repo_commits("lab/mine", repo_type="dataset", formatted=True)
    assert formatted[0].formatted_title == commits[0].title
    path = "/api/datasets/lab/mine/commits/main"
    assert len(request(long.port, "GET", path).json) == 50
    assert "link" not in request(long.port, "GET", f"{path}?limit=1000").headers
    for page in ("p", "page"):
        third = request(long.port, "GET", f"{path}?limit=10&{page}=3").json
        assert [one["id"] for one in third] == [one.commit_id for one in commits[30:40]]
    for query in ("p=99999999", "p=7&limit=10", "limit=0", "limit=x&p=-1", "p=" + "9" * 400):
        assert request(long.port, "GET", f"{path}?{query}").status == 200
    assert request(long.port, "GET", f"{path}?p=7&limit=10").json == []


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("expand", [True, False])
def test_a_tree_comes_in_pages_of_any_size(long: Running, recursive: bool, expand: bool):
    api = HfApi(endpoint=long.endpoint)
    listed = list(api.list_repo_tree("lab/mine", recursive=recursive, expand=expand, repo_type="dataset"))
    paths = [entry.path for entry in listed]
    assert len(set(paths)) == len(paths)
    files = api.list_repo_files("lab/mine", repo_type="dataset")
    assert len(files) == 1264
    folders = {"d0", "d1", "d2", "new"} | {f"d{one}/e-{two}" for one in range(3) for two in range(5)}
    wanted = {*files, *folders}
    assert set(paths) == (wanted if recursive else {path for path in wanted if "/" not in path})
    if expand:
        changed = {entry.path: entry.last_commit.oid for entry in listed}
        commits = [one.commit_id for one in api.list_repo_commits("lab/mine", repo_type="dataset")]
        assert changed["first"] == commits[-2]
        assert changed["new"] == commits[0]
        assert changed["d1"] == commits[-3]
        assert not recursive or changed["new/0"] == commits[-4]
    found = []
    path: str | None = f"/api/datasets/lab/mine/tree/main/d1?limit=7&recursive={recursive}"
    while path:
        answer = request(long.port, "GET", path)
        found += [entry["path"] for entry in answer.json]
        link = answer.headers.get("link")
        path = link and link.partition(long.endpoint)[2].partition(">")[0]
    assert sorted(found) == sorted(
        one for one in wanted if one.startswith("d1/") and (recursive or one.count("/") == 1)
    )


@pytest.mark.parametrize(
    "cursor", ["0", "zzz", "d1/", "../../x", "%00", "d1%01", "%ff", "a" * 5000, "%F0%9F%98%80"]
)
def test_any_cursor_is_answered(long: Running, cursor: str):
    for path in ("", "/d1"):
        answer = request(long.port, "GET", f"/api/datasets/lab/mine/tree/main{path}?cursor={cursor}")
        assert answer.status == 200


def test_a_long_history_takes_little_memory(long: Running):
    """Many readers of histories and trees: what they are answered from is never in memory as a whole."""
    root = long.library.root
    server = Process(root, "--quiet")
    try:

        def peak() -> int:
            status = Path(f"/proc/{server.popen.pid}/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) * 1024

        request(server.port, "GET", "/api/datasets/lab/mine/tree/main?expand=true")
        before = peak()
        paths = ["commits/main?limit=1000", "tree/main?recursive=true&expand=true", "revision/main"] * 8
        threads = [
            threading.Thread(target=request, args=(server.port, "GET", f"/api/datasets/lab/mine/{path}"))
            for path in paths
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert peak() - before < 24 << 20
    finally:
        server.kill()


def test_a_new_owner_is_on_the_disk(two: Running, monkeypatch):
    """The folder above a new folder is synced: else the machine may die and lose a confirmed repo."""
    synced: list[Path] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    body = json.dumps({"name": "x", "organization": "fresh", "type": "dataset"}).encode()
    assert request(two.port, "POST", "/api/repos/create", body, token=TOKEN).status == 200
    uploaded = two.library.folder / "repos" / "datasets"
    assert {uploaded, uploaded / "fresh"} <= set(synced)
