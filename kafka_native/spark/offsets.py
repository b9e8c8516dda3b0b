"""Starts and ends of reading, and the JSON of Spark's connector for them.

The options ``startingOffsets`` and ``endingOffsets`` and Spark's checkpoints have this JSON:
``{"topic":{"partition":offset,...},...}``. -2 is the earliest offset and -1 the latest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_native import KafkaError
from kafka_native.spark.errors import OptionError

EARLIEST: Final = -2
"""In JSON: the first offset of the partition."""
LATEST: Final = -1
"""In JSON: the end of the partition."""

Key = tuple[str, int]
"""A topic and a partition number."""

GONE_ERRORS: Final = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
"""The client's errors for a topic or partition that no broker has any more."""
UNKNOWN_PARTITION_ERRORS: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, *GONE_ERRORS)
"""All errors for an unknown topic or partition. A broker's own may come from old metadata."""
_OFFSET_MAX: Final = (1 << 63) - 1
_PARTITION_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True)
class Limit:
    """A start or an end of reading, from an option."""

    kind: str
    """``earliest``, ``latest``, ``offsets``, ``timestamps`` or ``timestamp``.

    ``offsets`` and ``timestamps`` are by partition; ``timestamp`` is for all.
    """
    option: str
    """The option's name, for errors."""
    values: Mapping[Key, int] = field(default_factory=dict)
    """By partition: offsets (or EARLIEST, LATEST), or milliseconds since 1970."""
    timestamp: int = 0
    """For kind ``timestamp``: milliseconds since 1970."""


# --- JSON ---


def nested(offsets: Mapping[Key, int]) -> dict[str, dict[str, int]]:
    """Offsets as nested dicts for JSON, sorted, because Spark compares the texts."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def offsets_json(offsets: Mapping[Key, int]) -> str:
    """Offsets as JSON, as Spark's connector writes them to options and checkpoints."""
    return json.dumps(nested(offsets), separators=(",", ":"), ensure_ascii=False)


def parse_offsets(text: str, option: str = "offsets") -> dict[Key, int]:
    """Parse offsets from JSON.

    :param option: The option or file that has the text, for errors.
    :raises OptionError: The text isn't ``{"topic":{"partition":offset}}`` with offsets of -2
        (earliest), -1 (latest) or more.
    """
    return _numbers(
        text, option, EARLIEST, '{"topic":{"0":23,"1":-2}}, with -2 for earliest and -1 for latest'
    )


def flat(offsets: Mapping[str, object], origin: str) -> dict[Key, int]:
    """Parse the result of `nested`. It comes from a file, which another connector may have written.

    :param origin: The file, for errors.
    :raises OptionError: The structure is another one, or an offset is negative.
    """
    found = parse_offsets(json.dumps(offsets), origin)
    for (topic, partition), offset in found.items():
        if offset < 0:
            raise OptionError(origin, f"{topic} [{partition}]: {offset} is no offset")
    return found


def parse_timestamps(text: str, option: str) -> dict[Key, int]:
    """Parse milliseconds since 1970 from JSON. The errors are those of `parse_offsets`."""
    return _numbers(text, option, 0, '{"topic":{"0":1700000000000}}, in milliseconds since 1970')


def parse_assignment(text: str, option: str = "assign") -> tuple[Key, ...]:
    """Parse partitions from ``{"topic":[0,1]}``.

    :raises OptionError: The text has another structure, or names no partition.
    """
    hint = '{"topicA":[0,1],"topicB":[2]}'
    found: dict[Key, None] = {}
    for topic, partitions in _object(text, option, hint).items():
        if not isinstance(partitions, list) or not partitions:
            raise OptionError(
                option, f"expected a list of partitions for topic {topic!r}: write {hint}"
            )
        for each in partitions:
            if type(each) is not int or not 0 <= each <= _PARTITION_MAX:
                raise OptionError(
                    option, f"topic {topic!r}: {each!r} is no partition: write {hint}"
                )
            found[topic, each] = None
    if not found:
        raise OptionError(option, f"no partition is named: write {hint}")
    return tuple(found)


def _object(text: str, option: str, hint: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise OptionError(option, f"this isn't JSON ({error}): write {hint}") from None
    if not isinstance(parsed, dict):
        raise OptionError(option, f"expected a JSON object: write {hint}")
    return parsed


def _numbers(text: str, option: str, minimum: int, hint: str) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for topic, partitions in _object(text, option, hint).items():
        if not isinstance(partitions, dict):
            raise OptionError(
                option, f"expected an object of partitions for topic {topic!r}: write {hint}"
            )
        for partition, number in partitions.items():
            if not re.fullmatch(r"[0-9]{1,10}", partition) or int(partition) > _PARTITION_MAX:
                raise OptionError(
                    option, f"topic {topic!r}: {partition!r} is no partition: write {hint}"
                )
            if type(number) is not int or not minimum <= number <= _OFFSET_MAX:
                raise OptionError(
                    option, f"{topic} [{partition}]: {number!r} isn't valid: write {hint}"
                )
            found[topic, int(partition)] = number
    return found


def listed(keys: list[Key]) -> str:
    """The first five partitions as text, for errors."""
    shown = ", ".join(f"{topic} [{partition}]" for topic, partition in keys[:5])
    return shown if len(keys) <= 5 else f"{shown} and {len(keys) - 5} more"
