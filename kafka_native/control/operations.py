"""Runs admin operations: several requests, to the controller, coordinators or leaders, sent again where one has moved.

An operation is a generator. It yields requests, which are sent beside each other, and receives their replies. Or it
yields seconds, for which it sleeps. It completes the outcome of each item by itself.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

from kafka_native.control.brokers.pool import BrokerPool
from kafka_native.control.brokers.versions import adapted
from kafka_native.control.errors import ADMIN_RETRIABLE_ERRORS, CONNECTION_ERRORS, NO_REPLY_ERRORS
from kafka_native.control.metadata import Metadata
from kafka_native.control.requests import ANY_BROKER, NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.logs import Logger
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.protocol.schema import Request

T = TypeVar("T")

GRACE_S = 1.0
"""How long after its deadline an operation is ended in any case; its requests end at the deadline."""

OF_GROUPS, OF_TRANSACTIONS = 0, 1
"""What FindCoordinator is asked about."""
KEYS_MAX = 1 << 31
"""As many as there are."""
REQUEST_MAX_BYTES = 100 << 20
"""Of one request: `socket.request.max.bytes` as brokers have it by default. Who sends more loses the connection."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, and where it goes."""

    message: Request
    target: int | None


@dataclass(frozen=True, slots=True)
class Same:
    """What a reply says of each key that it was asked for, where it doesn't name them."""

    outcome: Any

    def get(self, key: object, otherwise: object) -> Any:
        """The outcome."""
        return self.outcome


@dataclass(frozen=True, slots=True)
class Each:
    """What a reply says of each key, looked up for those alone that it was asked for."""

    outcome_of: Callable[[Any], Any]

    def get(self, key: object, otherwise: object) -> Any:
        """The outcome."""
        return self.outcome_of(key)


Steps: TypeAlias = Generator["list[Ask] | float", list[Reply], T]
Route: TypeAlias = Callable[[list[Any]], Steps[dict[Any, Any]]]
Settle: TypeAlias = Callable[[Any, Any], None]


