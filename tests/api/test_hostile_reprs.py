"""The repr of a public type is one printable line, for any names from the network."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest

import kafka_native
from kafka_native import (
    KafkaError,
    KafkaException,
    Node,
    PartitionQueue,
    ThrottleEvent,
    TopicPartition,
    admin,
)
from kafka_native.admin import (
    AclBinding,
    AclBindingFilter,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from tests.hostile import ESCAPED_MARKS, MARKS

ERROR = KafkaError(KafkaError._FAIL, MARKS)
ACL = ("topic", MARKS, "literal", MARKS, MARKS, "read", "allow")


def filled(kind: Callable[[], object], **attributes: Any) -> Any:
    """Make an object of a type that only a client makes."""
    made = kind()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


MADE: list[Any] = [
    ERROR,
    KafkaException(ERROR),
    TopicPartition(MARKS, 0),
    Node(1, MARKS, 1, MARKS),
    ThrottleEvent(MARKS, 1, 0.1),
    NewTopic(MARKS, 1),
    NewPartitions(MARKS, 2),
    AclBinding(*ACL),
    AclBindingFilter(*ACL),
    ConfigEntry(MARKS, MARKS),
    ConfigResource("topic", MARKS),
    filled(admin.ClusterMetadata, cluster_id=MARKS),
    filled(admin.BrokerMetadata, id=1, host=MARKS, port=1),
    filled(admin.TopicMetadata, topic=MARKS, error=ERROR),
    filled(admin.PartitionMetadata, id=1, error=ERROR),
    filled(admin.GroupMetadata, id=MARKS, error=ERROR),
    filled(partial(PartitionQueue.__new__, PartitionQueue), _key=(MARKS, 0)),
]
NAMELESS = {
    "ArrowReport", "Assignor", "CompactedTable", "PreparedTxnState", "Uuid", "Message", "Messages",
    "ConsumerGroupMetadata",
}  # fmt: skip
"""Their reprs contain no name, or a name in Python's own repr."""
CLIENTS = {
    "AdminClient", "Client", "CompactedTopic", "Consumer", "Producer", "ShareConsumer",
    "StreamsGroupMember",
}  # fmt: skip
"""The configuration names them, not the network."""
NAMES = {"ClusterMetadata", "TopicMetadata", "GroupMetadata"}
"""``str()`` of them is the name, as in confluent_kafka. It is data, so it is unchanged."""


def written(module: ModuleType) -> set[str]:
    """Return the public types with a handwritten repr or str."""
    return {
        name
        for name, kind in vars(module).items()
        if inspect.isclass(kind)
        and not issubclass(kind, enum.Enum)
        and not dataclasses.is_dataclass(kind)
        and not hasattr(kind, "_fields")  # a NamedTuple's repr is generated, too
        and any(
            "__repr__" in vars(each) or "__str__" in vars(each)
            for each in kind.__mro__
            if is_ours(each)
        )
    }


def is_ours(kind: type) -> bool:
    return kind.__module__.startswith("kafka_native")


@pytest.mark.parametrize("made", MADE, ids=lambda made: type(made).__name__)
def test_a_repr_is_one_printable_line(made: Any) -> None:
    assert repr(made).isprintable()
    name = type(made).__name__
    assert str(made).isprintable() or name in NAMES
    assert (
        ESCAPED_MARKS in repr(made) + str(made)
        or type(made).__repr__ is object.__repr__
        or name == "Node"
    )


def test_every_handwritten_repr_is_tested() -> None:
    wanted = written(kafka_native) | written(admin)
    clients = {
        name
        for name in wanted
        if name in CLIENTS or name.startswith(("Deserializing", "Serializing"))
    }
    assert wanted - clients - NAMELESS == {type(each).__name__ for each in MADE}


def test_names_without_anything_special_are_shown_as_they_are() -> None:
    assert str(TopicPartition("a.b_c-é", 1)) == (
        "TopicPartition{topic=a.b_c-é,partition=1,offset=-1001,leader_epoch=None,error=None}"
    )
    assert repr(ConfigEntry("a", "DOMAIN\\x")) == 'ConfigEntry(a="DOMAIN\\x")'
