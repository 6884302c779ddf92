"""Damaged and vanishing entries of the served folder: they are reported, and everything else is served."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

from tests.serve.serving import Process, request, serving


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
    server = Process(served)
    try:
        found = request(server.port, "GET", "/api/datasets")
        assert [entry["id"] for entry in found.json] == ["shift/deep", "shift/fine", "shift/giant"]
        assert request(server.port, "GET", "/").status == 200
        assert request(server.port, "GET", "/api/datasets/shift/fine").json["siblings"] == [
            {"rfilename": "README.md"}
        ]
    finally:
        server.kill()
    assert "loop: it is not served: it is a symbolic link" in server.said
    assert "\x1b" not in server.said
    assert "Traceback" not in server.said


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
            for _ in range(20):
                running.library._listed_at = 0.0
                for path in ("/", "/api/datasets", "/catalog.json"):
                    assert request(running.port, "GET", path).status == 200
        finally:
            end.set()
            thread.join()
