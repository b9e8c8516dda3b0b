"""The mock cluster enforces ACLs: for our clients, for confluent_kafka, and rule by rule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Message, Producer
from kafka_native.admin import AclBinding, AclBindingFilter, AdminClient, NewTopic
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.mock.access import (
    ALL,
    ALLOW,
    CREATE,
    DENY,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    WRITE,
    Access,
    Acl,
)
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

USERS = {"root": "r", "ann": "a", "bob": "b"}
EVERY_ACL = AclBindingFilter("any", None, "any", None, None, "any", "any")


# --- the rules ---


def acl(operation: int, permission: int = ALLOW, **own: Any) -> Acl:
    wanted = {
        "resource_type": TOPIC,
        "resource_name": "t",
        "pattern_type": 3,
        "principal": "User:ann",
        "host": "*",
    }
    return Acl(**{**wanted, **own}, operation=operation, permission_type=permission)


@pytest.mark.parametrize(
    ("acls", "denied"),
    [
        ([], False),
        ([acl(READ, resource_name="other")], False),  # no ACL names this topic
        ([acl(READ, resource_type=GROUP)], False),
        ([acl(READ)], False),
        ([acl(WRITE)], True),
        ([acl(ALL)], False),
        ([acl(READ, principal="User:bob")], True),
        ([acl(READ, principal="User:*")], False),
        ([acl(READ, host="10.0.0.1")], True),
        ([acl(READ, host="127.0.0.1")], False),
        ([acl(READ, resource_name="*")], False),
        ([acl(WRITE, resource_name="*")], True),
        ([acl(READ, resource_name="", pattern_type=4)], False),
        ([acl(READ, resource_name="tt", pattern_type=4), acl(READ)], False),
        ([acl(READ), acl(READ, DENY)], True),
        ([acl(READ), acl(ALL, DENY)], True),
        ([acl(READ), acl(WRITE, DENY)], False),
        ([acl(ALL), acl(READ, DENY, principal="User:bob")], False),
        ([acl(ALL), acl(READ, DENY, principal="User:*")], True),
    ],
)
def test_who_may_fetch(acls: list[Acl], denied: bool) -> None:
    access = Access()
    access.acls = dict.fromkeys(acls)
    assert access.denies("User:ann", "127.0.0.1", TOPIC, "t", ApiKey.FETCH) is denied


@pytest.mark.parametrize(
    ("operation", "denied"), [(READ, False), (WRITE, False), (DESCRIBE, False), (CREATE, True)]
)
def test_every_permission_but_create_includes_describe(operation: int, denied: bool) -> None:
    access = Access()
    access.acls[acl(operation)] = None
    assert access.denies("User:ann", "127.0.0.1", TOPIC, "t", ApiKey.METADATA) is denied
    access.acls[acl(DESCRIBE, DENY)] = None
    assert access.denies("User:ann", "127.0.0.1", TOPIC, "t", ApiKey.METADATA)


# --- clients ---


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    security = ListenerSecurity("sasl_plaintext", mechanisms=("PLAIN",), users=USERS)
    with MockCluster(1, security=security, auto_create_topics=False) as running:
        running.create_topic("open", 1)
        running.create_topic("anns", 1)
        yield running


def settings(cluster: MockCluster, user: str, **own: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        **own,
    }


def allow(
    cluster: MockCluster, *bindings: tuple[str, str, str, str], permission: str = "allow"
) -> None:
    """Create ACLs from (kind, name, user, operation) tuples."""
    made = [
        AclBinding(kind, name, "literal", f"User:{user}", "*", what, permission)
        for kind, name, user, what in bindings
    ]
    with AdminClient(settings(cluster, "root")) as admin:
        for future in admin.create_acls(made).values():
            future.result(WAIT_S)


def codes(producing: Any, *topics: str) -> dict[str, int | None]:
    """Return the error code of a message to each topic."""
    found: dict[str, int | None] = {}
    for topic in topics:
        producing.produce(
            topic,
            b"x",
            on_delivery=lambda error, message: found.update(
                {message.topic(): error and error.code()}
            ),
        )
    assert producing.flush(WAIT_S) == 0
    return found


@pytest.mark.parametrize(
    "make", [Producer, confluent_kafka.Producer], ids=["ours", "confluent_kafka"]
)
def test_only_messages_to_denied_topics_fail(
    cluster: MockCluster, make: Callable[..., Any]
) -> None:
    allow(cluster, ("topic", "anns", "ann", "write"))
    assert codes(make(settings(cluster, "ann")), "open", "anns") == {"open": None, "anns": None}
    refused = {"open": None, "anns": KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert codes(make(settings(cluster, "bob")), "open", "anns") == refused
    with AdminClient(settings(cluster, "root")) as admin:
        for future in admin.delete_acls([EVERY_ACL]).values():
            future.result(WAIT_S)
    assert codes(make(settings(cluster, "bob")), "open", "anns") == {"open": None, "anns": None}


def first_error(consumer: Any) -> int:
    """Return the first error that a consumer reports."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message: Message | None = consumer.poll(0.2)
        if message is not None and message.error() is not None:
            return message.error().code()
    raise AssertionError("no error in time")


@pytest.mark.parametrize(
    "make", [Consumer, confluent_kafka.Consumer], ids=["ours", "confluent_kafka"]
)
@pytest.mark.parametrize(
    ("denied", "code"),
    [(("topic", "open", "bob", "read"), "TOPIC"), (("group", "g", "bob", "read"), "GROUP")],
    ids=["topic", "group"],
)
def test_a_denied_consumer_gets_an_error(
    cluster: MockCluster, make: Callable[..., Any], denied: tuple[str, str, str, str], code: str
) -> None:
    allow(cluster, denied, permission="deny")
    own = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = make(settings(cluster, "bob", **own))
    try:
        consumer.subscribe(["open"])
        assert first_error(consumer) == getattr(KafkaError, f"{code}_AUTHORIZATION_FAILED")
    finally:
        consumer.close()


def test_a_transactional_id_may_be_denied(cluster: MockCluster) -> None:
    allow(
        cluster,
        ("transactional_id", "tx", "ann", "write"),
        ("transactional_id", "tx", "ann", "describe"),
    )
    with Producer(settings(cluster, "ann", **{"transactional.id": "tx"})) as producer:
        producer.init_transactions(WAIT_S)
        with producer.transaction():
            producer.produce("open", b"x")
    with Producer(settings(cluster, "bob", **{"transactional.id": "tx"})) as producer:
        with pytest.raises(KafkaException) as caught:
            producer.init_transactions(WAIT_S)
        assert caught.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_topics_are_created_and_deleted_by_permitted_users(cluster: MockCluster) -> None:
    allow(
        cluster,
        *(
            ("topic", name, "ann", what)
            for name in ("anns", "new")
            for what in ("create", "alter", "delete")
        ),
    )
    with AdminClient(settings(cluster, "bob")) as admin:
        failed = [
            admin.create_topics([NewTopic("new", 1)])["new"].exception(WAIT_S),
            admin.delete_topics(["anns"])["anns"].exception(WAIT_S),
        ]
        assert [error.args[0].code() for error in failed] == [
            KafkaError.TOPIC_AUTHORIZATION_FAILED
        ] * 2
        assert set(admin.list_topics(timeout=WAIT_S).topics) == {"open"}
    with AdminClient(settings(cluster, "ann")) as admin:
        admin.create_topics([NewTopic("new", 1)])["new"].result(WAIT_S)
        admin.delete_topics(["anns"])["anns"].result(WAIT_S)
        assert set(admin.list_topics(timeout=WAIT_S).topics) == {"open", "new"}
