"""The tiny dataset of most tests: 4 labels x 40 pictures x 5 tints, the stylized kind of the contract."""

from __future__ import annotations

from pathlib import Path

from tests.contracts.kinds import prepare


def write_recipe(folder: Path) -> Path:
    """Draw the pictures and write the recipe that uses them; give the recipe's path."""
    return prepare("stylized", folder)
