"""The built-in partitioners: which partition a keyed record goes to.

The names are librdkafka's and the hashes are bit for bit its own and the Java client's, so that records of one key stay
on one partition whichever client writes them. The C core computes them (``csrc/produce/partitioner.h``); this module
only knows their names.

================== ================================================== ========================================
name               a record with a key                                a record without a key
================== ================================================== ========================================
consistent_random  CRC32 of the key                                   sticks to a partition for a while
consistent         CRC32 of the key                                   as an empty key: always the same partition
random             a random partition each                            sticks to a partition for a while
murmur2            murmur2 of the key, as Java                        as an empty key: always the same partition
murmur2_random     murmur2 of the key, as Java: Java's own default    sticks to a partition for a while
fnv1a              FNV-1a of the key, as the Go client sarama         as an empty key: always the same partition
fnv1a_random       FNV-1a of the key, as the Go client sarama         sticks to a partition for a while
================== ================================================== ========================================

Only ``murmur2_random`` puts keys where the Java client puts them; the default, ``consistent_random``, is librdkafka's.
"""

from __future__ import annotations

from typing import Final

from kafka_native._native import enums

__all__ = ["DEFAULT", "PARTITIONERS", "partitioner_id"]

DEFAULT: Final = "consistent_random"
"""The partitioner of a producer that names none."""

PARTITIONERS: Final[dict[str, int]] = {
    "consistent_random": enums.PARTITIONER_CONSISTENT_RANDOM,
    "consistent": enums.PARTITIONER_CONSISTENT,
    "random": enums.PARTITIONER_RANDOM,
    "murmur2": enums.PARTITIONER_MURMUR2,
    "murmur2_random": enums.PARTITIONER_MURMUR2_RANDOM,
    "fnv1a": enums.PARTITIONER_FNV1A,
    "fnv1a_random": enums.PARTITIONER_FNV1A_RANDOM,
}
"""The numbers of ``enum kn_partitioner`` by name."""


def partitioner_id(name: str) -> int:
    """Return the C core's number of a partitioner.

    :param name: One of the names of :data:`PARTITIONERS`.
    :raises ValueError: If there is no such partitioner.
    """
    number = PARTITIONERS.get(name)
    if number is None:
        raise ValueError(f"no partitioner is called {name!r}; there are {', '.join(PARTITIONERS)}")
    return number
