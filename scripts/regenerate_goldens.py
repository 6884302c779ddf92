"""Write tests/golden/ again, after a change that is meant to change published bytes. Read the diff."""

from __future__ import annotations

import tempfile
from pathlib import Path

from builders.make.build import build
from tests.tiny import write_recipe

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Build the tiny dataset and keep its manifest, card and Croissant."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = build(str(write_recipe(Path(scratch))), Path(scratch) / "out", workers=1, quiet=True)
        for name in ("manifest.json", "README.md", "croissant.json"):
            target = ROOT / "tests" / "golden" / f"tiny_{name}"
            target.write_bytes((folder / name).read_bytes())
            print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
