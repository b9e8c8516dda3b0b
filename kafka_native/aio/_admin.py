"""AIOAdminClient: see the package."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from kafka_native.admin import AdminClient
from kafka_native.admin.base import Handle
from kafka_native.aio._admin_calls import AIOAdminCalls
from kafka_native.aio._callbacks import CALLBACKS, Callbacks, called, serve
from kafka_native.aio._consumer import AIOConsumer
from kafka_native.aio._loop import Asking, call_in_loop
from kafka_native.aio._producer import AIOProducer
from kafka_native.statistics import ClientMetrics


class AIOAdminClient(Callbacks, AIOAdminCalls):
    """Manages a cluster from an event loop: `kafka_native.admin.AdminClient` with asyncio's futures.

        async with AIOAdminClient({"bootstrap.servers": "localhost:9092"}) as admin:
            for topic, future in admin.create_topics([NewTopic("greetings", 3)]).items():
                await future

    Calls return at once, as AdminClient's do, with a future of the running loop an item; those that wait there are
    coroutines. A wait that is cancelled, or over by `asyncio.timeout`, doesn't take back what was asked. Callbacks,
    functions or coroutine functions, are called by the loop that the client was used in last.

    Tasks of one loop may use it at once. After ``fork()`` the child has to make a client of its own.
    """

    def __init__(self, admin_conf: Mapping[str, Any]) -> None:
        """KafkaException (_INVALID_ARG) names an unknown property or a value that can't be.

        :param admin_conf: librdkafka's properties (docs/CONFIGURATION.md).
        """
        conf = dict(admin_conf)
        self._tasks = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        for name in CALLBACKS:
            if callable(conf.get(name)):
                conf[name] = partial(called, weakref.ref(self), conf[name])
        self._core = _Core(conf)
        self._asking = Asking(self._core._client)
        self._owner: object | None = None
        self._served = 0
        self._core._client.ring = partial(_ring, weakref.ref(self))

    @classmethod
    def of(cls, client: AIOProducer | AIOConsumer | AIOAdminClient) -> AIOAdminClient:
        """The calls on another asyncio client's handle; see `AdminClient.of`. Callbacks stay with that client.

        :raises TypeError: It is none.
        :raises RuntimeError: It is closed.
        """
        if not isinstance(client, AIOProducer | AIOConsumer | AIOAdminClient):
            raise TypeError(f"an asyncio client is expected, not {type(client).__name__}; others: AdminClient.of")
        admin = cls.__new__(cls)
        admin._tasks = set()
        admin._loop = None
        admin._core = AdminClient.of(client._core)
        admin._asking = client._asking
        admin._owner = client
        admin._served = 0
        return admin

    async def metrics(self) -> ClientMetrics:
        """What this client has counted; see `Producer.metrics`."""
        return await self._asking.ask(self._core.metrics)

    async def poll(self, timeout: float = 0) -> int:
        """Lets callbacks run that are due; the loop does that by itself.

        :param timeout: Taken for the sake of the signature: nothing is waited for.
        :return: How many were made since the last call.
        """
        self._core._check_open()
        self._attach()
        await asyncio.sleep(0)
        self._serve()
        served, self._served = self._served, 0
        return served

    async def close(self) -> None:
        """Ends the client; futures that aren't done fail with _DESTROY. Again: nothing happens."""
        core = self._core
        if self._owner is None and not core._client.closed:
            await self._asking.end()
        core.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def __aenter__(self) -> AIOAdminClient:
        """Itself."""
        self._core._check_open()
        self._attach()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        await self.close()

    def __repr__(self) -> str:
        """Name and state."""
        return f"<AIO{repr(self._core)[1:]}"

    def _attach(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._serve()  # what came before there was a loop


class _Handle(Handle):
    """Tells whoever it may concern that a callback is due."""

    ring: Callable[[], None] | None = None

    def call_back(self, callback: Callable[[], Any]) -> None:
        super().call_back(callback)
        if self.ring is not None:
            self.ring()


class _Core(AdminClient):
    """The sync client below an AIOAdminClient."""

    _handle = _Handle
    _client: _Handle


def _ring(here: weakref.ref[AIOAdminClient]) -> None:
    """Control thread: has the loop serve."""
    it = here()
    if it is not None and it._loop is not None:
        call_in_loop(it._loop, serve, here)
