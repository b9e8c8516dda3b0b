"""Codecs that also encode: the schemas and the framing of the columns of producers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_native.codecs.codec import Codec, FoundSchema, Registry
from kafka_native.codecs.column_encoder import ColumnEncoder
from kafka_native.codecs.errors import SchemaError

__all__ = ["EncodeOptions", "EncodingCodec"]

ENCODERS_MAX = 1000
"""How many encoders a codec keeps."""


@dataclass(frozen=True)
class EncodeOptions:
    """The options of a codec for producers.

    Attributes
    ----------
    auto_register : bool
        Register the schema. False: the subject must have it already.
    normalize : bool
        Let the registry normalize the schema.
    use_latest_version : bool
        Encode with the latest version of the subject.
    ignore_extra : bool
        Leave out columns that the schema has no field for.
    schema_id : int, optional
        Encode with the schema of this id, which the subject must have.
    guid_header : bool
        Write the schema's GUID to a header, and no id before the record.
    """

    auto_register: bool
    normalize: bool
    use_latest_version: bool
    ignore_extra: bool
    schema_id: int | None = None
    guid_header: bool = False

    @property
    def is_from_registry(self) -> bool:
        """Whether the registry has the schema already."""
        return self.use_latest_version or self.schema_id is not None

    def check(self, schema: Any, registry: Any) -> None:
        """Refuse options that contradict each other.

        :raises ValueError: Two options choose the schema, or one needs a registry.
        """
        if self.guid_header and registry is None:
            raise ValueError("guid_header needs a schema registry")
        if not self.is_from_registry:
            return
        name = "use_latest_version" if self.use_latest_version else "schema_id"
        if self.use_latest_version and self.schema_id is not None:
            raise ValueError("use_latest_version and schema_id choose different schemas")
        if schema is not None:
            raise ValueError(f"{name} takes the registry's schema: don't pass schema=")
        if registry is None:
            raise ValueError(f"{name} needs a schema registry")


class EncodingCodec(Codec):
    """A codec that also encodes: the base of those that `Producer.produce_arrow` takes."""

    _registry: Any  # encoding makes more calls than decoding

    def __init__(
        self,
        registry: Registry | str | None,
        *,
        subject: str | None,
        schema: Any | None,
        options: EncodeOptions,
    ) -> None:
        """See `Codec`.

        :raises ValueError: Options contradict each other, or need a registry.
        """
        options.check(schema, registry)
        super().__init__(registry, subject=subject, schema=schema)
        self._options = options
        self._encoders: dict[Any, ColumnEncoder] = {}

    def encoder(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> ColumnEncoder:
        """Return the encoder of a topic's keys or values.

        The first call for a subject and a schema asks the registry.

        :param topic: None if each row names its topic. Then the codec needs a subject.
        :param field: ``"key"`` or ``"value"``.
        :param column_type: The type of the columns, as `ColumnInput.description`.
        :raises SchemaError: The schema is malformed, or the columns don't fit it.
        :raises ValueError: There is neither a topic nor a subject.
        :raises SchemaRegistryError: The registry refuses the schema, or doesn't have it.
        """
        subject = self._subject or f"{topic}-{field}"
        if self._registry is not None and self._subject is None and topic is None:
            raise ValueError("each row names its topic: pass subject= to the codec")
        is_derived = self._schema is None and not self._options.is_from_registry
        key = subject, field, column_type if is_derived else None
        found = self._encoders.get(key)
        if found is None:
            found = self._made(subject, topic, field, column_type)
            if len(self._encoders) >= ENCODERS_MAX:
                self._encoders.clear()
            self._encoders[key] = found
        return found

    # --- what each format has ---

    def _column_encoder(self, schema: FoundSchema) -> ColumnEncoder:
        """Return an encoder without a prefix.

        :raises SchemaError: The schema is malformed.
        """
        raise NotImplementedError

    def _schema_of_columns(self, column_type: tuple[Any, ...], name: str) -> Any:
        """Return the schema for columns that have none.

        :raises SchemaError: The columns have no type in this format.
        """
        raise SchemaError(
            f"{type(self).__name__} makes no schema from columns: "
            "pass schema=, schema_id= or use_latest_version=True"
        )

    def _registry_schema(self, schema: Any) -> Any:
        """Return a schema as the registry's client takes it."""
        from kafka_native.schema_registry.schemas import Schema

        return Schema(self._schema_text(schema), self.schema_type)

    def _schema_text(self, schema: Any) -> str:
        """Return the text that the registry stores for a schema."""
        raise NotImplementedError

    def _message_indexes(self, encoder: ColumnEncoder) -> list[int] | None:
        """Return the position of a Protobuf message in its file. None for other formats."""
        return None

    # --- schemas ---

    def _made(
        self, subject: str, topic: str | None, field: str, column_type: tuple[Any, ...]
    ) -> ColumnEncoder:
        """Return an encoder. Its schema is registered after the columns were found to fit."""
        registered = None
        if self._options.is_from_registry:
            schema, registered = self._chosen(subject)
        else:
            schema = self._own_schema(topic, field, column_type)
        made = self._column_encoder(self._found(subject, schema))
        made.program_for(column_type)
        if self._registry is not None:
            registered = registered or self._registered(subject, schema)
            self._add_framing(made, subject, registered)
        return made

    def _add_framing(self, encoder: ColumnEncoder, subject: str, registered: Any) -> None:
        """Set the prefix or the header of an encoder, which name a registered schema.

        :raises SchemaError: It has no GUID for the header.
        """
        from kafka_native.schema_registry.schema_ids import SchemaId

        indexes = self._message_indexes(encoder)
        found = SchemaId(self.schema_type, registered.schema_id, registered.guid, indexes)
        if not self._options.guid_header:
            encoder.prefix = found.id_to_bytes()
        elif found.guid is not None:
            encoder.header = found.guid_to_bytes()
        else:
            raise SchemaError(
                f"subject {subject}: the registry returns no GUID, which guid_header needs: "
                "its version must be 8.0 or newer"
            )

    def _chosen(self, subject: str) -> tuple[Any, Any]:
        """Return the schema that an option chooses, and how it is registered."""
        registry, schema_id = self._registry, self._options.schema_id
        if schema_id is None:
            registered = registry.get_latest_version(subject, self.text_format)
            return registered.schema, registered
        # A registry finds a schema by the text that it returns, but not in each format.
        schema = registry.get_schema(schema_id, subject)
        found = registry.lookup_schema(subject, schema, normalize_schemas=False, deleted=True)
        if self.text_format is not None:
            schema = registry.get_schema(schema_id, subject, self.text_format)
        return schema, found

    def _found(self, subject: str, schema: Any) -> FoundSchema:
        """Return a schema with those that it refers to.

        :raises SchemaError: It has another type, or rules that don't run for columns.
        """
        if isinstance(schema, FoundSchema):
            return schema
        if not hasattr(schema, "schema_str"):
            return FoundSchema(schema, {}, "the writer's schema")
        rules = getattr(schema, "rule_set", None)
        if rules is not None and (rules.domain_rules or rules.encoding_rules):
            raise SchemaError(
                f"subject {subject} has data-contract rules, which don't run for columns: "
                "use a serializer"
            )
        try:
            return self.complete(schema, "the writer's schema")
        except SchemaError as error:
            raise SchemaError(f"subject {subject}: {error.problem}", error.path) from None

    def _registered(self, subject: str, schema: Any) -> Any:
        """Register or look up a schema. Return the registered one."""
        registry = self._registry
        call = (
            registry.register_schema_full_response
            if self._options.auto_register
            else registry.lookup_schema
        )
        return call(subject, schema, normalize_schemas=self._options.normalize)

    def _own_schema(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> Any:
        """Return the given schema, or that of the columns; with a registry as its client takes it.

        :raises SchemaError: The columns have no type in this format.
        """
        schema = self._schema
        if schema is None:
            name = topic or self._subject or "record"
            name = name if field == "value" else f"{name}_{field}"
            schema = self._schema_of_columns(column_type, name)
        if self._registry is None or hasattr(schema, "schema_str"):
            return schema
        return self._registry_schema(schema)
