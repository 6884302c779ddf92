"""The page that explores a table of rows, on this machine alone: it asks an in-memory DuckDB by SQL.

DuckDB has no access to files or the network, and requests from other sites' pages are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from shiftdata.data.loading.sprites import for_browser
from shiftdata.errors import InputError, NotFoundError, StorageError
from shiftdata.evaluation.pages.shell import assets, render
from shiftdata.extras import require
from shiftdata.logs import logger
from shiftdata.serve.explore import atlas
from shiftdata.serve.explore.selection import FILTERED, NoFilterError, code, filters_of
from shiftdata.serve.explore.view import view_of
from shiftdata.serve.pages.rows import Rows
from shiftdata.untrusted.texts import read_json

LOG = logger(__name__)
TABLE, KEPT = "dataset", "kept"
HOSTS = ("localhost", "127.0.0.1")
KINDS = {".css": "text/css", ".js": "text/javascript"}
#: The component sets styles on elements, and clusters by WebAssembly in a worker of its own script.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' blob:; worker-src 'self' blob: data:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src data:; connect-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
#: Bytes of a query; the view's own have some thousands.
MOST_QUERY = 1_000_000
#: Bytes above which a picture is sent smaller, and pixels of its side then.
SMALL = 24_000, 160


@dataclass(frozen=True, eq=False)
class Exploration:
    """The rows that are explored, their pictures, and a database of them."""

    rows: Rows
    table: pa.Table

    @cached_property
    def database(self) -> Any:
        connection = require("duckdb", "`shiftdata explore`").connect()
        # Compressed columns are counted in a fifth of the time: few of a million texts differ.
        connection.execute(f"ATTACH ':memory:' AS {KEPT} (COMPRESS)")
        connection.register("given", self.table)
        connection.execute(f"CREATE TABLE {KEPT}.{TABLE} AS SELECT * FROM given")
        connection.execute(f"CHECKPOINT {KEPT}")
        connection.unregister("given")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def _where(self, predicate: str) -> str:
        return f" FROM {TABLE} WHERE {predicate}" if predicate else f" FROM {TABLE}"

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        with self.database.cursor() as cursor:
            cursor.execute(f"USE {KEPT}")
            yield cursor

    def query(self, sql: str, kind: str) -> bytes | list[dict[str, Any]]:
        """Answer a query of the view: `arrow` as an Arrow stream, `json` as records, `exec` without rows."""
        with self._cursor() as cursor:
            if kind == "exec":
                cursor.execute(sql)
                return []
            reader = cursor.sql(sql).to_arrow_reader()
            if kind == "json":
                records: list[dict[str, Any]] = reader.read_all().to_pylist()
                return records
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
            data: bytes = sink.getvalue().to_pybytes()
            return data

    def keys(self, predicate: str, most: int | None = None) -> list[str]:
        """Return the keys of the rows for which a condition holds, in the order of the dataset."""
        limit = "" if most is None else f" LIMIT {most}"
        answer = self.query(f"SELECT key{self._where(predicate)} ORDER BY row{limit}", "json")
        return [record["key"] for record in answer if isinstance(record, dict)]

    def selected(self, predicate: str) -> dict[str, Any]:
        """Return how many rows a condition has, and the code that loads them."""
        counted = self.query(f"SELECT count(*) AS n{self._where(predicate)}", "json")
        assert isinstance(counted, list)
        manifest = self.rows.dataset.manifest
        text = code(
            manifest.name, self.rows.base, self._filters(predicate), lambda most: self.keys(predicate, most)
        )
        return {"rows": counted[0]["n"], "of": len(self.table), "code": text}

    def _filters(self, predicate: str) -> list[tuple[str, str, Any]] | None:
        columns = [*FILTERED, self.rows.metadata.nuisance_column]
        with self._cursor() as cursor:
            sql = f"SELECT 1{self._where(predicate)}"
            tree = cursor.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
        try:
            return filters_of(read_json(tree[0]), columns)
        except (NoFilterError, KeyError, IndexError, TypeError):  # another release may write trees otherwise
            return None


class Server(ThreadingHTTPServer):
    """Answers the page of an exploration, on this machine alone: a thread a connection."""

    daemon_threads = True

    def __init__(self, exploration: Exploration, port: int = 0) -> None:
        self.exploration = exploration
        self.component = atlas.component().read_bytes()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise StorageError(
                f"port {port} cannot be used ({error.strerror}): give another --port"
            ) from error

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self._answer(lambda: self._get(path, query))

    def do_POST(self) -> None:
        self._answer(self._post)

    def _get(self, path: str, query: str) -> tuple[bytes | str, str]:
        exploration = self.server.exploration
        rows = exploration.rows
        folder, _, name = path.removeprefix("/").rpartition("/")
        if path == "/":
            known: dict[str, Any] = {
                "manifest": rows.dataset.manifest,
                "base": rows.base,
                "rows": len(exploration.table),
            }
            return render("explore.html", root="", policy=POLICY, **known), "text/html; charset=utf-8"
        if path == "/view.json":
            points = query == "points=1"
            view = view_of(
                rows, exploration.table, version("embedding-atlas"), points=points, counts=not points
            )
            return json.dumps(view), "application/json"
        if path == "/atlas.js":
            return self.server.component, "text/javascript"
        if folder == "assets" and name in assets():
            return assets()[name].read_bytes(), KINDS[assets()[name].suffix]
        if folder == "picture" and name.isdecimal() and rows.has_pictures and int(name) < len(rows.metadata):
            data = rows.examples([int(name)])[0]
            return for_browser(data, *(() if query == "whole=1" else SMALL))
        raise NotFoundError("not found")

    def _post(self) -> tuple[bytes | str, str]:
        # Pages of other sites cannot send this type without asking first, which nobody here answers.
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Content-Type") != "application/json" or not 0 < length <= MOST_QUERY:
            self.close_connection = True  # with the body that is not read
            raise InputError(f"send JSON of 1 to {MOST_QUERY:,} bytes, as the page does")
        asked, exploration = read_json(self.rfile.read(length)), self.server.exploration
        predicate = str(asked.get("predicate") or "")
        if self.path == "/query":
            answer = exploration.query(str(asked["sql"]), str(asked["type"]))
            if isinstance(answer, bytes):
                return answer, "application/vnd.apache.arrow.stream"
            return json.dumps(answer, default=str), "application/json"
        if self.path == "/selection":
            return json.dumps(exploration.selected(predicate)), "application/json"
        if self.path == "/keys":
            return "\n".join(exploration.keys(predicate)), "text/plain; charset=utf-8"
        raise NotFoundError("not found")

    def _answer(self, make: Callable[[], tuple[bytes | str, str]]) -> None:
        status = 200
        try:
            host = self.headers.get("Host", "").rpartition(":")[0]
            if host not in HOSTS:  # a name that somebody else has pointed at this machine
                raise InputError(f"this server is not called {host}")
            body, kind = make()
        except Exception as error:  # whoever writes SQL into the page reads DuckDB's words
            status = 404 if isinstance(error, NotFoundError) else 400
            body, kind = json.dumps({"error": str(error)[:2000]}), "application/json"
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            "Cache-Control": "private, max-age=86400" if kind.startswith("image/") else "no-store",
            "Content-Security-Policy": POLICY,
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Frame-Options": "DENY",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name of the base class
        LOG.debug(format, *args)
