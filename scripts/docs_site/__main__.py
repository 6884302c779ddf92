"""The docs as one static site in build/site: pages, reference, tutorials that are run, cards, a gallery.

    make site
    python scripts/docs_site                    the same, where everything is installed
    python scripts/docs_site --skip-tutorials   their code is shown, and not run
    python scripts/docs_site --out FOLDER       another folder, which is replaced

What is written for a forge is taken as it is: folders keep their places, so that links work in both. A
link or an anchor that leads nowhere, and anything that a page would load from elsewhere, ends it with
status 1. Of the gallery come the datasets in build/shift.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from checking import finish, problems
from navigation import config
from reference import write_reference
from staging import REPO, stage
from tutorials import run_tutorials

from shiftdata.serve.pages.site import write_gallery

SITE = REPO / "build" / "site"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skip-tutorials", action="store_true")
    parser.add_argument("--out", type=Path, default=SITE)
    given = parser.parse_args()
    if given.out.is_file() or (given.out.is_dir() and any(given.out.iterdir()) and not _is_site(given.out)):
        parser.error(f"{given.out} is not a site that this made: name a new folder")
    with tempfile.TemporaryDirectory() as staged:
        if status := generate(Path(staged), tutorials=not given.skip_tutorials):
            return status  # the generator has said what is wrong
        shutil.rmtree(given.out, ignore_errors=True)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(staged) / "site", given.out)
    finish(given.out)
    datasets = sorted(path.parent for path in (REPO / "build" / "shift").glob("*/manifest.json"))
    write_gallery(datasets, given.out / "gallery")
    found = problems(given.out)
    print(
        "\n".join(found) or f"{given.out / 'index.html'}: {sum(1 for _ in given.out.rglob('*.html')):,} pages"
    )
    return 1 if found else 0


def generate(staged: Path, *, tutorials: bool) -> int:
    """Gather the pages and let the generator make `site` beside them; its exit status."""
    pages = staged / "pages"
    stage(pages)
    write_reference(pages / "reference")
    (pages / "gallery").mkdir()
    (pages / "gallery" / "index.html").touch()  # it is linked now, and made last
    if tutorials:
        run_tutorials(pages / "docs" / "tutorials")
    (staged / "zensical.toml").write_text(config(pages), encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run([zensical, "build", "--clean", "--strict"], cwd=staged, check=False).returncode


def _is_site(folder: Path) -> bool:
    return (folder / "search.json").is_file() and (folder / "reference").is_dir()


if __name__ == "__main__":
    sys.exit(main())
