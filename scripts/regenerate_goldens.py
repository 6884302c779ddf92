"""Write tests/golden/ again, after a change that is meant to change published bytes. Read the diff."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # tests are no installed package

from builders.build import build  # noqa: E402
from tests.tiny import write_recipe  # noqa: E402


def main() -> None:
    """Build the tiny dataset and keep its manifest and its card."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = build(str(write_recipe(Path(scratch))), Path(scratch) / "out", workers=1, quiet=True)
        for name in ("manifest.json", "README.md"):
            target = ROOT / "tests" / "golden" / f"tiny_{name}"
            target.write_bytes((folder / name).read_bytes())
            print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
