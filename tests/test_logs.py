"""What logs say, to whom, and that they cost and tell nothing else."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import shiftdata as sd
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.places.client import Client, HttpError
from shiftdata.files import cache_folder
from shiftdata.logs import VARIABLE, Printable
from shiftdata.serve.logs import start_log
from tests.data.byte_ranges.server import ranges

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
    text = "error: SHIFTDATA_VERBOSITY is 'loud': give debug, info, warning, error, or leave it out\n"
    assert (done.returncode, done.stderr) == (1, text)


def test_no_terminal_runs_a_name():
    record = logging.LogRecord("shiftdata", logging.INFO, "", 0, "a\x1b[31m\nb\u202e é", (), None)
    assert Printable("%(message)s").format(record) == r"a\x1b[31m\nb\u202e é"


def test_a_fetch_says_which_place_gave_what_and_why_another_did_not(tiny, copy, tmp_path, caplog):
    name = next(path for path in sd.info(tiny).files if path.startswith("data/mini"))
    (copy / name).write_bytes(b"damaged")
    with caplog.at_level("DEBUG", "shiftdata"):
        sd.fetch(tiny, places=[copy], out=tmp_path / "out")
    for text in (f"{copy}: {name}: {copy / name} has 7 bytes", f"{name} came from {tiny}"):
        assert text in caplog.text
    assert f"README.md came from {copy}" in caplog.text


def test_requests_tries_and_rows_are_logged_without_what_signs_a_request(tiny, caplog, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with ranges(tiny) as served, caplog.at_level("DEBUG", "shiftdata"):
        task = sd.task(served.url, "group-fairness", k=2, mu=0.1)
        served.faults.extend(["error", "flipped"])
        with ExampleReader(task.metadata.dataset, "mini", verify=True) as reader:
            reader.read([0])
        with pytest.raises(HttpError):
            Client(served.url).get(f"{served.url}/file?X-Signature=secret", 9)
    expected = f"mu=0.1, seed=0): {len(task.rows('train'))} of {len(task.metadata)} rows are train"
    sizes = f"1 examples by 1 requests of {reader.stats['fetched']} bytes from {served.url}"
    for text in (expected, "trying again in 0.5 s: HttpError: status 500", sizes, "asking again: "):
        assert text in caplog.text
    assert f"404 GET {served.url}/file " in caplog.text
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
