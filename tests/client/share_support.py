"""Share consumers of the cluster under test, and their messages."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_native import Message, ShareConsumer
from kafka_native.mock import MockCluster
from tests.client.support import Client
from tests.waiting import WAIT_S

_numbers = itertools.count()


def new_group(client: Client) -> str:
    """Return a name for a group. Groups of this cluster begin at the earliest offset."""
    settings = client.cluster.share.settings
    settings.auto_offset_reset, settings.delivery_limit, settings.lock_seconds = "earliest", 5, 30.0
    settings.renew_enabled = True
    return f"share-{next(_numbers)}"


@contextmanager
def sharing(client: Client, group: str, *topics: str, **conf: Any) -> Iterator[ShareConsumer]:
    """Yield a member of a group. Properties have underscores for dots."""
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    base = {"bootstrap.servers": client.bootstrap, "group.id": group, "reconnect.backoff.ms": 20}
    with ShareConsumer({**base, "fetch.wait.max.ms": 50, **settings}) as consumer:
        if topics:
            consumer.subscribe(list(topics))
        yield consumer


def values(messages: list[Message]) -> list[bytes]:
    """Return the values of messages that are no errors."""
    assert [each.error() for each in messages if each.error()] == []
    return [each.value() or b"" for each in messages]


def take(consumer: ShareConsumer, count: int, timeout_s: float = WAIT_S) -> list[Message]:
    """Take at least so many messages. Each poll accepts the previous ones (implicit mode)."""
    found: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages in {timeout_s} s"
        found += consumer.poll(0.5)
    return found


def done_up_to(cluster: MockCluster, group: str, topic: str, partition: int = 0) -> int:
    """Return the start offset: all records before it are accepted or rejected."""
    return cluster.share.start_offset(group, topic, partition)