@dataclass(eq=False)
class Operation:
    """One operation on its way, and what its generator is helped with."""

    pool: BrokerPool
    metadata: Metadata
    backoff: Backoff
    deadline: float
    clock: Callable[[], float]
    steps: Steps[None] | None = None
    fail: Callable[[BaseException], None] = lambda error: None
    replies: list[Reply] = field(default_factory=list)
    begun: bool = False
    open: int = 0
    wake_at: float = NEVER

    @property
    def name(self) -> str:
        """What it is about, as logs name it."""
        return getattr(self.steps, "__qualname__", "operation")

    # --- for generators: `yield from` ---

    def any(self, message: Request) -> Steps[Any]:
        """The reply of any broker, asked until one answers; KafkaException when the time is over."""
        while True:
            (reply,) = yield [Ask(message, ANY_BROKER)]
            if not isinstance(reply, KafkaError):
                return reply
            yield from self._pause(reply)

    def _pause(self, error: KafkaError) -> Steps[None]:
        """Waits before it is tried again; KafkaException where that is no use, or too late."""
        delay_s = self.backoff.next_s()
        if error.code() not in CONNECTION_ERRORS | ADMIN_RETRIABLE_ERRORS:
            raise KafkaException(error)
        if self.clock() + delay_s >= self.deadline:
            raise KafkaException(late(error))
        yield delay_s

    def cluster(self, topics: Iterable[str] | None = (), **how: bool) -> Steps[MetadataResponse]:
        """The metadata of the cluster and of these topics; its brokers can be sent something from then on."""
        asked = None if topics is None else [MetadataRequest.Topic(name=name) for name in topics]
        message = MetadataRequest(topics=asked, allow_auto_topic_creation=False, **how)
        while True:
            reply: MetadataResponse = yield from self.any(message)
            if not reply.error_code:
                self.metadata.take(reply)
                return reply
            if reply.error_code == KafkaError.REBOOTSTRAP_REQUIRED:
                self.pool.rebootstrap()
            yield from self._pause(KafkaError(KafkaError._TRANSPORT, KafkaError(reply.error_code).str()))

    def anywhere(self, keys: list[Any]) -> Steps[dict[Any, Any]]:
        """A `Route`: whichever broker is up."""
        yield []  # nothing has to be found out
        return dict.fromkeys(keys, ANY_BROKER)

    def controller(self, keys: list[Any]) -> Steps[dict[Any, Any]]:
        """A `Route`: the controller."""
        found = yield from self.cluster()
        if found.controller_id not in self.pool.nodes:
            error = KafkaError(KafkaError.NOT_CONTROLLER, "the cluster has no controller at the moment")
            return dict.fromkeys(keys, error)
        return dict.fromkeys(keys, found.controller_id)

    def nodes(self, keys: list[Any], node_of: Callable[[Any], int | None]) -> Steps[dict[Any, Any]]:
        """For a `Route`: brokers by their ids, None for any."""
        yield from self.cluster()
        placed: dict[Any, Any] = {}
        for key in keys:
            node = node_of(key)
            known = node is None or node in self.pool.nodes
            placed[key] = node if known else KafkaError(KafkaError._UNKNOWN_BROKER, f"broker {node} isn't known")
        return placed

    def leaders(self, keys: list[Any]) -> Steps[dict[Any, Any]]:
        """A `Route`: the leaders of TopicPartitions."""
        found = yield from self.cluster(sorted({key.topic for key in keys}))
        topics = {topic.name: topic for topic in found.topics}
        return {key: self._leader(topics.get(key.topic), key.partition) for key in keys}

    def _leader(self, topic: MetadataResponse.Topic | None, number: int) -> int | KafkaError:
        if topic is None:
            return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        if topic.error_code:
            return KafkaError(topic.error_code)
        for partition in topic.partitions:
            if partition.partition_index == number:
                known = partition.leader_id in self.pool.nodes
                return partition.leader_id if known else KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
        return KafkaError(KafkaError._UNKNOWN_PARTITION)

    def coordinators(self, keys: list[Any], key_type: int = OF_GROUPS) -> Steps[dict[Any, Any]]:
        """A `Route`: the coordinators of groups, by their ids; all are looked up in one request (KIP-699)."""
        placed: dict[Any, Any] = {}
        while len(placed) < len(keys):
            left = [key for key in keys if key not in placed]
            reply = yield from self.any(FindCoordinatorRequest(key=left[0], key_type=key_type, coordinator_keys=left))
            answers = {each.key: each for each in reply.coordinators} if reply.coordinators else {left[0]: reply}
            if not answers.keys() & set(left):
                raise KafkaException(KafkaError(KafkaError._BAD_MSG, "FindCoordinator answers what it wasn't asked"))
            for key in answers.keys() & set(left):
                placed[key] = self._coordinator(answers[key])
        return placed

    def transaction_coordinators(self, keys: list[Any]) -> Steps[dict[Any, Any]]:
        """A `Route`: the coordinators of transactional ids."""
        return self.coordinators(keys, OF_TRANSACTIONS)

    def within_group(self, group: str) -> Route:
        """A `Route`: the coordinator of one group, whatever the keys are."""

        def place(keys: list[Any]) -> Steps[dict[Any, Any]]:
            found = yield from self.coordinators([group])
            return dict.fromkeys(keys, found[group])

        return place

    def _coordinator(self, answer: Any) -> int | KafkaError:
        if answer.error_code:
            return KafkaError(answer.error_code, answer.error_message)
        if answer.node_id < 0 or not answer.host or not 0 < answer.port < 1 << 16:
            return KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
        try:
            return self.pool.coordinator(answer.node_id, answer.host, answer.port)
        except MemoryError:
            return KafkaError(KafkaError._TRANSPORT, "no memory for a connection to the coordinator")

    def rounds(
        self,
        keys: Iterable[Hashable],
        place: Route,
        make: Callable[[list[Any]], Request],
        outcomes: Callable[[Any, int | None], Mapping[Any, Any] | Same | Each],
        settle: Settle,
        *,
        change: bool,
        final: frozenset[int] = frozenset(),
        passing: frozenset[int] = frozenset(),
        most: int = KEYS_MAX,
    ) -> Steps[None]:
        """Asks for all keys, each where it belongs, and again for those whose broker has moved or isn't ready.

        :param place: A generator: where each key belongs, or the KafkaError instead.
        :param make: The request for some keys that belong to one broker.
        :param outcomes: What a reply (of that target) says of each key: what it is, or a KafkaError.
        :param settle: Called once for each key with its outcome.
        :param change: The request changes something. It isn't sent again when its connection ends before the answer,
            so its connection is made by a question, which may be.
        :param final: Errors that a broker means for good here, although others are asked again for them.
        :param passing: The reverse: errors that go away by themselves here.
        :param most: How many keys one request may have.
        """
        pending = list(keys)
        retried = (ADMIN_RETRIABLE_ERRORS if change else ADMIN_RETRIABLE_ERRORS | CONNECTION_ERRORS) - final | passing
        while pending:
            again: dict[Any, KafkaError] = {}
            by_target: dict[int | None, list[Any]] = {}
            for key, target in (yield from place(pending)).items():
                if isinstance(target, KafkaError):
                    self._sort(key, target, ADMIN_RETRIABLE_ERRORS, again, settle)
                else:
                    by_target.setdefault(target, []).append(key)
            if change:
                yield from self._connect(by_target, again)
            parts = [(target, part) for target, some in by_target.items() for part in portions(some, make, most)]
            replies = yield [Ask(make(some), target) for target, some in parts]
            for (target, some), reply in zip(parts, replies, strict=True):
                told = Same(reply) if isinstance(reply, KafkaError) else outcomes(reply, target)
                for key in some:
                    outcome = told.get(key, UNANSWERED)
                    self._sort(key, outcome, retried, again, settle)
            delay_s = self.backoff.next_s()
            if again and self.clock() + delay_s >= self.deadline:
                for key, error in again.items():
                    settle(key, late(error))
                return
            pending = list(again)
            if pending:
                yield delay_s

    def _connect(self, by_target: dict[int | None, list[Any]], again: dict[Any, KafkaError]) -> Steps[None]:
        """Takes those out that can't be reached."""
        down = [target for target in by_target if target is not None and not self.pool.is_up(target)]
        replies = yield [Ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), target) for target in down]
        for target, reply in zip(down, replies, strict=True):
            if isinstance(reply, KafkaError):
                again.update(dict.fromkeys(by_target.pop(target), reply))

    def _sort(
        self, key: Any, outcome: Any, retried: frozenset[int], again: dict[Any, KafkaError], settle: Settle
    ) -> None:
        if isinstance(outcome, KafkaError) and outcome.code() in retried:
            again[key] = outcome
        else:
            settle(key, outcome)


