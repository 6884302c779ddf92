"""The docs as one static site in build/site: pages, reference, cards, a gallery.

    make site
    python scripts/docs_site                    the same, where everything is installed
    python scripts/docs_site --out FOLDER       another folder, which is replaced

Folders keep their places, so that links work both here and on a forge. A link or an anchor that leads
nowhere, and anything that a page would load from elsewhere, ends it with status 1. The gallery shows the
datasets in build/shift.
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

from shiftdata.serve.pages.site import write_gallery

SITE = REPO / "build" / "site"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=SITE)
    given = parser.parse_args()
    if given.out.is_file() or (given.out.is_dir() and any(given.out.iterdir()) and not _is_site(given.out)):
        parser.error(f"{given.out} is not a site that this made: name a new folder")
    with tempfile.TemporaryDirectory() as staged:
        if status := generate(Path(staged)):
            return status  # the generator has said what is wrong
        shutil.rmtree(given.out, ignore_errors=True)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(staged) / "site", given.out)
    finish(given.out)
    datasets = sorted(path.parent for path in (REPO / "build" / "shift").glob("*/manifest.json"))
    write_gallery(datasets, given.out / "gallery")
    wrong = problems(given.out)
    count = sum(1 for _ in given.out.rglob("*.html"))
    print("\n".join(wrong) or f"{given.out / 'index.html'}: {count:,} pages")
    return 1 if wrong else 0


def generate(staged: Path) -> int:
    """Gather the pages, let the generator make `site` next to them, and return its exit status."""
    pages = staged / "pages"
    stage(pages)
    write_reference(pages / "reference")
    (pages / "gallery").mkdir()
    (pages / "gallery" / "index.html").touch()  # it is linked now, and made last
    (staged / "zensical.toml").write_text(config(pages), encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run([zensical, "build", "--clean", "--strict"], cwd=staged, check=False).returncode


def _is_site(folder: Path) -> bool:
    return (folder / "search.json").is_file() and (folder / "reference").is_dir()


if __name__ == "__main__":
    sys.exit(main())
