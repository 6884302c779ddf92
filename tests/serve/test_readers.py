"""Readers by name: whoever guesses is stopped, and a line that is removed ends a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftdata.errors import InputError
from shiftdata.serve import readers
from shiftdata.serve.names import Refusal
from shiftdata.serve.readers import Readers, new_token, read_tokens
from tests.serve.serving import TOKEN, request, serving


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "readers.toml"


def status(running, token: str) -> int:
    return request(running.port, "GET", "/api/whoami-v2", token=token).status


def test_a_reader_is_let_in_and_out_while_the_server_runs(file: Path, tmp_path: Path):
    anna = new_token(file, "anna")
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served", tokens=file) as running:
        assert (status(running, anna), status(running, "x")) == (200, 401)
        bert = new_token(file, "bert")
        assert status(running, bert) == 200
        file.write_text(file.read_text().partition("\n")[2])
        assert (status(running, anna), status(running, bert)) == (401, 200)
        file.write_text("no TOML")
        assert status(running, bert) == 401
        file.unlink()
        assert status(running, bert) == 401
    assert anna not in repr(running)


def test_the_file_has_no_token_and_is_for_its_owner(file: Path):
    token = new_token(file, "anna")
    assert file.stat().st_mode & 0o077 == 0
    assert token not in file.read_text()
    file.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        Readers(file=file)
    file.chmod(0o600)
    for name in ("anna", "two words", "", 'a"'):
        with pytest.raises(InputError):
            new_token(file, name)
    assert list(read_tokens(file)) == ["anna"]


@pytest.mark.parametrize("text", ['anna = "token"', "anna = 1", "[anna]", '"a b" = "' + "0" * 64 + '"'])
def test_a_line_that_is_no_hash_is_an_error(file: Path, text: str):
    file.touch(0o600)
    file.write_text(text)
    with pytest.raises(InputError, match="sha256 of the token"):
        Readers(file=file)


def test_who_guesses_is_stopped_for_a_minute_and_those_known_there_are_not(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(readers.time, "monotonic", lambda: clock[0])
    known = Readers("the right one")
    assert known.name_of("Bearer the right one", "10.0.0.1") == readers.EVERYBODY
    for guess in range(10):
        for address in ("10.0.0.1", "10.0.0.2"):
            assert known.name_of(f"Bearer {guess}", address) is None
    for address, token in (("10.0.0.1", "11"), ("10.0.0.2", "11"), ("10.0.0.2", "the right one")):
        with pytest.raises(Refusal) as refused:
            known.name_of(f"Bearer {token}", address)
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "61")
    assert known.name_of("Bearer the right one", "10.0.0.1") is not None
    assert known.name_of("Bearer the right one", "10.0.0.3") is not None
    assert known.name_of("", "10.0.0.2") is None
    clock[0] += 61
    assert known.name_of("Bearer the right one", "10.0.0.2") is not None


def test_two_hundred_guesses_are_ten(tmp_path: Path):
    with serving(tmp_path, token=TOKEN) as running:
        answers = [status(running, f"guess-{number}") for number in range(200)]
        assert answers == [401] * 10 + [429] * 190
        assert request(running.port, "GET", "/").status == 401
