from typing import final

from kafka_native.errors import KafkaError

@final
class ArrowReport:
    rows: int
    delivered: int
    @property
    def failed(self) -> list[tuple[int, KafkaError]]: ...
    @property
    def error(self) -> KafkaError | None: ...
