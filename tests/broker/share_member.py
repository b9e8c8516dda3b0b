"""One member of a share group as a process. The number of a record decides its acknowledgement.

    python -m tests.broker.share_member BOOTSTRAP GROUP TOPIC LOG

It rejects numbers that end in 0. It releases numbers that end in 7 at their first delivery. It
accepts all others. It logs a line ``got`` before it acknowledges a record, and ``accepted``,
``rejected`` or ``released`` after the broker has accepted that. A line has the time and the
delivery count.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kafka_native import AcknowledgeType, Message, ShareConsumer

DONE = {
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
}


def decide(message: Message) -> AcknowledgeType:
    """Return the decision for a record."""
    last = (message.value() or b"")[-1:]
    if last == b"0":
        return AcknowledgeType.REJECT
    return (
        AcknowledgeType.RELEASE
        if last == b"7" and message.delivery_count() == 1
        else AcknowledgeType.ACCEPT
    )


def main(bootstrap: str, group: str, topic: str, log: str) -> None:
    """Run until it is killed."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        "max.poll.records": 50,
    }
    with ShareConsumer(config) as consumer, Path(log).open("a") as out:

        def write(what: str, message: Message) -> None:
            value = (message.value() or b"").decode()
            out.write(f"{time.monotonic()} {what} {value} {message.delivery_count()}\n")

        consumer.subscribe([topic])
        while True:
            messages = [each for each in consumer.poll(1) if each.error() is None]
            for message in messages:
                write("got", message)
            out.flush()
            for message in messages:
                consumer.acknowledge(message, decide(message))
            results = consumer.commit_sync(20)
            failed = {
                (where.topic, where.partition)
                for where, error in results.items()
                if error is not None
            }
            for message in messages:
                if (message.topic(), message.partition()) not in failed:
                    write(DONE[decide(message)], message)
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
