"""Text of others, made harmless for a terminal and a log."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text of others for a line or a cell: what is no visible character stands as an escape, as in Python.

    That is control characters, C1 among them, line breaks, marks that turn the direction of text, and lone surrogates.
    Text that was made printable stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
