"""Put 30 published models on the line from CIFAR-10 to CIFAR-10.1, from their released predictions.

    python scripts/real/cifar101.py CIFAR-10.1 cifar10_test_set_original_labels.npy [line.png]

The first is a clone of the repository modestyachts/CIFAR-10.1 (MIT), of which `model_predictions` and the
labels of v6 are read; the second has the labels of CIFAR-10's test batch in its order, as the repository
cleanlab/label-errors has them in `original_test_labels`. Fails where the numbers are not those of the docs:
the best model is right in 97.11 and 93.10 %, and a point on CIFAR-10 is worth 1.60 points on CIFAR-10.1.
The data are of B. Recht et al. (arXiv:1806.00451).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from shiftdata.evaluation.metrics.line import Point, accuracy_line, agreement_line


def main(clone: Path, labels: Path, picture: str = "") -> None:
    """Print both tables, and compare with the docs."""
    names = sorted(path.name for path in (clone / "model_predictions/v6_predictions").glob("*.json"))
    sides = [
        np.array(
            [
                json.loads((clone / f"model_predictions/{side}_predictions" / name).read_text())
                for name in names
            ]
        )
        for side in ("original", "v6")
    ]
    truth = np.load(labels), np.load(clone / "datasets/cifar10.1_v6_labels.npy")
    clean, shifted = (of == true for of, true in zip(sides, truth, strict=True))
    models = [name.removesuffix("_predictions.json") for name in names]
    families = ["random features" if name.startswith("random") else "network" for name in models]
    points = list(map(Point.of, models, clean, shifted, families))
    line = accuracy_line(points)
    print(line, "", sep="\n")
    accuracies = clean.mean(axis=1), shifted.mean(axis=1)
    print(agreement_line(*sides, accuracies[0], names=models, true=accuracies[1]).table().text())
    if picture:
        line.picture("CIFAR-10", "CIFAR-10.1").save(picture)
    best, linear = accuracies[0].argmax(), accuracy_line(points, axes="linear")
    found = [accuracies[0][best], accuracies[1][best], linear.slope.estimate]
    print(f"\nbest {found[0]:.4f} -> {found[1]:.4f}; linear axes: slope {linear.slope}, R² {linear.r2:.3f}")
    if not np.allclose(found, [0.9711, 0.931, 1.595], atol=1e-3):
        raise SystemExit(f"{found} are not the numbers of the docs")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
