"""Client: one client with many roles, which share its connections, metadata and threads."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from kafka_native.admin import AdminClient
from kafka_native.admin.base import Handle
from kafka_native.client_core import HOST_CLOSED_TEXT, UninitializedClient, existing, new_role
from kafka_native.config import merged_conf
from kafka_native.consumer import Consumer
from kafka_native.control.settings import (
    connection_settings,
    consumer_settings,
    producer_settings,
)
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.producer import Producer
from kafka_native.role_config import parse_host
from kafka_native.share_consumer import ShareConsumer

if TYPE_CHECKING:
    from typing_extensions import Self

    from kafka_native.statistics import ClientMetrics

RoleT = TypeVar("RoleT")


class Client:
    """One connection to a cluster for many producers, consumers and admin clients: its roles.

        with Client({"bootstrap.servers": "localhost:9092"}) as client:
            producer = client.producer({"acks": "all"})
            consumer = client.consumer({"group.id": "readers"})
            admin = client.admin()

    The roles share the client's control thread, its connections for metadata and administration,
    its metadata cache, its authentication (one token refresh for all) and its log. Each role has
    its own connections for messages and for its group, and its own callbacks, queues and
    statistics. docs/guide/shared-client.md has the details.

    A role is closed like any other client. That doesn't disturb the other roles. Closing the Client
    closes its roles first. Without `close()`, the Client ends when nobody refers to it or to its
    roles any more.

    Several threads may use a Client. After ``fork()`` the child has to create its own.
    """

    _client: Handle = UninitializedClient()  # type: ignore[assignment]

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """Creates a client. It connects when a role needs it.

        KafkaException: _INVALID_ARG names an unknown property, an invalid value, or a property that
        belongs to a role.

        Parameters
        ----------
        config : Mapping[str, Any], optional
            The properties of the connection: ``bootstrap.servers``, ``client.id``, ``security.*``,
            ``sasl.*``, ``ssl.*``, ``socket.*``, ``metadata.*``, logging. ``retry.backoff.*``,
            ``client.rack``, ``connections.per.broker``, ``statistics.interval.ms`` and
            ``enable.metrics.push`` are defaults for the roles. ``error_cb``, ``throttle_cb`` and
            ``stats_cb`` are the Client's own: `poll()` runs them.
        **kwargs
            The same.
        """
        conf = merged_conf(config, kwargs)
        settings = parse_host(conf)
        everything = {
            **connection_settings(settings),
            **consumer_settings(settings),
            **producer_settings(settings, 0, False),
        }
        self._owners: weakref.WeakSet[Any] = weakref.WeakSet()
        self._client = Handle(settings, "client", everything)
        self._client.role_conf = conf
        self._client.main.start()

    @overload
    def producer(self, conf: Mapping[str, Any] | None = None) -> Producer: ...

    @overload
    def producer(self, conf: Mapping[str, Any] | None = None, *, of: type[RoleT]) -> RoleT: ...

    def producer(self, conf: Mapping[str, Any] | None = None, *, of: type[Any] = Producer) -> Any:
        """Creates a producer that is a role of this client.

        Parameters
        ----------
        conf : Mapping[str, Any], optional
            A producer's properties, without those of the Client: ``acks``, ``linger.ms``,
            ``transactional.id``, callbacks.
        of : type
            The class to create: `Producer`, a subclass such as `SerializingProducer`, or
            ``aio.AIOProducer``.

        Raises
        ------
        KafkaException
            _INVALID_ARG: a property is unknown, its value is invalid, or it belongs to the Client.
        RuntimeError
            The client is closed.
        """
        return self._make(of, conf)

    @overload
    def consumer(self, conf: Mapping[str, Any] | None = None) -> Consumer: ...

    @overload
    def consumer(self, conf: Mapping[str, Any] | None = None, *, of: type[RoleT]) -> RoleT: ...

    def consumer(self, conf: Mapping[str, Any] | None = None, *, of: type[Any] = Consumer) -> Any:
        """Creates a consumer that is a role of this client.

        Parameters
        ----------
        conf : Mapping[str, Any], optional
            A consumer's properties, without those of the Client: ``group.id``,
            ``auto.offset.reset``, callbacks.
        of : type
            The class to create: `Consumer`, a subclass such as `DeserializingConsumer`, or
            ``aio.AIOConsumer``.

        Raises
        ------
        KafkaException
            _INVALID_ARG: a property is unknown, its value is invalid, or it belongs to the Client.
        RuntimeError
            The client is closed.
        """
        return self._make(of, conf)

    @overload
    def share_consumer(self, conf: Mapping[str, Any] | None = None) -> ShareConsumer: ...

    @overload
    def share_consumer(
        self, conf: Mapping[str, Any] | None = None, *, of: type[RoleT]
    ) -> RoleT: ...

    def share_consumer(
        self, conf: Mapping[str, Any] | None = None, *, of: type[Any] = ShareConsumer
    ) -> Any:
        """Creates a share consumer that is a role of this client.

        Parameters
        ----------
        conf : Mapping[str, Any], optional
            A share consumer's properties, without those of the Client: ``group.id``.
        of : type
            The class to create: `ShareConsumer`, a subclass, or ``aio.AIOShareConsumer``.

        Raises
        ------
        KafkaException
            _INVALID_ARG: a property is unknown, its value is invalid, or it belongs to the Client.
        RuntimeError
            The client is closed.
        """
        return self._make(of, conf)

    def admin(self) -> AdminClient:
        """Creates an admin client on the connections of this client; see `AdminClient.of`.

        Raises
        ------
        RuntimeError
            The client is closed.
        """
        return AdminClient.of(self)

    def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs, for all its roles.

        A role's own ``brokers_add()`` does the same. See `Producer.brokers_add` for the parameter,
        the result and the errors.

        Raises
        ------
        RuntimeError
            The client is closed.
        """
        self._client.check_open(HOST_CLOSED_TEXT)
        return self._client.brokers_add(brokers)

    def _make(self, kind: type[RoleT], conf: Mapping[str, Any] | None) -> RoleT:
        self._client.check_open(HOST_CLOSED_TEXT)
        if not hasattr(kind, "_host"):
            raise TypeError(f"{kind.__name__} can't be a role of a Client")
        role = new_role(kind, self._client, {**(conf or {})})
        self._owners.add(role)
        return role

    def poll(self, timeout: float = -1) -> int:
        """Runs the Client's callbacks that are due: ``error_cb``, ``throttle_cb``, ``stats_cb``.

        With ``log.queue``, it also passes on the log lines of the Client and its roles. The
        callbacks of a role run in the calls of that role.

        Parameters
        ----------
        timeout : float
            Seconds to wait for a callback; negative or more than a year waits without limit.

        Returns
        -------
        int
            How many callbacks ran. Exceptions of callbacks are raised.

        Raises
        ------
        RuntimeError
            The client is closed.
        """
        self._client.check_open(HOST_CLOSED_TEXT)
        return self._client.poll(timeout)

    def metrics(self) -> ClientMetrics:
        """Returns the statistics of the shared connections; see `Producer.metrics`.

        Each role has its own statistics.
        """
        return self._client.metrics(HOST_CLOSED_TEXT)

    def close(self, timeout: float | None = None) -> None:
        """Closes the roles, then the client. A second call does nothing.

        Roles of asyncio's classes are closed without delivering or committing anything: await
        `aclose()` instead.

        Parameters
        ----------
        timeout : float, optional
            Seconds for the ``close()`` calls of all roles together. None: each role's default, so
            that producers deliver all their messages.

        Raises
        ------
        Exception
            The first exception of a role's ``close()``, when everything is closed. The log has the
            others.
        """
        self._end(_rest_of(timeout), [])

    async def aclose(self, timeout: float | None = None) -> None:
        """Closes the client as `close()` does, without blocking the event loop.

        Parameters
        ----------
        timeout : float, optional
            Seconds for the ``close()`` calls of all roles together; None: each role's default.

        Raises
        ------
        Exception
            The first exception of a role's ``close()``, when everything is closed. The log has the
            others.
        """
        rest = _rest_of(timeout)
        errors: list[Exception] = []
        for role in existing(self._owners):
            if inspect.iscoroutinefunction(role.close):
                try:
                    await role.close(*rest())
                except Exception as error:
                    errors.append(error)
        await asyncio.to_thread(self._end, rest, errors)

    def _end(self, rest: Callable[[], tuple[float, ...]], errors: list[Exception]) -> None:
        """Closes the synchronous roles, then the client. Raises the first error at the end."""
        for role in existing(self._owners):
            if inspect.iscoroutinefunction(role.close):
                continue
            try:
                role.close(*rest())
            except Exception as error:
                errors.append(error)
        for other in errors[1:]:
            self._client.logger.error("a role could not be closed in order: %r", other)
        self._client.close()
        self._client.release()
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        """The client itself."""
        self._client.check_open(HOST_CLOSED_TEXT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the roles and the client."""
        self.close()

    async def __aenter__(self) -> Self:
        """The client itself."""
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the roles and the client without blocking the event loop."""
        await self.aclose()

    def __del__(self) -> None:
        """Ends the threads as soon as there are no roles any more."""
        core = self.__dict__.get("_client")
        if core is not None:
            core.drop_with_roles()

    def __repr__(self) -> str:
        """The client's name and state."""
        state = "closed" if self._client.closed else "open"
        return f"<Client {self._client.name} ({state})>"


def _rest_of(timeout: float | None) -> Callable[[], tuple[float, ...]]:
    """Returns the arguments of the next `close()` within the timeout."""
    if timeout is None:
        return lambda: ()
    deadline = deadline_of(timeout)
    return lambda: (left_s(deadline),)
