"""A share group: two workers take jobs of one partition.

They release a failed job, and reject an impossible one.
"""

from __future__ import annotations

import os

from kafka_native import AcknowledgeType, Message, Producer, ShareConsumer
from kafka_native.admin import AdminClient, SharePartitionOffsetInfo

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")
conf = {
    "bootstrap.servers": bootstrap,
    "group.id": "example-workers",
    "share.acknowledgement.mode": "explicit",
    "max.poll.records": 10,
}


def work(message: Message) -> AcknowledgeType:
    """Do a job. One in ten is impossible, and another one fails at its first try."""
    number = int(message.value() or b"")
    if number % 10 == 9:
        return AcknowledgeType.REJECT  # never again
    if number % 10 == 5 and message.delivery_count() == 1:
        return AcknowledgeType.RELEASE  # to the next worker
    return AcknowledgeType.ACCEPT


done: dict[AcknowledgeType, set[int]] = {each: set() for each in AcknowledgeType}
failures = 0


def print_answer(offsets: dict, error: Exception | None) -> None:
    """Print a broker's answer. After an error, the broker delivers these records again."""
    global failures
    if error is not None:
        failures += 1
        print("not taken:", error, offsets)


def poll(worker: ShareConsumer) -> None:
    """Process one batch of jobs. The next request sends their acknowledgements."""
    for message in worker.poll(0.2):
        if error := message.error():
            print("error:", error)
            continue
        outcome = work(message)
        worker.acknowledge(message, outcome)
        done[outcome].add(int(message.value() or b""))


with ShareConsumer(conf) as first, ShareConsumer(conf) as second:
    for worker in (first, second):
        worker.set_acknowledgement_commit_callback(print_answer)
        worker.subscribe(["jobs"])
        poll(worker)
    # A new share group begins at a topic's end, unless share.auto.offset.reset differs.
    # So the program writes the jobs when the group exists; the first job shows that it does.
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        while not done[AcknowledgeType.ACCEPT]:
            producer.produce("jobs", "0")
            producer.flush()
            poll(first)
            poll(second)
        for number in range(1, 100):
            producer.produce("jobs", str(number))
    while len(done[AcknowledgeType.ACCEPT]) + len(done[AcknowledgeType.REJECT]) < 100:
        poll(first)
        poll(second)
    for worker in (first, second):
        results = worker.commit_sync()
        failures += sum(error is not None for error in results.values())

print("accepted:", len(done[AcknowledgeType.ACCEPT]))
print("rejected:", sorted(done[AcknowledgeType.REJECT]))
print("released once:", sorted(done[AcknowledgeType.RELEASE]))
print("failures:", failures)

with AdminClient({"bootstrap.servers": bootstrap}) as admin:
    places = admin.list_share_group_offsets({"example-workers": None})["example-workers"].result()
    # A partition without a place of the group is None, one with an error is a KafkaError.
    lags = [each.lag for each in places.values() if isinstance(each, SharePartitionOffsetInfo)]
    print("left to do:", lags)
