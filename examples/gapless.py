"""A series without gaps: after a failed message, no later one is written.

It starts its own mock cluster.
"""

from __future__ import annotations

from collections import Counter

from kafka_native import KafkaError, KafkaException, Message, Producer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey

TOPIC = "ledger"

outcomes: Counter[str] = Counter()


def on_delivery(error: KafkaError | None, message: Message) -> None:
    """Count the outcome: the error, and whether the message is in the log anyway."""
    status = message.status()
    outcomes[
        f"{'delivered' if error is None else error.name()} "
        f"({status.name if status is not None else '?'})"
    ] += 1


def on_error(error: KafkaError) -> None:
    """poll() and flush() call this, also for errors that belong to no message."""
    if error.fatal():
        print(f"this producer is over: {error}")


with MockCluster(1) as cluster:
    cluster.create_topic(TOPIC, 1)
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "batch.num.messages": 10,
        "error_cb": on_error,
    }
    with Producer(conf, on_delivery=on_delivery) as producer:
        for number in range(50):
            producer.produce(TOPIC, str(number))
        producer.flush()
        cluster.push_request_errors(ApiKey.PRODUCE, [KafkaError.INVALID_RECORD])
        try:
            for number in range(50, 10_000):
                producer.produce(TOPIC, str(number))
                producer.poll(0)
        except KafkaException as error:
            print(error)
        producer.flush()
        producer.poll(0.2)
        print("why:", producer.fatal_error())
    for outcome, count in outcomes.items():
        print(f"{count} x {outcome}")
    written = [int(record.value or b"-1") for record in cluster.messages(TOPIC, 0)]
    print(f"in the log: 0 to {written[-1]} without a gap: {written == list(range(len(written)))}")
