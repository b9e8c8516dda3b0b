"""Avro for `Producer.produce_arrow`: the schema of the records, registered or looked up once."""

from __future__ import annotations

import json
from typing import Any

from kafka_native.codecs.avro_encoder import AvroEncoder
from kafka_native.codecs.avro_from_arrow import avro_schema_of
from kafka_native.codecs.codec import Codec
from kafka_native.codecs.encoding import ColumnEncoder
from kafka_native.codecs.errors import SchemaError

__all__ = ["AvroEncoding"]

ENCODERS_MAX = 1000
"""How many encoders a codec keeps."""
MAGIC_BYTE_ID = b"\0"


class AvroEncoding(Codec):
    """The part of the codec `Avro` that encodes."""

    _registry: Any  # it has more calls than a consumer needs

    def _init_encoding(
        self,
        *,
        auto_register: bool = True,
        normalize: bool = False,
        use_latest_version: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        """Set the options of encoding.

        :param auto_register: Register the schema. False: it must be registered already.
        :param normalize: Let the registry normalize the schema.
        :param use_latest_version: Encode with the latest version of the subject.
        :param ignore_extra: Leave out columns that the schema has no field for.
        :raises ValueError: There is a schema, and the latest version is to be used.
        """
        if use_latest_version and self._schema is not None:
            raise ValueError("use_latest_version takes the registry's schema: don't pass schema=")
        if use_latest_version and self._registry is None:
            raise ValueError("use_latest_version needs a schema registry")
        self._auto_register = auto_register
        self._normalize = normalize
        self._use_latest_version = use_latest_version
        self._ignore_extra = ignore_extra
        self._encoders: dict[Any, AvroEncoder] = {}

    def encoder(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> ColumnEncoder:
        """Return the encoder of a topic's keys or values.

        The first call for a subject and a schema asks the registry. Without a schema, the subject's
        latest version is used if ``use_latest_version`` is set, else one made from the columns.

        :param topic: None if each row names its topic. Then the codec needs a subject.
        :param field: ``"key"`` or ``"value"``.
        :param column_type: The type of the columns, as `ColumnInput.description`.
        :raises SchemaError: The schema is malformed, or the columns have no Avro type.
        :raises ValueError: There is neither a topic nor a subject.
        :raises SchemaRegistryError: The registry refuses the schema, or doesn't have it.
        """
        subject = self._subject or f"{topic}-{field}"
        if self._registry is not None and self._subject is None and topic is None:
            raise ValueError("each row names its topic: pass subject= to the codec")
        is_derived = self._schema is None and not self._use_latest_version
        key = subject, field, column_type if is_derived else None
        found = self._encoders.get(key)
        if found is None:
            found = self._made(subject, topic, field, column_type)
            if len(self._encoders) >= ENCODERS_MAX:
                self._encoders.clear()
            self._encoders[key] = found
        return found

    def _made(
        self, subject: str, topic: str | None, field: str, column_type: tuple[Any, ...]
    ) -> AvroEncoder:
        """Return an encoder. Its schema is registered after the columns were found to fit."""
        schema_id = None
        schema = None if self._use_latest_version else self._own_schema(topic, field, column_type)
        if schema is None:
            registered = self._registry.get_latest_version(subject)
            schema, schema_id = registered.schema, registered.schema_id
        rules = getattr(schema, "rule_set", None)
        if rules is not None and (rules.domain_rules or rules.encoding_rules):
            raise SchemaError(
                f"subject {subject} has data-contract rules, which don't run for columns: "
                "use an AvroSerializer"
            )
        if isinstance(schema, str):
            made = AvroEncoder(schema, ignore_extra=self._ignore_extra)
        else:
            try:
                found = self._complete(schema, "the writer's schema")
            except SchemaError as error:
                raise SchemaError(f"subject {subject}: {error.problem}", error.path) from None
            references = found.references.values()
            made = AvroEncoder(found.schema, references, ignore_extra=self._ignore_extra)
        made.program_for(column_type)
        if self._registry is not None:
            if schema_id is None:
                schema_id = self._registered_id(subject, schema)
            made.prefix = _framing(schema_id)
        return made

    def _registered_id(self, subject: str, schema: Any) -> int:
        registry = self._registry
        call = (
            registry.register_schema_full_response
            if self._auto_register
            else registry.lookup_schema
        )
        registered = call(subject, schema, normalize_schemas=self._normalize)
        schema_id: int = registered.schema_id
        return schema_id

    def _own_schema(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> Any:
        """Return the schema as the registry's client takes it; without a registry as text."""
        schema = self._schema
        if schema is None:
            name = topic or self._subject or "record"
            schema = avro_schema_of(column_type, name if field == "value" else f"{name}_{field}")
        if hasattr(schema, "schema_str"):
            return schema
        text = schema if isinstance(schema, str) else json.dumps(schema)
        if text.strip()[:1] not in ("{", "["):
            text = json.dumps({"type": text.strip(' "')})
        if self._registry is None:
            return text
        from kafka_native.schema_registry.schemas import Schema

        return Schema(text, "AVRO")


def _framing(schema_id: int) -> bytes:
    return MAGIC_BYTE_ID + schema_id.to_bytes(4, "big")
