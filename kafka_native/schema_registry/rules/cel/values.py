"""Values of messages as CEL has them, and back."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

from celpy import celtypes

from kafka_native.schema_registry.protobuf_decimals import (
    DECIMAL_TYPE,
    decimal_of_message,
    set_decimal,
)
from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.variants import Variant

EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
VARIANT = "confluent.type.Variant"


class MessageMap(celtypes.MapType):
    """A Protobuf message. An unset field has its default, and ``has()`` is false for it.

    Parameters
    ----------
    message : google.protobuf.message.Message
        The message.
    """

    def __init__(self, message: Any) -> None:
        super().__init__()
        self.message = message
        for field in message.DESCRIPTOR.fields:
            if not field.has_presence or message.HasField(field.name):
                value = field_to_cel(getattr(message, field.name), field)
                dict.__setitem__(self, celtypes.StringType(field.name), value)

    def __getitem__(self, name: Any) -> Any:
        found = self.get(name, self)
        if found is self:
            raise KeyError(name)
        return found

    def get(self, name: Any, default: Any = None) -> Any:
        """Return the value of a field, or its default if the field is unset.

        A wrapper type, such as ``google.protobuf.StringValue``, is null then.

        Parameters
        ----------
        name : Any
            The name of the field.
        default : Any, optional
            The result for names of other fields.
        """
        if name in self:
            return dict.__getitem__(self, name)
        field = self.message.DESCRIPTOR.fields_by_name.get(str(name))
        if field is None:
            return default
        return None if _is_wrapper(field) else field_to_cel(getattr(self.message, name), field)

    def __eq__(self, other: object) -> Any:
        """Compare with a map, or a message ``confluent.type.Decimal`` with another decimal."""
        number = _decimal(self)
        if number is None:
            return super().__eq__(other)
        if isinstance(other, MessageMap):
            return celtypes.BoolType(number == _decimal(other))
        return celtypes.BoolType(isinstance(other, decimal.Decimal) and number == other)

    def __ne__(self, other: object) -> Any:
        """Return the opposite of ``==``."""
        equal = self == other
        return celtypes.BoolType(not equal) if isinstance(equal, int) else equal

    def is_set(self, name: str) -> bool:
        """Return whether the message has a value in a field.

        Parameters
        ----------
        name : str
            The name of the field.
        """
        field = self.message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            return False
        if field.has_presence:
            return bool(self.message.HasField(name))
        value = getattr(self.message, name)
        return bool(len(value) if _is_repeated(field) else value != field.default_value)


def _decimal(value: MessageMap) -> decimal.Decimal | None:
    is_decimal = value.message.DESCRIPTOR.full_name == DECIMAL_TYPE
    return decimal_of_message(value.message) if is_decimal else None


def is_message(value: Any) -> bool:
    """Return whether a value is a Protobuf message."""
    return hasattr(value, "DESCRIPTOR") and hasattr(value, "SerializeToString")


def to_cel(value: Any) -> Any:
    """Return a value of a message as CEL has it.

    A date is the number of days since 1970, a UUID is text. Values without a counterpart, such as
    decimals, stay as they are.

    Parameters
    ----------
    value : Any
        The value.
    """
    if is_message(value):
        return _message_to_cel(value)
    if isinstance(value, dict):
        return celtypes.MapType({to_cel(key): to_cel(each) for key, each in value.items()})
    if isinstance(value, list):
        return celtypes.ListType([to_cel(each) for each in value])
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return celtypes.IntType(value.toordinal() - EPOCH_DAY)
    if isinstance(value, uuid.UUID):
        return celtypes.StringType(str(value))
    for kind, made in _SIMPLE:
        if isinstance(value, kind):
            return made(value)
    return value


# bool comes before int, because a bool is an int.
_SIMPLE: tuple[tuple[type, Any], ...] = (
    (str, celtypes.StringType),
    (bytes, celtypes.BytesType),
    (bool, celtypes.BoolType),
    (int, celtypes.IntType),
    (float, celtypes.DoubleType),
    (datetime.datetime, celtypes.TimestampType),
    (datetime.timedelta, celtypes.DurationType),
)


def from_cel(value: Any) -> Any:
    """Return a result of CEL in plain Python types. A Protobuf message is itself again.

    Parameters
    ----------
    value : Any
        The result.
    """
    if isinstance(value, MessageMap):
        return value.message
    if isinstance(value, Variant):
        return {"metadata": value.metadata, "value": value.value}
    if isinstance(value, dict):
        return {from_cel(key): from_cel(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(from_cel(each) for each in value)
    if isinstance(value, list):
        return [from_cel(each) for each in value]
    if isinstance(value, celtypes.BoolType):
        return bool(value)
    if isinstance(value, celtypes.TimestampType):
        return _datetime(value)
    if isinstance(value, celtypes.DurationType):
        return datetime.timedelta(value.days, value.seconds, value.microseconds)
    kinds: tuple[Any, ...] = (str, bytes, bool, int, float)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    return value


def _datetime(value: datetime.datetime) -> datetime.datetime:
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return datetime.datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo)


def field_to_cel(value: Any, field: Any) -> Any:
    """Return the value of a Protobuf field as CEL has it.

    Parameters
    ----------
    value : Any
        The whole value, also of a repeated field.
    field : google.protobuf.descriptor.FieldDescriptor
        The field.
    """
    if _is_map(field):
        keys, values = field.message_type.fields
        pairs = {field_to_cel(key, keys): field_to_cel(value[key], values) for key in value}
        return celtypes.MapType(pairs)
    if _is_repeated(field):
        return celtypes.ListType([element_to_cel(each, field) for each in value])
    return element_to_cel(value, field)


def element_to_cel(value: Any, field: Any) -> Any:
    """Return one value of a Protobuf field, or one element of a repeated one, as CEL has it.

    Parameters
    ----------
    value : Any
        The value or element.
    field : google.protobuf.descriptor.FieldDescriptor
        The field.
    """
    if field.message_type is not None:
        return _message_to_cel(value)
    if field.type in (field.TYPE_UINT32, field.TYPE_UINT64, field.TYPE_FIXED32, field.TYPE_FIXED64):
        return celtypes.UintType(value)
    return to_cel(value)


def _message_to_cel(message: Any) -> Any:
    name = message.DESCRIPTOR.full_name
    if name == TIMESTAMP:
        time: Any = celtypes.TimestampType(message.ToDatetime(tzinfo=datetime.timezone.utc))
        time.source = message  # it has the nanoseconds, for a transform that copies the field
        return time
    if name == DURATION:
        length: Any = celtypes.DurationType(message.ToTimedelta())
        length.source = message
        return length
    if name in WRAPPERS:
        return element_to_cel(message.value, message.DESCRIPTOR.fields_by_name["value"])
    return MessageMap(message)


def message_from_cel(result: Any, original: Any) -> Any:
    """Return a new Protobuf message with the fields of a map. Other fields are unset.

    Parameters
    ----------
    result : Any
        The result of a transform: a map, or the message itself.
    original : google.protobuf.message.Message
        The message that the rule has read.

    Raises
    ------
    RuleError
        The result is no map, or the message type has no such field, or a value doesn't fit.
    """
    if isinstance(result, MessageMap):
        return result.message
    if not isinstance(result, dict):
        raise RuleError(f"the result has to be a message or a map, not {type(result).__name__}")
    made = type(original)()
    _fill(made, result)
    return made


def _fill(message: Any, values: dict[Any, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        field = fields.get(name)
        if field is None:
            raise RuleError(f"{message.DESCRIPTOR.full_name} has no field {name}")
        if value is None:
            continue
        try:
            _set(message, field, value)
        except (TypeError, ValueError, AttributeError, OverflowError):
            raise RuleError(
                f"the result doesn't fit the field {field.full_name}: {type(value).__name__}"
            ) from None


def _set(message: Any, field: Any, value: Any) -> None:
    if _is_map(field):
        target, values = getattr(message, field.name), field.message_type.fields[1]
        for key, each in value.items():
            if values.message_type is None:
                target[from_cel(key)] = from_cel(each)
            else:
                _assign(target[from_cel(key)], each)
    elif _is_repeated(field):
        target = getattr(message, field.name)
        for each in value:
            if field.message_type is None:
                target.append(from_cel(each))
            else:
                _assign(target.add(), each)
    elif field.message_type is None:
        setattr(message, field.name, from_cel(value))
    else:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _assign(inner, value)


def _assign(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    source = getattr(value, "source", None)
    if isinstance(value, MessageMap):
        message.CopyFrom(value.message)
    elif source is not None and source.DESCRIPTOR.full_name == name:
        message.CopyFrom(source)
    elif name == TIMESTAMP:
        message.FromDatetime(value)
    elif name == DECIMAL_TYPE and isinstance(value, decimal.Decimal):
        set_decimal(message, value)
    elif name == VARIANT and isinstance(value, Variant):
        message.metadata, message.value = value.metadata, value.value
    elif name == DURATION:
        message.FromTimedelta(from_cel(value))
    elif name in WRAPPERS:
        message.value = from_cel(value)
    else:
        _fill(message, value)


def _is_repeated(field: Any) -> bool:
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == field.LABEL_REPEATED)


def _is_map(field: Any) -> bool:
    inner = field.message_type
    return inner is not None and _is_repeated(field) and bool(inner.GetOptions().map_entry)


def _is_wrapper(field: Any) -> bool:
    return field.message_type is not None and field.message_type.full_name in WRAPPERS
