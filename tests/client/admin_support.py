"""Common parts of the AdminClient's tests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import Consumer, ConsumerGroupState, KafkaException
from kafka_native.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

from .support import Client


def admin_of(client: Client, **conf: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": client.bootstrap, "retry.backoff.ms": 20, **conf})


@contextmanager
def cluster_and_admin(brokers: int = 3, **how: Any) -> Iterator[tuple[MockCluster, AdminClient]]:
    """Yield a new cluster, for example of old brokers, and an AdminClient for it."""
    with MockCluster(brokers, **how) as cluster, admin_of(Client(cluster)) as admin:
        yield cluster, admin


def result_of(future: Future[Any]) -> Any:
    return future.result(WAIT_S)


def code_of(future: Future[Any]) -> int:
    """Return the error code with which a future fails."""
    error = future.exception(WAIT_S)
    assert isinstance(error, KafkaException), error
    code: int = error.args[0].code()
    return code


def expect_success(future: Future[None]) -> None:
    """Check that an operation without a result succeeds."""
    result = future.result(WAIT_S)
    assert result is None, result


def expect_error(future: Future[Any], code: int) -> None:
    """Check that an operation fails with this error code."""
    found = code_of(future)
    assert found == code, f"{future.exception()}, not error {code}"


def changed(kind: str, name: str, **settings: str | None) -> ConfigResource:
    """Return a resource with settings to set, None to unset. An underscore stands for a dot."""
    operations = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
    entries = [
        ConfigEntry(each.replace("_", "."), value, incremental_operation=operations[value is None])
        for each, value in settings.items()
    ]
    return ConfigResource(kind, name, incremental_configs=entries)


def invalid_calls(
    rows: Mapping[str, Sequence[tuple[dict[str, Any], type[Exception], str]]],
) -> pytest.MarkDecorator:
    """Parametrize a test by the rows of each method: its arguments, the error and its text."""
    return pytest.mark.parametrize(
        ("call", "argument", "error", "text"),
        [(call, *row) for call, each in rows.items() for row in each],
    )


@contextmanager
def member(client: Client, group: str, topic: str, **conf: Any) -> Iterator[Consumer]:
    """Yield a consumer that has read and committed a message in a group."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", **conf}
    with client.consumer(**settings) as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        consumer.commit(message, asynchronous=False)
        yield consumer


def stable(admin: AdminClient, group: str, partitions: int) -> Any:
    """Return the group's description once its one member has so many partitions."""
    deadline = time.monotonic() + WAIT_S
    while True:
        described = result_of(admin.describe_consumer_groups([group])[group])
        held = [place for each in described.members for place in each.assignment.topic_partitions]
        if described.state is ConsumerGroupState.STABLE and len(held) == partitions:
            return described
        assert time.monotonic() < deadline, vars(described)
        time.sleep(0.02)