def portions(keys: list[Any], make: Callable[[list[Any]], Request], most: int) -> Iterator[list[Any]]:
    """The keys, as many together as one request may have; one alone isn't looked at."""
    for at in range(0, len(keys), most):
        some = keys[at : at + most]
        if len(some) > 1 and size_of(make(some)) > REQUEST_MAX_BYTES:
            yield from portions(some, make, (len(some) + 1) // 2)
        else:
            yield some


def size_of(message: Request) -> int:
    """How many bytes a request has, without its header. ProtocolError: it can't be sent at all."""
    return len(adapted(message, message.max_version).encode(message.max_version))


UNANSWERED = KafkaError(KafkaError._BAD_MSG, "the broker's answer doesn't name it")


def late(error: KafkaError) -> KafkaError:
    """The time is over, and this is what it went by with."""
    return KafkaError(KafkaError._TIMED_OUT, f"Not done in time: {error.str()}")


class OperationDriver:
    """The manager that runs operations."""

    def __init__(
        self,
        pool: BrokerPool,
        metadata: Metadata,
        logger: Logger,
        *,
        backoff_s: float,
        backoff_max_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Times in seconds: retry.backoff.ms and retry.backoff.max.ms."""
        self._pool = pool
        self._metadata = metadata
        self._logger = logger
        self._backoff = (backoff_s, backoff_max_s)
        self._clock = clock
        self._ready: deque[Operation] = deque()
        self._all: set[Operation] = set()
        self._closed: KafkaError | None = None

    def begin(
        self, make: Callable[[Operation], Steps[None]], deadline: float, fail: Callable[[BaseException], None]
    ) -> None:
        """Starts one; ``fail`` is told what it ended with before it was done, and is called in any case but success.

        :param make: The generator, made with the Operation that it goes on.
        :param deadline: Monotonic seconds.
        """
        if self._closed is not None:
            fail(KafkaException(self._closed))
            return
        operation = Operation(self._pool, self._metadata, Backoff(*self._backoff), deadline, self._clock, fail=fail)
        operation.steps = make(operation)
        self._logger.debug("%s begins, %d are under way", operation.name, len(self._all))
        self._all.add(operation)
        self._ready.append(operation)

    def close(self, error: KafkaError) -> None:
        """Nobody will answer any more."""
        self._closed = error
        for operation in list(self._all):
            self._end(operation, KafkaException(error))

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        for operation in list(self._all):
            if now >= operation.deadline + GRACE_S:  # nothing waits for ever, whatever became of its replies
                self._logger.debug("%s had no reply in time", operation.name)
                self._end(
                    operation, KafkaException(KafkaError(KafkaError._TIMED_OUT, "Not done in time: no reply came"))
                )
            elif operation.wake_at <= now:
                operation.wake_at = NEVER
                self._ready.append(operation)
        calls: list[Call] = []
        while self._ready:
            calls.extend(self._advance(self._ready.popleft(), now))
        return calls, min((min(each.wake_at, each.deadline + GRACE_S) for each in self._all), default=NEVER)

    def _advance(self, operation: Operation, now: float) -> list[Call]:
        """Lets it go on to where it waits for replies, or sleeps."""
        assert operation.steps is not None
        replies, operation.replies = operation.replies, []
        try:
            while True:
                step = operation.steps.send(replies) if operation.begun else next(operation.steps)
                operation.begun = True
                if isinstance(step, float):
                    self._logger.debug("%s goes on in %.3f s", operation.name, step)
                    operation.wake_at = now + step
                    return []
                if step:
                    return self._calls(operation, step)
                replies = []
        except StopIteration:
            self._logger.debug("%s is done", operation.name)
            self._all.discard(operation)
        except KafkaException as error:
            self._end(operation, error)
        except Exception as error:
            self._logger.exception("an operation of the admin client has met an unexpected error")
            self._end(operation, error)
        return []

    def _calls(self, operation: Operation, asks: list[Ask]) -> list[Call]:
        for ask in asks:
            to = "any broker" if ask.target is None else f"broker {ask.target}"
            self._logger.debug("%s is asked of %s", type(ask.message).__name__, to)
        operation.replies = [None] * len(asks)
        operation.open = len(asks)

        def take(place: int, reply: Reply) -> None:
            if isinstance(reply, KafkaError) and reply.code() in NO_REPLY_ERRORS:
                name = type(asks[place].message).__name__.removesuffix("Request")
                reply = KafkaError(reply.code(), f"{name}: {reply.str()}")
            operation.replies[place] = reply
            operation.open -= 1
            if not operation.open and operation in self._all:
                self._ready.append(operation)

        return [
            Call(ask.message, ask.target, operation.deadline, partial(take, place)) for place, ask in enumerate(asks)
        ]

    def _end(self, operation: Operation, error: BaseException) -> None:
        self._all.discard(operation)
        if operation.steps is not None:
            self._logger.debug("%s fails: %s", operation.name, error)
            operation.steps.close()
        operation.fail(error)
