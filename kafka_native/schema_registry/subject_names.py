"""Subject name strategies: which subject a serializer registers a schema under."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Protocol, cast

from kafka_native.schema_registry.caches import LruCache
from kafka_native.schema_registry.error import SchemaRegistryError
from kafka_native.schema_registry.schemas import Association, SchemaReference
from kafka_native.schema_registry.steps import Ask, Call, ask, ask_async, run, run_async
from kafka_native.serialization import MessageField, SerializationContext, SerializationError

KAFKA_CLUSTER_ID = "subject.name.strategy.kafka.cluster.id"
FALLBACK_TYPE = "subject.name.strategy.fallback.type"
ANY_NAMESPACE = "-"
DEFAULT_CACHE_CAPACITY = 1000


def topic_subject_name_strategy(
    ctx: SerializationContext | None, record_name: str | None
) -> str | None:
    """Return ``{topic}-key`` or ``{topic}-value``.

    Parameters
    ----------
    ctx : SerializationContext
        The topic and the field.
    record_name : str, optional
        The record's name, which this strategy ignores.

    Returns
    -------
    str
        The subject.

    Raises
    ------
    ValueError
        The context is missing.
    """
    return f"{_needed(ctx, 'topic_subject_name_strategy').topic}-{_field(ctx)}"


def topic_record_subject_name_strategy(
    ctx: SerializationContext | None, record_name: str | None
) -> str | None:
    """Return ``{topic}-{record name}``.

    Parameters
    ----------
    ctx : SerializationContext
        The topic.
    record_name : str, optional
        The record's name.

    Returns
    -------
    str or None
        The subject. None if the record has no name.

    Raises
    ------
    ValueError
        The context is missing.
    """
    topic = _needed(ctx, "topic_record_subject_name_strategy").topic
    return None if record_name is None else f"{topic}-{record_name}"


def record_subject_name_strategy(
    ctx: SerializationContext | None, record_name: str | None
) -> str | None:
    """Return the record's name.

    Parameters
    ----------
    ctx : SerializationContext, optional
        The context, which this strategy ignores.
    record_name : str, optional
        The record's name.

    Returns
    -------
    str or None
        The subject. None if the record has no name.
    """
    return record_name


def reference_subject_name_strategy(
    ctx: SerializationContext | None, schema_ref: SchemaReference
) -> str | None:
    """Return the name of a reference.

    Parameters
    ----------
    ctx : SerializationContext, optional
        The context, which this strategy ignores.
    schema_ref : SchemaReference
        The reference.

    Returns
    -------
    str or None
        The subject of the schema that the reference names.
    """
    return None if schema_ref is None else schema_ref.name


def _needed(ctx: SerializationContext | None, strategy: str) -> SerializationContext:
    if ctx is None:
        raise ValueError(
            f"{strategy} needs a SerializationContext; record_subject_name_strategy needs none"
        )
    return ctx


def _field(ctx: SerializationContext | None) -> str:
    field = None if ctx is None else ctx.field
    return str(field.value if isinstance(field, MessageField) else field)


class SubjectNameStrategyType(str, Enum):
    """The strategies that a serializer's configuration names."""

    NONE = "NONE"
    TOPIC = "TOPIC"
    RECORD = "RECORD"
    TOPIC_RECORD = "TOPIC_RECORD"
    ASSOCIATED = "ASSOCIATED"


STRATEGY_TYPE_MAP: dict[
    SubjectNameStrategyType, Callable[[SerializationContext | None, str | None], str | None]
] = {
    SubjectNameStrategyType.TOPIC: topic_subject_name_strategy,
    SubjectNameStrategyType.RECORD: record_subject_name_strategy,
    SubjectNameStrategyType.TOPIC_RECORD: topic_record_subject_name_strategy,
}


