"""Descriptors of Protobuf messages, from what users have: classes, descriptor sets, schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_native.codecs.errors import SchemaError

try:
    from google.protobuf import descriptor_pb2
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
except ImportError as error:
    raise ImportError(
        "Protobuf columns need protobuf: pip install 'kafka-native[protobuf]'"
    ) from error

__all__ = ["message_of"]


def message_of(schema: Any, message: str | Sequence[int] | None) -> Any:
    """Return the descriptor of a message.

    :param schema: A message class, a message's descriptor, or a serialized FileDescriptorSet.
    :param message: A full name, or message indexes in the last file.
    :raises SchemaError: The schema is malformed, or has no such message.
    """
    descriptor = getattr(schema, "DESCRIPTOR", schema)
    if hasattr(descriptor, "fields_by_number"):
        if message is not None:
            raise TypeError("only a descriptor set or the text of a schema has several messages")
        return descriptor
    if not isinstance(schema, bytes):
        raise TypeError(
            "a Protobuf schema is a message class, a descriptor or the bytes of a descriptor set, "
            f"not {type(schema).__name__}"
        )
    return _message_in(*_pool_of(schema), message)


def _pool_of(data: bytes) -> tuple[Any, Any]:
    """Return the pool of a descriptor set, and its last file."""
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(data)
    except DecodeError as error:
        raise SchemaError(f"the bytes aren't a descriptor set: {error}") from None
    if not files.file:
        raise SchemaError("the descriptor set has no files")
    pool = DescriptorPool()
    try:
        for each in files.file:
            pool.AddSerializedFile(each.SerializeToString())
        return pool, pool.FindFileByName(files.file[-1].name)
    except (KeyError, TypeError) as error:
        raise SchemaError(f"the descriptor set is invalid: {error}") from None


def _message_in(pool: Any, file: Any, message: str | Sequence[int] | None) -> Any:
    if isinstance(message, str):
        try:
            return pool.FindMessageTypeByName(message)
        except KeyError:
            raise SchemaError(f"the schema has no message {message}") from None
    found = None
    messages = list(file.message_types_by_name.values())
    for index in message or [0]:
        if not 0 <= index < len(messages):
            raise SchemaError(
                f"the message indexes {list(message or [0])} point at no message of the schema: "
                f"{index} isn't below {len(messages)}"
            )
        found = messages[index]
        messages = list(found.nested_types)
    return found
