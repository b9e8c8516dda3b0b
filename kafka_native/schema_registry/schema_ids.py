"""Schema ids on the wire: in front of the payload, or in a header.

An id is four bytes behind the magic byte 0. A GUID is 16 bytes behind the magic byte 1. For
Protobuf the indexes of the message type follow, as zigzag varints behind their number.
"""

from __future__ import annotations

import io
import struct
import uuid
from typing import Final

from kafka_native.codecs.framing import (
    MAGIC_BYTE_GUID,
    MAGIC_BYTE_ID,
    FramingError,
    read_indexes,
    read_schema,
)
from kafka_native.serialization import MessageField, SerializationContext, SerializationError

KEY_SCHEMA_ID_HEADER: Final = "__key_schema_id"
VALUE_SCHEMA_ID_HEADER: Final = "__value_schema_id"
ID_MAX: Final = 0xFFFFFFFF


class SchemaId:
    """The id or GUID of a payload's schema.

    Parameters
    ----------
    schema_type : str
        ``"AVRO"``, ``"JSON"`` or ``"PROTOBUF"``.
    schema_id : int, optional
        The id.
    guid : str, optional
        The GUID.
    message_indexes : list[int], optional
        The path of the message type in a Protobuf schema. ``[0]`` is the first one.
    """

    __slots__ = ["guid", "id", "message_indexes", "schema_type"]

    def __init__(
        self,
        schema_type: str,
        schema_id: int | None = None,
        guid: str | None = None,
        message_indexes: list[int] | None = None,
    ) -> None:
        self.schema_type = schema_type
        self.id = schema_id
        self.guid = None if guid is None else uuid.UUID(guid)
        self.message_indexes = message_indexes

    def __repr__(self) -> str:
        return (
            f"SchemaId({self.schema_type!r}, schema_id={self.id}, guid={self.guid}, "
            f"message_indexes={self.message_indexes})"
        )

    def from_bytes(self, payload: io.BytesIO) -> io.BytesIO:
        """Read an id or a GUID, and the message indexes of Protobuf.

        Parameters
        ----------
        payload : io.BytesIO
            Bytes that begin with a magic byte.

        Returns
        -------
        io.BytesIO
            The same object, at the first byte behind what was read.

        Raises
        ------
        SerializationError
            The bytes are too short, or don't begin with a known magic byte.
        """
        start = payload.tell()
        data = payload.read()
        try:
            schema, size = read_schema(data)
            if isinstance(schema, int):
                self.id = schema
            else:
                self.guid = schema
            if self.schema_type == "PROTOBUF":
                self.message_indexes, size = read_indexes(data, size)
        except FramingError as error:
            raise SerializationError(str(error)) from None
        payload.seek(start + size)
        return payload

    def id_to_bytes(self) -> bytes:
        """Return the magic byte 0, the id, and the message indexes if there are any.

        Returns
        -------
        bytes
            What stands in front of the payload.

        Raises
        ------
        SerializationError
            The id is missing or out of range.
        """
        if self.id is None:
            raise SerializationError("the schema has no id")
        if not 0 <= self.id <= ID_MAX:
            raise SerializationError(f"the schema id {self.id} doesn't fit into four bytes")
        return struct.pack(">BI", MAGIC_BYTE_ID, self.id) + self._indexes()

    def guid_to_bytes(self) -> bytes:
        """Return the magic byte 1, the GUID, and the message indexes if there are any.

        Returns
        -------
        bytes
            The header's value.

        Raises
        ------
        SerializationError
            The GUID is missing.
        """
        if self.guid is None:
            raise SerializationError(
                "the schema has no GUID: the registry must be version 8.0 or newer"
            )
        return bytes([MAGIC_BYTE_GUID]) + self.guid.bytes + self._indexes()

    def _indexes(self) -> bytes:
        indexes = self.message_indexes
        if indexes is None:
            return b""
        if not indexes:
            raise SerializationError("the list of message indexes is empty")
        if indexes == [0]:
            return b"\0"  # the short form of the most common path
        return b"".join(_varint(each) for each in [len(indexes), *indexes])


