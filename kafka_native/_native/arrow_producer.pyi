from collections.abc import Callable
from typing import Any, final

from kafka_native._native.arrow_report import ArrowReport
from kafka_native._native.delivery_core import DeliveryCore

class ExactTimestamps(str): ...

@final
class Source: ...

@final
class Call: ...

def produce_rows(
    core: DeliveryCore,
    topic: str | None,
    data: Any,
    columns: dict[str, str | int | None],
    timestamp: str | int | None,
    partition: str | int | None,
    on_delivery: Callable[[ArrowReport], object] | None,
    timeout: float | None,
    block_s: float,
    needs_partition: bool,
    check_stop: Callable[[], object] | None = ...,
    added_headers: dict[str, tuple[bytes, bytes]] | None = ...,
) -> int: ...
