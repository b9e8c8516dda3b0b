"""Calls that take and refuse the same arguments as confluent_kafka's.

A function of confluent_kafka's C module (1) converts its arguments, (2) checks that the client is
open, (3) checks their contents, (4) does its work. The methods of a class that `parses` decorates
do the same, so they raise the same exceptions. The work is that of the class's own method, which
gets plain types. Parameters that only kafka_native has are accepted as keywords.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from kafka_native._native.arguments import Arguments
from kafka_native._native.message import ConfluentMessage as Message
from kafka_native.errors import KafkaException
from kafka_native.types import TopicPartition

C = TypeVar("C", bound=type)
Given = dict[str, Any]
NO_EXTENSIONS: Final[Given] = {}
REFUSALS: Final = (TypeError, ValueError, OverflowError, KafkaException)
"""The exceptions that may be about arguments."""


class Signature(NamedTuple):
    """The arguments of a call, and what happens around their conversion."""

    arguments: Arguments
    check: Callable[[Given], None] | None = None
    """It checks the contents of the converted arguments, and may replace them."""
    is_open_first: bool = False
    """The client has to be open before the arguments are converted."""
    calls_back: bool = False
    """The call runs callbacks of the application, so its exceptions may be theirs."""


def parses(calls: dict[str, Signature], check_open: Callable[[Any], object]) -> Callable[[C], C]:
    """Return a decorator for a class whose methods take these arguments.

    ``check_open`` raises the exception of a closed client.
    """

    def decorate(cls: C) -> C:
        for name, signature in calls.items():
            setattr(cls, name, _parsing(getattr(cls, name), signature, check_open))
        return cls

    return decorate


def _parsing(
    method: Callable[..., Any], signature: Signature, check_open: Callable[[Any], object]
) -> Callable[..., Any]:
    prepare = _preparing(method, signature, check_open)
    if signature.calls_back:

        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            given, named = prepare(self, args, kwargs)
            return method(self, *given, **named)

        @functools.wraps(method)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            given, named = prepare(self, args, kwargs)
            return await method(self, *given, **named)

    else:

        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            given, named = prepare(self, args, kwargs)
            try:
                return method(self, *given, **named)
            except REFUSALS:
                check_open(self)
                raise

        @functools.wraps(method)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            given, named = prepare(self, args, kwargs)
            try:
                return await method(self, *given, **named)
            except REFUSALS:
                check_open(self)
                raise

    return call_async if inspect.iscoroutinefunction(method) else call


def _preparing(
    method: Callable[..., Any], signature: Signature, check_open: Callable[[Any], object]
) -> Callable[[Any, tuple[Any, ...], Given], tuple[tuple[Any, ...], Given]]:
    """Return a function that converts and checks the arguments of a call."""
    parse, by_position = signature.arguments.parse, signature.arguments.positional
    check, is_open_first = signature.check, signature.is_open_first
    own = inspect.signature(method).parameters.keys() - signature.arguments.names

    def prepare(client: Any, args: tuple[Any, ...], kwargs: Given) -> tuple[tuple[Any, ...], Given]:
        if is_open_first:
            check_open(client)
        more = own and own & kwargs.keys()
        extensions = {name: kwargs.pop(name) for name in more} if more else NO_EXTENSIONS
        given = parse(args, kwargs)
        if check is not None:
            try:
                check(given)
            except REFUSALS:
                check_open(client)  # a closed client is the first reason
                raise
        if by_position:
            return tuple(given.values()), extensions
        return (), {**given, **extensions} if extensions else given

    return prepare


# --- the contents of arguments ---


def _check_partition(given: Given) -> None:
    if type(given["partition"]) is not TopicPartition:
        raise TypeError("expected TopicPartition")


def _check_partitions(partitions: object) -> None:
    if not isinstance(partitions, list):
        raise TypeError("requires list of TopicPartition")
    for each in partitions:
        if type(each) is not TopicPartition:
            raise TypeError("expected TopicPartition")


def _check_partition_list(given: Given) -> None:
    _check_partitions(given["partitions"])


def _check_positions(given: Given) -> None:
    _check_partitions(given["positions"])


def _check_offsets(given: Given) -> None:
    message, offsets = given.get("message"), given.get("offsets")
    if message is not None and offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    if offsets is not None:
        _check_partitions(offsets)
    elif message is not None and not isinstance(message, Message):
        raise TypeError("expected Message")


def _check_commit(given: Given) -> None:
    asynchronous = given.pop("async", True)
    given["asynchronous"] = bool(given.get("asynchronous", asynchronous))
    _check_offsets(given)


def _check_store(given: Given) -> None:
    if given.get("message") is None and given.get("offsets") is None:
        raise ValueError("expected either message or offsets")
    _check_offsets(given)


def _check_topics(given: Given) -> None:
    if not isinstance(given["topics"], list):
        raise TypeError("expected list of topic unicode strings")
    try:
        given["topics"] = [str(topic).partition("\0")[0] for topic in given["topics"]]
    except Exception:
        raise TypeError("expected list of unicode strings") from None


def _check_subscription(given: Given) -> None:
    if isinstance(given["topics"], list):
        for name in ("on_assign", "on_revoke", "on_lost"):
            if name in given and not callable(given[name]):
                raise TypeError(f"{name} expects a callable")
    _check_topics(given)


def _check_count(given: Given) -> None:
    if given.get("num_messages", 1) > CONSUME_MAX:
        raise ValueError("num_messages must be between 0 and 1000000 (1M)")


def _check_exit(given: Given) -> None:
    kind = given["exc_type"]
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        given.update(exc_type=None, exc_value=None, exc_traceback=None)


def _check_message(given: Given) -> None:
    if not isinstance(given["message"], Message):
        raise TypeError("argument 1 must be cimpl.Message")


# --- the calls ---

CONSUME_MAX: Final = 1_000_000
NOTHING = Signature(Arguments(""))
TIMEOUT = Signature(Arguments("|d", "timeout"))
STEP = Signature(Arguments("|d", "timeout", positional=True))
"""A step of a transaction."""
ASSIGNMENT = Signature(Arguments("O", "partitions", positional=True), _check_partition_list)
PARTITIONS = Signature(Arguments("O", "partitions"), _check_partition_list)
PARTITIONS_IN_TIME = Signature(Arguments("O|d", "partitions", "timeout"), _check_partition_list)
CLIENT = {
    "list_topics": Signature(Arguments("|zd", "topic", "timeout")),
    "cluster_id": TIMEOUT,
    "set_sasl_credentials": Signature(Arguments("ss", "username", "password")),
    "__exit__": Signature(
        Arguments("OOO", "exc_type", "exc_value", "exc_traceback", positional=True), _check_exit
    ),
}
PRODUCER = {
    **CLIENT,
    "flush": TIMEOUT._replace(calls_back=True),
    "purge": Signature(Arguments("|ppp", "in_queue", "in_flight", "blocking")),
    "init_transactions": STEP,
    "commit_transaction": STEP,
    "abort_transaction": STEP,
    "send_offsets_to_transaction": Signature(
        Arguments("OO|d", "positions", "group_metadata", "timeout", positional=True),
        _check_positions,
    ),
}
"""The calls of a producer, without produce() and poll(), which have no cost here."""
CONSUMER = {
    **CLIENT,
    "subscribe": Signature(
        Arguments("O|OOO", "topics", "on_assign", "on_revoke", "on_lost"), _check_subscription
    ),
    "assign": ASSIGNMENT,
    "incremental_assign": ASSIGNMENT,
    "incremental_unassign": ASSIGNMENT,
    "commit": Signature(
        Arguments("|OOOO", "message", "offsets", "async", "asynchronous"),
        _check_commit,
        is_open_first=True,
    ),
    "store_offsets": Signature(Arguments("|OO", "message", "offsets"), _check_store),
    "committed": PARTITIONS_IN_TIME,
    "position": PARTITIONS,
    "pause": PARTITIONS,
    "resume": PARTITIONS,
    "seek": Signature(Arguments("O", "partition"), _check_partition),
    "get_watermark_offsets": Signature(
        Arguments("O|db", "partition", "timeout", "cached"), _check_partition
    ),
    "offsets_for_times": PARTITIONS_IN_TIME,
    "consume": Signature(
        Arguments("|Id", "num_messages", "timeout"), _check_count, calls_back=True
    ),
    "close": NOTHING._replace(calls_back=True),
}
"""The calls of a consumer, without poll(), which has no cost here."""
SHARE_CONSUMER = {
    "subscribe": Signature(Arguments("O", "topics"), _check_topics, is_open_first=True),
    "poll": TIMEOUT._replace(is_open_first=True, calls_back=True),
    "acknowledge": Signature(
        Arguments("O|i", "message", "ack_type"), _check_message, is_open_first=True
    ),
    "acknowledge_offset": Signature(
        Arguments("siL|i", "topic", "partition", "offset", "ack_type"), is_open_first=True
    ),
    "commit_sync": TIMEOUT._replace(is_open_first=True, calls_back=True),
    "set_acknowledgement_commit_callback": Signature(
        Arguments("O", "callback"), is_open_first=True
    ),
    "set_sasl_credentials": CLIENT["set_sasl_credentials"]._replace(is_open_first=True),
    "__exit__": CLIENT["__exit__"],
    "close": NOTHING._replace(calls_back=True),
}
"""The calls of a share consumer."""


def _of_executor(calls: dict[str, Signature], *left_out: str) -> dict[str, Signature]:
    """Return the calls that asyncio's clients make in threads, which end when they are closed."""
    return {
        name: signature._replace(is_open_first=True)
        for name, signature in calls.items()
        if name not in ("__exit__", *left_out)
    }


AIO_PRODUCER = _of_executor({**PRODUCER, "begin_transaction": NOTHING}, "cluster_id")
"""The calls of asyncio's producer, without produce() and poll()."""
AIO_CONSUMER = _of_executor(
    {
        **CONSUMER,
        "subscribe": Signature(CONSUMER["subscribe"].arguments, _check_topics),
        "unsubscribe": NOTHING,
        "unassign": NOTHING,
        "consumer_group_metadata": NOTHING,
    }
)
"""The calls of asyncio's consumer, without poll()."""
