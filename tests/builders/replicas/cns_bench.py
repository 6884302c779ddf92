"""CNS-Bench in small: folders with spaces, a scale filtered out, a list with a picture that is not there."""

from __future__ import annotations

import json
from pathlib import Path

from tests.builders.replicas.drawing import picture, put, put_odd

TOP = "cns_bench"
SHIFTS = ("painting_style", "heavy_snow", "tattoo_style")
CLASSES = {22: "bald eagle", 207: "golden retriever", 999: "toilet tissue, toilet paper"}
SCALES = (0, 500, 1000, 1500, 2000, 2500)
#: As the rows name them: the folder of tattoos is spelled as nobody knows.
NAMES = dict(zip(SHIFTS, ("painting_style", "heavy_snow", "style_of_a_tattoo"), strict=True))


def make(root: Path, seeds: int = 5, listed: bool = True) -> dict[str, int]:
    """Write the tree; give how many rows each shift has."""
    counts = dict.fromkeys(NAMES.values(), 0)
    images: list[dict[str, object]] = []
    for shift in SHIFTS:
        for number, name in CLASSES.items():
            for seed in range(1, seeds + 1):
                filtered = (shift, number, seed) == ("heavy_snow", 22, 3)
                for scale in SCALES:
                    path = f"{shift}/{number:03}_{name}/seed_{seed:04}_scale_{scale:04}.jpg"
                    if filtered and scale == 1500:
                        continue
                    # What begins every trajectory of a class and seed is one picture.
                    put(root, f"{TOP}/{path}", picture(f"{number} {seed}") if scale == 0 else None)
                    images.append(_entry(path, seed, scale, shift, number))
                    counts[NAMES[shift]] += not filtered
    folder = f"{TOP}/painting_style/022_bald eagle"
    for scale, file in zip(SCALES, put_odd(root, folder).values(), strict=False):
        whole = root / folder / f"seed_0001_scale_{scale:04}.jpg"
        (root / file).replace(whole)
    images.append(_entry("painting_style/022_bald eagle/seed_0050_scale_0000.jpg", 50, 0, SHIFTS[0], 22))
    put(root, f"{TOP}/painting_style/022_bald eagle/seed_0049_scale_0000.jpg")
    put(root, f"{TOP}/example.png")
    if listed:
        info = {"version": "1.0", "license": "CC0 1.0"}
        stored = {"info": info, "scales": [scale / 1000 for scale in SCALES], "shifts": SHIFTS}
        put(root, f"{TOP}/annotations_cns.json", json.dumps(stored | {"images": images}))
    return counts


def _entry(path: str, seed: int, scale: int, shift: str, number: int) -> dict[str, object]:
    return {"image": path, "seed": seed, "scale": scale / 1000, "shift": shift, "class": number}
