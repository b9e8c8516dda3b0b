"""Texts of somebody else, made fit to be shown: names, error texts and certificates come from the network.

A terminal obeys escape sequences, a log's reader believes a line that a text has begun, and marks that turn the
direction of writing show another text than there is. None of them is printable, as Python sees it.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """A text as one line without what a terminal would obey; ``?`` for each character that isn't printable."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def clean(text: str, length_max: int = 80) -> str:
    """The same, and not too long."""
    shown = printable(text[: length_max + 1])
    return shown if len(shown) <= length_max else shown[: length_max - 1] + "…"
