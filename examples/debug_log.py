"""The log of a client: debug contexts, each with its own logger; and a log_cb."""

from __future__ import annotations

import logging
import os
import sys

from kafka_native import Producer

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")

# 1. Python's logging: kafka_native.<client.id>.<context>
logging.basicConfig(stream=sys.stdout, format="%(name)s [%(threadName)s] %(message)s")
with Producer(
    {"bootstrap.servers": bootstrap, "client.id": "orders", "debug": "topic,msg"}
) as producer:
    producer.produce("greetings", "hello")

# 2. A function; the level is syslog's. It may be slow: no client waits for its log.
levels: list[int] = []


def log_cb(name: str, level: int, facility: str, text: str) -> None:
    """The log's own thread calls this, or poll() with log.queue."""
    levels.append(level)
    print(f"{facility}: {text}")


lonely = Producer({"bootstrap.servers": "127.0.0.1:1", "log_cb": log_cb})
lonely.produce("greetings", "nobody is there")
while len(levels) < 2:
    lonely.poll(0.1)
lonely.close(0)
print("levels:", sorted(set(levels)))
