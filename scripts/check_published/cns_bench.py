"""What can be recomputed in CNS-Bench's appendix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from check_published.cells import Book, Printed, Sheet
from check_published.judging import Finding, box, exactly, judge, statement
from check_published.rules import mean_of, sum_of, weighted
from shiftdata.evaluation.metrics import spearman

PAPER = "cns-bench"
SCALES = ("0", "0.5", "1", "1.5", "2", "2.5")
#: Model families from small to large, as section A.3 compares them.
FAMILIES = {
    "ResNet": ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"],
    "ConvNeXt": ["convnext_tiny", "convnext_small", "convnext_base", "convnext_large"],
    "DeiT-3": ["deit3_small", "deit3_medium", "deit3_base", "deit3_large", "deit3_huge"],
    "DINOv2": ["dinov2_vit_small_patch14", "dinov2_vit_base_patch14", "dinov2_vit_large_patch14"],
    "MAE": ["mae_vit_base", "mae_vit_large", "mae_vit_huge"],
}

#: The rows of table 2 that are the models of table 1, by how their names begin; "Diff-Class" is in figure 12.
LISTED = {
    "ResNet": "resnet", "ViT": "vit_base_patch16_224.augreg_in21k", "DeiT": "deit_base", "DeiT-3": "deit3_",
    "MAE": "mae_vit_base", "MoCov3": "mocov3_vit_base", "DINOv1": "dino_vit_base",
    "DINOv2": "dinov2_vit_base", "CLIP": "clip_vit_base_patch16",
}  # fmt: skip


def checks(book: Book) -> Iterator[Finding]:
    """Every check of the paper."""
    accuracy, failures = book(PAPER, 2), book(PAPER, 3)
    yield from _models(book(PAPER, 1), accuracy)
    yield from _accuracy(accuracy)
    yield from _failures(accuracy, failures)
    yield from _sizes(accuracy)
    yield from _filtering(book(PAPER, 4), book(PAPER, "text"))
    yield from _weather(book(PAPER, 5))
    yield from _stated(book(PAPER, "text"))


def _models(models: Sheet, accuracy: Sheet) -> Iterator[Finding]:
    """Table 1: as many sizes as table 2 evaluates, and the patches that its models' names state."""
    evaluated = [row for row in accuracy.rows("accuracy") if not row.endswith("_reg")]  # registers: a variant
    for model, start in LISTED.items():
        rows = [row for row in evaluated if row.startswith(start)]
        count, patch = models.get(model, "models, counted"), models.get(model, "patch")
        if count and rows:
            check = "as many models as table 2 has rows of them"
            yield from statement(
                count, check, count.value == len(rows), claim=count.text, found=", ".join(rows)
            )
        sizes = sorted({size for row in rows for size in re.findall(r"_patch(\d+)", row)})
        if patch and sizes:
            check = "the patch size that the names in table 2 state"
            yield from statement(
                patch, check, sizes == [patch.text], claim=patch.text, found=", ".join(sizes)
            )


def _accuracy(sheet: Sheet) -> Iterator[Finding]:
    """Table 2: the mean over six scales, each drop, and the mean drop, in which scale 0 counts with 0."""
    drop = box(lambda x: float(x[0] - x[1]))
    mean_drop = box(lambda x: float(x[0] - x.mean()))
    for model in sheet.rows("accuracy"):
        cells = sheet.along("accuracy", model, SCALES)
        yield from mean_of(sheet.get(model, "avg", "accuracy"), cells, "scales, 0 among them")
        for scale in SCALES[2:]:
            inputs = [cells[0], sheet.get(model, scale, "accuracy")]
            printed = sheet.get(model, scale, "accuracy drop")
            yield from judge(printed, drop, inputs, "accuracy drop from scale 0")
        printed = sheet.get(model, "avg", "accuracy drop")
        yield from judge(printed, mean_drop, cells, "mean drop over 6 scales, 0 among them")


def _failures(accuracy: Sheet, failures: Sheet) -> Iterator[Finding]:
    """Table 3: shares of a whole, and what they can be beside the accuracies of table 2."""
    for model in failures.rows():
        shares = failures.along("", model, SCALES)
        known = [share for share in shares if share is not None]
        if len(known) == len(SCALES):
            rest = box(lambda x: float(1 - x.sum()))
            yield from judge(known[0], rest, known[1:], "what the shares at the other scales leave of 1")
            yield from _possible(model, known, accuracy.along("accuracy", model, SCALES))


