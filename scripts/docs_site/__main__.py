"""The docs as one static site in build/site: pages, reference, tutorials that are run, cards, a gallery.

    make site
    python scripts/docs_site                    the same, where everything is installed
    python scripts/docs_site --skip-tutorials   their code is shown, and not run

What is written for a forge is taken as it is: folders keep their places, so that links work in both. A
link or an anchor that leads nowhere, and anything that a page would load from elsewhere, ends it with
status 1. Of the gallery come the datasets in build/shift.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from checking import forbid, problems
from navigation import config
from reference import write_reference
from staging import REPO, stage
from tutorials import run_tutorials

from shiftdata.gallery.site import write_gallery

STAGED, SITE = REPO / "build" / "site-source", REPO / "build" / "site"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skip-tutorials", action="store_true")
    given = parser.parse_args()
    shutil.rmtree(STAGED, ignore_errors=True)
    pages = STAGED / "pages"
    stage(pages)
    write_reference(pages / "reference")
    (pages / "gallery").mkdir()
    (pages / "gallery" / "index.html").touch()  # it is linked now, and made last
    if not given.skip_tutorials:
        run_tutorials(pages / "docs" / "tutorials")
    (STAGED / "zensical.toml").write_text(config(pages), encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    if status := subprocess.run(
        [zensical, "build", "--clean", "--strict"], cwd=STAGED, check=False
    ).returncode:
        return status  # it has said what is wrong
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(STAGED / "site", SITE)
    forbid(SITE)
    datasets = sorted(path.parent for path in (REPO / "build" / "shift").glob("*/manifest.json"))
    write_gallery(datasets, SITE / "gallery")
    found = problems(SITE)
    print("\n".join(found) or f"{SITE / 'index.html'}: {sum(1 for _ in SITE.rglob('*.html')):,} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
