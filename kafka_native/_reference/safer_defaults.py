"""Defaults that differ from librdkafka's, which lose or damage messages without an error."""

from __future__ import annotations

from typing import Final, NamedTuple


class Safer(NamedTuple):
    """A default that differs."""

    librdkafka: str
    """librdkafka's."""
    why: str


SAFER_DEFAULTS: Final[dict[str, Safer]] = {
    "enable.idempotence": Safer(
        "false",
        "a retry must not write a message twice or behind a later one. The client turns it off, "
        "with a log line, if another property that you set excludes it, or if a broker doesn't "
        "support or allow it",
    ),
    "check.crcs": Safer(
        "false", "a corrupt batch has to be an error, and checking costs next to nothing"
    ),
    "decompressed.batch.max.bytes": Safer(
        "no such limit", "a small batch may decompress to gigabytes"
    ),
}
"""By the name of the property; the default here is in its declaration."""
