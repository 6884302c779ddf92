from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builders.make.build import build
from tests.builders.test_filters import write_recipe

#: What a stranger could call a label or a file; nothing of it may run, or leave the folder.
HOSTILE = "<img src=x onerror=alert(1)>\"'&<script>alert(2)<"
STYLES = ("dawn", HOSTILE, "=cmd|' &calc'!A0")


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shapes along two shifts, with the scores of a filter that keeps every one."""
    recipe = write_recipe(
        tmp_path_factory.mktemp("labelled"), "filters=Filters(keep=Threshold(scorer=Ink(), least=0))"
    )
    return build(str(recipe), tmp_path_factory.mktemp("built"), workers=1, quiet=True)


@pytest.fixture
def styles(tmp_path: Path) -> Path:
    """Style pictures with names that strangers chose."""
    folder = tmp_path / "styles"
    for place, style in enumerate(STYLES):
        (folder / style).mkdir(parents=True)
        for number in range(4):
            pixels = np.random.default_rng([place, number]).integers(0, 255, (70, 70, 3), np.uint8)
            Image.fromarray(pixels).save(folder / style / f"{number} {style}.png")
    return folder


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """An empty page that writes down what went wrong in it."""
    with chromium.new_context(viewport={"width": 1100, "height": 800}) as context:
        made = context.new_page()
        made.wrong = []
        made.on("pageerror", lambda error: made.wrong.append(str(error)))
        made.on("dialog", lambda dialog: (made.wrong.append(dialog.message), dialog.dismiss()))
        made.on(
            "console",
            lambda said: made.wrong.append(said.text) if "Content Security" in said.text else None,
        )
        yield made
