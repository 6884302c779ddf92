"""Write tests/golden/ again, after a change that is meant to change published bytes. Read the diff.

Golden pictures are refused where pixels changed and the step's `code_version` did not.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from builders.make.build import build
from shiftdata.errors import InputError
from tests import golden_ids
from tests.baselines.test_hyper import GOLDEN, lines
from tests.golden_pictures import made_now, record
from tests.tiny import write_recipe

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Record golden pictures, defaults of methods, and the manifest, card and Croissant of tiny."""
    try:
        record(made_now())
    except InputError as error:
        sys.exit(str(error))
    print("tests/golden/pictures.tsv")
    GOLDEN.write_text("\n".join(lines()) + "\n")
    print(GOLDEN.relative_to(ROOT))
    golden_ids.GOLDEN.write_text("\n".join(golden_ids.lines()) + "\n", encoding="utf-8")
    print(golden_ids.GOLDEN.relative_to(ROOT))
    with tempfile.TemporaryDirectory() as scratch:
        folder = build(str(write_recipe(Path(scratch))), Path(scratch) / "out", workers=1, quiet=True)
        for name in ("manifest.json", "README.md", "croissant.json"):
            target = ROOT / "tests" / "golden" / f"tiny_{name}"
            target.write_bytes((folder / name).read_bytes())
            print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
