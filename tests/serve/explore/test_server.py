"""The server of an exploration: right answers to its page, nothing for anybody else, no way to the disk."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.errors import InputError, MissingExtraError
from shiftdata.serve.explore import atlas
from shiftdata.serve.explore.app import MOST_QUERY, Exploration, Server
from shiftdata.serve.explore.rows import explored
from shiftdata.serve.explore.space import write_space
from shiftdata.serve.pages.rows import Rows
from tests.serve.explore.conftest import rows_of
from tests.tiny import edit_manifest

JSON = {"Content-Type": "application/json"}


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    metadata = rows_of(folder)
    assert metadata.dataset is not None
    exploration = Exploration(Rows.of(metadata.dataset, metadata.base), explored(metadata, None))
    with Server(exploration) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def server(kinds: dict[str, Path], view_files: Path) -> Iterator[Server]:
    with running(kinds["stylized"]) as served:
        yield served


def ask(server: Server, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, str]:
    given = {name.replace("_", "-"): value for name, value in headers.items()} | {"Connection": "close"}
    with closing(HTTPConnection("127.0.0.1", server.server_port, timeout=20)) as connection:
        if body is None:
            connection.request("GET", path, headers=given)
        else:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", path, data, {**JSON, **given})
        with connection.getresponse() as answer:
            return answer.status, answer.read(), answer.headers["Content-Type"]


def test_the_page_and_what_it_loads(server):
    status, page, kind = ask(server, "/")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert b"explore.js" in page
    for path, kind in (("/atlas.js", "text/javascript"), ("/assets/style.css", "text/css")):
        assert ask(server, path)[::2] == (200, kind)
    view = json.loads(ask(server, "/view.json?points=0")[1])
    assert view["data"]["id"] == "row"
    assert {"count-label", "groups", "rows"} <= {*view["initialState"]["charts"]}
    assert ask(server, "/assets/../../../pyproject.toml")[0] == 404
    assert ask(server, "/picture/999999")[0] == 404


def test_pictures_are_those_of_the_rows(server):
    rows = server.exploration.rows
    status, data, kind = ask(server, "/picture/3?whole=1")
    assert (status, kind) == (200, "image/png")
    assert data == rows.examples([3])[0]


def test_queries_are_answered_as_arrow_and_json(server):
    status, data, _ = ask(server, "/query", {"type": "arrow", "sql": "SELECT count(*) AS n FROM dataset"})
    assert status == 200
    assert pa.ipc.open_stream(data).read_all().to_pylist() == [{"n": len(server.exploration.table)}]
    assert json.loads(ask(server, "/query", {"type": "json", "sql": "SELECT 1 AS a"})[1]) == [{"a": 1}]
    assert ask(server, "/query", {"type": "exec", "sql": "CREATE TABLE more AS SELECT 1 AS b"})[1] == b"[]"
    assert json.loads(ask(server, "/query", {"type": "json", "sql": "SELECT b FROM more"})[1]) == [{"b": 1}]
    status, data, _ = ask(server, "/query", {"type": "json", "sql": "SELECT nothing FROM dataset"})
    assert status == 400
    assert "nothing" in json.loads(data)["error"]


def test_no_query_reaches_the_disk(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for sql in (
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY dataset TO 'stolen.csv'",
        "ATTACH 'here.duckdb'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        assert ask(server, "/query", {"type": "exec", "sql": sql})[0] == 400, sql
    assert {path.name for path in tmp_path.iterdir()} <= {"atlas"}


def test_pages_of_other_sites_are_refused(server):
    question = {"type": "json", "sql": "SELECT 1"}
    assert ask(server, "/query", question, Host="rebound.example:80")[0] == 400
    assert ask(server, "/", None, Host="rebound.example:80")[0] == 400
    assert ask(server, "/query", question, Content_Type="text/plain")[0] == 400
    assert ask(server, "/query", b"{}", Content_Length=str(MOST_QUERY + 1))[0] == 400
    assert ask(server, "/query", b"[1]")[0] == 400
    assert ask(server, "/query", question)[0] == 200


#: Conditions as the view writes them, and the filters that say the same; None where none can.
PREDICATES: dict[str, list[tuple[str, str, Any]] | None] = {
    "": [],
    "\"label\"::TEXT IS NOT DISTINCT FROM 'zip'": None,
    """(("style")::TEXT IS NOT DISTINCT FROM 'red')""": [("style", "==", "red")],
    "\"split\" = 'test' AND style IN ('red', 'blue')": [
        ("split", "==", "test"),
        ("style", "in", ["red", "blue"]),
    ],
    "style NOT IN ('red') AND 'train' = split": [("style", "not in", ["red"]), ("split", "==", "train")],
    "style = 'red' OR style = 'blue'": [("style", "in", ["red", "blue"])],
    "quantile BETWEEN 0.25 AND 0.5": [("quantile", ">=", 0.25), ("quantile", "<=", 0.5)],
    "quantile::TEXT = '0.5' OR row < 3": None,
    "starts_with(key, 'a')": None,
    "style = 'red' OR split = 'test'": None,
}


def test_code_loads_what_is_selected(kinds, server, monkeypatch, tmp_path):
    monkeypatch.setenv("SHIFTDATA_HOME", str(kinds["stylized"].parent))
    monkeypatch.chdir(tmp_path)
    for predicate, filters in PREDICATES.items():
        answer = json.loads(ask(server, "/selection", {"predicate": predicate})[1])
        keys = ask(server, "/keys", {"predicate": predicate})[1].decode()
        expected = [] if not keys else keys.split("\n")
        assert answer["rows"] == len(expected), predicate
        assert all(repr(clause) in answer["code"] for clause in filters or ()), predicate
        if expected:
            (tmp_path / "keys.txt").write_text(keys)
            scope: dict[str, Any] = {}
            exec(answer["code"], scope)
            assert sorted(scope["ds"]["key"]) == sorted(expected), predicate


def test_files_for_a_space(kinds, view_files, tmp_path):
    metadata = rows_of(kinds["stylized"])
    front = write_space(metadata, explored(metadata, None), tmp_path / "out", most=50)
    assert front.is_file()
    table = pq.read_table(tmp_path / "out/data/dataset.parquet")
    pictures = [each for each in table["picture"].to_pylist() if each]
    assert len(pictures) == 50
    assert all(each["bytes"][8:12] == b"WEBP" for each in pictures)
    about = json.loads((tmp_path / "out/data/metadata.json").read_text())
    assert about["database"] == {"type": "wasm", "load": True}
    assert "sdk: static" in (tmp_path / "out/README.md").read_text()
    write_space(metadata, explored(metadata, None), tmp_path / "out", most=10)  # again, over itself
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").touch()
    with pytest.raises(InputError, match="no earlier exploration"):
        write_space(metadata, explored(metadata, None), tmp_path / "mine")


@pytest.mark.parametrize(
    ("publishes", "kind"), [("splits", "stylized"), ("splits", "text"), ("nothing", "stylized")]
)
def test_what_may_not_be_published_is_in_no_file(kinds, view_files, tmp_path, publishes, kind):
    import shutil

    folder = shutil.copytree(kinds[kind], tmp_path / kinds[kind].name)
    edit_manifest(folder, lambda raw: raw.update(publishes=publishes))
    metadata = rows_of(folder)
    table = explored(metadata, None)
    if publishes == "nothing":
        with pytest.raises(InputError, match="lets nothing of it be published"):
            write_space(metadata, table, tmp_path / "out")
        return
    write_space(metadata, table, tmp_path / "out")
    assert not {"picture", "text"} & {*pq.read_table(tmp_path / "out/data/dataset.parquet").column_names}


def test_a_missing_view_is_said_before_anything_is_computed(kinds, monkeypatch, capsys):
    monkeypatch.setattr(
        atlas, "distribution", lambda name: (_ for _ in ()).throw(atlas.PackageNotFoundError(name))
    )
    with pytest.raises(MissingExtraError, match=r"pip install --no-deps 'embedding-atlas==0\.26"):
        atlas.component()
    assert main(["explore", str(kinds["table"])]) == 1
    assert "embedding-atlas" in capsys.readouterr().err


def test_a_task_without_predictions_is_an_error(kinds, capsys):
    assert main(["explore", str(kinds["table"]), "lodo"]) == 1
    assert "--predictions" in capsys.readouterr().err
    assert sd.open_dataset(kinds["table"]).manifest.name
