"""A program that ends without closing its clients ends at once and without errors."""

from __future__ import annotations

import random
import sys
import time

import pytest

from tests.waiting import WAIT_S

from .support import Client, run_program

PROGRAM = """
import sys
from kafka_native import Consumer, Producer, TopicPartition
bootstrap = sys.argv[1]
producer = Producer({"bootstrap.servers": bootstrap, "error_cb": print})
producer.produce("t", "x", on_delivery=print)
consumer = Consumer({"bootstrap.servers": bootstrap, "error_cb": print})
consumer.assign([TopicPartition("t", 0, 0)])
consumer.poll(0.1)
{end}
"""


@pytest.mark.parametrize(
    "end", ["", "sys.exit(0)", "producer = consumer = None", "raise SystemExit(0)"]
)
def test_program_ends_without_close(end: str) -> None:
    started = time.monotonic()
    done = run_program(PROGRAM.replace("{end}", end), "127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    [line] = done.stderr.splitlines()
    assert "with 1 messages that aren't delivered: they are lost" in line
    assert time.monotonic() - started < 60  # the message's timeout is five minutes


BUSY = """
import asyncio, logging, os, sys, threading, time
from kafka_native import Consumer, KafkaException, Producer, ShareConsumer, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer

topic = sys.argv[2]
conf = {"bootstrap.servers": sys.argv[1], "debug": sys.argv[4]}
logging.basicConfig(level=logging.DEBUG, stream=open(os.devnull, "w"))
producer = Producer(conf)
consumer = Consumer({**conf, "group.id": topic, "auto.offset.reset": "earliest"})
share = ShareConsumer({**conf, "group.id": topic + "-share"})
admin = AdminClient(conf)
consumer.subscribe([topic])
share.subscribe([topic])

def produce():
    try:
        producer.produce(topic, b"x", on_delivery=lambda error, message: None)
    except BufferError:
        producer.poll(0.01)

def commit():
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        assert error.args[0].name() != "_DESTROY", error

def make():
    with Producer(conf) as another:
        another.produce(topic, b"y")
        another.list_topics(timeout=60)

def one():
    for message in consumer:
        break

async def coroutines():
    sending, admin = AIOProducer(conf), AIOAdminClient(conf)
    reading = AIOConsumer({**conf, "group.id": topic + "-aio"})
    await reading.subscribe([topic])
    while True:
        await (await sending.produce(topic, b"a"))
        await reading.poll(0.01)
        await reading.committed([TopicPartition(topic, 0)])
        await admin.describe_cluster()

def forever(work):
    while True:
        work()

for work in (
    produce, commit, make, one,
    lambda: asyncio.run(coroutines()),
    lambda: producer.poll(0.1),
    lambda: producer.flush(1),
    lambda: consumer.poll(0.1),
    lambda: consumer.consume(100, 0.1),
    lambda: consumer.consume_arrow(1000, 0.1),
    lambda: consumer.committed([TopicPartition(topic, 0)]),
    lambda: consumer.metrics(),
    lambda: share.poll(0.1),
    lambda: admin.list_topics(timeout=60),
    lambda: admin.describe_cluster().result(),
    lambda: admin.poll(0.1),
):
    threading.Thread(target=forever, args=(work,), daemon=True).start()
time.sleep(float(sys.argv[3]))
"""


def check_silent_end(client: Client, delay_s: float, debug: str) -> None:
    """Run a program whose daemon threads use clients of all kinds. It must print nothing."""
    arguments = [client.bootstrap, client.topic(3), str(delay_s), debug]
    done = run_program(BUSY, *arguments, timeout_s=3 * WAIT_S)
    outcome = (done.returncode, done.stderr, done.stdout)
    assert outcome == (0, "", ""), f"after {delay_s} s, debug={debug!r}"


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.5])
def test_daemon_threads_that_use_clients_end_silently(client: Client, delay_s: float) -> None:
    check_silent_end(client, delay_s, "")


@pytest.mark.slow
def test_daemon_threads_end_silently_at_any_time(client: Client) -> None:
    for _ in range(40):
        check_silent_end(client, random.uniform(0, 2), random.choice(["", "all"]))


LATE = """
import atexit, sys

@atexit.register
def last():
    global producer
    producer = Producer({"bootstrap.servers": sys.argv[1]})

from kafka_native import Producer
"""


def test_a_client_created_at_exit_does_not_block_it() -> None:
    done = run_program(LATE, "127.0.0.1:1", timeout_s=3 * WAIT_S)
    assert done.returncode == 0
    if sys.version_info < (3, 12):  # later versions refuse to start a thread, and print that
        assert done.stderr == ""
