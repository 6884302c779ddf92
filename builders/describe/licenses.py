"""Licences by their SPDX identifiers: which are real."""

from __future__ import annotations

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression


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