def _varint(number: int) -> bytes:
    """Return a number as a zigzag varint."""
    if not 0 <= number < 1 << 31:
        raise SerializationError(f"the message index {number} isn't a 31-bit number")
    left = number << 1
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def message_indexes_end(data: bytes, start: int) -> int:
    """Return where the message indexes end that begin at a position, or 0 if they don't end."""
    try:
        return read_indexes(data, start)[1]
    except FramingError:
        return 0


def _header_name(ctx: SerializationContext) -> str:
    return KEY_SCHEMA_ID_HEADER if ctx.field == MessageField.KEY else VALUE_SCHEMA_ID_HEADER


def header_schema_id_serializer(
    payload: bytes, ctx: SerializationContext | None, schema_id: SchemaId
) -> bytes:
    """Add the schema's GUID to the headers, in the place of an earlier one.

    Parameters
    ----------
    payload : bytes
        The encoded object.
    ctx : SerializationContext
        Its headers must be a list or a dict.
    schema_id : SchemaId
        The schema. It must have a GUID.

    Returns
    -------
    bytes
        The payload, unchanged.

    Raises
    ------
    SerializationError
        The context, its headers or the GUID are missing.
    """
    headers = None if ctx is None else ctx.headers
    if ctx is None or headers is None:
        raise SerializationError(
            "header_schema_id_serializer needs a SerializationContext with headers, "
            "in a list or a dict"
        )
    name, value = _header_name(ctx), schema_id.guid_to_bytes()
    if isinstance(headers, list):
        # The list may be that of a message that is passed on, or of a call that failed.
        for index in reversed(range(len(headers))):
            if headers[index][0] == name:
                del headers[index]
        headers.append((name, value))
    elif isinstance(headers, dict):
        headers[name] = value
    else:
        raise SerializationError(
            f"the headers must be a list or a dict, not {type(headers).__name__}"
        )
    return payload


def prefix_schema_id_serializer(
    payload: bytes, ctx: SerializationContext | None, schema_id: SchemaId
) -> bytes:
    """Put the schema's id in front of the payload.

    Parameters
    ----------
    payload : bytes
        The encoded object.
    ctx : SerializationContext, optional
        The context, which this function ignores.
    schema_id : SchemaId
        The schema. It must have an id.

    Returns
    -------
    bytes
        The id and the payload.

    Raises
    ------
    SerializationError
        The id is missing.
    """
    return schema_id.id_to_bytes() + payload


def dual_schema_id_deserializer(
    payload: bytes, ctx: SerializationContext | None, schema_id: SchemaId
) -> io.BytesIO:
    """Read the schema's id or GUID from the headers, or else from the payload.

    Parameters
    ----------
    payload : bytes
        The message's key or value.
    ctx : SerializationContext, optional
        The field and the headers.
    schema_id : SchemaId
        The object that gets the id or GUID.

    Returns
    -------
    io.BytesIO
        The encoded object.

    Raises
    ------
    SerializationError
        The header or the payload has no schema framing.
    """
    header = schema_id_header(ctx)
    if header is None:
        return schema_id.from_bytes(io.BytesIO(payload))
    schema_id.from_bytes(io.BytesIO(header))
    return io.BytesIO(payload)


def schema_id_header(ctx: SerializationContext | None) -> bytes | None:
    """Return the header with the schema's id. As for Java, the last one of its name counts."""
    if ctx is None or ctx.headers is None:
        return None
    name = _header_name(ctx)
    if isinstance(ctx.headers, dict):
        value = ctx.headers.get(name)
    else:
        found = [value for key, value in ctx.headers if key == name]
        value = found[-1] if found else None
    if isinstance(value, str):
        raise SerializationError(f"the header {name} must be bytes, not a str")
    return value


def prefix_schema_id_deserializer(
    payload: bytes, ctx: SerializationContext | None, schema_id: SchemaId
) -> io.BytesIO:
    """Read the schema's id or GUID from the payload.

    Parameters
    ----------
    payload : bytes
        The message's key or value.
    ctx : SerializationContext, optional
        The context, which this function ignores.
    schema_id : SchemaId
        The object that gets the id or GUID.

    Returns
    -------
    io.BytesIO
        The encoded object.

    Raises
    ------
    SerializationError
        The payload has no schema framing.
    """
    return schema_id.from_bytes(io.BytesIO(payload))
