from collections.abc import Callable
from typing import Any

from kafka_native._native.engine import Engine

class ProducerCore:
    engine: Engine
    def _open(
        self,
        engine: Engine,
        on_delivery: Callable[..., Any] | None,
        exception_of: Callable[[int, str | None], BaseException],
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
    def poll(self, timeout: float = ...) -> int: ...
    def flush(self, timeout: float = ...) -> int: ...
    def _mark_closed(self) -> None: ...
    def _serve_last(self) -> None: ...
    def _drain(self) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
