"""Data-contract rules: conditions, transforms, migrations and encryption of fields.

A rule belongs to a schema in the registry. Serializers and deserializers run it for each message.
The modules have the names of ``confluent_kafka.schema_registry.rules``.
"""
