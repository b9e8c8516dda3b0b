"""What the tests of ``-s`` share: schemas, and a shell with a cluster and a registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.mock import MockCluster, MockSchemaRegistry
from tests.cli.running import invoke
from tests.waiting import WAIT_S

ORDER = (
    '{"type":"record","name":"shop.Order","fields":[{"name":"id","type":"long"},'
    '{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},'
    '{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":'
    '[{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}'
    "]}}}]}"
)
LINES = [
    '{"id":1,"at":"2024-05-01T12:00:00Z","lines":[]}',
    '{"id":2,"at":"2024-05-01T12:00:00.250Z","lines":[{"price":"12.30"},{"price":"0.01"}]}',
]
POINT = """syntax = "proto3";
package k;
import "google/protobuf/timestamp.proto";
message Point {
  message Part { bytes data = 1; }
  int64 x_axis = 1;
  double ratio = 2;
  repeated Part parts = 3;
  google.protobuf.Timestamp at = 4;
}
message Other { string name = 1; }
"""
PERSON = '{"type":"object","title":"Person","properties":{"name":{"type":"string"}}}'
UNFRAMED = b'{"id":1}'


class Shell:
    """Runs commands with a cluster and a registry."""

    def __init__(self, cluster: MockCluster, registry: MockSchemaRegistry) -> None:
        self.cluster = cluster
        self.servers = ["-b", cluster.bootstrap_servers, "-r", registry.url]
        for topic in ("orders", "points", "people", "copy"):
            cluster.create_topic(topic, 1)

    def produce(self, topic: str, *words: str, stdin: str) -> Any:
        words = ("produce", "-t", topic, *words, *self.servers)
        return invoke(*words, stdin=stdin.encode())

    def consume(self, topic: str, *words: str) -> Any:
        return invoke("consume", topic, "-e", "-q", *words, *self.servers)

    def send(self, topic: str, values: Sequence[bytes | None], **more: Any) -> None:
        """Produce values as they are."""
        with Producer({"bootstrap.servers": self.cluster.bootstrap_servers}) as producer:
            for value in values:
                producer.produce(topic, value, **more)
            assert producer.flush(WAIT_S) == 0

    def payloads(self, topic: str) -> list[bytes | None]:
        return [each.value for each in self.cluster.messages(topic, 0)]


def committed(shell: Shell, group: str) -> int:
    """Return the offset of orders [0] that a group has committed."""
    conf = {"bootstrap.servers": shell.cluster.bootstrap_servers, "group.id": group}
    with Consumer(conf) as consumer:
        [found] = consumer.committed([TopicPartition("orders", 0)], WAIT_S)
    return found.offset


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
