"""Subject name strategies and schema ids, under the names of confluent_kafka's module."""

from __future__ import annotations

from kafka_native.schema_registry.schema_ids import SchemaId
from kafka_native.schema_registry.subject_names import (
    FALLBACK_TYPE,
    KAFKA_CLUSTER_ID,
    STRATEGY_TYPE_MAP,
    AssociatedNameStrategy,
    AsyncAssociatedNameStrategy,
    SubjectNameStrategyType,
)

__all__ = [
    "FALLBACK_TYPE",
    "KAFKA_CLUSTER_ID",
    "STRATEGY_TYPE_MAP",
    "AssociatedNameStrategy",
    "AsyncAssociatedNameStrategy",
    "SchemaId",
    "SubjectNameStrategyType",
]
