"""confluent_kafka's name for a part of `kafka_native.admin.groups`."""

from kafka_native.admin.groups import (
    ConsumerGroupDescription,
    ConsumerGroupListing,
    ListConsumerGroupsResult,
    MemberAssignment,
    MemberDescription,
)

from .._model import ConsumerGroupState, ConsumerGroupType, Node
from .._util import ConversionUtil
from ..cimpl import TopicPartition
from ._acl import AclOperation

__all__ = [
    "ConsumerGroupDescription",
    "ConsumerGroupListing",
    "ListConsumerGroupsResult",
    "MemberAssignment",
    "MemberDescription",
]
