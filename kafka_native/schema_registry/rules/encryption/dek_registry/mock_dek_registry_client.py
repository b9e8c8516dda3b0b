"""A DEK registry in memory, under the name of confluent_kafka's module."""

from __future__ import annotations

from kafka_native.schema_registry.rules.encryption.dek_registry.dek_registry_client import (
    MockDekRegistryClient,
)

__all__ = ["MockDekRegistryClient"]
