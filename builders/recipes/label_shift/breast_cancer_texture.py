"""Nuclei of breast masses in a table, the texture of the image as the domain: label shift on features."""

from pathlib import Path

from builders.albums.rows import Columns, RowsAlbum
from builders.encode import TableEncoding
from builders.recipe import Base, Expected
from builders.recipes.shared import datasheet_of, embedded, label_shifts
from builders.shifts.steps import Domains

DOMAINS = ("smooth", "medium", "coarse")
TABLE = Path(__file__).parents[2] / "albums/assets/tables/breast_cancer.csv"
MEASURES = (
    *("radius", "texture", "perimeter", "area", "smoothness"),
    *("compactness", "concavity", "concave_points", "symmetry", "fractal_dimension"),
)
NAMES = [form.format(measure) for form in ("mean_{}", "{}_error", "worst_{}") for measure in MEASURES]
FEATURES = dict.fromkeys(NAMES, "float64")

RECIPE = embedded(
    name="breast_cancer_texture",
    family="label-shift",
    released="2026-11-21",
    title="Breast Cancer Wisconsin by Texture",
    summary=(
        "30 measures of cell nuclei in images of breast masses, benign or malignant. The diagnosis is the "
        "target, the texture of the image (its spread of grey values, cut in three) is the domain."
    ),
    citation=(
        "W. Wolberg, O. Mangasarian, N. Street, W. Street. Breast Cancer Wisconsin (Diagnostic). UCI Machine "
        "Learning Repository, 1993. https://doi.org/10.24432/C5DW2B"
    ),
    album=RowsAlbum(
        TABLE,
        Columns(features=FEATURES, label="diagnosis", domain="texture"),
        license="CC-BY-4.0",
        attribution="W. Wolberg, O. Mangasarian, N. Street, W. Street; UCI Machine Learning Repository",
    ),
    nuisance="texture",
    shift=Domains(names=DOMAINS),
    encoding=TableEncoding(features=FEATURES),
    bases=(Base(name="all", summary="Every mass."),),
    default_base="all",
    protocols=label_shifts(DOMAINS[0], DOMAINS[1:]),
    virtual=1,
    on_empty="report",
    datasheet=datasheet_of(__file__),
    expected=(Expected(base="all", rows={"train": 285, "validation": 116, "test": 168}, smallest_group=4),),
)
