"""Licences as SPDX writes them: what a recipe may give, and what was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import cache

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from shiftdata.data.format.licenses import OTHER_NAME, SAME_NAME
from shiftdata.data.format.records import Material
from shiftdata.errors import InputError

#: SPDX's word for what nobody says, of weights.
NOT_STATED = "NOASSERTION"


def check_license(terms: str, where: str) -> None:
    """Raise an error, with what was probably meant, if a text is not an SPDX licence expression."""
    if problem := spdx_problem(terms):
        raise InputError(f"{where}: {problem}")


def own_pictures(name: str, nuisances: Sequence[str]) -> Material:
    """Return the terms of pictures that programs of this package draw."""
    terms = {"license": "CC0-1.0", "attribution": "The shiftdata founders"}
    how = "Drawn from seeds by programs of shiftdata."
    return Material(kind="picture", name=name, how=how, nuisances=list(nuisances), **terms)


def tool(
    name: str, license_: str, attribution: str, how: str, nuisances: Sequence[str], sha256: Sequence[str]
) -> Material:
    """Return the terms of what made examples of some nuisances, and does not show in them."""
    terms = {"license": license_, "attribution": attribution, "how": how}
    return Material(kind="tool", name=name, nuisances=list(nuisances), sha256=list(sha256), **terms)


@cache
def spdx_problem(terms: str) -> str | None:
    """Why a text is not an SPDX licence expression, or None if it is one as SPDX writes it.

    >>> spdx_problem("CC-BY-4.0 AND MIT"), spdx_problem("LicenseRef-My-Terms")
    (None, None)
    >>> spdx_problem("mit")
    "the licence 'mit' is written 'MIT' in SPDX"
    >>> print(str(spdx_problem("apache 2")).partition("?")[0])
    the licence 'apache 2' is not an SPDX identifier; did you mean Apache-2.0
    """
    try:
        canonical = canonicalize_license_expression(terms)
    except InvalidLicenseExpression:
        near = _near(terms)
        guess = f"; did you mean {' or '.join(near)}?" if near else "."
        return (
            f"the licence {terms!r} is not an SPDX identifier{guess} All are listed at spdx.org/licenses. "
            "Terms that are not there, such as 'research use only', get a name that begins with LicenseRef-, "
            "such as LicenseRef-my-lab: say in the attribution what it means"
        )
    return None if canonical == terms else f"the licence {terms!r} is written {str(canonical)!r} in SPDX"


def _near(terms: str) -> list[str]:
    """The identifiers that a text may mean.

    >>> _near("CC BY 4.0"), _near("apache 2"), _near("secret")
    (['CC-BY-4.0', 'CC-BY-3.0', 'CC-BY-2.0'], ['Apache-2.0'], [])
    """
    names = {name: str(canonicalize_license_expression(name)) for name in [*SAME_NAME.split(), *OTHER_NAME]}
    plain = re.sub(
        r"[\s_]+", "-", re.sub(r"(?i)\b(the|license|licence|version|v)\b", " ", terms).strip().lower()
    )
    return [names[name] for name in difflib.get_close_matches(plain, names, n=3, cutoff=0.75)]
