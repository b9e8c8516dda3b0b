"""Typed keys and values: texts for ``consume -s``, bytes for ``produce -s``.

Most formats have schemas of a registry, and JSON as their text. Packed ones have letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from kafka_native import Message
from kafka_native.cli import packed_values, typed_values
from kafka_native.cli.errors import Failed
from kafka_native.cli.registry import Reference, registry_line
from kafka_native.cli.texts import count
from kafka_native.serialization import MessageField, SerializationContext, SerializationError

if TYPE_CHECKING:
    from kafka_native.schema_registry import Schema, SchemaRegistryClient
    from kafka_native.schema_registry.rule_registry import RuleRegistry

FORMATS: Final = ("avro", "json", "protobuf")
FIELDS: Final = {"key": MessageField.KEY, "value": MessageField.VALUE}
TOPIC_NAMES: Final = {"subject.name.strategy.type": "TOPIC"}
"""The subjects are TOPIC-key and TOPIC-value."""


def has_schemas(formats: Mapping[str, str]) -> bool:
    """Whether a format needs the registry. Packed formats don't."""
    return any(kind in FORMATS for kind in formats.values())


def _parsed(texts: tuple[str, ...], *, packed: bool) -> dict[str, str]:
    """Parse ``-s avro``, ``-s key=json``, which may repeat, to a format for key and value.

    :param packed: Whether kcat's letters are formats, too.
    """
    found: dict[str, str] = {}
    for text in texts:
        which, equals, kind = text.rpartition("=")
        is_format = kind in FORMATS or (packed and packed_values.is_packed(kind))
        if not is_format or (equals and which not in FIELDS):
            letters = f", and {packed_values.LETTERS} for packed numbers" if packed else ""
            raise click.BadParameter(
                f"{text!r}: write key=FORMAT, value=FORMAT or FORMAT for both; the formats are "
                f"{', '.join(FORMATS)}{letters}"
            )
        for name in [which] if equals else FIELDS:
            found[name] = kind
    return found


def option(*, packed: bool) -> Callable[[Any], Any]:
    """Make the option ``-s``.

    :param packed: Whether kcat's letters are formats, too.
    """
    letters = ", or kcat's letters for packed numbers" if packed else ""
    return click.option(
        "-s",
        "--schema-format",
        "formats",
        multiple=True,
        callback=lambda _context, _parameter, texts: _parsed(texts, packed=packed),
        metavar="[key=|value=]FORMAT",
        help="Keys or values are avro, json or protobuf, with schemas of the registry "
        f"-r{letters}; repeatable.",
    )


def text_of(error: Exception, topic: str) -> str:
    """The text of a serializer's error without the topic, which the caller names."""
    return str(error).removeprefix(f"topic {topic}, ")


# --- consuming ---


class TypedReader:
    """Replaces the keys and values of consumed messages by texts.

    :param columns: The keys, the values, or both.
    :param keeps_going: After a message that can't be decoded, go on with the next one.
    :param keeps_failed: Keep such a message, with null in place of what can't be decoded.
    :param warn: Called with a line for such a message.
    :param as_kcat: Name the reason in an envelope as kcat does.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        keeps_going: bool,
        keeps_failed: bool,
        warn: Callable[[str], None],
        as_kcat: bool = False,
    ) -> None:
        self._columns = columns
        self._reasons = {
            "key": "key_error",
            "value": "payload_error" if as_kcat else "value_error",
        }
        self._keeps_going = keeps_going
        self._keeps_failed = keeps_failed
        self._warn = warn
        self._members: dict[int, str] = {}
        self._total = self._failed = 0

    def convert(self, messages: Sequence[Message]) -> tuple[list[Message], Failed | None]:
        """Convert messages. Returns the converted ones, and the error that ends the command.

        The error is that of a message that can't be decoded, or of the registry.
        """
        self._members = {}
        converted: list[Message] = []
        for message in messages:
            self._total += 1
            try:
                failures = self._convert_message(message)
            except Exception as error:
                return converted, self._ending(message, error)
            if failures:
                self._failed += 1
                text = f"{place(message)}: {'; '.join(failures)}"
                if not self._keeps_going:
                    return converted, Failed(f"{text} (-E goes on with the next message)")
                self._warn(text)
            if not failures or self._keeps_failed:
                converted.append(message)
        return converted, None

    def _ending(self, message: Message, error: Exception) -> Failed:
        """The error of a registry that refused a request or doesn't answer.

        :raises Exception: The argument, if it is another error.
        """
        from kafka_native.schema_registry.error import OAuthTokenError, SchemaRegistryError

        if not isinstance(error, (SchemaRegistryError, OAuthTokenError)):
            raise error
        return Failed(f"{place(message)}: {registry_line(error)}")

    def _convert_message(self, message: Message) -> list[str]:
        """Replace key and value. Returns the reason for each that can't be decoded."""
        failures = []
        members = ""
        for column in self._columns:
            try:
                members += column.convert(message)
            except (SerializationError, ValueError) as error:
                text = text_of(error, message.topic() or "")
                if not isinstance(error, SerializationError):  # which names key or value itself
                    text = f"{column.name}: {text}"
                failures.append(text)
                column.replace(message, None)
                members += f',"{self._reasons[column.name]}":{typed_values.json_text(text)}'
        self._members[id(message)] = members
        return failures

    def members(self, message: Message) -> str:
        """The further members of a converted message's envelope: schema ids, and reasons."""
        return self._members.get(id(message), "")

    def finish(self) -> None:
        """Report messages that couldn't be decoded.

        :raises Failed: There were some.
        """
        if self._failed:
            total = count(self._total, "message")
            raise Failed(f"{self._failed:,} of {total} couldn't be decoded")


