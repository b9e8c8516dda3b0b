"""The data at the end of a run: records for read_committed readers, offsets, and brokers' logs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import confluent_kafka

import kafka_native
from tests.broker import java
from tests.broker.cluster import Cluster, ProcessBroker, quiet

Place = tuple[int, int]
"""Partition and offset."""

WAIT_S = 120.0
BATCH = re.compile(
    r"producerId: (\d+) producerEpoch: \d+ .*isTransactional: (\w+) isControl: (\w+)"
)
LINE = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(.*)")
STATE = re.compile(r" key: (\{.*\}) payload: (\{.*\})$", re.MULTILINE)
ENDED = {0: "Empty", 4: "CompleteCommit", 5: "CompleteAbort", 6: "Dead"}
"""The states by their numbers in the transaction log. Since Apache Kafka 4.4, the tool has names.
"""


def messages(library: ModuleType, cluster: Cluster, topic: str, partitions: int) -> Iterator[Any]:
    """Yield the committed messages of a topic, up to its end.

    The reader gives up if nothing arrives for a while.
    """
    conf = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "readers",
        "isolation.level": "read_committed",
    }
    consumer = library.Consumer(
        quiet({**conf, "enable.partition.eof": True, "enable.auto.commit": False})
    )
    consumer.assign([library.TopicPartition(topic, number, 0) for number in range(partitions)])
    ends: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ends) < partitions:
        assert time.monotonic() < deadline, (
            f"{library.__name__} has read to the end of {sorted(ends)} only"
        )
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                deadline = time.monotonic() + WAIT_S
                yield message
            elif message.error().code() == library.KafkaError._PARTITION_EOF:
                ends.add(message.partition())
    consumer.close()


def _read(library: ModuleType, cluster: Cluster, topic: str, partitions: int) -> dict[Place, str]:
    return {
        (message.partition(), message.offset()): message.value().decode()
        for message in messages(library, cluster, topic, partitions)
    }


def by_ours(cluster: Cluster, topic: str, partitions: int, _: int) -> dict[Place, str]:
    """Read with kafka_native."""
    return _read(kafka_native, cluster, topic, partitions)


def by_theirs(cluster: Cluster, topic: str, partitions: int, _: int) -> dict[Place, str]:
    """Read with confluent_kafka."""
    return _read(confluent_kafka, cluster, topic, partitions)


def by_java(cluster: Cluster, topic: str, _: int, count: int) -> dict[Place, str]:
    """Read with Kafka's console consumer. It ends at the others' count, or when no more arrive."""
    printing = [f"--formatter-property=print.{what}=true" for what in ("partition", "offset")]
    said = java.java_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning"),
        *(
            "--isolation-level",
            "read_committed",
            "--timeout-ms",
            "30000",
            "--max-messages",
            str(count),
            *printing,
        ),
    )
    found = [match.groups() for match in LINE.finditer(said.decode())]
    return {(int(partition), int(offset)): value for partition, offset, value in found}


def is_committed(
    cluster: Cluster,
    topic: str,
    partitions: int,
    group: str,
    ends: Mapping[int, int] | None = None,
) -> bool:
    """Return whether the group has committed the end of each partition.

    ``ends``: the offsets to be committed at least, by partition. By default the ends of the logs.
    """
    with kafka_native.Consumer(
        quiet({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    ) as consumer:
        places = [kafka_native.TopicPartition(topic, number) for number in range(partitions)]
        if ends is None:
            ends = {each.partition: consumer.get_watermark_offsets(each, 30)[1] for each in places}
        return all(
            max(each.offset, 0) >= ends.get(each.partition, 0)
            for each in consumer.committed(places, 30)
        )


def open_transactions(cluster: Cluster, topic: str, group: str) -> list[str]:
    """Return the open transactions in the brokers' logs, from Kafka's DumpLogSegments.

    It is empty if the brokers aren't processes.
    """
    found = []
    for broker in cluster.brokers.values():
        if isinstance(broker, ProcessBroker):
            found += [
                f"broker {broker.node}: {text}" for text in _open_in(broker.log_dir, topic, group)
            ]
    return found


def _dump(files: list[Path], *options: str) -> str:
    names = ",".join(map(str, files))
    return java.java_tool(
        "org.apache.kafka.tools.DumpLogSegments", *options, "--files", names
    ).decode()


def _open_in(log_dir: Path, topic: str, group: str) -> Iterator[str]:
    """Yield those of one broker, which has a replica of everything."""
    logs = [*log_dir.glob(f"{topic}-*/*.log"), *log_dir.glob("__consumer_offsets-*/*.log")]
    yield from open_in_logs(_dump(sorted(logs)))
    states = sorted(log_dir.glob("__transaction_state-*/*.log"))
    yield from open_in_states(_dump(states, "--transaction-log-decoder"), group)


def open_in_logs(dumped: str) -> Iterator[str]:
    """Yield producers whose last batch in a log isn't the end of a transaction."""
    for section in dumped.split("Dumping ")[1:]:
        last: dict[str, bool] = {}
        for producer, transactional, control in BATCH.findall(section):
            if transactional == "true":
                last[producer] = control == "true"
        log = Path(section.splitlines()[0]).parent.name
        for producer, ended in last.items():
            if not ended:
                yield f"producer {producer} has an open transaction in {log}"


def open_in_states(dumped: str, group: str) -> Iterator[str]:
    """Yield a group's transactional ids whose last state in the coordinator's log isn't an end."""
    state: dict[str, int | str] = {}
    for key, payload in STATE.findall(dumped):
        state[json.loads(key)["data"]["transactionalId"]] = json.loads(payload)["data"][
            "transactionStatus"
        ]
    ours = {name: status for name, status in state.items() if name.startswith(group)}
    for name, status in ours.items():
        if status not in ENDED and status not in ENDED.values():
            yield f"{name} is in state {status}"
    if not ours:
        yield "the transaction log has none of the processors"
