"""Photographs of 10 ImageNet classes, each painted in 10 styles: Stylized Meta-Album's construction.

`shiftdata build docs/findings/datasets/imagenette_styles.py --raw PLACE --out build/real`
"""

from dataclasses import replace

from builders.recipe import Base
from builders.recipe_files import load_recipe
from builders.shifts.steps import CropSquare, Stylize
from shiftdata.evaluation.protocols import GroupFairness

STYLES = (
    "amber", "dark_olive", "embers", "glossy_red", "green_etching", "green_hatching", "midnight",
    "pale_watercolour", "rainbow_outlines", "terracotta",
)  # fmt: skip

RECIPE = replace(
    load_recipe("imagenette"),
    name="imagenette_styles",
    family="stylized",
    title="Imagenette in painted styles",
    summary="120 photographs of each of 10 classes, 96 pixels wide, each in 10 styles at a strength of 0.4.",
    nuisance="style",
    prepare=(CropSquare(size=96),),
    shift=Stylize(seed=0, dataset="imagenette_styles", strength=0.4, styles=STYLES),
    bases=(Base(name="mini", summary="120 photographs a class, in every style.", per_group=120),),
    default_base="mini",
    protocols=tuple(GroupFairness(k=k, mu=mu) for k in (2, 4, 8, 10) for mu in (0.05, 0.1, 0.2)),
    prompts=(),
)
