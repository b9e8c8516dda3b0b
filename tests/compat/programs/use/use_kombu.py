"""Kombu's transport for confluent_kafka: a task's message with headers, its acknowledgement."""

import sys

import kombu

servers, topic = sys.argv[1:]
options = {"kafka_consumer_config": {"group.id": topic}}
with kombu.Connection(f"confluentkafka://{servers}", transport_options=options) as connection:
    queue = connection.SimpleQueue(topic)
    queue.put({"task": 1}, headers={"trace": "abc"}, serializer="json")
    queue.put({"task": 2}, serializer="json")
    for _ in range(2):
        message = queue.get(timeout=30)
        message.ack()
        print(message.payload, message.headers.get("trace"), message.content_type)
    try:
        queue.get(timeout=2)
    except queue.Empty:
        print("empty")
    queue.close()
# What was acknowledged is committed: another connection of the group gets only the next message.
with kombu.Connection(f"confluentkafka://{servers}", transport_options=options) as connection:
    queue = connection.SimpleQueue(topic)
    queue.put({"task": 3}, serializer="json")
    print(queue.get(timeout=30).payload)
    queue.close()
