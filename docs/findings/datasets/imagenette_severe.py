"""300 photographs of 10 ImageNet classes under 19 corruptions, at severities 0, 3 and 5.

`shiftdata build docs/findings/datasets/imagenette_severe.py --raw PLACE --out build/real`
"""

from dataclasses import replace

from builders.recipe import Base
from builders.recipe_files import load_recipe
from builders.shifts.steps import Corrupt

RECIPE = replace(
    load_recipe("imagenette"),
    name="imagenette_severe",
    title="Imagenette at three severities",
    summary="30 photographs of each of 10 classes under 19 corruptions, at severities 0, 3 and 5.",
    shift=Corrupt(seed=0, dataset="imagenette", steps=(0, 3, 5)),
    bases=(Base(name="mini", summary="30 photographs a class, under every corruption.", per_group=30),),
    default_base="mini",
)
