"""The server of labels over real HTTP: who may ask, what is taken, what is left when it is killed."""

from __future__ import annotations

import csv
import io
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from shiftdata.cli.app import main
from tests.evaluation.labelling.running import Running, labelling


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("labels") / "labels.csv"


@pytest.fixture(scope="module")
def running(shapes: Path, out: Path) -> Iterator[Running]:
    with labelling(shapes, "severity>=1", "--for", "filter", "--each", 3, "--out", out) as one:
        yield one


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))[1:]


def test_the_page_gives_a_cookie_that_no_script_and_no_other_site_gets(running: Running) -> None:
    answer = running.ask("GET", f"/?token={running.token}", drop=("Cookie", "Origin"))
    assert answer.status == 200
    cookie = answer.headers["set-cookie"]
    assert running.cookie in cookie
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in cookie.split(";")}
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert running.token not in answer.body.decode()


@pytest.mark.parametrize(
    "path", ["/state?who=x", "/items/0", "/pictures/0/0", "/agreement", "/", "/?token=wrong"]
)
@pytest.mark.parametrize("cookie", ["", "wrong", "ünicode"])
def test_nothing_is_shown_without_the_token(running: Running, path: str, cookie: str) -> None:
    value = f"shiftdata_label_{running.port}={cookie}"
    answer = running.ask("GET", path, Cookie=value.encode().decode("latin-1"))
    assert answer.status == 401
    assert b"blur" not in answer.body
    assert b"shiftdata label" in answer.body  # what to do
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Cookie": "x=y"}, 401),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),  # the same site, to a browser
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
        ({"Host": "a b"}, 400),
    ],
)
@pytest.mark.parametrize("path", ["/labels", "/undo"])
def test_a_label_is_taken_from_the_page_alone(
    running: Running, out: Path, path: str, changed: dict[str, str], status: int
) -> None:
    body = {"key": running.ask("GET", "/items/0").json["key"], "label": "keep", "who": "mallory"}
    before = out.read_bytes()
    assert running.ask("POST", path, body, **changed).status == status
    assert running.ask("POST", path, body, drop=("Origin",)).status == 403
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "path", ["/", "/state?who=x", "/items/0", "/pictures/0/0", "/assets/label.js", "/agreement"]
)
def test_another_name_of_the_server_is_refused(running: Running, path: str) -> None:
    assert running.ask("GET", path, Host=f"rebound.example:{running.port}").status == 421
    assert running.ask("GET", path, Host=f"localhost:{running.port}").status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"key": ["no-such-key"], "label": "keep", "who": "x"}, 404),
        ({"key": "text", "label": "keep", "who": "x"}, 404),
        ({"key": [["a"]], "label": "keep", "who": "x"}, 404),
        ({"label": "good"}, 400),
        ({"label": ["keep"]}, 400),
        ({"label": ""}, 400),
        ({"who": "  "}, 400),
        ({"who": "a\nb"}, 400),
        ({"who": "x" * 61}, 400),
        ({"who": 7}, 400),
        (b"[1]", 400),
        (b"{", 400),
        (b"[" * 10_000, 400),
        (b" " * 20_000, 413),
        (b"\xff", 400),
    ],
)
def test_what_is_not_a_label_is_refused(running: Running, out: Path, body: Any, status: int) -> None:
    key = running.ask("GET", "/items/0").json["key"]
    if isinstance(body, dict):
        body = {"key": key, "label": "keep", "who": "anna"} | body
    before = out.read_bytes()
    answer = running.ask("POST", "/labels", body)
    assert (answer.status, "error" in answer.json) == (status, True)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "path", ["/items/99999", "/pictures/0/99", "/pictures/99999/0", "/assets/../server.py", "/x"]
)
def test_what_is_not_there_is_not_there(running: Running, path: str) -> None:
    assert running.ask("GET", path).status == 404


def test_a_label_is_on_the_disk_when_it_is_answered(running: Running, out: Path) -> None:
    key = running.ask("GET", "/items/1").json["key"][0]
    assert running.label(1, "partly", "cleo").json["labels"] == {"1": "partly"}
    assert rows(out)[-1][:3] == [key, "partly", "cleo"]
    running.label(1, "drop", "cleo")
    assert running.ask("GET", "/state?who=cleo").json["labels"] == {"1": "drop"}
    assert running.ask("GET", "/state?who=ben").json["labels"] == {}  # whoever labels does not see others
    assert running.ask("POST", "/undo", {"who": "cleo"}).json["number"] == 1
    assert running.ask("GET", "/state?who=cleo").json["labels"] == {"1": "partly"}


def test_a_second_tab_learns_what_the_first_one_did(running: Running) -> None:
    seen = running.ask("GET", "/state?who=dora").json["rows"]
    running.label(2, "keep", "dora")
    running.label(3, "keep", "eve")
    key = running.ask("GET", "/items/4").json["key"]
    answer = running.ask("POST", "/labels", {"key": key, "label": "drop", "who": "dora", "rows": seen})
    assert answer.json["labels"] == {"2": "keep", "4": "drop"}


