"""Handwritten digits as 64 counts, the amount of ink as the domain: label shift on features."""

from pathlib import Path

from builders.albums.rows import Columns, RowsAlbum
from builders.encode import TableEncoding
from builders.recipe import Base, Expected
from builders.recipes.shared import datasheet_of, embedded, label_shifts
from builders.shifts.steps import Domains

DOMAINS = ("light", "medium", "heavy")
TABLE = Path(__file__).parents[2] / "albums/assets/tables/digits.csv"
FEATURES = {f"pixel_{row}_{column}": "int64" for row in range(8) for column in range(8)}

RECIPE = embedded(
    name="digits_ink",
    family="label-shift",
    released="2026-11-21",
    title="Handwritten Digits by Ink",
    summary=(
        "Handwritten digits as 8 x 8 counts of pixels. The digit is the target, the amount of ink (the sum "
        "of all counts, cut in three) is the domain."
    ),
    citation=(
        "E. Alpaydin, C. Kaynak. Optical Recognition of Handwritten Digits. UCI Machine Learning Repository, "
        "1998. https://doi.org/10.24432/C50P49"
    ),
    album=RowsAlbum(
        TABLE,
        Columns(features=FEATURES, label="digit", domain="ink"),
        license="CC-BY-4.0",
        attribution="E. Alpaydin, C. Kaynak; UCI Machine Learning Repository",
    ),
    nuisance="ink",
    shift=Domains(names=DOMAINS),
    encoding=TableEncoding(features=FEATURES),
    bases=(Base(name="all", summary="Every digit."),),
    default_base="all",
    protocols=label_shifts(DOMAINS[0], DOMAINS[1:]),
    virtual=1,
    on_empty="report",
    datasheet=datasheet_of(__file__),
    expected=(Expected(base="all", rows={"train": 907, "validation": 364, "test": 526}, smallest_group=7),),
)
