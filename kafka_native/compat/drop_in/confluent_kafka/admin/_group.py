"""confluent_kafka's name for a part of `kafka_native.admin.groups`."""

from kafka_native.admin.groups import (
    ConsumerGroupDescription,
    ConsumerGroupListing,
    ListConsumerGroupsResult,
    MemberAssignment,
    MemberDescription,
)

__all__ = [
    "ConsumerGroupDescription",
    "ConsumerGroupListing",
    "ListConsumerGroupsResult",
    "MemberAssignment",
    "MemberDescription",
]
