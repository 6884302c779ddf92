"""The rights that a licence grants, and the Hub's names of licences."""

from __future__ import annotations

import re
from collections.abc import Collection

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

#: They ask for nothing: what is made with such a work has no more terms than it had.
PUBLIC_DOMAIN = ("CC0-1.0", "CC-PDDC", "CC-PDM-1.0")
#: What is made from such a work is passed on under the same licence.
SHARE_ALIKE = re.compile(
    r"CC-BY-(NC-)?SA-.+|CDLA-Sharing-.+|(A|L)?GPL-.+|(GFDL|MPL|EPL|EUPL|OSL|ODbL|OFL|CDDL|CECILL)-.+|MS-RL",
    re.IGNORECASE,
)
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
    """Return the Hub's identifier of a licence, or None."""
    plain = spdx.lower().removesuffix("-only").removesuffix("-or-later")
    return plain if plain in SAME_NAME.split() else OTHER_NAME.get(plain)


def hub_terms(expression: str) -> dict[str, str | list[str]]:
    """Return the licences as a card's YAML has them; those that the Hub does not know become `other`.

    >>> hub_terms("MIT AND LicenseRef-Mine")
    {'license': ['mit', 'other'], 'license_name': 'licenseref-mine'}
    """
    names = conjuncts(expression)
    unknown = [name for name in names if hub_name(name) is None]
    identifiers = [identifier for name in names if (identifier := hub_name(name))]
    if not unknown:
        return {"license": identifiers}
    return {"license": [*identifiers, "other"], "license_name": "-and-".join(unknown).lower()}


def conjuncts(expression: str) -> list[str]:
    """Return the licences all of which apply; a choice between several stays one, in parentheses.

    >>> conjuncts("CC0-1.0 AND (MIT OR ISC)"), conjuncts("MIT OR ISC")
    (['CC0-1.0', '(MIT OR ISC)'], ['(MIT OR ISC)'])
    """
    outside = re.sub(r"\([^()]*\)", lambda match: match[0].replace(" ", "\0"), expression)
    if " OR " in outside:
        return [f"({expression})"]
    return [name.replace("\0", " ") for name in outside.split(" AND ")]


def row_license(content: str, added: Collection[str]) -> str:
    """Return the licence of a row: that of its content first, then those that its nuisance adds.

    >>> row_license("CC0-1.0", ["CC-BY-NC-4.0"]), row_license("MIT", ["MIT"])
    ('CC0-1.0 AND CC-BY-NC-4.0', 'MIT')
    """
    return " AND ".join(dict.fromkeys([*conjuncts(content), *added])) if added else content


def content_license(row: str, added: Collection[str]) -> str:
    """Return the licence of the content of a row, from that of the row: the least that gives it.

    >>> content_license("CC0-1.0 AND CC-BY-4.0", ["CC-BY-4.0"]), content_license("MIT", ["MIT"])
    ('CC0-1.0', 'MIT')
    """
    names = conjuncts(row)
    while len(names) > 1 and names[-1] in added:
        names.pop()
    return " AND ".join(names) if added else row


def rights(expression: str) -> dict[str, str]:
    """Answer what an expression allows and asks for: commercial use, works made from it, the same licence.

    >>> rights("CC-BY-ND-4.0 AND LicenseRef-Mine")
    {'commercial': 'unknown', 'derivatives': 'no', 'share-alike': 'unknown'}
    """
    names = conjuncts(expression)
    closed = [name for name in names if NO_DERIVATIVES.fullmatch(name)]
    unknown = any(name not in closed and not OPEN.fullmatch(name) for name in names)
    shares = any(SHARE_ALIKE.fullmatch(name) for name in names)
    return {
        "commercial": "no" if "-NC-" in f"-{expression.upper()}-" else "unknown" if unknown else "yes",
        "derivatives": "no" if closed else "unknown" if unknown else "yes",
        "share-alike": "yes" if shares else "unknown" if unknown else "no",
    }


def withheld(expression: str, allowed: Collection[str] = ()) -> tuple[str, ...]:
    """Return the licences in an SPDX expression that keep others from passing on files made under it.

    Of `A AND B` both must allow it. A licence that is not known to allow it does not; nor does one with `OR`,
    `WITH` or parentheses, which a publisher decides: those in `allowed`, written exactly so, count as known.

    >>> withheld("CC-BY-ND-4.0 AND MIT AND LicenseRef-Mine", allowed=["LicenseRef-Mine"])
    ('CC-BY-ND-4.0',)
    """
    names = [] if expression in allowed else expression.split(" AND ")
    return tuple(sorted({name for name in names if name not in allowed and not OPEN.fullmatch(name)}))


def redistribution_problem(expression: str) -> str | None:
    """Return the reason not to pass on files under these terms, or works made from them, or None.

    >>> redistribution_problem("CC-BY-NC-SA-4.0")
    >>> redistribution_problem("MIT AND CC-BY-ND-4.0")
    'CC-BY-ND-4.0 forbids passing on works made from it'
    >>> redistribution_problem("LicenseRef-Mine")
    'LicenseRef-Mine is not known to let others pass it on'
    """
    problems = [
        f"{name} forbids passing on works made from it"
        if NO_DERIVATIVES.fullmatch(name)
        else f"{name or 'an empty licence'} is not known to let others pass it on"
        for name in withheld(expression)
    ]
    return "; ".join(problems) or None
