"""Defaults that differ from librdkafka's, because those silently lose or damage messages."""

from __future__ import annotations

from typing import Final, NamedTuple


class Safer(NamedTuple):
    """A default that differs from librdkafka's."""

    librdkafka: str
    """librdkafka's default."""
    why: str


SAFER_DEFAULTS: Final[dict[str, Safer]] = {
    "enable.idempotence": Safer(
        "false",
        "a retry must not write a message twice or behind a later one; conflicting settings, and "
        "brokers that don't support or allow it, turn it off, and the client logs this",
    ),
    "check.crcs": Safer(
        "false", "a corrupt batch must be an error, and the check takes little time"
    ),
    "decompressed.batch.max.bytes": Safer(
        "no such limit", "a small batch may decompress to gigabytes"
    ),
}
"""By the name of the property. Its declaration has the default of this client."""
