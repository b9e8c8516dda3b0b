"""A schema registry to test against: a real HTTP server with the REST API of Confluent's registry.

    from kafka_native.mock import MockSchemaRegistry

    with MockSchemaRegistry() as registry:
        ...  # any registry client, with registry.url

``python -m kafka_native.mock --registry 8081`` runs it beside a mock cluster in its own process.
"""

from __future__ import annotations

from kafka_native.mock.schema_registry.faults import RegistryFaults
from kafka_native.mock.schema_registry.registry import MockSchemaRegistry
from kafka_native.mock.schema_registry.server import SeenHttpRequest

__all__ = ["MockSchemaRegistry", "RegistryFaults", "SeenHttpRequest"]
