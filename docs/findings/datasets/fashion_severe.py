"""2,000 clothes of Fashion-MNIST under 19 corruptions at six severities: four times those of `fashion_mnist`.

`shiftdata build docs/findings/datasets/fashion_severe.py --raw PLACE --out build/real`
"""

from dataclasses import replace

from builders.recipe_files import load_recipe

CLOTHES = load_recipe("fashion_mnist")
content, mini = CLOTHES.bases
RECIPE = replace(
    CLOTHES,
    name="fashion_severe",
    bases=(content, replace(mini, summary="200 pictures a class, under every corruption.", per_group=200)),
)
