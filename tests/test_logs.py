"""What logs say, to whom, and that they cost and tell nothing else."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import shiftdata as sd
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.places.client import Client
from shiftdata.data.places.store import persistently
from shiftdata.files import cache_folder
from shiftdata.logs import VARIABLE, Printable
from shiftdata.serve.logs import start_log
from tests.web import answering

OPEN = "from shiftdata.data.dataset import open_dataset; open_dataset(sys.argv[1])"


def printed(code: str, folder: Path, level: str) -> list[str]:
    command = [sys.executable, "-c", f"import logging, sys; {code}", str(folder)]
    environment = os.environ | {VARIABLE: level}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [line.partition(" ")[2] for line in done.stderr.splitlines()]


def test_a_script_is_quiet_unless_the_variable_asks(tiny):
    assert printed(OPEN, tiny, "") == []
    (line,) = printed(OPEN, tiny, "INFO")
    assert line.startswith("INFO shiftdata.data.dataset: opened <tiny 1.0.0 at ")


def test_an_application_with_handlers_shows_each_line_once(tiny):
    own = "logging.basicConfig(format='its %(name)s');"
    assert printed(f"{own} {OPEN}", tiny, "info") == ["shiftdata.data.dataset"]


def test_a_level_that_does_not_exist_is_an_error_with_the_choice():
    command = [sys.executable, "-m", "shiftdata", "list"]
    done = subprocess.run(command, env=os.environ | {VARIABLE: "loud"}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "error: SHIFTDATA_VERBOSITY is 'loud': give debug, info, warning, error, or leave it out\n"
    )


def test_no_terminal_runs_a_name():
    record = logging.LogRecord("shiftdata", logging.INFO, "", 0, "a\x1b[31m\nb\u202e é", (), None)
    assert Printable("%(message)s").format(record) == r"a\x1b[31m\nb\u202e é"


def test_a_fetch_says_which_place_gave_what_and_why_another_did_not(tiny, tmp_path, caplog):
    damaged = Path(shutil.copytree(tiny, tmp_path / "damaged"))
    name = next(path for path in sd.info(tiny).files if path.startswith("data/mini"))
    (damaged / name).write_bytes(b"damaged")
    with caplog.at_level("DEBUG", "shiftdata"):
        sd.fetch(tiny, places=[damaged], out=tmp_path / "out")
    assert f"{damaged}: {name}: {damaged / name} has 7 bytes" in caplog.text
    assert f"{name} came from {tiny}" in caplog.text
    assert f"README.md came from {damaged}" in caplog.text


def test_ranges_tries_and_rows_are_logged(tiny, caplog, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    answers = iter([OSError("a gap"), None])

    def act() -> None:
        if error := next(answers):
            raise error

    with caplog.at_level("DEBUG", "shiftdata"):
        persistently(act)
        task = sd.task(tiny, "group-fairness", k=2, mu=0.1)
    assert "trying again in 0.5 s: OSError: a gap" in caplog.text
    count = len(task.rows("train"))
    assert f"group-fairness@1(k=2, mu=0.1, seed=0): {count} of {len(task.metadata)} rows" in caplog.text


def test_requests_are_logged_without_what_signs_them(tiny, caplog):
    class Ranges(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            data = (tiny / self.path.partition("?")[0][1:]).read_bytes()
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last or len(data)) + 1]
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else part)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with answering(Ranges) as url, caplog.at_level("DEBUG", "shiftdata"):
        Client(url).get(f"{url}/README.md?X-Signature=secret", 99, first=1)
        with ExampleReader(url, "mini") as reader:
            reader.read([0, 1, 2])
    assert f"206 GET {url}/README.md bytes=1-99" in caplog.text
    assert (
        f"3 examples by {reader.stats['requests']} ranges of {reader.stats['fetched']} bytes" in caplog.text
    )
    assert "secret" not in caplog.text


def test_serve_follows_the_variable_and_quiet_wins(monkeypatch):
    names = "shiftdata.access", "shiftdata.serve", "asyncio"
    for level, quiet, expected in [
        ("", False, (20, 20, 30)),
        ("", True, (30, 30, 30)),
        ("debug", False, (10, 10, 30)),
        ("debug", True, (30, 30, 30)),
        ("error", False, (40, 40, 40)),
    ]:
        monkeypatch.setenv(VARIABLE, level)
        start_log(quiet=quiet)
        assert tuple(logging.getLogger(name).level for name in names) == expected, level


def test_caches_follow_hf_home(monkeypatch, tmp_path):
    for variable, folder in [("HOME", ".cache"), ("XDG_CACHE_HOME", "xdg"), ("HF_HOME", "hf")]:
        monkeypatch.delenv("HF_HOME", raising=False)
        monkeypatch.setenv(variable, str(tmp_path if variable == "HOME" else tmp_path / folder))
        assert cache_folder("features") == tmp_path / folder / "shiftdata" / "features"
