"""The page of an exploration in a real browser, with the real view: what is clicked becomes Python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.serve.explore.app import Exploration, Server
from shiftdata.serve.explore.neighbours import map_of
from shiftdata.serve.explore.rows import Predicted, explored
from shiftdata.serve.explore.space import write_space
from shiftdata.serve.pages.rows import Rows
from tests.serve.explore.conftest import rows_of
from tests.web import answering

try:
    distribution("embedding-atlas")
except PackageNotFoundError:
    pytest.skip("embedding-atlas is not installed: scripts/setup.sh slow", allow_module_level=True)

pytestmark = pytest.mark.slow
#: What the view writes to the console of a browser without a GPU.
EXPECTED = ("WebGPU", "No available adapters", "Request", "Cache")


@contextmanager
def opened(chromium: Any, address: str, **options: Any) -> Iterator[Any]:
    """A page that writes down what went wrong in it and what it asked of others."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}, **options) as context:
        page = context.new_page()
        page.wrong = []

        def heard(message: Any) -> None:
            if message.type in ("error", "warning") and not any(word in message.text for word in EXPECTED):
                page.wrong.append(message.text)

        page.on("console", heard)
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((address, "blob:", "data:"))
                else page.wrong.append(request.url)
            ),
        )
        page.goto(address)
        yield page


def table_with_predictions(folder: Path) -> tuple[Any, Any, Any]:
    """Rows with a map and predictions of which a third is wrong."""
    task, metadata = sd.task(folder), rows_of(folder)
    test = task.rows("test")
    guess = np.where(np.arange(len(test)) % 3 == 0, (metadata.label[test] + 1) % 4, metadata.label[test])
    given = dict(zip(task.keys("test"), [metadata.labels[label] for label in guess], strict=True))
    placed = map_of(np.random.default_rng(0).normal(size=(len(metadata), 8)).astype(np.float32))
    return metadata, explored(metadata, placed, [Predicted("mine", "splits", task, "test", given)]), guess


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_click_selects_the_wrong_rows(kinds, chromium, placed, scheme):
    metadata, table, _ = table_with_predictions(kinds["stylized"])
    wrong = table["mine is"].to_pylist().count("wrong")
    exploration = Exploration(Rows.of(metadata.dataset, metadata.base), table)
    with Server(exploration) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with opened(chromium, server.address, color_scheme=scheme) as page:
            page.get_by_text("wrong", exact=True).first.click()
            page.locator("#selected").filter(has_text=f"{wrong} of {len(table)} rows selected").wait_for()
            page.locator("button img").first.wait_for()
            page.wait_for_load_state("networkidle")
            pictures = page.locator("button img").evaluate_all(
                "(all) => all.slice(0, 8).map((img) => [img.naturalWidth, new URL(img.src).pathname])"
            )
            assert all(width for width, _ in pictures)
            wrong_rows = {row for row, how in enumerate(table["mine is"].to_pylist()) if how == "wrong"}
            assert {int(path.rpartition("/")[2]) for _, path in pictures} <= wrong_rows
            page.click("#code")
            assert 'filters=[("key", "in", keys)]' in page.inner_text("#text")
            page.click("#close")
            with page.expect_download() as download:
                page.click("#keys")
            assert len(Path(download.value.path()).read_text().split("\n")) == wrong
            page.keyboard.press("Escape")  # clears the selection
            page.locator("#selected").filter(has_text=f"{len(table)} rows").wait_for()
            page.get_by_text("blue", exact=True).last.click()  # of bars: the heat map before has names too
            page.locator("#text").filter(has_text="('style', '==', 'blue')").wait_for(state="attached")
            assert page.wrong == []
        server.shutdown()


def test_a_space_needs_no_server_of_ours(kinds, chromium, placed, tmp_path):
    metadata, table, _ = table_with_predictions(kinds["stylized"])
    write_space(metadata, table, tmp_path / "space")
    handler = partial(_Quiet, directory=str(tmp_path / "space"))
    with answering(handler) as address, opened(chromium, f"{address}/") as page:
        page.get_by_text(f"/ {len(table)} points", exact=False).first.wait_for(timeout=60_000)
        page.locator("button img").first.wait_for()
        assert page.wrong == [] or all("404" in text for text in page.wrong)  # the view asks for a cache


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Say nothing."""