class AssociationsClient(Protocol):
    """The call of a client that `AssociatedNameStrategy` needs."""

    def get_associations_by_resource_name(
        self,
        resource_name: str,
        resource_namespace: str,
        resource_type: str | None = None,
        association_types: list[str] | None = None,
        offset: int = 0,
        limit: int = -1,
    ) -> list[Association]:
        """Return the associations of a topic."""


class AsyncAssociationsClient(Protocol):
    """The call of a client that `AsyncAssociatedNameStrategy` needs."""

    async def get_associations_by_resource_name(
        self,
        resource_name: str,
        resource_namespace: str,
        resource_type: str | None = None,
        association_types: list[str] | None = None,
        offset: int = 0,
        limit: int = -1,
    ) -> list[Association]:
        """Return the associations of a topic."""


class _AssociatedNames:
    """What the two strategies share: the cache, the decisions and the errors."""

    def __init__(self, cache_capacity: int = DEFAULT_CACHE_CAPACITY) -> None:
        self._cache: LruCache[tuple[str, bool, str | None], str] = LruCache(cache_capacity)
        """The subjects that were found. An empty one: there is none without a record name."""
        self._resolver: Callable[[], Any] | None = None

    @staticmethod
    def _key(ctx: SerializationContext, record_name: str | None) -> tuple[str, bool, str | None]:
        return ctx.topic, ctx.field == MessageField.KEY, record_name

    @staticmethod
    def _arguments(ctx: SerializationContext, namespace: str) -> dict[str, Any]:
        """Return the arguments of `get_associations_by_resource_name()`."""
        return {
            "resource_name": ctx.topic,
            "resource_namespace": namespace,
            "resource_type": "topic",
            "association_types": ["key" if ctx.field == MessageField.KEY else "value"],
            "offset": 0,
            "limit": -1,
        }

    def _find(
        self,
        ctx: SerializationContext | None,
        record_name: str | None,
        client: AssociationsClient | AsyncAssociationsClient | None,
        conf: Mapping[str, Any] | None,
    ) -> Call[str | None]:
        """Return the subject. The steps ask the resolver and the registry."""
        ctx = _needed(ctx, type(self).__name__)
        if not ctx.topic:
            return None
        found = self._cache.get(self._key(ctx, record_name))
        if found is not None:
            return found or None
        if client is None:
            return topic_subject_name_strategy(ctx, record_name)
        fallback = _fallback(conf)
        arguments = self._arguments(ctx, (yield from self._cluster_id(conf)))
        ask_registry = client.get_associations_by_resource_name
        try:
            associations: list[Association] = yield Ask(lambda: ask_registry(**arguments))
        except SchemaRegistryError as error:
            if error.http_status_code != 404:
                raise
            associations = []
        return self._subject(associations, ctx, record_name, fallback)

    def _cluster_id(self, conf: Mapping[str, Any] | None) -> Call[str]:
        """Return the cluster's id: the configured one, or that of the resolver, or any."""
        configured = (conf or {}).get(KAFKA_CLUSTER_ID)
        if configured:
            return str(configured)
        if self._resolver is None:
            return ANY_NAMESPACE
        try:
            found = yield Ask(self._resolver)
        except Exception as error:
            raise SerializationError(
                "the cluster's id for the associated subject name isn't known, perhaps because no "
                f"broker has answered yet: {error}. You can set {KAFKA_CLUSTER_ID}"
            ) from error
        if not found:
            raise SerializationError(
                f"the cluster has no id for the associated subject name: set {KAFKA_CLUSTER_ID}"
            )
        return str(found)

    def _subject(
        self,
        associations: list[Association],
        ctx: SerializationContext,
        record_name: str | None,
        fallback: SubjectNameStrategyType,
    ) -> str | None:
        """Return the associated subject, or that of the fallback strategy."""
        if len(associations) > 1:
            subjects = ", ".join(str(each.subject) for each in associations)
            raise SerializationError(f"topic {ctx.topic} has several subjects: {subjects}")
        if associations:
            subject = associations[0].subject
        elif fallback is SubjectNameStrategyType.NONE:
            raise SerializationError(f"topic {ctx.topic} has no associated subject")
        else:
            subject = STRATEGY_TYPE_MAP[fallback](ctx, record_name)
        # A deserializer asks without a record name first, for each message with rules.
        self._cache.put(self._key(ctx, record_name), subject or "")
        return subject


