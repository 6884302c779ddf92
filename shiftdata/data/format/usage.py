"""The usage terms of licences for Croissant: terms of DUO, and an ODRL offer for each licence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from shiftdata.data.format.licenses import NO_DERIVATIVES, OPEN, SHARE_ALIKE, rights

Json: TypeAlias = dict[str, Any]

CONTEXT = {
    "duo": "http://purl.obolibrary.org/obo/DUO_",
    "odrl": "http://www.w3.org/ns/odrl/2/",
    "cc": "http://creativecommons.org/ns#",
}
RESEARCH = ("General research use", "0000042")
NONCOMMERCIAL = ("Non-commercial use only", "0000046")
#: Licences that ask for no credit.
FREE = re.compile(r"CC0-1\.0|CC-PD.*|PDDL-1\.0|0BSD|MIT-0|Unlicense|WTFPL|NIST-PD|DL-DE-ZERO-2\.0")


def usage(licenses: Sequence[str]) -> list[Json]:
    """Say what licences are known to allow; DUO's terms hold for the whole, so all of them must allow it."""
    offers = [_offer(name) for name in licenses]
    if not all(OPEN.fullmatch(name) or NO_DERIVATIVES.fullmatch(name) for name in licenses):
        return offers
    terms = [RESEARCH, *([NONCOMMERCIAL] if any(map(_noncommercial, licenses)) else [])]
    named = [
        {"@type": "sc:DefinedTerm", "name": name, "termCode": f"DUO_{code}", "url": f"duo:{code}"}
        for name, code in terms
    ]
    return [*named, *offers]


def _noncommercial(name: str) -> bool:
    return rights(name)["commercial"] == "no"


def _offer(name: str) -> Json:
    """Return an offer: what may be done, what must be, what may not; of unknown terms only their name."""
    closed = NO_DERIVATIVES.fullmatch(name)
    if not (OPEN.fullmatch(name) or closed):
        about = "Terms of its own: ask those whom the attribution of the rows names."
        return {"@type": "sc:CreativeWork", "name": name, "description": about}
    duties = "" if FREE.fullmatch(name) else "odrl:attribute"
    duties += " cc:ShareAlike" if SHARE_ALIKE.fullmatch(name) else ""
    forbidden = "odrl:derive" if closed else ""
    forbidden += " odrl:commercialize" if _noncommercial(name) else ""
    permission = _rule("Permission", f"odrl:reproduce odrl:distribute {'' if closed else 'odrl:derive'}")
    permission |= {"odrl:duty": _rule("Duty", duties)} if duties else {}
    offer = {"@type": ["sc:CreativeWork", "odrl:Offer"], "name": name, "odrl:permission": permission}
    return offer | ({"odrl:prohibition": _rule("Prohibition", forbidden)} if forbidden else {})


def _rule(kind: str, actions: str) -> Json:
    return {"@type": f"odrl:{kind}", "odrl:action": [{"@id": action} for action in actions.split()]}
