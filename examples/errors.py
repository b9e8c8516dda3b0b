"""Shows each kind of error and how to handle it."""

from __future__ import annotations

import os

from kafka_native import KafkaError, KafkaException, Message, Producer

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")

# 1. A mistake in the configuration raises at once and suggests the nearest name.
try:
    Producer({"bootstrap.server": bootstrap})
except KafkaException as error:
    print("configuration:", error)

# 2. A mistake in a call raises TypeError or ValueError. Nothing is queued.
producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 1000})
try:
    producer.produce("errors", 42)  # type: ignore[arg-type]
except TypeError as error:
    print("call:", error)

# 3. A message that can never be sent raises KafkaException with the broker's code.
try:
    producer.produce("errors", b"x" * 2000)
except KafkaException as error:
    print("message:", error.args[0].name(), error)

# 4. The report of an undelivered message has the error.
producer.close()
unreachable = Producer(
    {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 300, "error_cb": lambda error: None}
)


def on_delivery(error: KafkaError | None, message: Message) -> None:
    """Print the error, here _MSG_TIMED_OUT: no broker answered within message.timeout.ms."""
    print("delivery:", error.name() if error else "delivered", message.value())


unreachable.produce("errors", "nobody will take this", on_delivery=on_delivery)
unreachable.flush(10)
unreachable.close()

# 5. poll() calls error_cb for a problem of the client as a whole.
seen: list[str] = []
lonely = Producer(
    {"bootstrap.servers": "127.0.0.1:1", "error_cb": lambda error: seen.append(error.name())}
)
lonely.produce("errors", "x")
while "_ALL_BROKERS_DOWN" not in seen:
    lonely.poll(1)
print("client:", seen)
lonely.close(0)
