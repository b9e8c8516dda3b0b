"""close() of a producer whose transaction can't commit does not wait for its messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from kafka_native import KafkaError, Producer
from kafka_native.aio import AIOProducer
from kafka_native.mock import MockCluster
from tests.waiting import wait_for

from .bank import SOON, Bank
from .support import errors_into

AT_ONCE_S = 5.0
"""Far below the timeouts of messages and of close(), but enough for a slow machine."""


@pytest.fixture(params=[1, 2], scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    with MockCluster(
        brokers=3, transaction_version=request.param, auto_create_topics=False
    ) as running:
        yield running


def fenced(bank: Bank, *, linger_ms: int = 0) -> Producer:
    """Return a producer in a transaction with a message, which another producer has fenced."""
    producer = bank.producer(**{"linger.ms": linger_ms, "message.timeout.ms": 50_000})
    producer.begin_transaction()
    producer.produce(bank.topic, b"before", partition=0)
    assert producer.flush(AT_ONCE_S) == 0
    bank.producer()
    return producer


@pytest.mark.parametrize("fenced_before", [False, True], ids=["fenced in close", "fenced before"])
@pytest.mark.parametrize("linger_ms", [0, 20_000])
def test_close_ends_at_once_with_a_reason(bank: Bank, fenced_before: bool, linger_ms: int) -> None:
    producer = fenced(bank, linger_ms=linger_ms)
    reports: list[KafkaError | None] = []
    for partition in (0, 0, 1):
        producer.produce(bank.topic, b"x", partition=partition, on_delivery=errors_into(reports))
    if fenced_before and not linger_ms:
        transactions = producer._client.main.transactions
        assert transactions is not None
        wait_for(lambda: transactions.error is not None)
    started = time.monotonic()
    producer.close(20)
    assert time.monotonic() - started < AT_ONCE_S
    assert len(reports) == 3
    errors = [error for error in reports if error is not None]
    assert len(errors) == 3, "none of them is delivered"
    assert {error.code() for error in errors} <= {
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError._FENCED,
        KafkaError._PURGE_QUEUE,
    }
    assert all("epoch" in error.str() or "fences" in error.str() for error in errors), [
        error.str() for error in errors
    ]


def test_reports_after_a_fatal_error_have_its_reason(bank: Bank) -> None:
    producer = bank.producer()
    reports: list[KafkaError] = []
    producer.begin_transaction()
    bank.producer()
    producer.produce(bank.topic, b"x", partition=0, on_delivery=errors_into(reports))
    started = time.monotonic()
    producer.close(20)
    assert time.monotonic() - started < AT_ONCE_S
    assert len(reports) == 1
    assert "epoch" in reports[0].str() or "fences" in reports[0].str(), reports[0]


def test_close_flushes_a_valid_transaction(bank: Bank) -> None:
    producer = bank.producer(**{"linger.ms": 50})
    reports: list[KafkaError | None] = []
    producer.begin_transaction()
    producer.produce(bank.topic, b"x", partition=0, on_delivery=errors_into(reports))
    producer.close(20)
    assert reports == [None]


def test_asyncio(bank: Bank) -> None:
    async def run() -> tuple[float, list[KafkaError | None]]:
        conf = {
            "bootstrap.servers": bank.cluster.bootstrap_servers,
            "transactional.id": f"{bank.topic}-tx",
            **SOON,
        }
        producer = AIOProducer({**conf, "message.timeout.ms": 50_000})
        await producer.init_transactions()
        await producer.begin_transaction()
        first = await producer.produce(bank.topic, b"before", partition=0)
        await first
        bank.producer()
        second = await producer.produce(bank.topic, b"x", partition=0)
        started = time.monotonic()
        await producer.close(20)
        took_s = time.monotonic() - started
        outcome = (await asyncio.gather(second, return_exceptions=True))[0]
        return took_s, [outcome.args[0]]

    took_s, [error] = asyncio.run(run())
    assert took_s < AT_ONCE_S
    assert error is not None
    assert "epoch" in error.str() or "fences" in error.str(), error
