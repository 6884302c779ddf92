"""What a licence lets others do, and what the Hub calls it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

#: What the Hub calls a licence is its SPDX identifier in lower case, for these ...
SAME_NAME = """
afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsl-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0
cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
cdla-permissive-2.0 cdla-sharing-1.0 ecl-2.0 epl-2.0 etalab-2.0 eupl-1.2 gpl-2.0 gpl-3.0 isc lgpl-2.1
lgpl-3.0 mit mpl-2.0 ncsa ofl-1.1 osl-3.0 unlicense wtfpl zlib
"""
#: ... and another name for these.
OTHER_NAME = {"odc-by-1.0": "odc-by", "odbl-1.0": "odbl", "pddl-1.0": "pddl"}

OPERATORS = ("AND", "OR", "WITH")
NO_DERIVATIVES = re.compile(r"CC-BY-(NC-)?ND-\d\.\d(-[A-Z]+)?", re.IGNORECASE)

#: Licences, by their SPDX identifiers, that let everybody pass on the files and what was made from them, if
#: only under conditions: to name the authors, to keep the licence, not to sell. Those of data and pictures,
#: then those of software and fonts. What is not here may be as free: it is only not known to be.
OPEN = re.compile(
    r"""
    CC0-1\.0 | CC-PDDC | CC-PDM-1\.0 | CC-BY(-NC)?(-SA)?-\d\.\d(-[A-Z]+)?
    | CDLA-(Permissive|Sharing)-\d\.0 | ODbL-1\.0 | ODC-By-1\.0 | PDDL-1\.0 | DL-DE-(BY|ZERO)-2\.0
    | etalab-2\.0 | NLOD-\d\.0 | OGL-(UK-\d\.0|Canada-2\.0) | LAL-1\.[23] | NIST-PD | GFDL-1\.\d(-.+)?
    | Unicode-(3\.0|DFS-201[56]) | OFL-1\.[01](-(no-)?RFN)? | Bitstream-Vera
    | MIT(-0)? | 0BSD | BSD-[1234]-Clause | Apache-[12]\.[01] | ISC | Zlib | X11 | NCSA | BSL-1\.0 | Unlicense
    | WTFPL | PostgreSQL | Python-2\.0 | PSF-2\.0 | W3C | Artistic-[12]\.0 | AFL-\d\.\d | ECL-[12]\.0
    | (A|L)?GPL-\d\.\d(-only|-or-later)?\+? | MPL-\d\.\d(-no-copyleft-exception)? | EPL-\d\.0 | EUPL-1\.[012]
    | OSL-\d\.\d | CDDL-1\.[01] | CECILL-[12]\.[01] | MS-(PL|RL)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def hub_name(spdx: str) -> str | None:
    """The Hub's identifier of a licence, or None where it has none.

    >>> hub_name("CC-BY-4.0"), hub_name("GPL-3.0-only"), hub_name("LicenseRef-Mine")
    ('cc-by-4.0', 'gpl-3.0', None)
    """
    plain = spdx.lower().removesuffix("-only").removesuffix("-or-later")
    return plain if plain in SAME_NAME.split() else OTHER_NAME.get(plain)


def hub_terms(names: Sequence[str]) -> dict[str, str | list[str]]:
    """The licences as a card's YAML says them; those that the Hub does not know stand beside `other`.

    >>> hub_terms(["MIT", "LicenseRef-Mine"])
    {'license': ['mit', 'other'], 'license_name': 'licenseref-mine'}
    """
    known = {name: hub_name(name) for name in names}
    others = [name for name, identifier in known.items() if identifier is None]
    found = [identifier for identifier in known.values() if identifier]
    if not others:
        return {"license": found}
    return {"license": [*found, "other"], "license_name": "-and-".join(others).lower()}


def withheld(expression: str, allowed: Collection[str] = ()) -> tuple[str, ...]:
    """The licences by which a text of terms keeps others from passing on files made under it.

    Of `A AND B` both must let them, of `A OR B` one is enough, and `WITH` only adds rights. A licence that is
    not known to let them keeps them from it, and so does a text that is no expression at all. Those in
    `allowed`, written exactly so, count as known to let them.

    >>> withheld("CC-BY-4.0 AND (MIT OR LicenseRef-Mine)")
    ()
    >>> withheld("CC-BY-ND-4.0 AND LicenseRef-Mine", allowed=["LicenseRef-Mine"])
    ('CC-BY-ND-4.0',)
    """
    if expression in allowed:
        return ()
    tokens = re.findall(r"[()]|[^\s()]+", expression)
    try:
        found = _either(tokens, frozenset(allowed))
    except (_NoExpressionError, RecursionError):
        return (expression,)
    return (expression,) if tokens else tuple(sorted(found))


def redistribution_problem(expression: str) -> str | None:
    """Why files under these terms, and works made from them, may not be passed on; None where they may.

    >>> redistribution_problem("CC-BY-NC-SA-4.0")
    >>> redistribution_problem("MIT AND CC-BY-ND-4.0")
    'CC-BY-ND-4.0 forbids to pass on works that were made from it'
    >>> redistribution_problem("LicenseRef-Mine")
    'LicenseRef-Mine is not known to let others pass it on'
    """
    return (
        "; ".join(
            f"{name} forbids to pass on works that were made from it"
            if NO_DERIVATIVES.fullmatch(name)
            else f"{name or 'an empty licence'} is not known to let others pass it on"
            for name in withheld(expression)
        )
        or None
    )


def noncommercial(expression: str) -> bool:
    """Whether a licence in the expression forbids commercial use.

    >>> noncommercial("MIT AND CC-BY-NC-4.0"), noncommercial("CC-BY-4.0")
    (True, False)
    """
    return any("-NC-" in f"-{part.upper()}-" for part in re.findall(r"[^\s()]+", expression))


class _NoExpressionError(ValueError):
    """The text is no SPDX expression."""


def _either(tokens: list[str], allowed: frozenset[str]) -> frozenset[str]:
    """Read alternatives off the front of the tokens: what the best of them withholds."""
    choices = [_every(tokens, allowed)]
    while tokens and tokens[0].upper() == "OR":
        del tokens[0]
        choices.append(_every(tokens, allowed))
    return min(choices, key=lambda names: (len(names), sorted(names)))


def _every(tokens: list[str], allowed: frozenset[str]) -> frozenset[str]:
    """Read conditions that hold together: what any of them withholds."""
    names = _one(tokens, allowed)
    while tokens and tokens[0].upper() == "AND":
        del tokens[0]
        names |= _one(tokens, allowed)
    return names


def _one(tokens: list[str], allowed: frozenset[str]) -> frozenset[str]:
    """Read a licence, with its exception, or a part in parentheses."""
    token = tokens.pop(0) if tokens else ")"
    if token == "(":
        inner = _either(tokens, allowed)
        if not tokens or tokens.pop(0) != ")":
            raise _NoExpressionError
        return inner
    if token == ")" or token.upper() in OPERATORS:
        raise _NoExpressionError
    if tokens and tokens[0].upper() == "WITH":
        if len(tokens) < 2 or tokens[1].upper() in {"(", ")", *OPERATORS}:
            raise _NoExpressionError
        del tokens[:2]
    return frozenset() if token in allowed or OPEN.fullmatch(token) else frozenset({token})
