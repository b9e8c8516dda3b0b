"""A compacted topic as a table: the newest value of each key, and later changes."""

from __future__ import annotations

import os

from kafka_native import CompactedTopic, Producer

conf = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}


def put(**profiles: str | None) -> None:
    """Write values by key. None, a tombstone, removes a key."""
    with Producer(conf) as producer:
        for name, value in profiles.items():
            producer.produce("user-profiles", value, name)


put(ada="London", grace="New York", alan="Wilmslow")
put(grace="Arlington", alan=None)

with CompactedTopic(conf, "user-profiles") as profiles:
    table = profiles.scan(timeout=10)  # every message that exists now
    print({key.decode(): value.decode() for key, value in sorted(table.items())})
    print(f"{table.records_processed} records, {table.tombstones_processed} of them tombstones")

    put(ada=None, barbara="Boston")
    left = 2
    while left:
        for change in profiles.poll(timeout=1.0):
            kind = "delete" if change.is_delete else "insert" if change.is_insert else "update"
            print(f"{kind}: {change.key.decode()}")
            left -= 1
