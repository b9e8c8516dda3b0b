"""The API versions of the first releases of Apache Kafka.

Brokers before 0.10 don't support ApiVersions, so the client can't ask them. A test compares the
rows of later releases with the responses of such brokers. APIs between brokers are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafka_native.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

# The newest version of each API that a release added or raised. All ranges begin at 0.
_NEWEST: dict[str, dict[ApiKey, int]] = {
    "0.8.0": {ApiKey.PRODUCE: 0, ApiKey.FETCH: 0, ApiKey.LIST_OFFSETS: 0, ApiKey.METADATA: 0},
    "0.8.1": {ApiKey.OFFSET_COMMIT: 0, ApiKey.OFFSET_FETCH: 0},
    "0.8.2": {ApiKey.OFFSET_COMMIT: 1, ApiKey.OFFSET_FETCH: 1, ApiKey.FIND_COORDINATOR: 0},
    "0.9.0": {
        ApiKey.PRODUCE: 1,
        ApiKey.FETCH: 1,
        ApiKey.OFFSET_COMMIT: 2,
        ApiKey.JOIN_GROUP: 0,
        ApiKey.HEARTBEAT: 0,
        ApiKey.LEAVE_GROUP: 0,
        ApiKey.SYNC_GROUP: 0,
        ApiKey.DESCRIBE_GROUPS: 0,
        ApiKey.LIST_GROUPS: 0,
    },
    "0.10.0": {
        ApiKey.PRODUCE: 2,
        ApiKey.FETCH: 2,
        ApiKey.METADATA: 1,
        ApiKey.SASL_HANDSHAKE: 0,
        ApiKey.API_VERSIONS: 0,
    },
    "0.10.1": {
        ApiKey.FETCH: 3,
        ApiKey.LIST_OFFSETS: 1,
        ApiKey.METADATA: 2,
        ApiKey.JOIN_GROUP: 1,
        ApiKey.CREATE_TOPICS: 0,
        ApiKey.DELETE_TOPICS: 0,
    },
    "0.10.2": {ApiKey.OFFSET_FETCH: 2, ApiKey.CREATE_TOPICS: 1},
    "0.11.0": {
        ApiKey.PRODUCE: 3,
        ApiKey.FETCH: 5,
        ApiKey.LIST_OFFSETS: 2,
        ApiKey.METADATA: 4,
        ApiKey.OFFSET_COMMIT: 3,
        ApiKey.OFFSET_FETCH: 3,
        ApiKey.FIND_COORDINATOR: 1,
        ApiKey.JOIN_GROUP: 2,
        ApiKey.HEARTBEAT: 1,
        ApiKey.LEAVE_GROUP: 1,
        ApiKey.SYNC_GROUP: 1,
        ApiKey.DESCRIBE_GROUPS: 1,
        ApiKey.LIST_GROUPS: 1,
        ApiKey.API_VERSIONS: 1,
        ApiKey.CREATE_TOPICS: 2,
        ApiKey.DELETE_TOPICS: 1,
        ApiKey.DELETE_RECORDS: 0,
        ApiKey.INIT_PRODUCER_ID: 0,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: 0,
        ApiKey.ADD_PARTITIONS_TO_TXN: 0,
        ApiKey.ADD_OFFSETS_TO_TXN: 0,
        ApiKey.END_TXN: 0,
        ApiKey.TXN_OFFSET_COMMIT: 0,
        ApiKey.DESCRIBE_ACLS: 0,
        ApiKey.CREATE_ACLS: 0,
        ApiKey.DELETE_ACLS: 0,
        ApiKey.DESCRIBE_CONFIGS: 0,
        ApiKey.ALTER_CONFIGS: 0,
    },
}

RELEASES: Mapping[str, Mapping[int, tuple[int, int]]]
"""The version ranges of each release, by API key."""


def _accumulate_ranges() -> dict[str, dict[int, tuple[int, int]]]:
    found: dict[str, dict[int, tuple[int, int]]] = {}
    ranges: dict[int, tuple[int, int]] = {}
    for release, newest in _NEWEST.items():
        ranges = ranges | {int(key): (0, last) for key, last in newest.items()}
        found[release] = ranges
    return found


RELEASES = _accumulate_ranges()


def fixed_ranges(version: str) -> Mapping[int, tuple[int, int]] | None:
    """Return the version ranges of a broker without ApiVersions, or ``None`` for a newer broker.

    :raises ValueError: The version is before 0.8, which had another protocol.
    """
    numbers = re.match(r"0\.(\d+)(?:\.(\d+))?", version)
    if numbers is None or int(numbers[1]) >= 10:
        return None
    minor, patch = int(numbers[1]), int(numbers[2] or 0)
    if minor < 8:
        raise ValueError(f"Apache Kafka {version} is older than 0.8")
    return RELEASES["0.9.0" if minor == 9 else f"0.8.{min(patch, 2)}"]
