"""NICO++'s construction on the embedded glyph album: letters in common and unique contexts."""

from builders.albums.glyphs import GlyphAlbum
from builders.recipe import Base, Expected
from builders.recipes.shared import NICO, NICO_PAPER, SEVERAL_DOMAINS_PAPER, datasheet_of, embedded
from builders.shifts.steps import Contexts

SIZE = 64
#: A context must matter: from scratch, unseen ones cost nothing at 0.5, 8 points at 0.7, 10 at 0.9.
STRENGTH = 0.9
#: Of each letter in each domain; its test rows, 30 %, are the 50 that flexible-dg takes, and a few more.
PER_GROUP = 200

RECIPE = embedded(
    name="nico_glyphs",
    family="domain",
    released="2026-11-22",
    title="Glyphs in Contexts",
    summary=(
        "The letters A to T in 399 families of fonts, each in an ink of its own, set into drawn contexts: "
        "ten common domains, which every letter has, and ten of thirty unique ones a letter. The letter is "
        "the target, the context the nuisance."
    ),
    citation=f"{NICO_PAPER} Several test domains: {SEVERAL_DOMAINS_PAPER}",
    album=GlyphAlbum(size=SIZE, ink="drawn"),
    nuisance="domain",
    shift=Contexts(seed=0, dataset="nico_glyphs", size=SIZE, strength=STRENGTH),
    bases=(
        Base(name="mini", summary="40 pictures of each letter in each of its domains.", per_group=40),
        Base(
            name="extended",
            summary=f"{PER_GROUP} pictures of each letter in each of its domains.",
            per_group=PER_GROUP,
        ),
    ),
    default_base="extended",
    protocols=NICO,
    datasheet=datasheet_of(__file__),
    expected=(
        Expected(base="mini", rows={"train": 8000, "validation": 3200, "test": 4800}, smallest_group=8),
        Expected(
            base="extended", rows={"train": 40000, "validation": 16000, "test": 24000}, smallest_group=40
        ),
    ),
)