def _possible(model: str, shares: Sequence[Printed], cells: Sequence[Printed | None]) -> list[Finding]:
    """Whoever is wrong at a scale has failed by then: errors cannot exceed the failures up to it.

    The share of all trajectories that fail follows from scale 0, where errors and failures are the same.
    """
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(SCALES):
        return []
    value = np.array([one.value for one in known])
    share = np.array([one.value for one in shares])
    most_failing = (1 - value[0] + known[0].half) / max(share[0] - shares[0].half, 1e-9)
    by_scale = np.minimum(share.cumsum() + np.array([one.half for one in shares]).cumsum(), 1)
    errors = 1 - value - np.array([one.half for one in known])
    return statement(
        shares[0],
        "failures up to each scale are at least the errors of table 2",
        bool((most_failing * by_scale + 1e-9 >= errors).all()),
        claim=f"{shares[0].text} of the failures are at scale 0",
        found=f"{most_failing:.2f} of all trajectories fail at most",
        note=f"{known[0].text} right at scale 0, {known[-1].text} at 2.5",
    )


def _sizes(sheet: Sheet) -> Iterator[Finding]:
    """Section A.3: larger models of a family lose less."""
    for family, names in FAMILIES.items():
        rows = [row for name in names for row in sheet.rows("accuracy drop") if _is(row, name)]
        drops = [one for row in rows if (one := sheet.get(row, "avg", "accuracy drop"))]
        if len(drops) == len(names):
            rho = spearman(range(len(drops)), [drop.value for drop in drops])
            yield from statement(
                drops[-1],
                "claim of section A.3: larger models of a family lose less",
                rho < 0,
                claim=f"{family}: less with size",
                found=", ".join(drop.text for drop in drops),
                note="two digits distinguish few sizes",
            )


def _is(row: str, name: str) -> bool:
    """Whether a model is the plain one of that name."""
    rest = row.removeprefix(name)
    return row.startswith(name) and not rest.startswith("_reg") and rest[:1] in ("", "_", ".")


def _filtering(sheet: Sheet, text: Sheet) -> Iterator[Finding]:
    """Table 4: stages only remove; what stage (iii) removes was left to people."""
    rows = sheet.rows()
    stages = [f"Stage ({number})" for number in ("i", "ii", "iii", "iv")]
    for row in rows:
        cells = [one for one in sheet.along("", row, stages) if one is not None]
        if len(cells) == len(stages):
            first, classified, easy, final = (cell.value for cell in cells)
            yield from statement(
                cells[2], "easy images are among those after stage (ii), the final ones between them",
                easy <= final <= classified <= first,
                claim=" >= ".join(one.text for one in (cells[0], cells[1], cells[3], cells[2])),
                found="in order" if easy <= final <= classified <= first else "out of order",
            )  # fmt: skip
    for stage in stages:
        cells = [one for row in rows if (one := sheet.get(row, stage))]
        if cells:
            values = [cell.value for cell in cells]
            yield from statement(
                cells[-1], "fewer images are left at higher scales", values == sorted(values, reverse=True),
                claim="falling", found=", ".join(cell.text for cell in cells),
            )  # fmt: skip
    pairs = [sheet.get(row, stage) for stage in stages[1:3] for row in rows]
    left = box(lambda x: float((x[: len(x) // 2] - x[len(x) // 2 :]).sum() / 1000))
    printed = text.get("images to label, thousands", "stated")
    yield from judge(printed, left, pairs, "stage (ii) less stage (iii), all scales")


def _weather(sheet: Sheet) -> Iterator[Finding]:
    """Table 5: a sum, a weighted mean, and shares that whole images can give."""
    rows = [row for row in sheet.rows() if row != "Total"]
    images = [sheet.get(row, "#images") for row in rows]
    yield from sum_of(sheet.get("Total", "#images"), images, "shifts")
    counts = [image.value for image in images if image is not None]
    if len(counts) == len(rows) and counts:
        accuracy = [sheet.get(row, "Accuracy") for row in rows]
        yield from weighted(sheet.get("Total", "Accuracy"), accuracy, counts, "mean weighted by images")
    for row in sheet.rows():
        count, share = sheet.get(row, "#images"), sheet.get(row, "Accuracy")
        if count is not None and share is not None:
            right = round(share.value * count.value / 100)
            check = "a whole number of images gives this share"
            yield from judge(share, exactly(100 * right / count.value), [count], check)


def _stated(text: Sheet) -> Iterator[Finding]:
    """Section B.2: the size of the dataset."""
    product = box(lambda x: float(x.prod()))
    kept = _all(text, ("images per scale", "scales"))
    yield from judge(text.get("images", "stated"), product, kept, "images per scale x scales")
    made = _all(text, ("shifts", "classes", "seeds", "scales"))
    before = text.get("images before filtering", "stated")
    yield from judge(before, product, made, "shifts x classes x seeds x scales")


def _all(text: Sheet, names: Sequence[str]) -> list[Printed | None]:
    return [text.get(name, "stated") for name in names]
