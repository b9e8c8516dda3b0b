from collections.abc import Callable, Sequence
from typing import Any, final

from kafka_native._native.delivery_core import DeliveryCore
from kafka_native._native.engine import Engine
from kafka_native._native.message import Message

@final
class Columns: ...

class ProducerCore(DeliveryCore):
    _message_type: type[Message[Any, Any]]
    _like_confluent: bool
    def _open(
        self,
        engine: Engine,
        on_delivery: Callable[..., Any] | None,
        exception_of: Callable[[int, str | None, str | None], BaseException],
        block_s: float,
        partitioner: Callable[[str, bytes | None, int], int] | None,
        partitions_of: Callable[[str], int],
    ) -> None: ...
    def produce(
        self,
        topic: str,
        value: Any = ...,
        key: Any = ...,
        partition: int = ...,
        callback: Callable[..., Any] | None = ...,
        on_delivery: Callable[..., Any] | None = ...,
        timestamp: int = ...,
        headers: Any = ...,
    ) -> None: ...
    def produce_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None = ...,
        partition: int | Sequence[int] = ...,
        headers: Sequence[Any] | None = ...,
        timestamps: int | Sequence[int] | None = ...,
        on_delivery: Callable[..., Any] | None = ...,
    ) -> int: ...
    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = ...,
        callback: Callable[..., Any] | None = ...,
        on_delivery: Callable[..., Any] | None = ...,
    ) -> int: ...
    def _mark_closed(self) -> None: ...
