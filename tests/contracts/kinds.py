"""The kinds of data that the contract on disk must carry: one folder here for each.

`python -m tests.contracts.kinds <out>` builds them all.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from pathlib import Path

from builders.make.build import build

HERE = Path(__file__).parent
KINDS = sorted(path.parent.name for path in HERE.glob("*/recipe.py"))


def prepare(kind: str, folder: Path) -> Path:
    """Put a kind's recipe, and the material that its `make` makes, into an empty folder; give the recipe."""
    importlib.import_module(f"tests.contracts.{kind}.make").make(folder)
    return Path(shutil.copy(HERE / kind / "recipe.py", folder / "recipe.py"))


def main(out: Path) -> None:
    """Build every kind into `out/shift`."""
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as scratch:
            print(build(str(prepare(kind, Path(scratch))), out, workers=1, quiet=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
