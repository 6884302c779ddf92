"""Licences by their SPDX identifiers: which are real, and what the Hub calls them."""

from __future__ import annotations

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

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


def hub_name(spdx: str) -> str | None:
    """The Hub's identifier of a licence, or None where it has none.

    >>> hub_name("CC-BY-4.0"), hub_name("GPL-3.0-only"), hub_name("LicenseRef-Mine")
    ('cc-by-4.0', 'gpl-3.0', None)
    """
    plain = spdx.lower().removesuffix("-only").removesuffix("-or-later")
    return plain if plain in SAME_NAME.split() else OTHER_NAME.get(plain)


def spdx_problem(terms: str) -> str | None:
    """Why a text is no SPDX licence expression, or None if it is one as SPDX writes it.

    >>> spdx_problem("CC-BY-4.0 AND MIT"), spdx_problem("LicenseRef-My-Terms")
    (None, None)
    >>> spdx_problem("free"), spdx_problem("mit")
    ("'free' is no SPDX licence", "'mit' is written 'MIT' in SPDX")
    """
    try:
        canonical = canonicalize_license_expression(terms)
    except InvalidLicenseExpression:
        return f"{terms!r} is no SPDX licence"
    return None if canonical == terms else f"{terms!r} is written {str(canonical)!r} in SPDX"
