"""`styles filter`: what the machine learns from labels, which pictures stay, what is refused."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.cli.app import main
from builders.curate.filtering import SCORES, Codes, VggMeans, filter_pictures, read_kept
from builders.curate.labelling import LABELS
from builders.shifts.styles.bank import style_picture
from builders.shifts.styles.listed import read_listed
from builders.shifts.stylizers.vgg import BLOCKS
from shiftdata.data.executors import Here
from shiftdata.errors import InputError
from tests.builders.curate.conftest import EACH, STYLES


class Colours:
    """The mean colour of a picture."""

    name = "mean colours"

    def mean_activations(self, picture: Image.Image) -> np.ndarray:
        return np.asarray(picture, np.float32).mean(axis=(0, 1))


def colour(out: Path, file: str) -> float:
    """What `good` means here: how much more red than blue."""
    mean = np.asarray(style_picture(out / file), float).mean(axis=(0, 1))
    return float(mean[0] - mean[2])


def label(out: Path, labels: dict[str, str]) -> Path:
    lines = [f"{file},{what},," for file, what in labels.items()]
    (out / LABELS).write_text("\n".join(["key,label,who,when", *lines]) + "\n")
    return out / LABELS


def by_colour(out: Path, each: int = 12) -> dict[str, str]:
    """The reddest are good, the bluest bad; those between have no label."""
    order = sorted((one.file for one in read_listed(out)), key=lambda file: colour(out, file))
    return dict.fromkeys(order[-each:], "good") | dict.fromkeys(order[:each], "bad")


def scores(out: Path) -> dict[str, dict[str, str]]:
    with (out / SCORES).open(encoding="utf-8", newline="") as stream:
        return {row["file"]: row for row in csv.DictReader(stream, delimiter="\t")}


def test_scores_follow_what_the_labels_mean(out: Path) -> None:
    known = by_colour(out)
    report = filter_pictures(out, label(out, known), Colours(), Here(), keep=4)
    assert report.labels == {"good": 12, "bad": 12}
    assert report.balanced > 0.9
    assert (
        f"n = 24: 12 good, 12 bad\n5-fold cross-validation: balanced accuracy {report.balanced:.3f}"
        in str(report)
    )
    assert f"accuracy {report.accuracy:.3f} (always good: 0.500 and 0.500)" in str(report)
    table = scores(out)
    assert list(table) == [one.file for one in read_listed(out)]
    assert {file: row["label"] for file, row in table.items() if row["label"]} == known
    between = [file for file in table if file not in known]
    order = np.corrcoef([colour(out, f) for f in between], [float(table[f]["score"]) for f in between])
    assert order[0, 1] > 0.6
    for style in STYLES:
        own = {file: float(row["score"]) for file, row in table.items() if row["style"] == style}
        allowed = [file for file in own if known.get(file) != "bad"]
        best = set(sorted(allowed, key=lambda file: -own[file])[:4])
        assert {file for file in own if table[file]["kept"] == "yes"} == best
    kept = read_kept(out, out / SCORES)
    assert {one.file for one in kept} == {file for file, row in table.items() if row["kept"] == "yes"}
    assert report.kept == len(kept)
    assert report.below == sum(float(table[one.file]["score"]) < 0 for one in kept)
    sizes = Counter(one.style for one in kept)
    assert report.few == {style: sizes[style] for style in STYLES if sizes[style] < 4}
    for style, count in report.few.items():
        assert f"{style}: only {count} pictures" in str(report)


def test_what_a_person_called_bad_never_stays(out: Path) -> None:
    known = by_colour(out)
    report = filter_pictures(out, label(out, known), Colours(), Here())
    assert {one.file for one in read_kept(out, out / SCORES)} == set(scores(out)) - {
        file for file, what in known.items() if what == "bad"
    }
    assert report.kept == len(STYLES) * EACH - 12


@pytest.mark.slow
def test_labels_without_meaning_reach_no_more_than_chance(out: Path) -> None:
    """And the majority among them is said beside."""
    files = [one.file for one in read_listed(out)]
    draw, reached = np.random.default_rng(1), []
    for _ in range(12):
        order = draw.permutation(files).tolist()
        known = dict.fromkeys(order[:10], "bad") | dict.fromkeys(order[10:], "good")
        report = filter_pictures(out, label(out, known), Colours(), Here())
        reached.append(report.balanced)
    assert f"(always good: 0.500 and {26 / 36:.3f})" in str(report)
    assert np.mean(reached) == pytest.approx(0.5, abs=0.12)
    assert report.error == pytest.approx(0.09, abs=0.03)


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (24, 0, "has 24 labels good and 0 bad; at least 10 of each are needed: label more"),
        (0, 12, "has 0 labels good and 12 bad"),
        (24, 9, "has 24 labels good and 9 bad"),
    ],
)
def test_too_few_labels_of_a_kind_are_refused(out: Path, good: int, bad: int, message: str) -> None:
    files = [one.file for one in read_listed(out)]
    known = dict.fromkeys(files[:good], "good") | dict.fromkeys(files[good : good + bad], "bad")
    with pytest.raises(InputError, match=message):
        filter_pictures(out, label(out, known | {files[-1]: ""}), Colours(), Here())
    assert not (out / SCORES).exists()


def tiny_vgg(path: Path, widths=(2, 3, 4, 5, 6)) -> Path:
    """Random weights with the names and the order of torchvision's VGG-19."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    state, number, reads = {}, 0, 3
    for width, count in zip(widths, BLOCKS, strict=True):
        for _ in range(count):
            state[f"features.{number}.weight"] = torch.randn(width, reads, 3, 3) / 3
            state[f"features.{number}.bias"] = torch.randn(width) / 9
            number, reads = number + 2, width
        number += 1
    save_file(state, path)
    return path


def test_a_vgg_gives_the_means_of_the_first_layer_of_each_block(out: Path, tmp_path, capsys) -> None:
    weights = tiny_vgg(tmp_path / "vgg19.safetensors")
    row = VggMeans(weights, "vgg19").mean_activations(style_picture(out / read_listed(out)[0].file))
    assert row.shape == (2 + 3 + 4 + 5 + 6,)
    assert (row > 0).any()
    large = Image.linear_gradient("L").resize((900, 600)).convert("RGB")
    middle = large.crop((150, 0, 750, 600)).resize((256, 256), Image.Resampling.LANCZOS)
    rows = [VggMeans(weights, "vgg19").mean_activations(one) for one in (large, middle)]
    np.testing.assert_allclose(*rows, rtol=1e-5)
    label(out, by_colour(out))
    words = ["styles", "filter", str(out), "--workers", "1", "--encoder"]
    assert main([*words, str(weights), "--keep", "3"]) == 0
    assert "features: mean activations of vgg19" in capsys.readouterr().out
    assert sum(row["kept"] == "yes" for row in scores(out).values()) <= 12
    assert main([*words, str(weights), "--layout", "vgg19-normalised"]) == 1
    assert "is not the weights of a vgg19-normalised: " in capsys.readouterr().err
    assert main([*words, str(tmp_path / "none.pth")]) == 1
    assert "there is no file of weights" in capsys.readouterr().err


def test_style_codes_need_no_weights(out: Path) -> None:
    report = filter_pictures(out, label(out, by_colour(out)), Codes(), Here())
    assert report.balanced > 0.6
    assert str(report).startswith("features: style codes of the stylizer that ships\n")
