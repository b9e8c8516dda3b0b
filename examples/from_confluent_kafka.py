"""A confluent_kafka program, switched by one line. The rest of it doesn't know kafka_native.

`python -m kafka_native.compat program.py` does it without that line.
"""

import os

import kafka_native.compat

kafka_native.compat.install()

from confluent_kafka import (  # noqa: E402
    DeserializingConsumer,
    Producer,
    SerializingProducer,
    TopicPartition,
)
from confluent_kafka.error import ValueSerializationError  # noqa: E402
from confluent_kafka.serialization import (  # noqa: E402
    IntegerDeserializer,
    IntegerSerializer,
    StringDeserializer,
    StringSerializer,
)

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC = "switched"


def main() -> None:
    """Send numbers, and read the first ones."""
    producer = SerializingProducer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "key.serializer": StringSerializer(),
            "value.serializer": IntegerSerializer(),
        }
    )
    delivered = []
    for number in range(100):
        producer.produce(
            TOPIC,
            key=f"key {number}",
            value=number,
            on_delivery=lambda *report: delivered.append(report),
        )
    try:
        producer.produce(TOPIC, key="key", value="no number")
    except ValueSerializationError as error:
        print("refused:", error.name)
    producer.flush()
    offsets = [message.offset() for error, message in delivered if error is None]
    print(len(offsets), "messages delivered by", Producer.__mro__[1].__module__)

    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": "readers",
            "key.deserializer": StringDeserializer(),
            "value.deserializer": IntegerDeserializer(),
        }
    )
    partition = delivered[0][1].partition()
    consumer.assign([TopicPartition(TOPIC, partition, min(offsets))])
    message = consumer.poll(30)
    print("first:", repr(message.key()), message.value())
    consumer.close()


if __name__ == "__main__":
    main()
