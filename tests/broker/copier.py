"""Copies a topic to another exactly once, as Kafka's own TransactionalMessageCopier does, until it
is killed.

python -m tests.broker.copier BOOTSTRAP INPUT OUTPUT GROUP TRANSACTIONAL-ID
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from kafka_native import Consumer, KafkaError, KafkaException, Message, Producer
from kafka_native.eos import Progress, process

MESSAGES = 50
ABORTS = 0.002
"""The share of the messages that fails at first, after it is in the log."""
CALL_S = 30.0


def main(bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
    """Continue after errors that end its clients."""
    consuming = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": "classic",  # the only one that Kafka's copier supports
        "partition.assignment.strategy": "range",
        "session.timeout.ms": 6000,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }
    producing = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    while True:
        with Consumer(consuming) as consumer, Producer(producing) as producer:
            consumer.subscribe([source])

            def copy(message: Message, producer: Producer = producer) -> list[dict[str, Any]]:
                if random.random() < ABORTS:
                    producer.produce(target, message.value())
                    producer.flush(CALL_S)
                    raise KafkaException(
                        KafkaError(KafkaError._APPLICATION, "at random", txn_requires_abort=True)
                    )
                return [{"topic": target, "value": message.value(), "key": message.key()}]

            def until(progress: Progress) -> bool:
                # in the words of Kafka's copier
                print(json.dumps({"totalProcessed": progress.messages}), flush=True)
                return False

            try:
                process(
                    consumer,
                    producer,
                    copy,
                    until=until,
                    messages=MESSAGES,
                    wait=0.2,
                    timeout=CALL_S,
                )
            except KafkaException as error:
                print(error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
