"""Sentences in four languages: the language is the domain, and texts of one name stay in one split."""

from pathlib import Path

from builders.albums.rows import Columns, RowsAlbum
from builders.encode import TextEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import GroupFairness

RECIPE = Recipe(
    name="tiny_text",
    family="label-shift",
    version="1.0.0",
    released="2026-01-31",
    title="Greetings",
    summary="Greetings and farewells in four languages.",
    creators=("A. Maker",),
    citation="None.",
    album=RowsAlbum(
        Path(__file__).parent / "sentences.csv",
        Columns(text="sentence", label="kind", domain="language", origin="name"),
        license="CC0-1.0",
        attribution="A. Maker",
    ),
    nuisance="language",
    shift=Domains(names=("de", "en", "fr", "zh")),
    encoding=TextEncoding(),
    bases=(Base(name="all", summary="Every sentence."),),
    default_base="all",
    protocols=(GroupFairness(k=2, mu=0.5),),
)
