"""SASLprep (RFC 4013): the canonical form of names and passwords, for comparison."""

from __future__ import annotations

import stringprep
import unicodedata

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    # Code points that Unicode 3.2 doesn't know: a name or password is a "stored string"
    stringprep.in_table_a1,
)


def saslprep(text: str) -> str:
    """Return the prepared form of a text.

    :raises ValueError: The text contains prohibited characters, or nothing of it is left.
    """
    if text.isascii() and text.isprintable():
        return text
    spaced = (" " if stringprep.in_table_c12(each) else each for each in text)
    mapped = "".join(each for each in spaced if not stringprep.in_table_b1(each))
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(prohibited(each) for each in prepared for prohibited in _PROHIBITED):
        raise ValueError("a character that SASLprep prohibits")
    if any(map(stringprep.in_table_d1, prepared)) and (
        any(map(stringprep.in_table_d2, prepared))
        or not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1]))
    ):
        raise ValueError("text from right to left and the other way in one (RFC 3454, section 6)")
    if not prepared:
        raise ValueError("nothing is left of it")
    return prepared
