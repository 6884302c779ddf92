"""Names of emoji in eight languages, the language as the domain: domain generalization on texts."""

from pathlib import Path

from builders.albums.rows import Columns, RowsAlbum
from builders.encode import TextEncoding
from builders.recipe import Base, Expected
from builders.recipes.shared import datasheet_of, embedded
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import GroupFairness, LeaveOneDomainOut

LANGUAGES = ("de", "en", "es", "fr", "hi", "ja", "ru", "zh")
#: No other language is written in its script: left out, it is at chance for whatever reads letters.
LONE_SCRIPTS = ("hi", "ru")
NAMES = Path(__file__).parents[2] / "albums/assets/emoji_names/names.tsv"

RECIPE = embedded(
    name="emoji_names",
    family="domain",
    released="2026-11-21",
    title="Names of Emoji in Eight Languages",
    summary=(
        "Names and keywords of 570 emoji in eight languages and five scripts. The class of the emoji is the "
        "target, the language is the domain; all translations of a name are in one split."
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
        *(LeaveOneDomainOut(test=language) for language in LANGUAGES if language not in LONE_SCRIPTS),
        GroupFairness(k=4, mu=0.1),
        GroupFairness(k=8, mu=0.1),
    ),
    on_empty="report",
    datasheet=datasheet_of(__file__),
    expected=(Expected(base="all", rows={"train": 2424, "validation": 904, "test": 1232}, smallest_group=3),),
)
