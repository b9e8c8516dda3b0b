from collections import deque
from collections.abc import Callable
from typing import Any, final

from typing_extensions import Self

from kafka_native.errors import KafkaError

class Event:
    kind: int
    broker: int
    generation: int
    token: int
    status: int
    error_code: int
    api_key: int
    partition: int
    leader_id: int
    leader_epoch: int
    epoch: int
    throttle_ms: int
    attempts: int
    peer_closed: int  # DISCONNECTED: enum kn_peer_closed
    offset: int
    body: Any  # bytes of a REPLY, else None
    text: str

class Engine:
    closed: bool
    error_of: Callable[[int, int, str | None], KafkaError]
    topics: list[Topic]
    cursors: list[Cursor | None]
    callbacks: deque[Callable[[], object]]
    notices: deque[tuple[str | None, int | None, int, KafkaError]]
    def __new__(cls, settings: dict[str, Any], error_of: Callable[[int, int, str | None], KafkaError]) -> Self: ...
    @property
    def outstanding(self) -> int: ...
    @property
    def memory(self) -> tuple[int, int]: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...
    def kick(self) -> None: ...
    def kick_control(self) -> None: ...
    def next_events(self, timeout_s: float) -> list[Event]: ...
    def take_dropped_lines(self) -> int: ...
    def broker_add(self, node_id: int, host: str, port: int) -> int: ...
    def broker_connect(self, handle: int) -> None: ...
    def broker_state(self, handle: int) -> int: ...
    def submit(
        self,
        handle: int,
        api_key: int,
        api_version: int,
        request_flexible: bool,
        reply_flexible: bool,
        body: bytes,
        token: int,
        timeout_ms: int,
        *,
        generation: int = ...,
        handshake: bool = ...,
    ) -> None: ...
    def beat(
        self,
        handle: int,
        generation: int,
        api_key: int,
        api_version: int,
        request_flexible: bool,
        reply_flexible: bool,
        body: bytes,
        token: int,
        interval_ms: int,
        timeout_ms: int,
    ) -> None: ...
    def stop_beat(self, handle: int) -> None: ...
    def broker_open(self, handle: int, generation: int, produce_version: int, fetch_version: int) -> None: ...
    def broker_close(self, handle: int, generation: int, status: int) -> None: ...
    def broker_stop(self, handle: int) -> None: ...
    def topic(self, name: str) -> Topic: ...
    def purge(self, in_queue: bool, in_flight: bool) -> None: ...
    def refuse(self) -> None: ...
    def grant(self, producer_id: int, producer_epoch: int) -> None: ...
    def expire(self) -> None: ...
    def cursor(self, topic: str, topic_id: bytes, partition: int) -> Cursor: ...
    def drop_cursor(self, cursor: Cursor) -> None: ...

@final
class Topic:
    owner: Engine
    name: str
    def set_partitions(self, topic_id: bytes, leaders: list[int], epochs: list[int]) -> None: ...
    def fail(self, status: int, error_code: int, text: str) -> None: ...

@final
class Cursor:
    owner: Engine
    topic: str
    partition: int
    topic_id: bytes
    position: int
    position_epoch: int
    broker: int
    token: int
    @property
    def epoch(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    def start(self, broker: int, offset: int, leader_epoch: int) -> int: ...
    def stop(self) -> None: ...
    def move(self, broker: int, offset: int, leader_epoch: int, epoch: int) -> bool: ...

def live_objects() -> dict[str, int]: ...
