"""A free-threaded Python keeps its interpreter lock off while the client is used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_S

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
NATIVE = Path(__file__).resolve().parents[2] / "kafka_native" / "_native"
SOURCES = sorted(NATIVE.glob("*.pyx"))
DECLARED = re.compile(r"# cython: freethreading_compatible=True\b")
REASON = "this Python has an interpreter lock"

USE = """
import asyncio, sys
from kafka_native import Consumer, Producer, ShareConsumer, TopicPartition
from kafka_native.aio import AIOProducer
from kafka_native.mock import MockCluster

async def produce(conf):
    async with AIOProducer(conf) as producer:
        assert (await (await producer.produce("t", b"second"))).offset() == 1

with MockCluster() as cluster:
    cluster.create_topic("t", 1)
    cluster.share.settings.auto_offset_reset = "earliest"
    conf = {"bootstrap.servers": cluster.bootstrap_servers}
    with Producer(conf) as producer:
        producer.produce("t", b"first")
        assert producer.flush(60) == 0
    asyncio.run(produce(conf))
    with Consumer(conf) as consumer:
        consumer.assign([TopicPartition("t", 0, 0)])
        columns = consumer.consume_arrow(2, 60)
        assert len(columns) == 2
        with Producer(conf) as producer:
            assert producer.produce_arrow("t", columns) == 2
            assert producer.flush(60) == 0
        assert consumer.poll(60).value() == b"first"
    with ShareConsumer({**conf, "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        assert consumer.poll(60)
print(sys._is_gil_enabled())
"""


def run_program(*arguments: str) -> str:
    """Run a Python program without `PYTHON_GIL`, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-X", "faulthandler", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PROGRAM_S, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


@pytest.mark.skipif(not SOURCES, reason="this tree has only the compiled extensions")
def test_every_extension_declares_itself_safe() -> None:
    assert len(SOURCES) > 20
    lines = {each.name: each.read_text(encoding="utf-8").splitlines()[:5] for each in SOURCES}
    missing = [name for name, first in lines.items() if not any(map(DECLARED.match, first))]
    assert missing == []


@pytest.mark.skipif(not FREE_THREADED, reason=REASON)
def test_the_interpreter_lock_stays_off() -> None:
    assert run_program("-c", USE) == "False\n"


@pytest.mark.skipif(not FREE_THREADED, reason=REASON)
def test_no_extension_turns_the_lock_on() -> None:
    names = [f"kafka_native._native.{each.stem}" for each in SOURCES]
    program = (
        "import importlib, sys, warnings; warnings.simplefilter('error');"
        f"[importlib.import_module(name) for name in {names}];"
        "print(sys._is_gil_enabled())"
    )
    assert run_program("-c", program) == "False\n"


def test_threads_share_clients_that_are_closed() -> None:
    found = json.loads(run_program("-m", "tests.native.thread_stress", "2"))
    assert found["generations"] > 1
    assert found["consumed"] > 0
    assert found["interpreter_lock"] is not FREE_THREADED
