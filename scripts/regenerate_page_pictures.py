"""Pictures of the pages for docs/gallery.md, by a real browser, of the demo's dataset and three methods.

    make demo; python scripts/regenerate_page_pictures.py

It trains ERM, RWG and GroupDRO for 300 steps each, as the demo does.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import shiftdata as sd
from shiftdata.baselines import Training
from shiftdata.serve.pages.predictions_page import predictions_page
from shiftdata.serve.pages.site import write_gallery

DATASET = Path("build/shift/sma_glyphs_k8")
DOCS = Path(__file__).parents[1] / "docs"
WIDTH, HEIGHT = 1180, 760


def shoot(page: Page, address: str, name: str, selector: str, height: int = HEIGHT) -> None:
    """A picture of a page from an element on, in few colours: what is drawn is flat."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.locator(selector).first.evaluate("(one) => one.scrollIntoView()")
    page.wait_for_timeout(500)
    file = DOCS / f"{name}.png"
    page.screenshot(path=file)
    with Image.open(file) as opened:
        opened.convert("RGB").quantize(160, dither=Image.Dither.NONE).save(file, optimize=True)


def main() -> None:
    task = sd.task(DATASET, "group-fairness", k=8, mu=0.1)
    runs = {
        name: sd.train(task, name, training=Training(steps=300), seed=0)
        for name in ("erm", "rwg", "group-dro")
    }
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as running:
        out = Path(scratch)
        predictions_page(task, {name: run.predictions() for name, run in runs.items()}, out / "methods")
        write_gallery([DATASET], out / "site")
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        shoot(page, f"file://{out}/site/sma_glyphs_k8/index.html", "gallery", "main")
        shoot(page, f"file://{out}/methods/index.html", "predictions", "main", 1080)


if __name__ == "__main__":
    main()
