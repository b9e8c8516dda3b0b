"""confluent_kafka's types of callbacks, headers and serializers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

HeadersType: TypeAlias = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]
Serializer: TypeAlias = Callable[[Any, Any], bytes]
Deserializer: TypeAlias = Callable[[bytes | None, Any], Any]
DeliveryCallback: TypeAlias = Callable[[Any | None, Any], None]
RebalanceCallback: TypeAlias = Callable[[Any, list[Any]], None]
AcknowledgementCommitCallback: TypeAlias = Callable[[dict[Any, Any], Any | None], None]

__all__ = [
    "AcknowledgementCommitCallback",
    "DeliveryCallback",
    "Deserializer",
    "HeadersType",
    "RebalanceCallback",
    "Serializer",
]
