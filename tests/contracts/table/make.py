"""120 made patients of two clinics; a few values are not known."""

import csv
from pathlib import Path

import numpy as np


def make(folder: Path) -> None:
    rng = np.random.default_rng(0)
    with (folder / "patients.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "age", "dose", "smoker", "town", "outcome", "clinic"])
        for number in range(120):
            age = "" if number % 17 == 0 else int(rng.integers(20, 90))
            smoker = ("yes", "no", "quit")[int(rng.integers(3))]
            town = ("Köln", "Lyon", "São Paulo")[int(rng.integers(3))]
            outcome, clinic = ("ill", "well")[number % 2], ("north", "south")[number // 2 % 2]
            writer.writerow([f"p{number}", age, round(rng.random(), 3), smoker, town, outcome, clinic])
