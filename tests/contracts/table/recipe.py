"""Rows of a table: numbers, a category, a text; the clinic is the domain."""

from pathlib import Path

from builders.albums.rows import Columns, RowsAlbum
from builders.encode import TableEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import LabelShift

FEATURES = {"age": "int64", "dose": "float64", "smoker": ("no", "quit", "yes"), "town": "string"}

RECIPE = Recipe(
    name="tiny_table",
    family="label-shift",
    version="1.0.0",
    released="2026-01-31",
    title="Patients of Two Clinics",
    summary="Made patients; the clinic is the domain.",
    creators=("A. Maker",),
    citation="None.",
    album=RowsAlbum(
        Path(__file__).parent / "patients.csv",
        Columns(features=FEATURES, label="outcome", domain="clinic", key="id"),
        license="CC-BY-4.0",
        attribution="A. Maker",
    ),
    nuisance="clinic",
    shift=Domains(names=("north", "south")),
    encoding=TableEncoding(features=FEATURES),
    bases=(Base(name="all", summary="Every patient."),),
    default_base="all",
    protocols=(
        LabelShift(alpha=None, source="north", target="south"),
        LabelShift(alpha=1, source="north", target="south", replacement=True),
    ),
    on_empty="report",
)
