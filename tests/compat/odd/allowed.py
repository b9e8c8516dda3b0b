"""The differences that stay, each with its reason."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.compat.odd.difference import Difference, kind


class Allowed(NamedTuple):
    """Differences that stay: they match all the patterns."""

    reason: str
    id: str = ""
    theirs: str = ""
    """The kind of confluent_kafka's outcome, for instance ``TypeError`` or ``returns``."""
    ours: str = ""

    def matches(self, found: Difference) -> bool:
        """Return whether a difference is of this kind."""
        return bool(
            re.search(self.id, found.id)
            and re.fullmatch(self.theirs or ".*", kind(found.theirs))
            and re.fullmatch(self.ours or ".*", kind(found.ours))
        )


LONG = r"(2\*\*31|2\*\*31-1|2\*\*32|2\*\*40|2\*\*63-1|2\*\*63|10\*\*30|1e10|1e300|inf)\)"
ALLOWED = (
    Allowed("the original ends the process", theirs=r"crash: SIG\w+"),
    Allowed("the original keeps the interpreter's lock for ever", theirs="crash: hangs"),
    Allowed("the original sets an exception and returns a result", theirs=r"(late )?SystemError"),
    Allowed("the original sets an exception and returns a result", theirs=r"late \w+"),
    Allowed("an undefined conversion in C: a time that is no number", r"\((timeout=)?nan\)$"),
    Allowed(
        "an undefined conversion in C: more milliseconds than an int holds; there it is a time "
        "that is over, here no limit",
        rf"\((timeout=)?{LONG}$",
    ),
    Allowed("an extension: iteration", r"\.iter\(\)$", "TypeError", "returns"),
    Allowed(
        "arguments that the original ignores", r"\.assignment\((one|keyword)", ours="TypeError"
    ),
    Allowed("an extension: close(timeout)", r"Producer\.\w+\.close\((one|keyword|twice)"),
    Allowed(
        "an extension: keywords and any bytes-like key",
        r"^functions\..*\((by name|key=(bytearray|memoryview))",
        "TypeError",
        "returns",
    ),
)
"""The differences that stay. The first entry that matches has the reason."""


def reason(found: Difference) -> str | None:
    """Return why a difference stays, or None if it has to go."""
    return next((each.reason for each in ALLOWED if each.matches(found)), None)
