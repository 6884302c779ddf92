from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.make.build import build
from shiftdata.serve.pages.site import write_gallery
from tests.contracts.kinds import prepare
from tests.serve.serving import Running, serving
from tests.tiny import edit_manifest

#: What a label of a stranger could say; nothing of it may run.
HOSTILE = "<img src=x onerror=document.title='run'>\"'</script><script>document.title='run'</script>"


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """An empty page that writes down what went wrong in it: errors, refused loads, requests to others."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        made = context.new_page()
        made.wrong = []
        made.asked = []
        made.on(
            "console", lambda one: made.wrong.append(one.text) if one.type in ("error", "warning") else None
        )
        made.on("pageerror", lambda error: made.wrong.append(str(error)))
        made.on("request", lambda one: made.asked.append(one.url))
        yield made


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `shift` with a dataset of each kind, and one whose names are hostile. Read only."""
    out = tmp_path_factory.mktemp("built")
    for kind in ("stylized", "continuous", "text", "table"):
        build(str(prepare(kind, tmp_path_factory.mktemp(kind))), out, workers=1, quiet=True)
    return out


@pytest.fixture(scope="session")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gallery of all of them, as files."""
    out = tmp_path_factory.mktemp("site")
    write_gallery(sorted((built / "shift").iterdir()), out, each=3)
    return out


@pytest.fixture(scope="session")
def mirror(built: Path) -> Iterator[Running]:
    with serving(built) as running:
        yield running


def make_hostile(folder: Path) -> None:
    """Give a dataset names, texts and a card that try to run something."""

    def change(raw: dict[str, Any]) -> None:
        raw["labels"][0] = HOSTILE
        raw["nuisances"][0] = HOSTILE + "2"
        raw["title"] = raw["summary"] = HOSTILE
        raw["credits"][0]["attribution"] = HOSTILE

    edit_manifest(folder, change)
    card = folder / "README.md"
    card.write_text(
        card.read_text()
        + f"\n{HOSTILE}\n\n[x](javascript:document.title='run') ![y](http://elsewhere.example/y.png)\n"
    )
