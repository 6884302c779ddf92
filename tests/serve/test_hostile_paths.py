"""No name leads out of the served folder, wherever it stands."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from tests.serve.hostile import (
    SECRET,
    check,
    commit,
    file_line,
    outside,
)
from tests.serve.serving import TOKEN, Running, request, serving

#: As they stand in a URL; each is decoded once, by the server.
TRAVERSALS = [
    "..",
    "../secret.txt",
    "../../secret.txt",
    "%2e%2e/secret.txt",
    "..%2fsecret.txt",
    "%2e%2e%2fsecret.txt",
    "%252e%252e%252fsecret.txt",
    "..%5csecret.txt",
    "..\\secret.txt",
    "a/../../secret.txt",
    "a%00/../secret.txt",
    "%00",
    "secret.txt%00.md",
    "//etc/passwd",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "....//secret.txt",
    "..;/secret.txt",
    ".mirror/key",
    "%2emirror/key",
    ".mirror",
    "%c0%ae%c0%ae/secret.txt",
    "%ff%fe",
    "link.txt",
    "link/secret.txt",
    "pipe",
    "main%2f..%2f..",
    "heads%2fmain",
    "-rf",
    "a" * 3000,
    "%0d%0aX-Injected:%20yes",
    "<script>alert(1)</script>".replace("<", "%3C").replace(">", "%3E"),
]


ROUTES = [
    ("GET", "/datasets/{}/mine/resolve/main/a.txt"),
    ("GET", "/datasets/lab/{}/resolve/main/a.txt"),
    ("GET", "/datasets/lab/mine/resolve/{}/a.txt"),
    ("GET", "/datasets/lab/mine/resolve/main/{}"),
    ("GET", "/datasets/shift/folder/resolve/main/{}"),
    ("GET", "/datasets/lab/{}"),
    ("GET", "/api/datasets/{}/mine"),
    ("GET", "/api/datasets/lab/mine/revision/{}"),
    ("GET", "/api/datasets/lab/mine/tree/{}"),
    ("GET", "/api/datasets/lab/mine/tree/main/{}"),
    ("GET", "/api/datasets/shift/folder/tree/main/{}"),
    ("GET", "/api/datasets/lab/mine/commits/{}"),
    ("GET", "/api/datasets/lab/{}/refs"),
    ("GET", "/api/datasets?author={}&search={}&limit={}"),
    ("POST", "/api/datasets/lab/mine/paths-info/{}"),
    ("POST", "/api/datasets/lab/mine/preupload/{}"),
    ("POST", "/api/datasets/lab/mine/commit/{}"),
    ("POST", "/api/datasets/lab/mine/branch/{}"),
    ("DELETE", "/api/datasets/lab/mine/branch/{}"),
    ("POST", "/api/datasets/lab/mine/tag/{}"),
    ("DELETE", "/api/datasets/lab/mine/tag/{}"),
    ("PUT", "/api/datasets/lab/{}/settings"),
    ("POST", "/datasets/lab/{}.git/info/lfs/objects/batch"),
    ("PUT", "/datasets/lab/mine.git/info/lfs/objects/{}?size=1&until=1&signature=1"),
    ("POST", "/datasets/lab/mine.git/info/lfs/objects/{}/verify"),
]


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_no_parameter_leads_out_of_the_root(hostile: Running, method: str, route: str):
    before, listed = outside(hostile), sorted(hostile.library.root.parent.iterdir())
    for traversal in TRAVERSALS:
        for token in (TOKEN, None):
            body = None if method == "GET" else b"{}"
            path = route.replace("{}", traversal).replace("\\", "%5c")
            check(request(hostile.port, method, path, body, token=token))
    assert outside(hostile) == before
    assert sorted(hostile.library.root.parent.iterdir()) == listed


def test_links_and_hidden_files_are_not_there(hostile: Running):
    listed = request(hostile.port, "GET", "/api/datasets/shift/folder/tree/main?recursive=true").json
    assert [entry["path"] for entry in listed] == ["README.md", "a.txt"]
    answer = request(hostile.port, "GET", "/datasets/shift/folder/resolve/main/inside.txt")
    assert (answer.status, answer.headers["x-error-code"]) == (404, "EntryNotFound")
    assert (
        request(hostile.port, "GET", "/api/datasets/shift/out").status == 401
    )  # as any other that is not there


def test_a_file_that_becomes_a_link_is_not_followed(tmp_path):
    (tmp_path / "secret.txt").write_bytes(SECRET)
    folder = tmp_path / "served" / "folder"
    folder.mkdir(parents=True)
    (folder / "README.md").touch()
    (folder / "a.txt").write_bytes(SECRET[::-1])
    with serving(tmp_path / "served") as running:
        url = "/datasets/shift/folder/resolve/main/a.txt"
        assert request(running.port, "GET", url).body == SECRET[::-1]
        changed = (folder / "a.txt").stat().st_mtime_ns
        os.utime(tmp_path / "secret.txt", ns=(changed, changed))  # of the same size too
        (folder / "a.txt").unlink()
        (folder / "a.txt").symlink_to(tmp_path / "secret.txt")
        answer = request(running.port, "GET", url)
        assert (answer.status, answer.headers["x-error-code"]) == (404, "EntryNotFound")


BAD_PATHS = [
    "../out.txt", "/etc/x", "a/../b", "a//b", "a/", "./a", "a\\b", "a\0b", "a\nb",
    ".mirror/key", ".git/config", "a/.hidden/b",
    "", "..", "x" * 256, "a/" * 600 + "a", None, 5, ["a"], {"a": 1}, "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("path", BAD_PATHS, ids=lambda path: ascii(path)[:20])
def test_a_path_that_is_no_plain_one_is_refused(hostile: Running, path: object):
    before = outside(hostile)
    for line in (
        file_line(path, b"x"),
        json.dumps(
            {
                "key": "lfsFile",
                "value": {
                    "path": path,
                    "algo": "sha256",
                    "oid": hashlib.sha256(b"plain").hexdigest(),
                    "size": 5,
                },
            }
        ).encode(),
        json.dumps({"key": "copyFile", "value": {"path": path, "srcPath": "a.txt"}}).encode(),
        json.dumps({"key": "deletedFile", "value": {"path": path}}).encode(),
    ):
        answer = commit(hostile, line)
        check(answer)
        assert answer.status == 400
    files = json.dumps({"files": [{"path": path, "size": 1, "sample": ""}]}).encode()
    assert (
        request(hostile.port, "POST", "/api/datasets/lab/mine/preupload/main", files, token=TOKEN).status
        == 400
    )
    assert outside(hostile) == before


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b/c", "../x", "a b", "x" * 97, ".mirror", "a\0", "a.git", "ü", None, 7, {}]
)
def test_a_repo_has_a_plain_name(hostile: Running, name: object):
    for body in ({"name": name, "organization": "lab"}, {"name": "x", "organization": name}):
        if body == {"name": "x", "organization": None}:
            continue  # the owner may be left out
        answer = request(
            hostile.port,
            "POST",
            "/api/repos/create",
            json.dumps({**body, "type": "dataset"}).encode(),
            token=TOKEN,
        )
        check(answer)
        assert answer.status == 400
