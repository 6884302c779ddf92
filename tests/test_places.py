"""A dataset on a Hub: the real client against a server of ours on the loopback."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub as the download of one file needs."""

    repo: Path

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        prefix = "/datasets/shift/tiny/resolve/main/"
        file = self.repo / self.path.removeprefix(prefix)
        if not self.path.startswith(prefix) or not file.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = file.read_bytes()
        self.send_response(200)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def endpoint(tiny) -> Iterator[str]:
    handler = type("TinyHub", (Hub,), {"repo": tiny})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def info(endpoint: str, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    code = (
        "import json, shiftdata\n"
        f"try: print(json.dumps([shiftdata.info({name!r}).name]))\n"
        "except shiftdata.NotFoundError as error: print(json.dumps(str(error)))"
    )
    # The endpoint is read at import, so a process of its own.
    own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "0"}
    options = {"env": os.environ | own, "cwd": folder, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, "-c", code], check=True, **options)


@pytest.mark.parametrize("name", ["tiny", "shift/tiny"])
def test_the_manifest_of_a_dataset_that_is_not_here_comes_from_the_hub(endpoint, tmp_path, name):
    assert json.loads(info(endpoint, name, tmp_path).stdout) == ["tiny"]


def test_a_dataset_that_is_nowhere_is_said_with_all_places(endpoint, tmp_path):
    message = json.loads(info(endpoint, "shift/toy", tmp_path).stdout)
    assert message.startswith("unknown dataset 'toy'.")
    assert "on the Hub (RepositoryNotFoundError" in message
