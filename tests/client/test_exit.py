"""A program that ends without closing its clients ends at once and in peace."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]

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


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "producer = consumer = None", "raise SystemExit(0)"])
def test_program_ends_without_close(end: str) -> None:
    started = time.monotonic()
    command = [sys.executable, "-c", PROGRAM.replace("{end}", end), "127.0.0.1:1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert time.monotonic() - started < 60  # the message would be waited for for five minutes
