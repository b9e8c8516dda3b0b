"""The built-in partitioners: they choose the partition of a record from its key.

The hashes are exactly those of librdkafka and the Java client, so that
all clients write the records of a key to the same partition. The C core computes them
(``csrc/produce/partitioner.h``). This module only maps names to numbers.

================== ========================================== ================================
name               a record with a key                        a record without a key
================== ========================================== ================================
consistent_random  CRC32 of the key                           sticks to a partition for a while
consistent         CRC32 of the key                           as an empty key: always the same
random             a random partition for each record         sticks to a partition for a while
murmur2            murmur2 of the key, as Java                as an empty key: always the same
murmur2_random     murmur2 of the key, as Java: Java's own    sticks to a partition for a while
fnv1a              FNV-1a of the key, as the client sarama    as an empty key: always the same
fnv1a_random       FNV-1a of the key, as the client sarama    sticks to a partition for a while
round_robin        each partition in turn                     each partition in turn
================== ========================================== ================================

``round_robin`` ignores keys, as Java's RoundRobinPartitioner does. It leaves out partitions that
have no leader at that time. The other names are librdkafka's.

Use ``murmur2_random`` to choose the same partitions as the Java client. The default,
``consistent_random``, is librdkafka's.
"""

from __future__ import annotations

from typing import Final

from kafka_native._native import enums

__all__ = ["DEFAULT", "PARTITIONERS", "partitioner_id"]

DEFAULT: Final = "consistent_random"
"""The default of the property ``partitioner``."""

PARTITIONERS: Final[dict[str, int]] = {
    "consistent_random": enums.PARTITIONER_CONSISTENT_RANDOM,
    "consistent": enums.PARTITIONER_CONSISTENT,
    "random": enums.PARTITIONER_RANDOM,
    "murmur2": enums.PARTITIONER_MURMUR2,
    "murmur2_random": enums.PARTITIONER_MURMUR2_RANDOM,
    "fnv1a": enums.PARTITIONER_FNV1A,
    "fnv1a_random": enums.PARTITIONER_FNV1A_RANDOM,
    "round_robin": enums.PARTITIONER_ROUND_ROBIN,
}
"""The number of each partitioner in ``enum kn_partitioner``."""


def partitioner_id(name: str) -> int:
    """Return the C core's number of a partitioner.

    :param name: One of the names in :data:`PARTITIONERS`.
    :raises ValueError: There is no such partitioner.
    """
    number = PARTITIONERS.get(name)
    if number is None:
        raise ValueError(f"no partitioner is called {name!r}; there are {', '.join(PARTITIONERS)}")
    return number
