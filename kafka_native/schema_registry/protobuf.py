"""Protobuf serializers and deserializers with a schema registry.

They need protobuf: ``pip install 'kafka-native[protobuf]'``.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeAlias

from kafka_native.codecs.protobuf_descriptors import indexes_of
from kafka_native.codecs.protobuf_objects import MessageReader, UnfitValueError
from kafka_native.schema_registry import protobuf_files as files
from kafka_native.schema_registry.protobuf_decimals import DECIMAL_TYPE, set_decimal
from kafka_native.schema_registry.protobuf_files import (
    DecodeError,
    Empty,
    FieldDescriptor,
    GetMessageClass,
    Message,
    json_format,
)
from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.rule_types import (
    FieldTransform,
    FieldTransformer,
    FieldType,
    RuleConditionError,
    RuleContext,
    RuleError,
    has_rule_tag,
)
from kafka_native.schema_registry.schema_ids import SchemaId
from kafka_native.schema_registry.schemas import RuleKind, Schema, SchemaReference
from kafka_native.schema_registry.serde_builders import (
    AsyncRegistryBuilder,
    B,
    DeserializerSettings,
    RegistryBuilder,
    S,
    SerializerSettings,
)
from kafka_native.schema_registry.serdes import (
    AsyncBaseDeserializer,
    AsyncBaseSerializer,
    BaseDeserializer,
    BaseSerializer,
    DeserializerSteps,
    Properties,
    SerializerSteps,
    Steps,
    references_of,
)
from kafka_native.schema_registry.subject_names import reference_subject_name_strategy
from kafka_native.schema_registry.validation_rules import Validation, ValidationRule
from kafka_native.serialization import SerializationContext, SerializationError

__all__ = [
    "AsyncProtobufDeserializer",
    "AsyncProtobufDeserializerBuilder",
    "AsyncProtobufSerializer",
    "AsyncProtobufSerializerBuilder",
    "ProtobufDeserializer",
    "ProtobufDeserializerBuilder",
    "ProtobufSerializer",
    "ProtobufSerializerBuilder",
]

MessageType: TypeAlias = type[Message]
"""A class of messages."""

_TIMESTAMP = "google.protobuf.Timestamp"
_SINGLE_VALUES = {DECIMAL_TYPE: FieldType.BYTES, _TIMESTAMP: FieldType.LONG}
"""Messages that a rule gets as one value, and not field by field."""

_INTS = ("INT32", "SINT32", "UINT32", "FIXED32", "SFIXED32")
_LONGS = ("INT64", "SINT64", "UINT64", "FIXED64", "SFIXED64")
_FIELD_TYPES = {
    **{getattr(FieldDescriptor, f"TYPE_{name}"): FieldType.INT for name in _INTS},
    **{getattr(FieldDescriptor, f"TYPE_{name}"): FieldType.LONG for name in _LONGS},
    FieldDescriptor.TYPE_MESSAGE: FieldType.RECORD,
    FieldDescriptor.TYPE_GROUP: FieldType.RECORD,
    FieldDescriptor.TYPE_ENUM: FieldType.ENUM,
    FieldDescriptor.TYPE_STRING: FieldType.STRING,
    FieldDescriptor.TYPE_BYTES: FieldType.BYTES,
    FieldDescriptor.TYPE_FLOAT: FieldType.FLOAT,
    FieldDescriptor.TYPE_DOUBLE: FieldType.DOUBLE,
    FieldDescriptor.TYPE_BOOL: FieldType.BOOLEAN,
}


def get_type(field: Any) -> FieldType:
    """Return the field type of a field's descriptor."""
    if is_map_field(field):
        return FieldType.MAP
    if field.message_type is not None and field.message_type.full_name in _SINGLE_VALUES:
        return _SINGLE_VALUES[field.message_type.full_name]
    return _FIELD_TYPES.get(field.type, FieldType.NULL)


def is_map_field(field: Any) -> bool:
    """Return whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


class ParsedProtobuf:
    """A schema's file in a pool of its own, with the files that it imports."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.file = pool.FindFileByName(files.ROOT_FILE)

    def message_at(self, indexes: list[int]) -> Any:
        """Return the descriptor at a position.

        :raises SerializationError: The file has no such message.
        """
        messages = list(self.file.message_types_by_name.values())
        found = None
        for index in indexes or [0]:
            if not 0 <= index < len(messages):
                raise SerializationError(
                    f"the message indexes {indexes} point at no message of the schema: "
                    f"{index} is not below {len(messages)}"
                )
            found = messages[index]
            messages = list(found.nested_types)
        return found

    def message_named(self, full_name: str) -> Any:
        """Return the descriptor of a name.

        :raises SerializationError: The file has no such message.
        """
        try:
            return self._pool.FindMessageTypeByName(full_name)
        except KeyError:
            short = self.file.message_types_by_name.get(full_name.rpartition(".")[2])
            if short is None:
                raise SerializationError(f"the schema has no message {full_name}") from None
            return short


