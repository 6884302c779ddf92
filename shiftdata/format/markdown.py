"""Texts of others in Markdown of ours."""

from __future__ import annotations


def cell(text: object) -> str:
    r"""Text that cannot break the table or the line it stands in.

    >>> print(cell("a|b <c>"))
    a\|b \<c\>
    """
    plain = str(text).replace("\\", "\\\\")
    for mark in "|<>*_`[]":
        plain = plain.replace(mark, f"\\{mark}")
    return " ".join(plain.split())