def place(message: Message) -> str:
    """The topic, partition and offset of a message."""
    return f"{message.topic()} [{message.partition()}] at offset {message.offset()}"


class Column:
    """The keys or the values of messages. A subclass says how they become texts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._take = Message.key if name == "key" else Message.value
        self.replace = Message.set_key if name == "key" else Message.set_value

    def convert(self, message: Message) -> str:
        """Replace the bytes by a text; return the further members of the message's envelope.

        A null stays null.

        :raises ValueError: The bytes can't be decoded.
        :raises SerializationError: The same.
        """
        data = self._take(message)
        if data is None:
            return ""
        text, members = self._decoded(message, data)
        self.replace(message, text)
        return members

    def _decoded(self, message: Message, data: bytes) -> tuple[bytes, str]:
        """The text of bytes, and the members of the envelope."""
        raise NotImplementedError


class PackedColumn(Column):
    """Keys or values that are packed numbers and characters.

    :param letters: kcat's letters.
    """

    def __init__(self, name: str, letters: str) -> None:
        super().__init__(name)
        self._unpack = packed_values.unpacker(letters)

    def _decoded(self, _message: Message, data: bytes) -> tuple[bytes, str]:
        return self._unpack(data), ""


class SchemaColumn(Column):
    """Keys or values with schemas of the registry, and their deserializer.

    :param kind: One of `FORMATS`.
    :param rules: The executors of data-contract rules.
    """

    def __init__(
        self, name: str, kind: str, client: SchemaRegistryClient, rules: RuleRegistry
    ) -> None:
        super().__init__(name)
        self._field = FIELDS[name]
        self._kind = kind
        self._deserialize = deserializer(kind, client, rules)

    def _decoded(self, message: Message, data: bytes) -> tuple[bytes, str]:
        context = SerializationContext(message.topic() or "", self._field, message.headers())
        text = typed_values.json_text(self._deserialize(data, context))
        return text.encode(), f',"{self.name}_schema_id":{self._id(data, context)}'

    def _id(self, data: bytes, context: SerializationContext) -> str:
        """The id of the schema as JSON: a number, or a text for a GUID."""
        from kafka_native.schema_registry.schema_ids import SchemaId, dual_schema_id_deserializer

        found = SchemaId(self._kind.upper())
        dual_schema_id_deserializer(data, context, found)
        return str(found.id) if found.id is not None else f'"{found.guid}"'


def deserializer(
    kind: str, client: SchemaRegistryClient, rules: RuleRegistry
) -> Callable[[bytes, SerializationContext], Any]:
    """The function that makes a value of bytes. The value has a JSON form."""
    conf = dict(TOPIC_NAMES)
    if kind == "avro":
        from kafka_native.schema_registry.avro import AvroDeserializer

        return AvroDeserializer(client, conf=conf, rule_registry=rules)
    if kind == "json":
        from kafka_native.schema_registry.json_schema import JSONDeserializer

        return JSONDeserializer(None, schema_registry_client=client, conf=conf, rule_registry=rules)
    from kafka_native.cli.protobuf_values import plain
    from kafka_native.schema_registry.protobuf import AnyMessageDeserializer

    deserialize = AnyMessageDeserializer(client, conf, rules)
    return lambda data, context: plain(deserialize(data, context))


# --- producing ---


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """The schema with which ``produce -s`` writes keys or values."""

    kind: str
    """One of `FORMATS`."""
    text: str | None = None
    """The text of a schema to register. None: the latest version of the subject is used."""
    message: str | None = None
    """The name of a Protobuf message. None: the first one of the schema."""
    references: Sequence[Reference] = ()
    """The schemas to which ``text`` refers."""


class TypedWriter:
    """Makes the bytes of keys or values from JSON.

    :param name: ``key`` or ``value``.
    :param rules: The executors of data-contract rules.
    """

    def __init__(
        self, name: str, choice: SchemaChoice, client: SchemaRegistryClient, rules: RuleRegistry
    ) -> None:
        self.name = name
        self._field = FIELDS[name]
        self._choice = choice
        self._client = client
        self._rules = rules
        self._topics: dict[str, Callable[[Any], bytes | None]] = {}

    def prepare(self, topic: str) -> None:
        """Find or register the schema for a topic.

        :raises ValueError: The subject has no schema, or one of another format, or the registry
            refuses the schema.
        """
        if topic not in self._topics:
            with _registry_problems():
                self._topics[topic] = self._converter(topic)

    def read(self, topic: str, text: bytes) -> bytes | None:
        """Make bytes of a JSON text, null for a JSON null.

        :raises ValueError: The text isn't JSON, or doesn't fit the schema.
        """
        try:
            value = typed_values.parse(text)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        return self.write(topic, value)

    def write(self, topic: str, value: Any) -> bytes | None:
        """Make bytes of a JSON value, null for None.

        :raises ValueError: The value doesn't fit the schema. The text has the path.
        """
        if value is None:
            return None
        self.prepare(topic)
        try:
            with _registry_problems():
                return self._topics[topic](value)
        except ValueError as error:
            text = text_of(error, topic)
            # Only a serializer's error has the topic, and then key or value.
            is_named = text != str(error)
            raise ValueError(text if is_named else f"{self.name}: {text}") from None

    def _converter(self, topic: str) -> Callable[[Any], bytes | None]:
        """The function that converts JSON values for a topic."""
        subject = f"{topic}-{self.name}"
        schema_id, schema = self._schema(subject)
        found = (schema.schema_type or "AVRO").lower()
        if found != self._choice.kind:
            raise ValueError(
                f"subject {subject} has a schema of type {found}, and -s says {self._choice.kind}"
            )
        conf = {**TOPIC_NAMES, "auto.register.schemas": False, "use.schema.id": schema_id}
        convert, serialize = self._serializer(schema, conf)
        context = SerializationContext(topic, self._field)
        return lambda value: serialize(convert(value), context)

    def _schema(self, subject: str) -> tuple[int, Schema]:
        """The id and the schema with which to write."""
        from kafka_native.schema_registry import Schema, SchemaReference, SchemaRegistryError

        kind, text = self._choice.kind, self._choice.text
        form = "serialized" if kind == "protobuf" else None
        if text is not None:
            references = [SchemaReference(*each) for each in self._choice.references]
            given = Schema(text, kind.upper(), references)
            schema_id = self._client.register_schema(subject, given)
            return schema_id, self._client.get_schema(schema_id, subject, form)
        try:
            latest = self._client.get_latest_version(subject, form)
        except SchemaRegistryError as error:
            if error.http_status_code != 404:
                raise
            raise ValueError(
                f"subject {subject} has no schema: write --{self.name}-schema FILE, or register "
                "one with kafka-native schemas register"
            ) from None
        assert latest.schema_id is not None, "a registered schema has an id"
        return latest.schema_id, latest.schema

    def _serializer(
        self, schema: Schema, conf: dict[str, Any]
    ) -> tuple[Callable[[Any], Any], Callable[[Any, SerializationContext], bytes | None]]:
        """The function that makes a serializer's object of JSON, and the serializer."""
        client = self._client
        if self._choice.kind == "avro":
            from kafka_native.schema_registry import avro
            from kafka_native.schema_registry.serdes import run

            serializer = avro.AvroSerializer(client, conf=conf, rule_registry=self._rules)
            parsed = avro.parse(schema, run(avro.definitions_of(schema, client)))
            return typed_values.avro_converter(parsed.schema), serializer
        if self._choice.kind == "json":
            from kafka_native.schema_registry.json_schema import JSONSerializer

            json_serializer = JSONSerializer(None, client, conf=conf, rule_registry=self._rules)
            return lambda value: value, json_serializer
        from kafka_native.cli import protobuf_values
        from kafka_native.schema_registry.protobuf import ProtobufSerializer

        class_ = protobuf_values.message_class(schema, client, self._choice.message)
        return (
            lambda value: protobuf_values.message_of(value, class_),
            ProtobufSerializer(class_, client, conf=conf, rule_registry=self._rules),
        )


@contextmanager
def _registry_problems() -> Iterator[None]:
    """Turn errors of the registry into ValueError, so that the caller names the message."""
    from kafka_native.schema_registry.error import OAuthTokenError, SchemaRegistryError

    try:
        yield
    except (SchemaRegistryError, OAuthTokenError) as error:
        raise ValueError(registry_line(error)) from error
    except SerializationError as error:
        raise ValueError(str(error)) from error
