"""Rebuild the tables of the label-shift recipes, byte-equal, from the copies in scikit-learn.

    python scripts/regenerate_tables.py [--check]

The first two columns are the label and the domain, which is cut from one documented covariate; the others
are the features as they are. `--check` writes nothing and fails where a shipped file differs.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_digits

TABLES = Path(__file__).parents[1] / "builders/albums/assets/tables"


def breast_cancer() -> str:
    """Nuclei of breast masses; the domain is the mean texture: the spread of grey values in the image."""
    data = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    texture = data.data[:, names.index("mean_texture")]
    domains = cut(texture, (17, 21), ("smooth", "medium", "coarse"))
    labels = [str(data.target_names[number]) for number in data.target]
    return table(("diagnosis", "texture", *names), labels, domains, data.data.tolist())


def digits() -> str:
    """Handwritten digits of 8 x 8 pixels, row by row; the domain is the ink: the sum of all pixels."""
    data = load_digits()
    names = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
    pixels = data.data.astype(int)
    domains = cut(pixels.sum(axis=1), (300, 330), ("light", "medium", "heavy"))
    return table(("digit", "ink", *names), [str(number) for number in data.target], domains, pixels.tolist())


def cut(values: Sequence[float], bounds: tuple[float, float], names: tuple[str, str, str]) -> list[str]:
    """The domain of each value: below the first bound, below the second, or neither."""
    return [names[sum(value >= bound for bound in bounds)] for value in values]


def table(
    header: Sequence[str], labels: Sequence[str], domains: Sequence[str], features: Sequence[Sequence[float]]
) -> str:
    """The text of a CSV file; numbers as Python writes them, which gives each back exactly."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    rows = zip(labels, domains, features, strict=True)
    writer.writerows([label, domain, *values] for label, domain, values in rows)
    return stream.getvalue()


def made() -> dict[Path, str]:
    """Every table with its place."""
    return {TABLES / "breast_cancer.csv": breast_cancer(), TABLES / "digits.csv": digits()}


def main() -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Rebuild the tables that ship, from scikit-learn.")
    parser.add_argument("--check", action="store_true", help="compare with what ships, write nothing")
    check = parser.parse_args().check
    wrong = 0
    for path, text in made().items():
        if not check:
            path.write_text(text, encoding="utf-8", newline="")
        equal = path.is_file() and path.read_bytes() == text.encode()
        print(f"{path.name} is {'equal to' if equal else 'not'} what scikit-learn gives.")
        wrong += not equal
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