def transform(
    ctx: RuleContext, descriptor: Any, message: Message, field_transform: FieldTransform
) -> Message:
    """Call a function for the fields of a message that have one of the rule's tags.

    :param descriptor: The message's descriptor in the registered schema. Its fields belong to those
        of the message by number.
    """
    for field in message.DESCRIPTOR.fields:
        registered = descriptor.fields_by_number.get(field.number)
        if registered is not None:
            _transform_field(ctx, field, registered, message, field_transform)
    return message


def _transform_field(
    ctx: RuleContext, field: Any, registered: Any, message: Any, field_transform: FieldTransform
) -> None:
    if field.has_presence and not message.HasField(field.name):
        return
    tags, type_ = files.meta_of(registered).tags, get_type(field)
    ctx.enter_field(message, registered.full_name, registered.name, type_, tags, field)
    try:
        value = getattr(message, field.name)
        if is_map_field(field):
            inner = field.message_type.fields_by_name["value"]
            registered = registered.message_type.fields_by_name["value"]
            results = {
                key: _transformed(ctx, inner, registered, value[key], field_transform)
                for key in list(value)
            }
            if ctx.rule.kind != RuleKind.CONDITION:
                for key, result in results.items():
                    _store(inner, value, key, result)
            return
        if field.is_repeated:
            items = [_transformed(ctx, field, registered, v, field_transform) for v in value]
            if ctx.rule.kind != RuleKind.CONDITION:
                _store_items(field, value, items)
            return
        result = _transformed(ctx, field, registered, value, field_transform)
        if ctx.rule.kind == RuleKind.CONDITION:
            if result is False:
                raise RuleConditionError(ctx.rule)
        elif field.message_type is None:
            setattr(message, field.name, result)
        elif result is not value:
            value.CopyFrom(_message_of(field, result))
    finally:
        ctx.exit_field()


def _transformed(
    ctx: RuleContext, field: Any, registered: Any, value: Any, field_transform: FieldTransform
) -> Any:
    """Return the new value of one field, list item or map value."""
    inner = field.message_type
    if inner is not None and inner.full_name not in _SINGLE_VALUES:
        if registered.message_type is None:
            return value
        return transform(ctx, registered.message_type, value, field_transform)
    current = ctx.current_field()
    if current is not None and has_rule_tag(ctx, current):
        return field_transform(ctx, current, value)
    return value


def _store(field: Any, container: Any, key: Any, value: Any) -> None:
    if field.message_type is None:
        container[key] = value
    elif value is not container[key]:
        container[key].CopyFrom(_message_of(field, value))


def _store_items(field: Any, container: Any, items: list[Any]) -> None:
    if field.message_type is None:
        container[:] = items
        return
    for index, item in enumerate(items):
        if item is not container[index]:
            container[index].CopyFrom(_message_of(field, item))


def _message_of(field: Any, value: Any) -> Any:
    """Return the message for the result of a rule: a message, Decimal or datetime."""
    name = field.message_type.full_name
    if isinstance(value, Message) and value.DESCRIPTOR.full_name == name:
        return value
    message: Any = GetMessageClass(field.message_type)()
    if name == _TIMESTAMP and isinstance(value, datetime.datetime):
        message.FromDatetime(value)
    elif name == DECIMAL_TYPE and isinstance(value, decimal.Decimal) and value.is_finite():
        set_decimal(message, value)
    else:
        raise RuleError(f"the rule returned {type(value).__name__} for {field.full_name}: {name}")
    return message


def parse(schema: Schema, registry: Any) -> Steps[ParsedProtobuf]:
    """Parse a schema, with the schemas that it refers to.

    :param schema: The schema, with its text as the registry serializes it.
    :param registry: The registry's client.
    :raises SerializationError: The schema, or one that it refers to, is invalid or missing.
    """
    found = yield from references_of(
        schema, registry, text_format="serialized", skips=files.is_builtin
    )
    references = {name: files.proto_of(name, each.schema_str or "") for name, each in found}
    root = files.proto_of(files.ROOT_FILE, schema.schema_str or "")
    return ParsedProtobuf(files.pool_of(root, references))


