"""CivilComments of WILDS: toxic comments on news, RLSbench's label shift on texts."""

from builders.encode import TextEncoding
from builders.raw.album import RawAlbum
from builders.raw.civilcomments import SPLITS, CivilComments
from builders.recipe import Base
from builders.recipes.shared import public
from builders.shifts.steps import Domains
from shiftdata.evaluation.protocols import Wilds
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

LABELS = ("non-toxic", "toxic")

RECIPE = public(
    name="civilcomments",
    family="label-shift",
    creators=("Daniel Borkan", "Lucas Dixon", "Jeffrey Sorensen", "Nithum Thain", "Lucy Vasserman"),
    title="CivilComments-WILDS",
    summary=(
        "Comments on news, toxic or not in the eyes of at least half of those who rated them. The split of "
        "WILDS is the domain; which of eight identities a comment speaks of stands in its parameters."
    ),
    citation=(
        "D. Borkan, L. Dixon, J. Sorensen, N. Thain, L. Vasserman. Nuanced metrics for measuring unintended "
        "bias with real data for text classification. WWW 2019. Splits: P. W. Koh, S. Sagawa et al. WILDS: a "
        "benchmark of in-the-wild distribution shifts. ICML 2021."
        f" {CITED}"
    ),
    album=RawAlbum(
        name="civilcomments",
        layout=CivilComments(labels=LABELS),
        allowed=LABELS,
        license="CC0-1.0",
        attribution="CivilComments (Borkan et al., 2019), in the form of WILDS",
    ),
    shift=Domains(names=SPLITS),
    encoding=TextEncoding(),
    bases=(Base(name="all", summary="Every comment."),),
    protocols=(Wilds(), *canonical("civilcomments")),
)
