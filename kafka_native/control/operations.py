"""Runs admin operations: sends requests to the right brokers and retries when those have moved.

An operation may send several requests, to the controller, to coordinators or to leaders. An
`AdminOperation` describes one kind of request: its destination, and how to read its responses. An
`Operation` is one running call of the admin client. Its steps are a generator that yields two kinds
of values. For a list of requests it receives their replies; they are sent in parallel. For a number
it sleeps for so many seconds. The generator completes the outcome of each item.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from kafka_native.control.brokers.pool import BrokerPool
from kafka_native.control.errors import ADMIN_RETRIABLE_ERRORS, CONNECTION_ERRORS, NO_REPLY_ERRORS
from kafka_native.control.metadata import Metadata
from kafka_native.control.requests import ANY_BROKER, NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.logs import Logger
from kafka_native.protocol.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.protocol.schema import Request
from kafka_native.protocol.topics import CreateTopicsRequest
from kafka_native.types import Node, TopicPartition

T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)
ItemT = TypeVar("ItemT")
ResponseT = TypeVar("ResponseT")
ResultT = TypeVar("ResultT")

GRACE_S = 1.0
"""The driver ends an operation this long after its deadline. Its requests end at the deadline."""

GROUP_KEYS, TRANSACTION_KEYS = 0, 1
"""The key types of FindCoordinator."""
KEYS_MAX = 1 << 31
"""Unlimited."""
UNSENT_ERRORS: frozenset[int] = frozenset({KafkaError._UNKNOWN_BROKER})
"""The broker has left the cluster since its address was looked up. The request was never sent."""
REQUEST_MAX_BYTES = 100 << 20
"""The maximum size of one request: the brokers' default for `socket.request.max.bytes`.

A broker closes the connection after a larger request.
"""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request and its target."""

    message: Request
    target: int | None


Steps: TypeAlias = Generator["list[Ask] | float", list[Reply], T]
Target: TypeAlias = "int | KafkaError | None"
"""Where a key's request goes: a broker of the pool, `ANY_BROKER`, or an error."""
Destination: TypeAlias = Callable[["Operation", list[KeyT]], "Steps[dict[KeyT, Target]]"]
Settle: TypeAlias = Callable[[KeyT, "ResultT | KafkaError"], None]


@dataclass(frozen=True, slots=True)
class Portion(Generic[KeyT, ItemT]):
    """The items of one request, and the broker of the pool that got it."""

    items: dict[KeyT, ItemT]
    target: int | None
    pool: BrokerPool

    @property
    def broker(self) -> Node:
        """The broker that the request was sent to; only if the target was a certain broker."""
        assert self.target is not None
        return Node(*self.pool.where(self.target))


