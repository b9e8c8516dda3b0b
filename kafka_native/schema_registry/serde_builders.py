"""The base of builders: they make a serializer or deserializer, and its registry client, later.

A client takes a builder as ``key.serializer.builder``, ``value.deserializer.builder`` and so on. It
closes what the builder has made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from kafka_native.schema_registry.async_client import AsyncSchemaRegistryClient
from kafka_native.schema_registry.client import SchemaRegistryClient
from kafka_native.schema_registry.rule_registry import RuleRegistry

__all__ = ["AsyncRegistryBuilder", "RegistryBuilder", "async_build_serde", "build_serde"]

S = TypeVar("S")
B = TypeVar("B", bound="BuilderSettings[Any]")


def _check_client(client: Any, conf: dict[str, Any] | None) -> None:
    if client is not None and conf is not None:
        raise ValueError("pass a schema registry client or its configuration, not both")


def build_serde(
    schema_registry_client: Any,
    schema_registry_conf: dict[str, Any] | None,
    construct: Callable[[Any], S],
    init: Callable[[S], object] | None = None,
) -> S:
    """Make a serializer or deserializer that closes its client, if the client is made here.

    :param schema_registry_client: A client, which stays open.
    :param schema_registry_conf: The configuration of a new client instead.
    :param construct: Makes the object from the client, or from None.
    :param init: Gets the object at the end.
    :raises ValueError: Both a client and a configuration are given.
    """
    _check_client(schema_registry_client, schema_registry_conf)
    client, owned = schema_registry_client, schema_registry_conf is not None
    if schema_registry_conf is not None:
        client = SchemaRegistryClient(schema_registry_conf)
    closable: Any = client if owned else None
    try:
        serde = construct(client)
        closable = serde
        if owned:
            closable.own_schema_registry_client()
        if init is not None:
            init(serde)
    except BaseException:
        if closable is not None:
            closable.close()
        raise
    return serde


async def async_build_serde(
    schema_registry_client: Any,
    schema_registry_conf: dict[str, Any] | None,
    construct: Callable[[Any], Awaitable[S]],
    init: Callable[[S], Awaitable[object]] | None = None,
) -> S:
    """Make a serializer or deserializer as `build_serde()` does, with asyncio.

    :param schema_registry_client: A client, which stays open.
    :param schema_registry_conf: The configuration of a new client instead.
    :param construct: Makes the object from the client, or from None. It is awaited.
    :param init: Gets the object at the end. It is awaited.
    :raises ValueError: Both a client and a configuration are given.
    """
    _check_client(schema_registry_client, schema_registry_conf)
    client, owned = schema_registry_client, schema_registry_conf is not None
    if schema_registry_conf is not None:
        client = AsyncSchemaRegistryClient(schema_registry_conf)
    closable: Any = client if owned else None
    try:
        serde = await construct(client)
        closable = serde
        if owned:
            closable.own_schema_registry_client()
        if init is not None:
            await init(serde)
    except BaseException:
        if closable is not None:
            await closable.aclose()
        raise
    return serde


class BuilderSettings(Generic[S]):
    """The settings that all builders have. Each setter returns the builder."""

    _init: Callable[[S], Any] | None = None

    def __init__(
        self,
        schema_registry_config: dict[str, Any] | None,
        schema_registry_client: Any,
        rule_config: dict[str, Any] | None,
        rule_registry: RuleRegistry | None,
    ) -> None:
        self._client_conf = schema_registry_config
        self._client = schema_registry_client
        self._rule_conf = rule_config
        self._rule_registry = rule_registry

    def set_schema_registry_config(self: B, schema_registry_conf: dict[str, Any]) -> B:
        """Make a new client with this configuration. It excludes a client of your own."""
        self._client_conf = schema_registry_conf
        return self

    def set_schema_registry_client(self: B, schema_registry_client: Any) -> B:
        """Use this client. Closing the serializer or deserializer doesn't close it."""
        self._client = schema_registry_client
        return self

    def set_rule_config(self: B, rule_conf: dict[str, Any]) -> B:
        """Configure the rule executors and actions with this."""
        self._rule_conf = rule_conf
        return self

    def set_rule_registry(self: B, rule_registry: RuleRegistry) -> B:
        """Use these rule executors and actions instead of those of the process."""
        self._rule_registry = rule_registry
        return self

    def _construct(self, client: Any) -> Any:
        raise NotImplementedError


class SerializerSettings(BuilderSettings[S]):
    """The settings that all builders of serializers have."""

    _conf: dict[str, Any] | None = None

    def set_serializer_config(self: B, serializer_conf: dict[str, Any]) -> B:
        """Configure the serializer with this, for instance ``use.latest.version``."""
        self._conf = serializer_conf  # type: ignore[attr-defined]
        return self

    def set_serializer_init(self: B, serializer_init: Callable[[Any], Any]) -> B:
        """Call this function with the serializer after it is built."""
        self._init = serializer_init
        return self


class DeserializerSettings(BuilderSettings[S]):
    """The settings that all builders of deserializers have."""

    _conf: dict[str, Any] | None = None

    def set_deserializer_config(self: B, deserializer_conf: dict[str, Any]) -> B:
        """Configure the deserializer with this, for instance ``use.latest.version``."""
        self._conf = deserializer_conf  # type: ignore[attr-defined]
        return self

    def set_deserializer_init(self: B, deserializer_init: Callable[[Any], Any]) -> B:
        """Call this function with the deserializer after it is built."""
        self._init = deserializer_init
        return self


class RegistryBuilder(BuilderSettings[S]):
    """A builder for clients that wait."""

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[S, dict[str, Any]]:
        """Return the serializer or deserializer, and the client's configuration unchanged."""
        made = build_serde(self._client, self._client_conf, self._construct, self._init)
        return made, dict(conf)


class AsyncRegistryBuilder(BuilderSettings[S]):
    """A builder for asyncio clients."""

    async def build(self, conf: dict[str, Any], is_key: bool) -> tuple[S, dict[str, Any]]:
        """Return the serializer or deserializer, and the client's configuration unchanged."""
        made = await async_build_serde(self._client, self._client_conf, self._construct, self._init)
        return made, dict(conf)
