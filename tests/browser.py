"""A real browser for tests of pages: Debian's chromium, or what $CHROMIUM names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator[Any]:
    """A running browser; the tests that need it say so and are skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("no chromium here: `apt-get install chromium`, or set $CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def accessibility_problems(page: Any, *, contrast: bool = True) -> list[str]:
    """What axe finds on an open page: nothing, for everybody to be able to use it.

    The contrast of texts takes it most of its time; `tests/visual.py` has a check of its own.
    """
    from axe_playwright_python.sync_playwright import Axe

    # Without `preload` it fetches no style again, which a page opened from a file may not.
    options = {
        "preload": False,
        "resultTypes": ["violations"],
        "rules": {"color-contrast": {"enabled": contrast}},
    }
    response = Axe().run(page, options=options).response
    return [
        f"{rule['id']}: {rule['help']}; {node['html'][:200]}"
        for rule in response["violations"]
        for node in rule["nodes"]
    ]


def wait_for_text(page: Any, selector: str, text: str) -> None:
    """Wait until an element has a text; the policy of the pages forbids to evaluate one's own code for it."""
    page.locator(selector).filter(has_text=text).wait_for(state="attached")