def _fallback(conf: Mapping[str, Any] | None) -> SubjectNameStrategyType:
    value = (conf or {}).get(FALLBACK_TYPE)
    if value is None:
        return SubjectNameStrategyType.TOPIC
    allowed = [each for each in SubjectNameStrategyType if each.value != "ASSOCIATED"]
    name = value.value if isinstance(value, SubjectNameStrategyType) else str(value).upper()
    for each in allowed:
        if each.value == name:
            return each
    names = ", ".join(each.value for each in allowed)
    raise ValueError(f"{FALLBACK_TYPE} must be one of {names}, not {name}")


class AssociatedNameStrategy(_AssociatedNames):
    """A strategy that asks the registry which subject a topic is associated with.

    Parameters
    ----------
    cache_capacity : int
        The maximum number of subjects that the strategy remembers.
    """

    def set_cluster_id_resolver(self, resolver: Callable[[], str]) -> None:
        """Set the function that returns the cluster's id.

        The strategy calls it only if it asks the registry, and if ``KAFKA_CLUSTER_ID`` isn't
        configured.

        Parameters
        ----------
        resolver : callable
            Returns the cluster's id.
        """
        self._resolver = resolver

    def __call__(
        self,
        ctx: SerializationContext | None,
        record_name: str | None,
        schema_registry_client: AssociationsClient | None,
        conf: dict[str, Any] | None = None,
    ) -> str | None:
        """Return the subject that the topic is associated with.

        Parameters
        ----------
        ctx : SerializationContext
            The topic and the field.
        record_name : str, optional
            The record's name, for the fallback strategy.
        schema_registry_client : SchemaRegistryClient
            The client. Without one the subject is that of `topic_subject_name_strategy`.
        conf : dict, optional
            ``subject.name.strategy.kafka.cluster.id`` and
            ``subject.name.strategy.fallback.type``: ``TOPIC`` (the default), ``RECORD``,
            ``TOPIC_RECORD`` or ``NONE``.

        Returns
        -------
        str or None
            The subject.

        Raises
        ------
        SerializationError
            The topic has several subjects, or none and the fallback is ``NONE``.
        ValueError
            The context is missing, or the fallback has a wrong value.
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        call = self._find(ctx, record_name, schema_registry_client, conf)
        return run(call, lambda step: ask(cast("Ask", step)))

    def clear_cache(self) -> None:
        """Forget the subjects that were found."""
        self._cache.clear()


class AsyncAssociatedNameStrategy(_AssociatedNames):
    """The strategy `AssociatedNameStrategy` for asyncio.

    Parameters
    ----------
    cache_capacity : int
        The maximum number of subjects that the strategy remembers.
    """

    def set_async_cluster_id_resolver(self, resolver: Callable[[], Awaitable[str]]) -> None:
        """Set the coroutine function that returns the cluster's id.

        Parameters
        ----------
        resolver : coroutine function
            Returns the cluster's id.
        """
        self._resolver = resolver

    async def __call__(
        self,
        ctx: SerializationContext | None,
        record_name: str | None,
        schema_registry_client: AsyncAssociationsClient | None,
        conf: dict[str, Any] | None = None,
    ) -> str | None:
        """Return the subject that the topic is associated with.

        See `AssociatedNameStrategy` for the parameters and errors.
        """
        call = self._find(ctx, record_name, schema_registry_client, conf)
        return await run_async(call, lambda step: ask_async(cast("Ask", step)))

    async def clear_cache(self) -> None:
        """Forget the subjects that were found."""
        self._cache.clear()
