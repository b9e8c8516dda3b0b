"""Creates and deletes the topics of ``perf``."""

from __future__ import annotations

from kafka_native import KafkaError, KafkaException
from kafka_native.admin import AdminClient, NewTopic

TIMEOUT_S = 30.0


def create_topic(
    admin: AdminClient, name: str, partitions: int, timeout_s: float = TIMEOUT_S
) -> None:
    """Create a topic with replication factor 1; KafkaException if the cluster refuses."""
    try:
        admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=timeout_s)[
            name
        ].result()
    except KafkaException as refusal:
        raise _reported(refusal, f"topic {name} can't be made") from refusal


def delete_topic(admin: AdminClient, name: str, timeout_s: float = TIMEOUT_S) -> None:
    """Delete a topic; KafkaException if the cluster refuses."""
    try:
        admin.delete_topics([name], request_timeout=timeout_s)[name].result()
    except KafkaException as refusal:
        raise _reported(refusal, f"topic {name} can't be deleted") from refusal


def _reported(refusal: KafkaException, what: str) -> KafkaException:
    error: KafkaError = refusal.args[0]
    return KafkaException(KafkaError(error.code(), f"{what}: {error.str()}"), hint=refusal.hint)
