"""Descriptions of share groups and streams groups, for ``groups describe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from kafka_native import ConsumerGroupType, KafkaError, KafkaException
from kafka_native.admin import AdminClient, ShareGroupDescription, StreamsGroupDescription
from kafka_native.cli.errors import line_of

T = TypeVar("T")

OTHER_KIND_ERRORS = frozenset(
    {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
)
"""Errors that mean: the group is of another type, or the cluster has no groups of this type."""


def described(
    admin: AdminClient, names: Sequence[str], timeout_s: float
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Describe share and streams groups. Returns their records, and errors for other names."""
    errors = dict.fromkeys(names, "there is no such group")
    if not names:
        return [], errors
    asked = list(names)
    share = admin.describe_share_groups(asked, request_timeout=timeout_s)
    streams = admin.describe_streams_groups(asked, request_timeout=timeout_s)
    records = [_share_record(each) for each in _found(share, errors)]
    records += [_streams_record(each) for each in _found(streams, errors)]
    return records, errors


def _found(futures: Mapping[str, Future[T]], errors: dict[str, str]) -> list[T]:
    """Return the existing groups; remove their names from ``errors``, and add other errors."""
    found = []
    for name, future in futures.items():
        try:
            found.append(future.result())
            errors.pop(name, None)
        except KafkaException as error:
            if error.args[0].code() not in OTHER_KIND_ERRORS:
                errors[name] = line_of(error)
    return found


def _share_record(group: ShareGroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.group_state,
        "type": ConsumerGroupType.SHARE,
        "assignor": None,
        "coordinator": group.coordinator.id,
        "members": [
            {
                "member": each.consumer_id,
                "client_id": each.client_id,
                "host": each.host,
                "instance": None,
                "partitions": [
                    {"topic": place.topic, "partition": place.partition}
                    for place in each.assignment.topic_partitions
                ],
            }
            for each in group.members
        ],
    }


def _streams_record(group: StreamsGroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.group_state,
        "type": ConsumerGroupType.STREAMS,
        "assignor": None,
        "coordinator": group.coordinator.id,
        "subtopologies": {each.subtopology_id: each.source_topics for each in group.subtopologies},
        "members": [
            {
                "member": each.member_id,
                "client_id": each.client_id,
                "host": each.client_host,
                "instance": each.instance_id,
                "process": each.process_id,
                "partitions": [],
                "tasks": each.assignment.active_tasks,
            }
            for each in group.members
        ],
    }
