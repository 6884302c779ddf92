from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftdata.serve.pages.site import write_gallery
from tests.serve.serving import Running, serving
from tests.shared import dataset_of, made_once
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
            "console",
            lambda message: made.wrong.append(message.text) if message.type in ("error", "warning") else None,
        )
        made.on("pageerror", lambda error: made.wrong.append(str(error)))
        made.on("request", lambda request: made.asked.append(request.url))
        yield made


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `shift` with a dataset of each kind. Read only."""

    def make(folder: Path) -> None:
        for dataset in datasets:
            shutil.copytree(dataset, folder / "shift" / dataset.name)

    datasets = [dataset_of(tmp_path_factory, kind) for kind in ("stylized", "continuous", "text", "table")]
    return made_once(tmp_path_factory, "all_kinds", make)


@pytest.fixture(scope="session")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gallery of all of them, as files."""
    datasets = sorted((built / "shift").iterdir())
    return made_once(tmp_path_factory, "site", lambda folder: write_gallery(datasets, folder, each=3))


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