@dataclass(frozen=True, slots=True)
class AdminOperation(Generic[KeyT, ItemT, ResponseT, ResultT]):
    """One kind of admin request. Each key of its items has an outcome."""

    destination: Destination[KeyT]
    """Finds the broker of each key: `Operation.controller`, `Operation.leaders`, `brokers()`, ...
    """
    request: Callable[[list[ItemT]], Request]
    """Makes the request for some items of one broker."""
    outcomes: Callable[[ResponseT, Portion[KeyT, ItemT]], Mapping[KeyT, ResultT | KafkaError]]
    """Reads a response: the result or the error of each key."""
    change: bool
    """Whether the request changes something.

    Such a request isn't sent again after its connection was closed without a response. Therefore
    the client first opens the connection with a read-only request, which it may send again.
    """
    final_errors: frozenset[int] = frozenset()
    """Errors that are final for this kind of request, although other kinds retry them."""
    passing_errors: frozenset[int] = frozenset()
    """Errors that are temporary for this kind of request, although other kinds don't retry them."""
    keys_max: int = KEYS_MAX
    """The maximum number of keys in one request."""

    @property
    def retriable_errors(self) -> frozenset[int]:
        """The errors after which the client sends a key again."""
        of_connections = UNSENT_ERRORS if self.change else CONNECTION_ERRORS
        errors = ADMIN_RETRIABLE_ERRORS | of_connections
        return errors - self.final_errors | self.passing_errors

    def portions(self, items: dict[KeyT, ItemT], keys_max: int) -> Iterator[dict[KeyT, ItemT]]:
        """Splits the items so that each part fits into one request.

        A single item isn't measured.
        """
        keys = list(items)
        for at in range(0, len(keys), keys_max):
            some = {key: items[key] for key in keys[at : at + keys_max]}
            if len(some) > 1 and size_of(self.request(list(some.values()))) > REQUEST_MAX_BYTES:
                yield from self.portions(some, (len(some) + 1) // 2)
            else:
                yield some


@dataclass(eq=False)
class Operation:
    """One running call, and the steps that its generator can use."""

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
        """The name for the log."""
        return getattr(self.steps, "__qualname__", "operation")

    # --- for generators: `yield from` ---

    def any(self, message: Request) -> Steps[Reply]:
        """Returns the reply of any broker, and retries until the deadline.

        Raises KafkaException then.
        """
        while True:
            (reply,) = yield [Ask(message, ANY_BROKER)]
            if not isinstance(reply, KafkaError):
                return reply
            yield from self._pause(reply)

    def _pause(self, error: KafkaError) -> Steps[None]:
        """Sleeps before the next attempt.

        KafkaException: the error is final, or the time is over.
        """
        delay_s = self.backoff.next_s()
        if error.code() not in CONNECTION_ERRORS | ADMIN_RETRIABLE_ERRORS:
            raise KafkaException(error)
        if self.clock() + delay_s >= self.deadline:
            raise KafkaException(late(error))
        yield delay_s

    def cluster(self, topics: Iterable[str] | None = (), **how: bool) -> Steps[MetadataResponse]:
        """Requests metadata of the cluster and these topics; the pool then knows the brokers."""
        asked = None if topics is None else [MetadataRequest.Topic(name=name) for name in topics]
        message = MetadataRequest(topics=asked, allow_auto_topic_creation=False, **how)
        while True:
            reply: MetadataResponse = yield from self.any(message)
            if not reply.error_code:
                self.metadata.take(reply)
                return reply
            if reply.error_code == KafkaError.REBOOTSTRAP_REQUIRED:
                self.pool.rebootstrap()
            yield from self._pause(
                KafkaError(KafkaError._TRANSPORT, KafkaError(reply.error_code).str())
            )

    def run(
        self,
        kind: AdminOperation[KeyT, ItemT, ResponseT, ResultT],
        items: Mapping[KeyT, ItemT],
        settle: Settle[KeyT, ResultT],
    ) -> Steps[None]:
        """Sends all items to their brokers. Retries items whose broker has moved or isn't ready.

        :param settle: Called once for each key with its outcome.
        """
        pending = list(items)
        while pending:
            again: dict[KeyT, KafkaError] = {}
            by_target: dict[int | None, dict[KeyT, ItemT]] = {}
            for key, target in (yield from kind.destination(self, pending)).items():
                if not isinstance(target, KafkaError):
                    by_target.setdefault(target, {})[key] = items[key]
                elif target.code() in ADMIN_RETRIABLE_ERRORS:
                    again[key] = target
                else:
                    settle(key, target)
            if kind.change:
                yield from self._connect(by_target, again)
            portions = [
                Portion(some, target, self.pool)
                for target, those in by_target.items()
                for some in kind.portions(those, kind.keys_max)
            ]
            replies = yield [
                Ask(kind.request(list(each.items.values())), each.target) for each in portions
            ]
            retriable = kind.retriable_errors
            if self.clock() >= self.deadline:  # mostly, the request waited for a connection
                retriable |= CONNECTION_ERRORS
            for portion, reply in zip(portions, replies, strict=True):
                failed = isinstance(reply, KafkaError)
                outcomes = (
                    dict.fromkeys(portion.items, reply) if failed else kind.outcomes(reply, portion)
                )
                for key in portion.items:
                    outcome = outcomes.get(key, UNANSWERED)
                    if isinstance(outcome, KafkaError) and outcome.code() in retriable:
                        again[key] = outcome
                    else:
                        settle(key, outcome)
            delay_s = self.backoff.next_s()
            if again and self.clock() + delay_s >= self.deadline:
                for key, error in again.items():
                    settle(key, late(error))
                return
            pending = list(again)
            if pending:
                yield delay_s

    def outcomes(
        self, kind: AdminOperation[KeyT, ItemT, ResponseT, ResultT], items: Mapping[KeyT, ItemT]
    ) -> Steps[dict[KeyT, ResultT | KafkaError]]:
        """The outcomes of a `run()`, by key."""
        found: dict[KeyT, ResultT | KafkaError] = {}
        yield from self.run(kind, items, found.__setitem__)
        return found

    def _connect(
        self, by_target: dict[int | None, dict[KeyT, ItemT]], again: dict[KeyT, KafkaError]
    ) -> Steps[None]:
        """Connects to the targets. Moves the items of unreachable targets to ``again``."""
        down = [
            target for target in by_target if target is not None and not self.pool.is_up(target)
        ]
        replies = yield [
            Ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), target)
            for target in down
        ]
        for target, reply in zip(down, replies, strict=True):
            if isinstance(reply, KafkaError):
                again.update(dict.fromkeys(by_target.pop(target), reply))

    # --- destinations ---

    def anywhere(self, keys: list[KeyT]) -> Steps[dict[KeyT, Target]]:
        """Any broker that is connected."""
        yield []  # no request is needed
        return dict.fromkeys(keys, ANY_BROKER)

    def controller(self, keys: list[KeyT]) -> Steps[dict[KeyT, Target]]:
        """The controller."""
        found = yield from self.cluster()
        is_old = self.pool.offering(MetadataRequest) and not self.pool.offering(CreateTopicsRequest)
        if found.controller_id < 0 and is_old:
            text = "the brokers name no controller: this call needs Apache Kafka 0.10.1 or newer"
            error = KafkaError(KafkaError._UNSUPPORTED_FEATURE, text)
            return dict.fromkeys(keys, error)
        if found.controller_id not in self.pool.nodes:
            error = KafkaError(
                KafkaError.NOT_CONTROLLER, "the cluster has no controller at the moment"
            )
            return dict.fromkeys(keys, error)
        return dict.fromkeys(keys, found.controller_id)

    def nodes(
        self, keys: list[KeyT], node_of: Callable[[KeyT], int | None], waits: bool = False
    ) -> Steps[dict[KeyT, Target]]:
        """Brokers by their ids; None: any broker.

        With ``waits``, an unknown one is awaited until the deadline. Then the call times out.
        """
        yield from self.cluster()
        wanted = {node_of(key) for key in keys} - {None}
        while waits and not wanted <= set(self.pool.nodes):
            if self.clock() + self.backoff.next_s() >= self.deadline:
                yield max(0.0, self.deadline - self.clock())
            yield from self._pause(KafkaError(KafkaError._UNKNOWN_BROKER))
            yield from self.cluster()
        placed: dict[KeyT, Target] = {}
        for key in keys:
            node = node_of(key)
            known = node is None or node in self.pool.nodes
            placed[key] = (
                node
                if known
                else KafkaError(KafkaError._UNKNOWN_BROKER, f"broker {node} isn't known")
            )
        return placed

    def leaders(self, keys: list[TopicPartition]) -> Steps[dict[TopicPartition, Target]]:
        """The leaders of partitions."""
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

    def coordinators(self, keys: list[str], key_type: int = GROUP_KEYS) -> Steps[dict[str, Target]]:
        """The coordinators of groups, by group id. One request looks up all (KIP-699)."""
        placed: dict[str, Target] = {}
        while len(placed) < len(keys):
            left = [key for key in keys if key not in placed]
            reply: FindCoordinatorResponse = yield from self.any(
                FindCoordinatorRequest(key=left[0], key_type=key_type, coordinator_keys=left)
            )
            answers: dict[str, FindCoordinatorResponse | FindCoordinatorResponse.Coordinator] = (
                {each.key: each for each in reply.coordinators}
                if reply.coordinators
                else {left[0]: reply}
            )
            if not answers.keys() & set(left):
                raise KafkaException(
                    KafkaError(
                        KafkaError._BAD_MSG,
                        "the FindCoordinator response has none of the requested keys",
                    )
                )
            for key in answers.keys() & set(left):
                placed[key] = self._coordinator(answers[key])
        return placed

    def transaction_coordinators(self, keys: list[str]) -> Steps[dict[str, Target]]:
        """The coordinators of transactional ids."""
        return self.coordinators(keys, TRANSACTION_KEYS)

    def _coordinator(
        self, answer: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator
    ) -> int | KafkaError:
        if answer.error_code:
            return KafkaError(answer.error_code, answer.error_message)
        if answer.node_id < 0 or not answer.host or not 0 < answer.port < 1 << 16:
            return KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
        try:
            return self.pool.coordinator(answer.node_id, answer.host, answer.port)
        except MemoryError:
            return KafkaError(
                KafkaError._TRANSPORT, "no memory for a connection to the coordinator"
            )


