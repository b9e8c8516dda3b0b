"""What serializers are made of, under the names of confluent_kafka's module."""

from __future__ import annotations

from kafka_native.schema_registry.rule_types import (
    DLQ_HEADER_PREFIX,
    DLQ_RULE_EXCEPTION_HEADER,
    DLQ_RULE_MODE_HEADER,
    DLQ_RULE_NAME_HEADER,
    DLQ_RULE_SUBJECT_HEADER,
    DLQ_RULE_TOPIC_HEADER,
    ErrorAction,
    FieldContext,
    FieldRuleExecutor,
    FieldTransform,
    FieldTransformer,
    FieldType,
    NoneAction,
    RuleAction,
    RuleBase,
    RuleConditionError,
    RuleContext,
    RuleError,
    RuleExecutor,
    clear_original_key,
    get_original_key,
    set_original_key,
)
from kafka_native.schema_registry.schema_ids import (
    SchemaId,
)
from kafka_native.schema_registry.serde_builders import (
    async_build_serde,
    build_serde,
)
from kafka_native.schema_registry.serdes import (
    AsyncBaseDeserializer,
    AsyncBaseSerializer,
    BaseDeserializer,
    BaseSerializer,
)
from kafka_native.schema_registry.subject_names import (
    FALLBACK_TYPE,
    KAFKA_CLUSTER_ID,
    STRATEGY_TYPE_MAP,
    AssociatedNameStrategy,
    AsyncAssociatedNameStrategy,
    SubjectNameStrategyType,
)

__all__ = [
    "DLQ_HEADER_PREFIX",
    "DLQ_RULE_EXCEPTION_HEADER",
    "DLQ_RULE_MODE_HEADER",
    "DLQ_RULE_NAME_HEADER",
    "DLQ_RULE_SUBJECT_HEADER",
    "DLQ_RULE_TOPIC_HEADER",
    "FALLBACK_TYPE",
    "KAFKA_CLUSTER_ID",
    "STRATEGY_TYPE_MAP",
    "AssociatedNameStrategy",
    "AsyncAssociatedNameStrategy",
    "AsyncBaseDeserializer",
    "AsyncBaseSerializer",
    "BaseDeserializer",
    "BaseSerializer",
    "ErrorAction",
    "FieldContext",
    "FieldRuleExecutor",
    "FieldTransform",
    "FieldTransformer",
    "FieldType",
    "NoneAction",
    "RuleAction",
    "RuleBase",
    "RuleConditionError",
    "RuleContext",
    "RuleError",
    "RuleExecutor",
    "SchemaId",
    "SubjectNameStrategyType",
    "async_build_serde",
    "build_serde",
    "clear_original_key",
    "get_original_key",
    "set_original_key",
]
