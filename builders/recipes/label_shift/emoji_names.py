"""Names of emoji in eight languages, the language as the domain: label shift on texts."""

from pathlib import Path

from builders.albums.rows import Columns, RowsAlbum
from builders.encode import TextEncoding
from builders.recipe import Base, Expected
from builders.recipes.shared import datasheet_of, embedded, label_shifts
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import GroupFairness

LANGUAGES = ("de", "en", "es", "fr", "hi", "ja", "ru", "zh")
SOURCE, NEAREST = "en", ("de", "fr", "ru", "zh")
OTHERS = tuple(language for language in LANGUAGES if language not in (SOURCE, *NEAREST))
NAMES = Path(__file__).parents[2] / "albums/assets/emoji_names/names.tsv"

RECIPE = embedded(
    name="emoji_names",
    family="label-shift",
    released="2026-11-21",
    title="Names of Emoji in Eight Languages",
    summary=(
        "Names and keywords of the emoji of sma_emoji, in eight languages and five scripts. The class of the "
        "emoji is the target, the language is the domain; all translations of a name are in one split."
    ),
    citation=(
        "The shiftdata founders. Names of Emoji in Eight Languages, from the Unicode Common Locale Data "
        "Repository as packaged by emojibase. shiftdata, 2026."
    ),
    album=RowsAlbum(
        NAMES,
        Columns(text="text", label="label", domain="language", key="key", origin="origin"),
        license="MIT AND Unicode-3.0",
        attribution="Unicode CLDR 48, Unicode, Inc.; emojibase-data 17.0.0, Miles Johnson",
    ),
    nuisance="language",
    shift=Domains(names=LANGUAGES),
    encoding=TextEncoding(),
    bases=(Base(name="all", summary="Every name in every language."),),
    default_base="all",
    protocols=(
        GroupFairness(k=4, mu=0.1),
        GroupFairness(k=8, mu=0.1),
        # A class has so few names that some sets would have no row without replacement.
        *label_shifts(SOURCE, (*NEAREST, *OTHERS), small=True),
    ),
    virtual=2 + 1 + len(NEAREST),
    on_empty="report",
    datasheet=datasheet_of(__file__),
    expected=(Expected(base="all", rows={"train": 2424, "validation": 904, "test": 1232}, smallest_group=3),),
)