def schema_to_register(
    registry: Any,
    file: Any,
    subject_of: Callable[[Any], Any],
    *,
    auto_register: bool,
    normalize: bool,
    skip_known_types: bool = True,
) -> Steps[Schema]:
    """Return the schema of a file. Register or look up the files that it imports, inner ones first.

    :param registry: The registry's client.
    :param file: The file's descriptor.
    :param subject_of: Returns the subject of an imported file.
    :param skip_known_types: Skip the files of Protobuf itself.
    """
    references = []
    for imported in file.dependencies:
        if skip_known_types and files.is_builtin(imported.name):
            continue
        schema = yield from schema_to_register(
            registry,
            imported,
            subject_of,
            auto_register=auto_register,
            normalize=normalize,
            skip_known_types=skip_known_types,
        )
        subject = subject_of(imported)
        if auto_register:
            yield partial(registry.register_schema, subject, schema, normalize)
        registered = yield partial(
            registry.lookup_schema, subject, schema, normalize_schemas=normalize
        )
        references.append(SchemaReference(imported.name, subject, registered.version))
    return Schema(files.text_of(file), "PROTOBUF", references)


class _ProtobufSteps:
    """What the Protobuf serializers and deserializers have in common."""

    _registry: Any
    _message_name: str

    def _parse(self, schema: Schema) -> Steps[ParsedProtobuf]:
        return parse(schema, self._registry)

    def _transformer(self, parsed: ParsedProtobuf) -> FieldTransformer:
        def walk(ctx: RuleContext, field_transform: FieldTransform, message: Any) -> Any:
            descriptor = parsed.message_named(self._message_name)
            if ctx.rule.kind != RuleKind.CONDITION:
                own = message  # the program may write it again
                message = type(own)()
                message.CopyFrom(own)
            return transform(ctx, descriptor, message, field_transform)

        return walk


def _rules_of(descriptor: Any) -> list[ValidationRule]:
    rules = files.meta_of(descriptor).rules
    return [ValidationRule(rule.name, rule.doc, rule.expr, rule.sql) for rule in rules]


