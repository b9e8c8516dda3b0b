"""Fetch sessions (KIP-227): the partitions of a consumer that a broker keeps between fetches."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafka_native.protocol.fetch import FetchRequest

_LAST_EPOCH = 0x7FFFFFFF
FINAL_EPOCH = -1
FIRST_EPOCH = 0


class FetchPartition:
    """A partition of a fetch, and the last values that its session sent."""

    __slots__ = (
        "error",
        "high_watermark",
        "index",
        "last_leader_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, topic_id: bytes, requested: FetchRequest.Topic.Partition
    ) -> None:
        """Store the request's values. No values were sent yet."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = requested.partition
        self.high_watermark = -1
        self.log_start = -1
        self.move(requested)

    def move(self, requested: FetchRequest.Topic.Partition) -> None:
        """Store a new position."""
        self.offset = requested.fetch_offset
        self.max_bytes = requested.partition_max_bytes
        self.last_leader_epoch = requested.current_leader_epoch


class Session:
    """The partitions of one session, in the order in which they are served."""

    def __init__(self, session_id: int) -> None:
        """Begin without partitions. The next request must have epoch 1."""
        self.id = session_id
        self.next_epoch = 1
        self.partitions: OrderedDict[tuple[str, bytes, int], FetchPartition] = OrderedDict()

    def update(self, request: FetchRequest) -> None:
        """Add, change and remove partitions as an incremental request says."""
        for topic in request.topics:
            for requested in topic.partitions:
                key = (topic.topic, topic.topic_id, requested.partition)
                known = self.partitions.get(key)
                if known is None:
                    self.partitions[key] = FetchPartition(topic.topic, topic.topic_id, requested)
                else:
                    known.move(requested)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self.partitions.pop((forgotten.topic, forgotten.topic_id, index), None)

    def move_to_back(self, partition: FetchPartition) -> None:
        """Move a partition that got records behind the others, so that none starves."""
        self.partitions.move_to_end((partition.topic, partition.topic_id, partition.index))

    def advance(self) -> None:
        """Require the next epoch in the next request.

        Epoch 0 is skipped, because it opens a session.
        """
        self.next_epoch = 1 if self.next_epoch == _LAST_EPOCH else self.next_epoch + 1


class Sessions:
    """The fetch sessions of one broker. The least recently used one is evicted at the limit."""

    def __init__(self, limit: int) -> None:
        """Allow this many sessions. 0 means none."""
        self.limit = limit
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        """Forget all sessions, as a broker does that restarts."""
        self._sessions.clear()

    def find(self, request: FetchRequest) -> tuple[Session | None, bool, ErrorCode]:
        """Return the session of a request, whether the fetch is full, and Kafka's error code.

        A fetch outside of any session has no session and no error.
        """
        none = ErrorCode.NO_ERROR
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            if request.session_epoch == FINAL_EPOCH or self.limit <= 0:
                return None, True, none
            return self._open(), True, none
        session = self._sessions.get(request.session_id)
        if session is None:
            return None, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.next_epoch != request.session_epoch:
            return None, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self._sessions.move_to_end(session.id)
        return session, False, none

    def _open(self) -> Session:
        while len(self._sessions) >= self.limit:
            self._sessions.popitem(last=False)
        number = 0
        while number == 0 or number in self._sessions:
            number = secrets.randbelow(0x7FFFFFFF)
        session = self._sessions[number] = Session(number)
        return session


def partitions_of(request: FetchRequest) -> list[FetchPartition]:
    """Return the partitions of a request without a session."""
    return [
        FetchPartition(topic.topic, topic.topic_id, requested)
        for topic in request.topics
        for requested in topic.partitions
    ]
