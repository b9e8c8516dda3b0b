"""Consumer: fetches the messages of assigned partitions."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from kafka_native._native.consuming import ConsumerCore
from kafka_native._native.engine import Cursor, Engine
from kafka_native._native.message import Message
from kafka_native.client import Client, remaining_s
from kafka_native.config import parse
from kafka_native.control.calls import Call, Reply
from kafka_native.control.fetching import MOVED, Fetching
from kafka_native.control.offsets import EARLIEST, LATEST, Lookup, lookup_calls
from kafka_native.control.settings import ISOLATION_LEVELS, connection_settings, consumer_settings, producer_settings
from kafka_native.errors import STATUS_TOO_LARGE, KafkaError, KafkaException, from_status
from kafka_native.types import OFFSET_INVALID, ClusterMetadata, TopicPartition

CLOSED_TEXT = "Consumer closed"
RESETS = {
    "smallest": EARLIEST,
    "earliest": EARLIEST,
    "beginning": EARLIEST,
    "largest": LATEST,
    "latest": LATEST,
    "end": LATEST,
    "error": None,
}
RETRY_EVERY_S = 0.1


class Consumer(ConsumerCore):
    """Reads partitions that are assigned to it by hand.

        with Consumer({"bootstrap.servers": "localhost:9092", "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([TopicPartition("greetings", 0)])
            for message in consumer:
                print(message.value())

    Messages are fetched in the background, up to ``queued.max.messages.kbytes``. Configuration: librdkafka's
    properties (docs/CONFIGURATION.md), as a dict,
    keywords, or both. A consumer belongs to one thread at a time; after ``fork()`` the child has to make its own.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """KafkaException (_INVALID_ARG) names an unknown property or a value that can't be."""
        settings = parse({**(config or {}), **kwargs}, "consumer")
        everything = {
            **connection_settings(settings),
            **producer_settings(settings, 0, False),
            **consumer_settings(settings),
        }
        self._client = Client(settings, "consumer", everything)
        self._isolation_level = ISOLATION_LEVELS[settings.text("isolation.level")]
        main = self._client.main
        self._fetching = main.fetching = Fetching(
            self._client.engine,
            main.metadata,
            main.pool,
            reset=RESETS[settings.text("auto.offset.reset")],
            isolation_level=self._isolation_level,
            timeout_s=settings.integer("socket.timeout.ms") / 1000,
            create_topics=settings.flag("allow.auto.create.topics"),
            on_error=partial(_note, self._client.engine),
        )
        # Closures over the client, not over this object: dropping it is enough to end its threads.
        self._open(
            self._client.engine,
            _error_for,
            _exception_of,
            partial(self._client.check_open, CLOSED_TEXT),
            partial(_fatal_of, self._client),
            partial(_give_back, self._client, self._fetching),
            settings.integer("max.poll.records"),
        )
        self._callback_messages = settings.integer("consume.callback.max.messages")
        main.start()

    # --- messages ---

    def consume_callback(
        self, callback: Callable[[Message], object], max_messages: int | None = None, timeout: float = -1
    ) -> int:
        """Calls ``callback`` for each message: what librdkafka's legacy consumer does.

        Waits for the first message, then goes on with what is queued by then; what comes meanwhile is for the next
        call. Errors come as Messages, as from `poll()`. The callback may call anything of the consumer; `wakeup()` ends
        the call behind the message at hand. What it raises comes out of here, and its message counts as handed out.

        :param callback: Called with one Message; what it returns is ignored.
        :param max_messages: How many at most; 0 for no limit, None for ``consume.callback.max.messages``.
        :param timeout: Seconds to wait for the first message; negative waits for ever, 0 doesn't wait.
        :return: How many messages the callback has got.
        :raises TypeError: ``callback`` can't be called.
        :raises ValueError: ``max_messages`` is negative.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        most = self._callback_messages if max_messages is None else operator.index(max_messages)
        if most < 0:
            raise ValueError("max_messages must be 0 (no limit) or more")
        return self._consume_each(callback, most, timeout)

    # --- assignment ---

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others.

        :param partitions: Each with the offset to start from, or OFFSET_BEGINNING, OFFSET_END, or (the default) where
        ``auto.offset.reset`` says.
        """
        self._client.check_open(CLOSED_TEXT)
        wanted = [(each.topic, each.partition, each.offset) for each in _checked(partitions)]
        self._client.main.run(lambda: self._fetching.assign(wanted, time.monotonic()))

    def unassign(self) -> None:
        """Reads nothing any more."""
        self.assign([])

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        self._client.check_open(CLOSED_TEXT)
        return self._client.main.run(
            lambda: [TopicPartition(topic, partition) for topic, partition in self._fetching.assigned]
        )

    def seek(self, partition: TopicPartition) -> None:
        """Goes on at ``partition.offset``, absolute or OFFSET_BEGINNING or OFFSET_END.

        What was fetched and not handed out is dropped.

        :raises KafkaException: _STATE when the partition isn't assigned.
        """
        self._client.check_open(CLOSED_TEXT)
        [wanted] = _checked([partition])
        if wanted.offset == OFFSET_INVALID:
            raise ValueError("seek() needs an offset: set TopicPartition(..., offset=...)")
        self._raise(self._client.main.run(lambda: self._fetching.seek(wanted.topic, wanted.partition, wanted.offset)))

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Hands out no messages of these partitions until `resume()`; their positions stay."""
        self._change_each(self._fetching.pause, partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Undoes `pause()`."""
        self._change_each(self._fetching.resume, partitions)

    def _change_each(self, change: Callable[[str, int], KafkaError | None], partitions: list[TopicPartition]) -> None:
        """Makes a change to each partition, on the control thread, up to the first that refuses; raises its error."""
        self._client.check_open(CLOSED_TEXT)
        wanted = _checked(partitions)

        def work() -> KafkaError | None:
            errors = (change(each.topic, each.partition) for each in wanted)
            return next((error for error in errors if error is not None), None)

        self._raise(self._client.main.run(work))

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The next offset to be handed out of each partition; OFFSET_INVALID before its first message."""
        self._client.check_open(CLOSED_TEXT)
        wanted = _checked(partitions)
        assigned = self._fetching.assigned
        found = [assigned.get((each.topic, each.partition)) for each in wanted]
        return [
            TopicPartition(each.topic, each.partition, OFFSET_INVALID if state is None else state.position)
            for each, state in zip(wanted, found, strict=True)
        ]

    @staticmethod
    def _raise(error: KafkaError | None) -> None:
        if error is not None:
            raise KafkaException(error)

    # --- the cluster ---

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers, topics and partitions; see `Producer.list_topics`."""
        self._client.check_open(CLOSED_TEXT)
        return self._client.list_topics(topic, timeout)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """The partition's first offset, and the one after its last message.

        :param timeout: Seconds to wait; negative waits for ever.
        :param cached: Only what the last fetch told, without asking: OFFSET_INVALID where nothing is known.
        :raises KafkaException: No answer in time, or the leader's error.
        """
        self._client.check_open(CLOSED_TEXT)
        [wanted] = _checked([partition])
        if cached:
            state = self._fetching.assigned.get((wanted.topic, wanted.partition))
            if state is None or state.cursor is None:
                return OFFSET_INVALID, OFFSET_INVALID
            return state.cursor.log_start_offset, state.cursor.high_watermark
        deadline = time.monotonic() + (timeout if timeout >= 0 else LONG_S)
        return self._look_up(wanted, EARLIEST, deadline), self._look_up(wanted, LATEST, deadline)

    def _look_up(self, partition: TopicPartition, timestamp: int, deadline: float) -> int:
        """Asks the leader, again while it moves."""
        metadata = self._client.main.metadata
        while True:
            self._client.main.run(lambda: metadata.want(partition.topic, time.monotonic()))
            leader = metadata.leader(partition.topic, partition.partition)
            topic = metadata.topics[partition.topic]
            if topic.failed is not None:
                raise KafkaException(topic.failed)
            if topic.known and leader is None:
                raise KafkaException(
                    KafkaError(
                        KafkaError._UNKNOWN_PARTITION, f"{partition.topic} has no partition {partition.partition}"
                    )
                )
            if leader is not None and leader.leader >= 0:
                try:
                    offset: int = self._client.main.gather(
                        self._lookup_maker(partition, leader.leader, leader.epoch, timestamp), remaining_s(deadline)
                    )
                    return offset
                except KafkaException as error:
                    if error.args[0].code() not in MOVED or time.monotonic() >= deadline:
                        raise
                    self._client.main.run(lambda: metadata.refresh(time.monotonic()))
            if time.monotonic() >= deadline:
                raise KafkaException(
                    KafkaError(
                        KafkaError._TIMED_OUT,
                        f"no leader of {partition.topic} [{partition.partition}] was found in time",
                    )
                )
            time.sleep(min(RETRY_EVERY_S, remaining_s(deadline)))

    def _lookup_maker(self, partition: TopicPartition, leader: int, epoch: int, timestamp: int) -> Any:
        def make(deadline: float, done: Any) -> list[Call]:
            def on_result(result: Reply) -> None:
                done(result if isinstance(result, KafkaError) else result[0])

            lookup = Lookup(partition.topic, partition.partition, leader, epoch, timestamp, on_result)
            timeout_ms = min(int(remaining_s(deadline) * 1000), INT32_MAX)
            return lookup_calls([lookup], self._isolation_level, deadline, timeout_ms)

        return make

    # --- the end ---

    def close(self) -> None:
        """Ends the background threads, and `poll()` calls that wait in other threads. Harmless when called again.

        In a callback that poll() makes, it is done as soon as the callback has returned.
        """
        if self._client.closed:
            return
        if self._in_callback():
            self._after_callback(self._shut)
        else:
            self._shut()

    def _shut(self) -> None:
        self._mark_closed()
        self._client.close()
        if not self._client.forked:
            self._drain()

    def __enter__(self) -> Consumer:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def __del__(self) -> None:
        """A consumer that was dropped without close() ends its threads."""
        client = getattr(self, "_client", None)
        if client is not None:
            self.close()

    def __repr__(self) -> str:
        """Name and state."""
        state = "closed" if self._client.closed else f"{len(self._fetching.assigned)} partitions assigned"
        return f"<Consumer {self._client.name} ({state})>"


def _error_for(eof: bool, status: int, error_code: int, cursor: Cursor, offset: int, next_offset: int) -> KafkaError:
    """The error of a Message that stands for an end of partition or for a batch that can't be used."""
    if eof:
        return KafkaError(KafkaError._PARTITION_EOF)
    if error_code:
        return KafkaError(error_code)
    code = KafkaError._BAD_COMPRESSION if status == STATUS_TOO_LARGE else from_status(status).code()
    cause = _CAUSES.get(status, from_status(status).str())
    text = f"{cause} in {cursor.topic} [{cursor.partition}] at offset {offset}"
    return KafkaError(code, f"{text}; it is fetched again, or seek to {next_offset} to skip it")


def _exception_of(error: KafkaError) -> KafkaException | None:
    """Iteration goes on at the end of a partition, and raises any other error."""
    return None if error.code() == KafkaError._PARTITION_EOF else KafkaException(error)


def _fatal_of(client: Client) -> KafkaException | None:
    """What an iteration raises for ever once the consumer can't go on."""
    return None if client.fatal is None else KafkaException(client.fatal_error())


def _give_back(client: Client, fetching: Fetching, messages: list[Message]) -> None:
    """A signal handler has raised in consume(): what it had taken comes again, and doesn't count as handed out."""
    if client.closed:
        return
    first: dict[Any, Any] = {}
    for message in messages:
        if message.error() is None:
            first.setdefault((message.topic(), message.partition()), message.offset())
    for message in reversed(messages):
        if (error := message.error()) is not None:
            at = message.offset()
            notice = (message.topic(), message.partition(), OFFSET_INVALID if at is None else at, error)
            client.engine.notices.appendleft(notice)

    def work() -> None:
        for (topic, partition), offset in first.items():
            fetching.seek(topic, partition, offset)
            assigned = fetching.assigned.get((topic, partition))
            if assigned is not None and assigned.cursor is not None:
                assigned.cursor.position = offset

    client.main.run(work)


def _note(engine: Engine, topic: str, partition: int, offset: int, error: KafkaError) -> None:
    """Control thread: the application gets the error as a Message.

    Not a method: the thread must not keep a consumer alive that the application has dropped.
    """
    engine.notices.append((topic, partition, offset, error))
    engine.kick()


LONG_S = 1e6
INT32_MAX = 2**31 - 1
_CAUSES = {
    -4: "checksum mismatch (CRC32C)",
    STATUS_TOO_LARGE: "a batch is larger than decompressed.batch.max.bytes when decompressed",
    -6: "compressed data that can't be decompressed",
    -3: "malformed records",
    -7: "a codec or format that this build doesn't know",
}


def _checked(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The list, after making sure that it is one of TopicPartitions."""
    if isinstance(partitions, (str, TopicPartition)):
        raise TypeError("a list of TopicPartition is expected")
    checked = list(partitions)
    for each in checked:
        if not isinstance(each, TopicPartition):
            raise TypeError(f"a TopicPartition is expected, not {type(each).__name__}")
        if each.partition < 0:
            raise ValueError(f"{each.topic}: a partition's number is 0 or more, not {each.partition}")
    return checked
