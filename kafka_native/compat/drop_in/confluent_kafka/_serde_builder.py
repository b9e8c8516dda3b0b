"""confluent_kafka's helpers of clients that convert, for programs that import them.

The clients here have their own (`kafka_native.serialization.Serdes`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

CLUSTER_ID_TIMEOUT = 60.0
"""How long a resolver waits for the cluster id, in seconds."""


class SerdeSpec(NamedTuple):
    """A client's configuration of one serializer or deserializer."""

    prop: str
    serde: Any
    builder: Any
    is_key: bool


def pop_serde_props(
    conf: dict[str, Any], key_prop: str, value_prop: str
) -> tuple[list[SerdeSpec], dict[str, Any]]:
    """Return the specifications of key and value, and the rest of the configuration.

    :raises ValueError: A property and its ``.builder`` are both given.
    """
    rest = conf.copy()
    specs = []
    for prop, is_key in ((key_prop, True), (value_prop, False)):
        serde, builder = rest.pop(prop, None), rest.pop(f"{prop}.builder", None)
        if serde is not None and builder is not None:
            text = f"Cannot configure both {prop} and {prop}.builder; use one or the other"
            raise ValueError(text)
        specs.append(SerdeSpec(prop, serde, builder, is_key))
    return specs, rest


def validate_build_result(builder_prop: str, result: Any) -> tuple[Any, dict[str, Any]]:
    """Return the two parts of a builder's result.

    :raises ValueError: It is no pair of an object and a dict.
    """
    try:
        serde, rest = result
    except (TypeError, ValueError):
        kind = type(result).__name__
        raise ValueError(
            f"{builder_prop}.builder must return a (serde, configuration) tuple from build(), "
            f"got {kind}"
        ) from None
    if not isinstance(rest, dict):
        raise ValueError(
            f"{builder_prop}.builder returned {type(rest).__name__} as the leftover configuration "
            "from build(), expected a dict"
        )
    return serde, rest


def intersect_leftovers(conf: dict[str, Any], leftovers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the properties that every builder has left, as the last one returned them."""
    if not leftovers:
        return conf
    *others, last = leftovers
    return {key: value for key, value in last.items() if all(key in each for each in others)}


def build_serdes(
    specs: list[SerdeSpec], conf: dict[str, Any]
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Call the builders.

    If one fails, what the others have made is closed.

    :return: The objects in the order of ``specs``, those that builders made, and the configuration
        that is left for the client.
    """
    serdes: list[Any] = []
    owned: list[Any] = []
    leftovers: list[dict[str, Any]] = []
    try:
        for spec in specs:
            serde = spec.serde
            if spec.builder is not None:
                built = spec.builder.build(dict(conf), spec.is_key)
                serde, rest = validate_build_result(spec.prop, built)
                owned.append(serde)
                leftovers.append(rest)
            serdes.append(serde)
    except BaseException:
        close_serdes(owned)
        raise
    return serdes, owned, intersect_leftovers(conf, leftovers)


async def maybe_await(result: Any) -> Any:
    """Return the result, after waiting for it if it is awaitable."""
    return await result if inspect.isawaitable(result) else result


async def async_build_serdes(
    specs: list[SerdeSpec], conf: dict[str, Any]
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Do what `build_serdes()` does; ``build()`` may be a coroutine function."""
    serdes: list[Any] = []
    owned: list[Any] = []
    leftovers: list[dict[str, Any]] = []
    try:
        for spec in specs:
            serde = spec.serde
            if spec.builder is not None:
                built = await maybe_await(spec.builder.build(dict(conf), spec.is_key))
                serde, rest = validate_build_result(spec.prop, built)
                owned.append(serde)
                leftovers.append(rest)
            serdes.append(serde)
    except BaseException:
        await async_close_serdes(owned)
        raise
    return serdes, owned, intersect_leftovers(conf, leftovers)


class SharedClusterIdResolver:
    """Returns the cluster id. Threads that call at the same time share one request.

    :param cluster_id: The client's ``cluster_id`` method.
    :param timeout: How long to wait, in seconds.
    """

    def __init__(self, cluster_id: Callable[..., Any], timeout: float = CLUSTER_ID_TIMEOUT) -> None:
        self._cluster_id = cluster_id
        self._timeout = timeout
        self._lock = threading.Lock()
        self._in_flight: concurrent.futures.Future[Any] | None = None

    def __call__(self) -> Any:
        with self._lock:
            running = self._in_flight
            if running is None:
                own = self._in_flight = concurrent.futures.Future()
        if running is not None:
            return running.result()
        try:
            found = self._cluster_id(timeout=self._timeout)
        except BaseException as error:
            self._clear(own)
            own.set_exception(error)
            raise
        self._clear(own)  # first, so that a later call asks again
        own.set_result(found)
        return found

    def _clear(self, in_flight: concurrent.futures.Future[Any]) -> None:
        with self._lock:
            if self._in_flight is in_flight:
                self._in_flight = None


class AsyncSharedClusterIdResolver:
    """Returns the cluster id. Tasks that await it at the same time share one request.

    :param cluster_id: The client's ``cluster_id`` coroutine method.
    :param timeout: How long to wait, in seconds.
    """

    def __init__(
        self,
        cluster_id: Callable[..., Coroutine[Any, Any, Any]],
        timeout: float = CLUSTER_ID_TIMEOUT,
    ) -> None:
        self._cluster_id = cluster_id
        self._timeout = timeout
        self._in_flight: asyncio.Task[Any] | None = None

    async def __call__(self) -> Any:
        if self._in_flight is None:
            self._in_flight = asyncio.get_running_loop().create_task(self._resolve())
        return await asyncio.shield(self._in_flight)  # others may still wait for it

    async def _resolve(self) -> Any:
        try:
            return await self._cluster_id(timeout=self._timeout)
        finally:
            self._in_flight = None


def propagate_cluster_id_resolver(resolver: Callable[[], Any], serdes: list[Any]) -> None:
    """Pass the resolver to each object with ``set_cluster_id_resolver()``."""
    _offer("set_cluster_id_resolver", resolver, serdes)


def propagate_async_cluster_id_resolver(
    resolver: Callable[[], Awaitable[Any]], serdes: list[Any]
) -> None:
    """Pass the resolver to each object with ``set_async_cluster_id_resolver()``."""
    _offer("set_async_cluster_id_resolver", resolver, serdes)


def _offer(setter: str, resolver: Callable[[], Any], serdes: list[Any]) -> None:
    for serde in serdes:
        take = getattr(serde, setter, None)
        if callable(take):
            take(resolver)


def close_serdes(serdes: list[Any]) -> None:
    """Close each object that has ``close()``, then raise the first error.

    The log has the other errors.
    """
    errors: list[BaseException] = []
    for serde in serdes:
        close = getattr(serde, "close", None)
        if callable(close):
            try:
                close()
            except BaseException as error:
                _note(errors, error, serde)
    if errors:
        raise errors[0]


async def async_close_serdes(serdes: list[Any]) -> None:
    """Do what `close_serdes()` does, with ``aclose()`` if there is one."""
    errors: list[BaseException] = []
    for serde in serdes:
        close = getattr(serde, "aclose", None)
        if not callable(close):
            close = getattr(serde, "close", None)
        if callable(close):
            try:
                await maybe_await(close())
            except BaseException as error:
                _note(errors, error, serde)
    if errors:
        raise errors[0]


def _note(errors: list[BaseException], error: BaseException, serde: Any) -> None:
    if errors:
        log.warning("Failed to close serde %r", serde, exc_info=error)
    errors.append(error)
