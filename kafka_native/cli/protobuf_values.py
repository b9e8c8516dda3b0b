"""Protobuf messages and their JSON form, without generated classes."""

from __future__ import annotations

from typing import Any

from kafka_native.schema_registry.protobuf import parse
from kafka_native.schema_registry.protobuf_files import GetMessageClass, Message, json_format
from kafka_native.schema_registry.schemas import Schema
from kafka_native.schema_registry.serdes import run
from kafka_native.serialization import SerializationError


def message_class(schema: Schema, client: Any, name: str | None) -> Any:
    """The class of a message of a schema.

    :param schema: The schema, with its text as the registry serializes it.
    :param client: The registry's client, for references of the schema.
    :param name: The message's full name, or its name in the file. None: the file's first message.
    :raises SerializationError: The schema is invalid, or has no such message.
    """
    parsed = run(parse(schema, client))
    return GetMessageClass(parsed.message_at([0]) if name is None else parsed.message_named(name))


def message_of(value: Any, class_: Any) -> Message:
    """The message for its JSON form.

    :raises ValueError: The value doesn't fit the message. The text has the path.
    """
    name = class_.DESCRIPTOR.full_name
    if not isinstance(value, dict) and not name.startswith("google.protobuf."):
        raise ValueError(f"no message {name}: an object is expected")
    try:
        found: Message = json_format.ParseDict(value, class_())
    except (json_format.ParseError, TypeError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())  # one of these texts has several lines
        raise ValueError(f"no message {name}: {reason}") from None
    return found


def plain(message: Message) -> dict[str, Any]:
    """The JSON form of a message, with the field names of its schema.

    :raises SerializationError: A part of the message has no JSON form.
    """
    try:
        found: dict[str, Any] = json_format.MessageToDict(
            message,
            always_print_fields_with_no_presence=True,
            preserving_proto_field_name=True,
            descriptor_pool=message.DESCRIPTOR.file.pool,
        )
    except (json_format.Error, TypeError, ValueError) as error:
        name = message.DESCRIPTOR.full_name
        raise SerializationError(f"the message {name} has no JSON form: {error}") from error
    return found