def _check_rules(validation: Validation, message: Any, path: str) -> None:
    """Check the rules in a schema for a message and its parts."""
    descriptor = message.DESCRIPTOR
    validation.check(_rules_of(descriptor), descriptor, message, path)
    for field in descriptor.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        inner = f"{path}.{field.name}" if path else field.name
        validation.check(_rules_of(field), field, value, inner)
        if is_map_field(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                for key in value:
                    _check_rules(validation, value[key], f'{inner}["{key}"]')
        elif field.message_type is not None and field.is_repeated:
            for index, item in enumerate(value):
                _check_rules(validation, item, f"{inner}[{index}]")
        elif field.message_type is not None:
            _check_rules(validation, value, inner)


def _check_format(properties: Properties) -> None:
    if properties.take_bool("use.deprecated.format"):
        raise ValueError("use.deprecated.format is no longer supported")


class _ProtobufSerializerSteps(_ProtobufSteps, SerializerSteps):
    _format: ClassVar[str] = "PROTOBUF"
    _text_format: ClassVar[str | None] = "serialized"
    _parses_own_schema: ClassVar[bool] = False
    _default_conf: ClassVar[dict[str, Any]] = {
        **SerializerSteps._default_conf,
        "skip.known.types": True,
        "reference.subject.name.strategy": reference_subject_name_strategy,
        "use.deprecated.format": False,
    }

    def __init__(
        self,
        msg_type: type[Message],
        schema_registry_client: Any,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
    ) -> None:
        properties = Properties(self._default_conf, conf)
        self._init_serializer(schema_registry_client, properties)
        self._skip_known_types = properties.take_bool("skip.known.types")
        _check_format(properties)
        self._reference_subject: Callable[..., Any] = properties.take_callable(
            "reference.subject.name.strategy"
        )
        properties.check_empty()
        self._message_class = msg_type
        self._message_name: str = msg_type.DESCRIPTOR.full_name
        self._indexes = indexes_of(msg_type.DESCRIPTOR)
        self._schema = Schema(files.text_of(msg_type.DESCRIPTOR.file), "PROTOBUF")
        self._init_rules(rule_conf, rule_registry)

    def _message_indexes(self, parsed: ParsedProtobuf | None) -> list[int]:
        if parsed is None:
            return self._indexes
        return indexes_of(parsed.message_named(self._message_name))

    def _schema_to_register(self, ctx: SerializationContext | None) -> Steps[Schema]:
        file = self._message_class.DESCRIPTOR.file
        schema = yield from schema_to_register(
            self._registry,
            file,
            lambda imported: self._reference_subject(ctx, imported),
            auto_register=self._auto_register,
            normalize=self._normalize_schemas,
            skip_known_types=self._skip_known_types,
        )
        return schema

    def _record_name(self, obj: Any) -> str | None:
        if not isinstance(obj, self._message_class):
            raise SerializationError(
                f"the message must be of type {self._message_name}, not {type(obj).__name__}"
            )
        return self._message_name

    def _walk_rules(
        self, validation: Validation, parsed: ParsedProtobuf | None, value: Any
    ) -> None:
        if parsed is not None:  # read the message as the registered schema names its fields
            seen: Any = GetMessageClass(parsed.message_named(self._message_name))()
            seen.MergeFromString(value.SerializePartialToString())
            value = seen
        _check_rules(validation, value, "")

    def _encode(self, parsed: ParsedProtobuf | None, value: Any) -> bytes:
        missing = value.FindInitializationErrors()
        if missing:
            raise SerializationError(f"required fields are not set: {', '.join(missing)}")
        try:
            encoded: bytes = value.SerializeToString()
        except Exception as error:
            raise SerializationError(
                f"the message {self._message_name} can't be encoded: {error}"
            ) from error
        return encoded


class ProtobufSerializer(_ProtobufSerializerSteps, BaseSerializer):
    """Converts Protobuf messages to bytes, with the id of their schema in the registry.

        serializer = ProtobufSerializer(User, client)
        payload = serializer(User(name="Ada"), SerializationContext("users", MessageField.VALUE))

    The configuration has the properties of `AvroSerializer` without ``validate.strict`` and
    ``validate.strict.allow.default``, and:

    - ``skip.known.types`` (default True): don't register the files of Protobuf itself that the
      message's file imports.
    - ``reference.subject.name.strategy`` (`reference_subject_name_strategy`): a function of
      (SerializationContext, file) that returns the subject of an imported file.
    - ``use.deprecated.format`` (False): only False is supported.

    :param msg_type: The class of the messages.
    :param schema_registry_client: The registry's client.
    :param conf: The configuration.
    :param rule_conf: The configuration of rule executors and actions.
    :param rule_registry: The rule executors and actions. Default: those of the process.
    :raises ValueError: The configuration is invalid.
    """


class AsyncProtobufSerializer(_ProtobufSerializerSteps, AsyncBaseSerializer):
    """A `ProtobufSerializer` for asyncio: ``await AsyncProtobufSerializer(User, client)``.

    The client is an `AsyncSchemaRegistryClient`. Calls of the serializer are awaited.
    """


class _ProtobufDeserializerSteps(_ProtobufSteps, DeserializerSteps):
    _format: ClassVar[str] = "PROTOBUF"
    _text_format: ClassVar[str | None] = "serialized"
    _has_message_indexes: ClassVar[bool] = True
    _default_conf: ClassVar[dict[str, Any]] = {
        **DeserializerSteps._default_conf,
        "use.deprecated.format": False,
    }

    def __init__(
        self,
        message_type: MessageType,
        conf: dict[str, Any] | None = None,
        schema_registry_client: Any = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        *,
        type: Any = None,
    ) -> None:
        properties = Properties(self._default_conf, conf)
        self._init_deserializer(schema_registry_client, properties)
        _check_format(properties)
        properties.check_empty()
        self._schema = None
        self._message_class: Any = GetMessageClass(message_type.DESCRIPTOR)
        self._message_name: str = message_type.DESCRIPTOR.full_name
        self._type = type
        self._objects = None if type is None else MessageReader(self._message_class, type)
        self._init_rules(rule_conf, rule_registry)

    def _record_name_of(self, parsed: ParsedProtobuf, schema_id: SchemaId) -> str | None:
        name: str = parsed.message_at(schema_id.message_indexes or [0]).full_name
        return name

    def _decode(
        self,
        payload: bytes,
        writer: ParsedProtobuf | None,
        reader: ParsedProtobuf | None,
        schema_id: SchemaId,
    ) -> Any:
        written = self._message_name
        class_ = self._message_class
        if writer is not None:
            descriptor = writer.message_at(schema_id.message_indexes or [0])
            written = descriptor.full_name
            if reader is None:
                class_ = GetMessageClass(descriptor)
        message = class_()
        try:
            message.ParseFromString(payload)
        except (DecodeError, UnicodeDecodeError) as error:
            raise SerializationError(
                f"the payload of {len(payload)} bytes isn't a message {written}: {error}"
            ) from error
        if writer is not None and reader is None:
            return json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
        return message

    def _read_function(self, writer: Any, reader: Any) -> Callable[[bytes], Any] | None:
        if self._objects is not None:
            return self._objects.read
        parse: Callable[[bytes], Any] = self._message_class.FromString
        return parse

    def _from_value(self, value: Any, ctx: SerializationContext | None) -> Any:
        if self._objects is None:
            return value
        try:
            return self._objects.convert(value)
        except UnfitValueError as error:
            name = getattr(self._type, "__name__", self._type)
            raise SerializationError(f"the message can't become a {name}: {error}") from error

    def _migrated(self, value: Any, reader: ParsedProtobuf, schema_id: SchemaId) -> Any:
        latest = GetMessageClass(reader.message_named(self._message_name))()
        try:
            json_format.ParseDict(value, latest)
        except json_format.ParseError as error:
            raise SerializationError(
                f"the migration rules left no message {self._message_name}: {error}"
            ) from error
        message = self._message_class()
        message.ParseFromString(latest.SerializeToString())
        return message


class ProtobufDeserializer(_ProtobufDeserializerSteps, BaseDeserializer):
    """Converts bytes with the id of their schema to Protobuf messages.

        deserializer = ProtobufDeserializer(User, schema_registry_client=client)
        user = deserializer(payload, SerializationContext("users", MessageField.VALUE))

    The configuration has the properties of `AvroDeserializer`, and:

    - ``use.deprecated.format`` (default False): only False is supported.

    :param message_type: The class of the messages.
    :param conf: The configuration.
    :param schema_registry_client: The registry's client. If it is missing, the id and the message
        indexes before the payload are skipped.
    :param rule_conf: The configuration of rule executors and actions.
    :param rule_registry: The rule executors and actions. Default: those of the process.
    :param type: The class of the objects: dict, a dataclass, a ``msgspec.Struct``, a NamedTuple or
        a TypedDict. Default: messages.
    :raises ValueError: The configuration is invalid.
    :raises SchemaError: The message doesn't fit the annotations of ``type``.
    :raises TypeError: The annotations of ``type`` can't be resolved.
    """


class AnyMessageDeserializer(ProtobufDeserializer):
    """Returns messages of the class that the writer's schema describes, without generated code.

    :param client: The registry's client.
    :param conf: The configuration of a `ProtobufDeserializer`.
    :param rules: The executors of data-contract rules. Default: those of the process.
    :raises ValueError: The configuration is invalid.
    """

    def __init__(
        self, client: Any, conf: dict[str, Any], rules: RuleRegistry | None = None
    ) -> None:
        super().__init__(Empty, conf, client, rule_registry=rules)

    def _decode(
        self,
        payload: bytes,
        writer: ParsedProtobuf | None,
        reader: ParsedProtobuf | None,
        schema_id: SchemaId,
    ) -> Any:
        assert writer is not None, "there is a registry"
        descriptor = writer.message_at(schema_id.message_indexes or [0])
        self._message_name = descriptor.full_name
        self._message_class = GetMessageClass(descriptor)
        return super()._decode(payload, writer, reader, schema_id)

    def _read_function(self, writer: Any, reader: Any) -> None:
        """There is no shorter way than `_decode()`: each message names its own class."""


class AsyncProtobufDeserializer(_ProtobufDeserializerSteps, AsyncBaseDeserializer):
    """A `ProtobufDeserializer` for asyncio: ``await AsyncProtobufDeserializer(User, {}, client)``.

    The client is an `AsyncSchemaRegistryClient`. Calls of the deserializer are awaited.
    """


class _ProtobufSerializerSettings(SerializerSettings[S]):
    def __init__(
        self,
        schema_registry_config: dict[str, Any] | None = None,
        schema_registry_client: Any = None,
        message_type: type[Message] | None = None,
        serializer_config: dict[str, Any] | None = None,
        rule_config: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        serializer_init: Callable[[S], Any] | None = None,
    ) -> None:
        super().__init__(schema_registry_config, schema_registry_client, rule_config, rule_registry)
        self._message_type = message_type
        self._conf = serializer_config
        self._init = serializer_init

    def set_message_type(self: B, msg_type: type[Message]) -> B:
        """Use this class of messages. Each builder needs one."""
        self._message_type = msg_type  # type: ignore[attr-defined]
        return self


class ProtobufSerializerBuilder(
    RegistryBuilder[ProtobufSerializer], _ProtobufSerializerSettings[ProtobufSerializer]
):
    """Makes a `ProtobufSerializer`, as the value of ``value.serializer.builder``.

    The parameters are those of `ProtobufSerializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param serializer_config: The configuration of the serializer.
    :param serializer_init: A function that gets the serializer after it is built.
    """

    def _construct(self, client: Any) -> ProtobufSerializer:
        if self._message_type is None:
            raise ValueError("the builder needs a message type: call set_message_type()")
        return ProtobufSerializer(
            self._message_type, client, self._conf, self._rule_conf, self._rule_registry
        )


class AsyncProtobufSerializerBuilder(
    AsyncRegistryBuilder[AsyncProtobufSerializer],
    _ProtobufSerializerSettings[AsyncProtobufSerializer],
):
    """Makes an `AsyncProtobufSerializer`, as the value of ``value.serializer.builder``.

    The parameters are those of `AsyncProtobufSerializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param serializer_config: The configuration of the serializer.
    :param serializer_init: A function that gets the serializer after it is built. It is awaited.
    """

    def _construct(self, client: Any) -> AsyncProtobufSerializer:
        if self._message_type is None:
            raise ValueError("the builder needs a message type: call set_message_type()")
        return AsyncProtobufSerializer(
            self._message_type, client, self._conf, self._rule_conf, self._rule_registry
        )


class _ProtobufDeserializerSettings(DeserializerSettings[S]):
    def __init__(
        self,
        schema_registry_config: dict[str, Any] | None = None,
        schema_registry_client: Any = None,
        message_type: MessageType | None = None,
        deserializer_config: dict[str, Any] | None = None,
        rule_config: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        deserializer_init: Callable[[S], Any] | None = None,
        *,
        type: Any = None,
    ) -> None:
        super().__init__(schema_registry_config, schema_registry_client, rule_config, rule_registry)
        self._message_type = message_type
        self._type = type
        self._conf = deserializer_config
        self._init = deserializer_init

    def set_message_type(self: B, msg_type: MessageType) -> B:
        """Use this class of messages. Each builder needs one."""
        self._message_type = msg_type  # type: ignore[attr-defined]
        return self

    def set_type(self: B, type: Any) -> B:
        """Make objects of this class instead of messages."""
        self._type = type  # type: ignore[attr-defined]
        return self


class ProtobufDeserializerBuilder(
    RegistryBuilder[ProtobufDeserializer], _ProtobufDeserializerSettings[ProtobufDeserializer]
):
    """Makes a `ProtobufDeserializer`, as the value of ``value.deserializer.builder``.

    The parameters are those of `ProtobufDeserializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param deserializer_config: The configuration of the deserializer.
    :param deserializer_init: A function that gets the deserializer after it is built.
    """

    def _construct(self, client: Any) -> ProtobufDeserializer:
        if self._message_type is None:
            raise ValueError("the builder needs a message type: call set_message_type()")
        return ProtobufDeserializer(
            self._message_type,
            self._conf,
            client,
            self._rule_conf,
            self._rule_registry,
            type=self._type,
        )


class AsyncProtobufDeserializerBuilder(
    AsyncRegistryBuilder[AsyncProtobufDeserializer],
    _ProtobufDeserializerSettings[AsyncProtobufDeserializer],
):
    """Makes an `AsyncProtobufDeserializer`, as the value of ``value.deserializer.builder``.

    The parameters are those of `AsyncProtobufDeserializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param deserializer_config: The configuration of the deserializer.
    :param deserializer_init: A function that gets the deserializer at the end. It is awaited.
    """

    def _construct(self, client: Any) -> AsyncProtobufDeserializer:
        if self._message_type is None:
            raise ValueError("the builder needs a message type: call set_message_type()")
        return AsyncProtobufDeserializer(
            self._message_type,
            self._conf,
            client,
            self._rule_conf,
            self._rule_registry,
            type=self._type,
        )
