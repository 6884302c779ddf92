"""What the Hub calls a licence."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["hub_name", "hub_terms"]

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
