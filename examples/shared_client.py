"""One Client and its roles: a producer, two members of a group and an admin client."""

from __future__ import annotations

import os
import threading

from kafka_native import Client, Consumer
from kafka_native.admin import NewTopic

with Client({"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}) as client:
    with client.admin() as admin:
        admin.create_topics([NewTopic("shared-orders", 4)])["shared-orders"].exception()

    producer = client.producer({"linger.ms": 5})
    for number in range(100):
        producer.produce("shared-orders", str(number), key=str(number))
    print("left to deliver:", producer.flush(30))

    conf = {"group.id": f"shared-{os.getpid()}", "auto.offset.reset": "earliest"}
    members: list[Consumer] = [client.consumer(conf) for _ in range(2)]
    read = 0
    for member in members:
        member.subscribe(["shared-orders"])
    while read < 100:
        for member in members:
            read += len(member.consume(100, timeout=0.1))
    print("read by two members:", read)

    names = [thread.name for thread in threading.enumerate()]
    print("control threads:", sum(name.startswith("kafka-native rdkafka") for name in names))
# leaving the block has closed the roles, then the client
print("closed:", client)
