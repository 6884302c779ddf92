"""`shiftdata serve` as one types it."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path

import pytest

from shiftdata.cli.app import main
from tests.serve.hostile import wait_for
from tests.serve.serving import TOKEN, Process, request


def said_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error of a call that fails."""
    assert main(["serve", *arguments]) in (1, 2)
    return capsys.readouterr().err


def test_it_says_what_it_serves_and_stops_at_ctrl_c(tiny_out: Path):
    server = Process(tiny_out)
    assert "shift/tiny" in server.said
    assert f"export HF_ENDPOINT=http://127.0.0.1:{server.port}" in server.said
    server.popen.send_signal(signal.SIGINT)
    assert server.finish() == 130
    assert "everyone who can reach it may read" in server.said
    assert "Traceback" not in server.said


def test_quiet_prints_the_line_to_type_and_ctrl_c_ends_it_while_a_client_is_connected(tiny_out: Path):
    server = Process(tiny_out, "--quiet")
    request(server.port, "GET", "/")
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        server.popen.send_signal(signal.SIGINT)
        assert server.finish() == 130
    assert server.said == f"export HF_ENDPOINT={server.endpoint}\nstopped\n"


def test_tokens_come_from_the_environment_or_a_file_and_the_log_names_readers(tmp_path: Path, capsys):
    file = str(tmp_path / "readers.toml")
    assert main(["serve", "--tokens", file, "--new-token", "anna"]) == 0
    anna = capsys.readouterr().out.strip()
    assert main(["serve", "--tokens", file, "--new-token", "anna"]) == 1
    assert "remove its line first" in capsys.readouterr().err
    for options, token, env in (
        (["--tokens", file], anna, {}),
        ([], TOKEN, {"SHIFTDATA_MIRROR_TOKEN": TOKEN}),
    ):
        server = Process(tmp_path, *options, env=env)
        try:
            assert request(server.port, "GET", "/api/whoami-v2", token=token).status == 200
            assert request(server.port, "GET", "/api/whoami-v2", token="wrong").status == 401
            wait_for(lambda server=server: '"GET /api/whoami-v2" 401 -' in server.said)
        finally:
            server.kill()
        name = "anna" if options else "everybody"
        assert f'127.0.0.1 "GET /api/whoami-v2" 200 {name}' in server.said
        assert token not in server.said


def test_a_port_that_is_taken(tmp_path: Path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = said_of(capsys, str(tmp_path), "--port", str(taken.getsockname()[1]))
    assert "another --port" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "70000"], "70000 is not in the range 0<=x<=65535"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--tokens", "nothing"], "is not a file of tokens"),
        (["--new-token", "anna"], "needs --tokens FILE"),
        (["--allowed-host", "http://lab:8000"], "is not a host name"),
        (["--trusted-proxy", "proxy.example.org"], "is not an IP address"),
        (["--page-memory", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_served_is_said(tmp_path: Path, capsys, monkeypatch, options: list[str], message: str):
    monkeypatch.delenv("SHIFTDATA_MIRROR_TOKEN", raising=False)
    assert message in said_of(capsys, str(tmp_path), *options)


def test_a_token_is_one_word(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setenv("SHIFTDATA_MIRROR_TOKEN", "two words")
    assert "SHIFTDATA_MIRROR_TOKEN must be one word" in said_of(capsys, str(tmp_path))


def test_a_folder_that_is_not_there(tmp_path: Path, capsys):
    assert "is not a folder" in said_of(capsys, str(tmp_path / "nothing"))


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "h11", None)
    assert "pip install 'shiftdata[serve]'" in said_of(capsys, str(tmp_path))