def brokers(node_of: Callable[[KeyT], int | None]) -> Destination[KeyT]:
    """A destination: each key goes to the broker that ``node_of`` returns; None: any broker."""
    return lambda operation, keys: operation.nodes(keys, node_of)


def within_group(group: str) -> Destination[KeyT]:
    """The destination of keys that belong to one group: its coordinator."""

    def place(operation: Operation, keys: list[KeyT]) -> Steps[dict[KeyT, Target]]:
        found = yield from operation.coordinators([group])
        return dict.fromkeys(keys, found[group])

    return place


def size_of(message: Request) -> int:
    """The size of a request in bytes, without its header. ProtocolError: it can't be encoded."""
    return len(message.for_version(message.max_version).encode(message.max_version))


UNANSWERED = KafkaError(KafkaError._BAD_MSG, "the broker's response has no result for it")


def late(error: KafkaError) -> KafkaError:
    """The error of an operation whose time is over, with its last error in the text."""
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
        """Times in seconds, from retry.backoff.ms and retry.backoff.max.ms."""
        self._pool = pool
        self._metadata = metadata
        self._logger = logger
        self._backoff = (backoff_s, backoff_max_s)
        self._clock = clock
        self._ready: deque[Operation] = deque()
        self._all: set[Operation] = set()
        self._closed: KafkaError | None = None

    def begin(
        self,
        make: Callable[[Operation], Steps[None]],
        deadline: float,
        fail: Callable[[BaseException], None],
    ) -> None:
        """Starts an operation. If it doesn't succeed, ``fail`` gets the exception.

        :param make: Makes the generator for an Operation.
        :param deadline: Monotonic seconds.
        """
        if self._closed is not None:
            fail(KafkaException(self._closed))
            return
        operation = Operation(
            self._pool, self._metadata, Backoff(*self._backoff), deadline, self._clock, fail=fail
        )
        operation.steps = make(operation)
        self._logger.debug("%s begins, %d are under way", operation.name, len(self._all))
        self._all.add(operation)
        self._ready.append(operation)

    def close(self, error: KafkaError) -> None:
        """Fails all operations with ``error``: the client is closing."""
        self._closed = error
        for operation in list(self._all):
            self._end(operation, KafkaException(error))

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        for operation in list(self._all):
            if now >= operation.deadline + GRACE_S:  # the driver ends it even if a reply was lost
                self._logger.debug("%s had no reply in time", operation.name)
                self._end(
                    operation,
                    KafkaException(
                        KafkaError(KafkaError._TIMED_OUT, "Not done in time: no reply came")
                    ),
                )
            elif operation.wake_at <= now:
                operation.wake_at = NEVER
                self._ready.append(operation)
        calls: list[Call] = []
        while self._ready:
            calls.extend(self._advance(self._ready.popleft(), now))
        return calls, min(
            (min(each.wake_at, each.deadline + GRACE_S) for each in self._all), default=NEVER
        )

    def _advance(self, operation: Operation, now: float) -> list[Call]:
        """Runs the operation's generator until it waits for replies, sleeps or ends."""
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
            Call(ask.message, ask.target, operation.deadline, partial(take, place))
            for place, ask in enumerate(asks)
        ]

    def _end(self, operation: Operation, error: BaseException) -> None:
        self._all.discard(operation)
        if operation.steps is not None:
            self._logger.debug("%s fails: %s", operation.name, error)
            operation.steps.close()
        operation.fail(error)
