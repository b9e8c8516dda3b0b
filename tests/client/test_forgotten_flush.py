"""A producer that was never flushed or closed: the log has the number of lost messages."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable

import pytest

from kafka_native import KafkaError, Producer
from kafka_native.aio import AIOProducer
from tests.waiting import WAIT_S, wait_for

from .support import Client, errors_into, run_program

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}

AT_EXIT = """
import sys
from kafka_native import Producer
conf = {"bootstrap.servers": "127.0.0.1:1", "error_cb": lambda error: None}
def on_delivery(error, message):
    print(error.name(), message.value().decode(), flush=True)
    if sys.argv[1:] == ["raises"]:
        raise ValueError("of the callback")
forgotten, other, closed = (Producer(conf) for _ in range(3))
for number in range(3):
    forgotten.produce("t", str(number), on_delivery=on_delivery)
closed.produce("t", "closed")
closed.close(0)
"""


def test_interpreter_that_exits_warns_and_reports() -> None:
    done = run_program(AT_EXIT, timeout_s=WAIT_S)
    assert done.returncode == 0
    assert done.stdout.split("\n") == ["_PURGE_QUEUE 0", "_PURGE_QUEUE 1", "_PURGE_QUEUE 2", ""]
    warnings = [line for line in done.stderr.split("\n") if "aren't delivered" in line]
    assert len(warnings) == 1
    assert "the interpreter exits with 3 messages that aren't delivered" in warnings[0]
    assert "Traceback" not in done.stderr


def test_callback_that_raises_at_exit_is_logged() -> None:
    done = run_program(AT_EXIT, "raises", timeout_s=WAIT_S)
    assert done.returncode == 0
    assert done.stdout.startswith("_PURGE_QUEUE 0")
    assert "a delivery callback has raised while the interpreter exits" in done.stderr
    assert "of the callback" in done.stderr


def drop(producer: list[Producer]) -> None:
    producer.clear()


def collect(producer: list[Producer]) -> None:
    producer.append(producer)  # type: ignore[arg-type]
    producer = []
    gc.collect()


@pytest.mark.parametrize("end", [drop, collect])
def test_producer_that_is_dropped_warns(
    caplog: pytest.LogCaptureFixture, end: Callable[[list[Producer]], None]
) -> None:
    reported: list[KafkaError | None] = []

    def forget() -> None:
        made = [Producer(NOWHERE, error_cb=lambda error: None)]
        for _ in range(5):
            made[0].produce("t", b"x", on_delivery=errors_into(reported))
        end(made)

    with caplog.at_level(logging.WARNING):
        forget()
        gc.collect()
        wait_for(
            lambda: "the producer was dropped with 5 messages that aren't delivered" in caplog.text,
            "the warning",
        )
    assert reported == []


def test_delivered_messages_are_not_called_lost(
    client: Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = client.producer(on_delivery=lambda error, message: None)
    producer.produce(topic, b"x")
    with caplog.at_level(logging.WARNING):
        wait_for(lambda: producer._client.engine.unsettled == 0, "the acknowledgement")
        assert len(producer) == 1  # no poll() has served its report
        producer.__del__()
    assert "aren't delivered" not in caplog.text


def test_coroutine_that_forgets_its_producer_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    async def forget() -> None:
        producer = AIOProducer({**NOWHERE, "error_cb": lambda error: None})
        await producer.produce("t", b"x")
        del producer
        gc.collect()
        await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(forget())
        wait_for(lambda: "the producer was dropped with 1 messages" in caplog.text, "the warning")