def test_many_at_once_leave_whole_lines(running: Running, out: Path) -> None:
    before = len(rows(out))
    threads = [
        threading.Thread(target=running.label, args=(number % 5, "keep", f"p{number}"))
        for number in range(16)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    added = rows(out)[before:]
    assert {row[2] for row in added} == {f"p{number}" for number in range(16)}
    assert {len(row) for row in added} == {4}


def test_an_item_has_its_untouched_picture_and_its_trajectory(running: Running) -> None:
    one = running.ask("GET", "/items/0").json
    assert one["facts"].keys() == {"label", "shift", "severity"}
    assert [part["asked"] for part in one["pictures"]] == [True, False]
    assert [part["caption"] for part in one["trajectory"]] == ["0", "0.5", "1", "2.5"]
    shown = [
        Image.open(io.BytesIO(running.ask("GET", part["url"]).body)).convert("RGB")
        for part in (*one["pictures"], *one["trajectory"])
    ]
    picture, untouched, first, *_ = shown
    assert untouched.tobytes() == first.tobytes()  # severity 0
    now = next(at for at, part in enumerate(one["trajectory"]) if part["asked"])
    assert shown[2 + now].tobytes() == picture.tobytes() != untouched.tobytes()
    answer = running.ask("GET", "/pictures/0/0")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-security-policy"].startswith("sandbox")


def test_the_examples_are_so_many_a_group_and_the_same_again(shapes: Path) -> None:
    from shiftdata.evaluation.labelling.examples import Examples

    few, more = (Examples(shapes, None, ["shift=fade"], each=each) for each in (2, 4))
    assert set(few.keys) < set(more.keys)
    assert few.keys == Examples(shapes, None, ["shift=fade"], each=2).keys
    assert few.keys != Examples(shapes, None, ["shift=fade"], each=2, seed=1).keys
    facts = [few.item(at).facts for at in range(len(few.keys))]
    labels = [one["label"] for one in facts]
    assert {one["shift"] for one in facts} == {"fade"}
    assert {labels.count(label) for label in labels} == {2}


def test_a_killed_server_goes_on_where_it_was(shapes: Path, tmp_path: Path) -> None:
    arguments = (shapes, "--for", "filter", "--each", 2, "--out", tmp_path / "l.csv", "--who", "anna")
    with labelling(*arguments) as first:
        keys = [first.ask("GET", f"/items/{number}").json["key"][0] for number in range(5)]
        for number in range(5):
            assert first.label(number, "keep").status == 200
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    with (tmp_path / "l.csv").open("a") as stream:
        stream.write("torn-of")
    with labelling(*arguments) as second:
        assert second.token != first.token
        assert second.ask("GET", "/state?who=mallory").json["labels"] == {str(at): "keep" for at in range(5)}
        second.label(5, "drop", "mallory")  # --who stands
        assert [row[0] for row in rows(tmp_path / "l.csv")[:5]] == keys
        assert rows(tmp_path / "l.csv")[5][1:3] == ["drop", "anna"]
        second.process.send_signal(signal.SIGINT)
        assert second.process.wait(10) == 130
        assert second.process.stderr is not None
        assert "every label is in the file" in second.process.stderr.read()


def test_the_server_listens_to_this_machine_alone(running: Running) -> None:
    with socket.socket() as other:
        other.settimeout(2)
        address = socket.gethostbyname(socket.gethostname())
        if address.startswith("127."):
            pytest.skip("this machine has no other address")
        assert other.connect_ex((address, running.port)) != 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{shapes}"], "--for says what the labels are for"),
        (["{shapes}", "shift=none", "--for", "filter"], "unknown shift 'none'"),
        (
            ["{shapes}", "severity>=9", "--for", "filter"],
            "no row of tiny_continuous/extended meets severity>=9",
        ),
        (["{shapes}", "origin=x", "--for", "filter"], "origin: conditions here are on"),
        (["{shapes}", "--for", "filter", "--base", "x"], "unknown base 'x'"),
        (["{shapes}", "--for", "duplicates", "--each", "3"], "--each draws the examples of a filter"),
        (["{empty}", "--for", "styles"], "has no pictures <style>/<picture>"),
        (["{empty}", "a=b", "--for", "styles"], "takes a folder alone"),
        (["{shapes}", "--for", "filter", "--who", "a\nb"], "the name of who labels has a line break"),
        (["{shapes}", "--for", "filter", "--out", "{other}"], "has labels of 'not-here', which is not in"),
    ],
)
def test_what_cannot_be_labelled_is_said_at_once(
    shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.csv").write_text("key,label,who,when\nnot-here,keep,x,\n")
    places = {"shapes": shapes, "empty": tmp_path / "empty", "other": tmp_path / "other.csv"}
    assert main(["label", *(one.format(**places) for one in arguments)]) in (1, 2)
    assert message in capsys.readouterr().err
