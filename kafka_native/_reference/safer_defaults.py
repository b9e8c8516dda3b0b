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
        "a retry must not write a message twice or behind a later one; it gives way, and "
        "says so in the log, to what "
        "you have set that it can't go with, and to brokers that don't have or don't allow it",
    ),
    "check.crcs": Safer(
        "false", "a corrupt batch has to be an error, and checking costs next to nothing"
    ),
    "decompressed.batch.max.bytes": Safer(
        "no such limit", "a small batch may decompress to gigabytes"
    ),
}
"""By the name of the property; the default here is in its declaration."""
