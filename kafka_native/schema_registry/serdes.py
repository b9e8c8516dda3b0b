"""The base of serializers and deserializers with a schema registry, synchronous and asyncio.

The steps of a conversion are generators. They yield the calls to the registry's client, and receive
the results. `run()` makes the calls at once, `run_async()` awaits them. So each step exists once.
"""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias, TypeVar

from kafka_native._native.conversions import LastConversion, Unknown
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.framing import FRAMING_SIZES, FramingError, read_schema
from kafka_native.codecs.references import referenced_schemas
from kafka_native.schema_registry.caches import LruCache
from kafka_native.schema_registry.rule_execution import has_migration_rules, run_rules
from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.rule_types import (
    FieldTransformer,
    clear_original_key,
    get_original_key,
    original_key,
    set_original_key,
)
from kafka_native.schema_registry.schema_ids import (
    SchemaId,
    dual_schema_id_deserializer,
    message_indexes_end,
    prefix_schema_id_deserializer,
    prefix_schema_id_serializer,
    schema_id_header,
)
from kafka_native.schema_registry.schemas import RegisteredSchema, RuleMode, RulePhase, Schema
from kafka_native.schema_registry.steps import run as run_steps
from kafka_native.schema_registry.steps import run_async as run_steps_async
from kafka_native.schema_registry.subject_names import (
    STRATEGY_TYPE_MAP,
    AssociatedNameStrategy,
    AsyncAssociatedNameStrategy,
    SubjectNameStrategyType,
)
from kafka_native.schema_registry.validation_rules import (
    FirstViolation,
    Validation,
    ValidationRuleExecutor,
    ValidationRulesExecution,
)
from kafka_native.serialization import (
    Deserializer,
    MessageField,
    SerializationContext,
    SerializationError,
    Serializer,
)

__all__ = [
    "AsyncBaseDeserializer",
    "AsyncBaseSerializer",
    "BaseDeserializer",
    "BaseSerde",
    "BaseSerializer",
    "DeserializerSteps",
    "SerializerSteps",
    "Steps",
]

T = TypeVar("T")
S = TypeVar("S", bound="BaseSerde")

Steps: TypeAlias = Generator[Callable[[], Any], Any, T]
"""Steps of a conversion: yields calls to the registry's client, and returns T."""

PARSED_SCHEMAS_MAX = 1000
SUBJECTS_MAX = 1000
CONVERSIONS_MAX = 1000
_KEY, _VALUE = MessageField.KEY, MessageField.VALUE
_STRATEGIES = tuple(STRATEGY_TYPE_MAP.values())


def run(steps: Steps[T]) -> T:
    """Make the calls of a conversion, and return its result."""
    return run_steps(steps, _make)


async def run_async(steps: Steps[T]) -> T:
    """Await the calls of a conversion, and return its result."""
    return await run_steps_async(steps, _make_async)


def _make(call: Callable[[], Any]) -> Any:
    return call()


async def _make_async(call: Callable[[], Any]) -> Any:
    result = call()
    return await result if inspect.isawaitable(result) else result


class Properties:
    """The configuration of a serializer or deserializer, checked property by property.

    :raises ValueError: A property has a value of another type, or no such property exists.
    """

    def __init__(self, defaults: Mapping[str, Any], conf: Mapping[str, Any] | None) -> None:
        self._left = {**defaults, **(conf or {})}

    def take(self, name: str) -> Any:
        """Return a value of any type."""
        return self._left.pop(name)

    def take_bool(self, name: str) -> bool:
        """Return a value that is True or False."""
        value = self._left.pop(name)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be a boolean value, not {value!r}")
        return value

    def take_callable(self, name: str) -> Callable[..., Any]:
        """Return a function, or another callable object."""
        value = self._left.pop(name)
        if not callable(value):
            raise ValueError(f"{name} must be callable, not {value!r}")
        function: Callable[..., Any] = value
        return function

    def take_optional(self, name: str, type_: type[T]) -> T | None:
        """Return a value of a type, or None."""
        value = self._left.pop(name)
        if value is not None and not isinstance(value, type_):
            raise ValueError(f"{name} must be of type {type_.__name__}, not {value!r}")
        return value

    def check_empty(self) -> None:
        """Raise if properties are left that nothing knows."""
        if self._left:
            raise ValueError(f"unrecognized properties: {', '.join(map(str, self._left))}")


def where(ctx: SerializationContext | None, schema_id: SchemaId | None = None) -> str:
    """Return the start of an error text: the topic, key or value, and the schema."""
    parts = []
    if ctx is not None:
        parts += [f"topic {ctx.topic}", str(getattr(ctx.field, "value", ctx.field))]
    if schema_id is not None and schema_id.id is not None:
        parts.append(f"schema id {schema_id.id}")
    elif schema_id is not None and schema_id.guid is not None:
        parts.append(f"schema {schema_id.guid}")
    return ", ".join(parts) or "without a context"


class BaseSerde:
    """The common part of all serializers and deserializers with a schema registry."""

    _format: ClassVar[str] = ""
    """The schema type, as the registry calls it."""
    _text_format: ClassVar[str | None] = None
    """The ``format`` in which the registry returns schemas."""
    _default_conf: ClassVar[dict[str, Any]] = {}
    _associated_strategy: ClassVar[Callable[[], Any]] = AssociatedNameStrategy

    _parses_own_schema: ClassVar[bool] = True
    _awaits_registry: ClassVar[bool] = False
    """Whether the calls of the registry's client are awaited."""

    _registry: Any
    _schema: Schema | None
    _own: Any
    """The parsed form of ``_schema``. None before `_prepare()`."""
    _rule_registry: RuleRegistry

    def _init_common(self, client: Any, properties: Properties) -> None:
        """Take the properties that serializers and deserializers have."""
        self._registry = client
        self._owns_registry = False
        self._is_ready = False
        self._own = None
        self._parsed: LruCache[Any, Any] = LruCache(PARSED_SCHEMAS_MAX)
        self._use_schema_id: int | None = None
        self._use_latest_version = properties.take_bool("use.latest.version")
        self._use_latest_with_metadata: dict[str, str] | None = properties.take_optional(
            "use.latest.with.metadata", dict
        )
        self._subject_name_conf: dict[str, Any] | None = properties.take(
            "subject.name.strategy.conf"
        )
        self._subject_name_func = self._strategy_of(
            properties.take("subject.name.strategy"),
            properties.take("subject.name.strategy.type"),
        )
        self._strategy_takes_client = isinstance(
            self._subject_name_func, AssociatedNameStrategy | AsyncAssociatedNameStrategy
        )
        self._has_fixed_subjects = (
            self._strategy_takes_client or self._subject_name_func in _STRATEGIES
        )
        """Whether messages of the same topic and schema have the same subject."""

    def _strategy_of(self, function: Any, type_: Any) -> Callable[..., Any]:
        if function is not None:
            if not callable(function):
                raise ValueError(f"subject.name.strategy must be callable, not {function!r}")
            strategy: Callable[..., Any] = function
            return strategy
        if type_ is None:
            type_ = SubjectNameStrategyType.ASSOCIATED
        try:
            type_ = SubjectNameStrategyType(getattr(type_, "value", type_).upper())
        except (ValueError, AttributeError):
            type_ = SubjectNameStrategyType.NONE
        if type_ == SubjectNameStrategyType.ASSOCIATED:
            return type(self)._associated_strategy()  # type: ignore[no-any-return]
        if type_ not in STRATEGY_TYPE_MAP:
            names = ["ASSOCIATED", *(known.value for known in STRATEGY_TYPE_MAP)]
            raise ValueError(f"subject.name.strategy.type must be one of {', '.join(names)}")
        return STRATEGY_TYPE_MAP[type_]

    def _init_rules(
        self, rule_conf: dict[str, Any] | None, rule_registry: RuleRegistry | None
    ) -> None:
        """Choose the registry of rules, and configure its executors and actions."""
        self._rule_registry = rule_registry or RuleRegistry.get_global_instance()
        client_conf = self._registry.config() if self._registry is not None else {}
        for each in (*self._rule_registry.get_executors(), *self._rule_registry.get_actions()):
            each.configure(client_conf, rule_conf or {})

    def _parse(self, schema: Schema) -> Steps[Any]:
        """Parse a schema and the schemas that it refers to."""
        raise NotImplementedError

    def _transformer(self, parsed: Any) -> FieldTransformer:
        """Return the function that walks through the fields of a message."""
        raise NotImplementedError

    def _inline_tags(self, parsed: Any) -> Mapping[str, set[str]] | None:
        """Return the tags in a schema's text by full field name. None: the walk has them."""
        return None

    def _parsed_schema(self, schema: Schema) -> Steps[Any]:
        references = tuple(
            (each.name, each.subject, each.version) for each in schema.references or ()
        )
        key = (schema.schema_str, references)
        parsed = self._parsed.get(key)
        if parsed is None:
            if schema.schema_str is None:
                raise SerializationError("the registry returned a schema without text")
            parsed = yield from self._parse(schema)
            self._parsed.put(key, parsed)
        return parsed

    def _prepare(self) -> Steps[None]:
        """Parse the schema of the constructor, so that a wrong schema is found at once."""
        if not self._is_ready:
            if self._schema is not None and self._parses_own_schema:
                self._own = yield from self._parsed_schema(self._schema)
            self._is_ready = True

    def _subject(
        self, ctx: SerializationContext | None, record_name: str | None
    ) -> Steps[str | None]:
        arguments: tuple[Any, ...] = (ctx, record_name)
        if not self._strategy_takes_client:
            name: str | None = self._subject_name_func(*arguments)
            return name
        arguments += (self._registry, self._subject_name_conf)
        name = yield partial(self._subject_name_func, *arguments)
        return name

    def _latest_call(self, subject: str | None) -> Callable[[], Any] | None:
        """Return the call for the latest schema that the configuration chooses, or None."""
        client, format_ = self._registry, self._text_format
        if client is None or not subject:
            return None
        if self._use_latest_with_metadata is not None:
            return partial(
                client.get_latest_with_metadata,
                subject,
                self._use_latest_with_metadata,
                deleted=True,
                fmt=format_,
            )
        if self._use_latest_version:
            return partial(client.get_latest_version, subject, format_)
        return None

    def _pinned_schema(self, subject: str | None) -> Steps[RegisteredSchema | None]:
        """Return the registered schema that the configuration chooses, or None."""
        client, format_ = self._registry, self._text_format
        if client is None or not subject:
            return None
        if self._use_schema_id is None:
            call = self._latest_call(subject)
        else:
            schema = yield partial(client.get_schema, self._use_schema_id, subject, format_)
            call = partial(
                client.lookup_schema, subject, schema, normalize_schemas=False, deleted=True
            )
        if call is None:
            return None
        registered: RegisteredSchema = yield call
        return registered

    def own_schema_registry_client(self) -> None:
        """Close the registry's client together with this object."""
        self._owns_registry = True

    def _close_rules(self) -> None:
        """Close the actions and executors of a registry that isn't that of the process.

        An exception doesn't prevent the other close; the first exception is raised at the end.
        """
        if self._rule_registry is RuleRegistry.get_global_instance():
            return
        raised: Exception | None = None
        for each in (*self._rule_registry.get_actions(), *self._rule_registry.get_executors()):
            try:
                each.close()
            except Exception as error:
                raised = raised or error
        if raised is not None:
            raise raised

    def _release_client(self) -> Any:
        """Return the client if this object has to close it. Only the first call returns it."""
        owned, self._owns_registry = self._owns_registry, False
        return self._registry if owned else None


def _place_of(ctx: SerializationContext | None) -> tuple[str | None, bool] | None:
    """Return the topic, and whether the field is the key. None: the field is another one."""
    if ctx is None:
        return None, False
    is_key = ctx.field == _KEY
    return (ctx.topic, is_key) if is_key or ctx.field == _VALUE else None


def remember_key(ctx: SerializationContext | None, key: Any) -> None:
    """Keep the key for the rules of the value of the same message."""
    if ctx is not None and ctx.field == _KEY:
        set_original_key(key)
    elif get_original_key() is not None:
        clear_original_key()


class SerializerSteps(BaseSerde):
    """The steps of a serializer, whether it awaits the registry or not."""

    _default_conf: ClassVar[dict[str, Any]] = {
        "auto.register.schemas": True,
        "normalize.schemas": False,
        "use.schema.id": None,
        "use.latest.version": False,
        "use.latest.with.metadata": None,
        "subject.name.strategy.type": None,
        "subject.name.strategy.conf": None,
        "subject.name.strategy": None,
        "schema.id.serializer": prefix_schema_id_serializer,
        "validation.rules.execution": ValidationRulesExecution.DISABLED,
        "validation.rules.fail.fast": False,
        "validation.rules.executor": None,
    }
    _to_dict: Callable[[Any, SerializationContext], Any] | None = None

    def _init_serializer(self, client: Any, properties: Properties) -> None:
        self._init_common(client, properties)
        self._auto_register = properties.take_bool("auto.register.schemas")
        self._normalize_schemas = properties.take_bool("normalize.schemas")
        self._use_schema_id = properties.take_optional("use.schema.id", int)
        if self._use_latest_version and self._auto_register:
            raise ValueError("cannot enable both use.latest.version and auto.register.schemas")
        self._schema_id_serializer = properties.take_callable("schema.id.serializer")
        self._schema_ids: LruCache[str, SchemaId] = LruCache(SUBJECTS_MAX)
        self._subjects: dict[tuple[str | None, bool, str | None], tuple[str, SchemaId]] = {}
        """The subject and the schema of a topic, a field and a record name."""
        self._init_validation(properties)

    def _init_validation(self, properties: Properties) -> None:
        """Take the properties of the rules in a schema's text."""
        when = properties.take("validation.rules.execution")
        try:
            when = ValidationRulesExecution(when)
        except ValueError:
            names = ", ".join(each.value for each in ValidationRulesExecution)
            raise ValueError(f"validation.rules.execution must be one of {names}") from None
        self._validates = when != ValidationRulesExecution.DISABLED
        self._validates_first = when == ValidationRulesExecution.BEFORE_DOMAIN_RULES
        self._validation_fail_fast = properties.take_bool("validation.rules.fail.fast")
        self._validation_executor: ValidationRuleExecutor | None = properties.take_optional(
            "validation.rules.executor",
            ValidationRuleExecutor,  # type: ignore[type-abstract]
        )
        if self._validates and self._validation_executor is None:
            # It needs the packages of the extra `rules`.
            from kafka_native.schema_registry.rules.cel.cel_validator import CelValidator

            self._validation_executor = CelValidator()

    def _validate_rules(self, parsed: Any, value: Any, place: str) -> None:
        """Check the rules in a schema's text."""
        assert self._validation_executor is not None
        validation = Validation(self._validation_executor, self._validation_fail_fast)
        try:
            with contextlib.suppress(FirstViolation):
                self._walk_rules(validation, parsed, value)
        except SerializationError as error:
            raise SerializationError(f"{place}: {error}") from error.__cause__
        validation.raise_violations(place)

    def _walk_rules(self, validation: Validation, parsed: Any, value: Any) -> None:
        """Give each value that has rules to the check."""
        raise NotImplementedError

    def _record_name(self, obj: Any) -> str | None:
        """Return the record name that the subject name strategy gets."""
        raise NotImplementedError

    def _value_of(self, obj: Any, ctx: SerializationContext | None) -> Any:
        """Return the value to encode, converted by your function if there is one."""
        if self._to_dict is None:
            return obj
        if ctx is None:
            raise TypeError("to_dict needs a SerializationContext")
        return self._to_dict(obj, ctx)

    def _encode(self, parsed: Any, value: Any) -> bytes:
        """Return the payload.

        :raises SerializationError: The value doesn't fit the schema. The text has the field path.
        """
        raise NotImplementedError

    def _message_indexes(self, parsed: Any) -> list[int] | None:
        """Return the position of a Protobuf message in its file. None for other formats."""
        return None

    def _schema_to_register(self, ctx: SerializationContext | None) -> Steps[Schema]:
        if self._schema is None:
            raise SerializationError(
                f"{where(ctx)}: the serializer has no schema: pass one, or set use.latest.version, "
                "use.latest.with.metadata or use.schema.id"
            )
        yield from ()  # Protobuf asks the registry here
        return self._schema

    def _schema_id_of(self, registered: RegisteredSchema, parsed: Any) -> SchemaId:
        indexes = self._message_indexes(parsed)
        return SchemaId(self._format, registered.schema_id, registered.guid, indexes)

    def _registered_id(self, subject: str, ctx: SerializationContext | None) -> Steps[SchemaId]:
        """Register or look up the serializer's own schema, once a subject."""
        schema_id = self._schema_ids.get(subject)
        if schema_id is None:
            schema = yield from self._schema_to_register(ctx)
            client = self._registry
            call = (
                client.register_schema_full_response
                if self._auto_register
                else client.lookup_schema
            )
            registered = yield partial(
                call, subject, schema, normalize_schemas=self._normalize_schemas
            )
            schema_id = self._schema_id_of(registered, self._own)
            self._schema_ids.put(subject, schema_id)
        return schema_id

    def _serialize(self, obj: Any, ctx: SerializationContext | None) -> Steps[bytes | None]:
        seen = obj
        try:
            if obj is None:
                return None
            payload, seen = yield from self._framed(obj, ctx)
            return payload
        finally:
            remember_key(ctx, seen)

    def _framed(self, obj: Any, ctx: SerializationContext | None) -> Steps[tuple[bytes, Any]]:
        """Return the framed payload, and the object as `_payload()` returns it."""
        yield from self._prepare()
        try:
            record_name = self._record_name(obj)
        except SerializationError as error:
            raise SerializationError(f"{where(ctx)}: {error}") from None
        subject = yield from self._subject(ctx, record_name)
        if not subject:
            raise SerializationError(
                f"{where(ctx)}: the subject name strategy returned no subject. The schema may have "
                "no record name"
            )
        pinned = yield from self._pinned_schema(subject)
        if pinned is None:
            schema_id = yield from self._registered_id(subject, ctx)
            parsed = self._own
            self._keep_subject(ctx, record_name, subject, schema_id)
        else:
            parsed = yield from self._parsed_schema(pinned.schema)
            schema_id = self._schema_id_of(pinned, parsed)
        payload, seen = self._payload(obj, ctx, subject, schema_id, parsed, pinned)
        framed: bytes = self._schema_id_serializer(payload, ctx, schema_id)
        return framed, seen

    def _keep_subject(
        self,
        ctx: SerializationContext | None,
        record_name: str | None,
        subject: str,
        schema_id: SchemaId,
    ) -> None:
        """Keep what the registry said about a topic, if it is the same for the next object."""
        place = _place_of(ctx)
        if self._has_fixed_subjects and place is not None:
            if len(self._subjects) >= SUBJECTS_MAX:
                self._subjects = {}
            self._subjects[place[0], place[1], record_name] = subject, schema_id

    def _known_bytes(self, obj: Any, ctx: SerializationContext | None) -> bytes | None:
        """Return the bytes of an object if its subject is known, or else None."""
        place = _place_of(ctx)
        if obj is None or place is None or not self._subjects:
            return None
        try:
            known = self._subjects.get((*place, self._record_name(obj)))
        except SerializationError:
            return None  # the steps report it
        if known is None:
            return None
        subject, schema_id = known
        try:
            payload, _ = self._payload(obj, ctx, subject, schema_id, self._own, None)
            framed: bytes = self._schema_id_serializer(payload, ctx, schema_id)
            return framed
        finally:
            remember_key(ctx, obj)

    def _payload(
        self,
        obj: Any,
        ctx: SerializationContext | None,
        subject: str,
        schema_id: SchemaId,
        parsed: Any,
        pinned: RegisteredSchema | None,
    ) -> tuple[bytes, Any]:
        """Convert an object, run the rules for it, and encode it.

        Return the payload, and the object as the rules left it: what they have encrypted in a key
        must not come into a dead letter queue with the value.
        """
        value = self._value_of(obj, ctx)
        has_rules = pinned is not None and ctx is not None and pinned.schema.rule_set is not None
        place = where(ctx, schema_id) if self._validates else ""
        if self._validates and (pinned is None or self._validates_first):
            self._validate_rules(parsed, value, place)
        if has_rules:
            run_write_rules = self._write_rules(ctx, subject, pinned)
            tags, transformer = self._inline_tags(parsed), self._transformer(parsed)
            value = run_write_rules(RulePhase.DOMAIN, value, tags, transformer)
        if self._validates and pinned is not None and not self._validates_first:
            self._validate_rules(parsed, value, place)
        try:
            payload = self._encode(parsed, value)
        except SerializationError as error:
            raise SerializationError(f"{where(ctx, schema_id)}: {error}") from error.__cause__
        if has_rules:
            payload = run_write_rules(RulePhase.ENCODING, payload)
        return payload, value if has_rules and self._to_dict is None else obj

    def _write_rules(self, ctx: Any, subject: str, pinned: Any) -> Callable[..., Any]:
        run_for = partial(run_rules, self._rule_registry, ctx, subject, RuleMode.WRITE, None)
        return partial(run_for, pinned.schema)


class _Conversion(NamedTuple):
    """What a deserializer does with the payloads of one schema in one topic."""

    read: Callable[[bytes], Any]
    """Returns the object of a payload, before your function converts it."""
    latest: RegisteredSchema | None
    """The latest version, if the reader has to be this one."""
    latest_call: Callable[[], Any] | None


class DeserializerSteps(BaseSerde):
    """The steps of a deserializer, whether it awaits the registry or not.

    The steps ask the registry's client about each message. After the first message of a schema in a
    topic, nothing of this can change, unless rules or a function of yours decide, or the subject
    has another latest version. So the deserializer keeps a conversion for the next ones.
    """

    _default_conf: ClassVar[dict[str, Any]] = {
        "use.latest.version": False,
        "use.latest.with.metadata": None,
        "subject.name.strategy.type": None,
        "subject.name.strategy.conf": None,
        "subject.name.strategy": None,
        "schema.id.deserializer": dual_schema_id_deserializer,
    }

    _from_dict: Callable[[Any, SerializationContext], Any] | None = None
    _has_message_indexes: ClassVar[bool] = False
    """Whether Protobuf's message indexes follow the schema's id."""

    def _init_deserializer(self, client: Any, properties: Properties) -> None:
        self._init_common(client, properties)
        self._schema_id_deserializer = properties.take_callable("schema.id.deserializer")
        self._reads_id_header = self._schema_id_deserializer is dual_schema_id_deserializer
        self._keeps_conversions = self._has_fixed_subjects and (
            self._reads_id_header or self._schema_id_deserializer is prefix_schema_id_deserializer
        )
        self._conversions: dict[tuple[str | None, bool, bytes], _Conversion] = {}
        self._last: LastConversion | None = None
        """That of the last message, unless the subject may get another latest version."""

    def _record_name_of(self, parsed: Any, schema_id: SchemaId) -> str | None:
        """Return the record name of the writer's schema."""
        raise NotImplementedError

    def _decode(self, payload: bytes, writer: Any, reader: Any, schema_id: SchemaId) -> Any:
        """Return the object of a payload, converted to the reader's schema.

        :param reader: The reader's schema. None before migration rules: leave the writer's form.
        :raises SerializationError: The payload doesn't fit the schema. The text has the field path.
        """
        raise NotImplementedError

    def _read_function(self, writer: Any, reader: Any) -> Callable[[bytes], Any] | None:
        """Return a function that does what `_decode()` and `_check()` do.

        It may raise any exception: the steps report the problem. None: there is no such function.
        """
        raise NotImplementedError

    def _migrated(self, value: Any, reader: Any, schema_id: SchemaId) -> Any:
        """Return the object for what migration rules have made."""
        return value

    def _check(self, value: Any, reader: Any) -> None:
        """Raise SerializationError if an object doesn't fit the reader's schema."""

    def _from_value(self, value: Any, ctx: SerializationContext | None) -> Any:
        """Return the object for your program, converted by your function if there is one."""
        if self._from_dict is None:
            return value
        if ctx is None:
            raise TypeError("from_dict needs a SerializationContext")
        return self._from_dict(value, ctx)

    def _framing(
        self, data: bytes, ctx: SerializationContext | None
    ) -> tuple[tuple[str | None, bool, bytes], int] | None:
        """Return the key of the conversion for data, and where the payload begins.

        None: only the steps can read the framing.
        """
        place = _place_of(ctx)
        if place is None:
            return None
        if self._reads_id_header and ctx is not None and ctx.headers:
            try:
                header = schema_id_header(ctx)
            except SerializationError:
                return None
            if header is not None:
                return ((*place, header), 0) if type(header) is bytes else None
        size = FRAMING_SIZES.get(data[0], 0) if data else 0
        if self._has_message_indexes and size:
            size = message_indexes_end(data, size)
        return ((*place, data[:size]), size) if size else None

    def _known_object(self, data: bytes | None, ctx: SerializationContext | None) -> Any:
        """Return the object of data if there is a conversion for it, or else Unknown."""
        last = self._last
        value = Unknown if last is None else last.object_of(data, ctx)
        if value is Unknown:
            value = self._kept_object(data, ctx)
        if data is None or value is Unknown or self._from_dict is None:
            return value
        try:
            return self._from_value(value, ctx)
        except SerializationError as error:
            self._raise_with_context(error, ctx, self._unframed(data, ctx)[0])

    def _kept_object(self, data: bytes | None, ctx: SerializationContext | None) -> Any:
        if type(data) is not bytes or not self._conversions:
            return Unknown
        framing = self._framing(data, ctx)
        conversion = self._conversions.get(framing[0]) if framing is not None else None
        if framing is None or conversion is None:
            return Unknown
        start = framing[1]
        if conversion.latest_call is not None:
            if not self._is_current(conversion):
                return Unknown
        elif ctx is not None and not ctx.headers:
            self._last = LastConversion(
                ctx.topic,
                ctx.field,
                data[:start],
                conversion.read,
                original_key,
                is_key=ctx.field == _KEY,
            )
        try:
            value = conversion.read(data[start:])
        except Exception:
            return Unknown  # the steps report the problem
        remember_key(ctx, data)
        return value

    def _is_current(self, conversion: _Conversion) -> bool:
        """Return whether the reader's schema is still the latest one."""
        call = conversion.latest_call
        assert call is not None
        return not self._awaits_registry and call() is conversion.latest

    def _keep_conversion(
        self,
        data: bytes,
        ctx: SerializationContext | None,
        writer: tuple[Schema | None, Any],
        reader: tuple[Schema | None, Any],
        latest: RegisteredSchema | None = None,
        subject: str | None = None,
    ) -> None:
        """Keep a conversion if it is the same for the next message. A schema is with its form."""
        if not self._keeps_conversions or type(data) is not bytes:
            return
        if any(each is not None and each.rule_set is not None for each in (writer[0], reader[0])):
            return
        framing = self._framing(data, ctx)
        try:
            read = self._read_function(writer[1], reader[1])
        except SerializationError:
            return  # decoding reports it, with the topic
        if framing is None or read is None:
            return
        if len(self._conversions) >= CONVERSIONS_MAX:
            self._conversions = {}
        call = self._latest_call(subject)
        self._last = None
        self._conversions[framing[0]] = _Conversion(read, latest, call)

    def _unframed(self, data: bytes, ctx: SerializationContext | None) -> tuple[SchemaId, bytes]:
        """Split data into the schema's id and the payload."""
        schema_id = SchemaId(self._format)
        try:
            payload = self._schema_id_deserializer(data, ctx, schema_id)
        except Exception as error:
            raise SerializationError(f"{where(ctx)}: {framing_problem(data, error)}") from error
        return schema_id, payload.read() if isinstance(payload, io.IOBase) else bytes(payload)

    def _writer_schema(
        self, schema_id: SchemaId, subject: str | None, ctx: SerializationContext | None
    ) -> Steps[Schema]:
        client = self._registry
        try:
            if schema_id.id is not None:
                schema = yield partial(client.get_schema, schema_id.id, subject, self._text_format)
            elif schema_id.guid is not None:
                guid = str(schema_id.guid)
                schema = yield partial(client.get_schema_by_guid, guid, self._text_format)
            else:
                raise SerializationError(
                    f"{where(ctx)}: schema.id.deserializer set neither an id nor a GUID"
                )
        except Exception as error:
            if getattr(error, "http_status_code", None) == 404:
                raise SerializationError(
                    f"{where(ctx, schema_id)}: the registry doesn't know this schema: {error}. "
                    "Check that producer and consumer use the same registry, and that the schema "
                    "isn't deleted"
                ) from error
            raise
        found: Schema = schema
        return found

    def _migrations(
        self, subject: str, writer: Schema, latest: RegisteredSchema
    ) -> Steps[list[tuple[RuleMode, Schema, Schema]]]:
        """Return the steps from the writer's version to the latest one, those with rules only."""
        client = self._registry
        source: RegisteredSchema = yield partial(
            client.lookup_schema, subject, writer, normalize_schemas=False, deleted=True
        )
        if source.version is None or latest.version is None:
            raise SerializationError(f"the registry returned no version of subject {subject}")
        if source.version == latest.version:
            return []
        is_upgrade = source.version < latest.version
        mode = RuleMode.UPGRADE if is_upgrade else RuleMode.DOWNGRADE
        first, last = (source, latest) if is_upgrade else (latest, source)
        between_numbers = range(*sorted((source.version, latest.version)))[1:]
        versions = [first]
        for number in between_numbers:
            between = yield partial(client.get_version, subject, number, True, self._text_format)
            versions.append(between)
        versions.append(last)
        steps = [
            (mode, older.schema, newer.schema) if is_upgrade else (mode, newer.schema, older.schema)
            for older, newer in pairwise(versions)
            if has_migration_rules(newer.schema, mode)
        ]
        return steps if is_upgrade else steps[::-1]

    def _deserialize(self, data: bytes | None, ctx: SerializationContext | None) -> Steps[Any]:
        try:
            if data is None:
                return None
            value = yield from self._object(data, ctx)
            return value
        finally:
            remember_key(ctx, data)

    def _object(self, data: bytes, ctx: SerializationContext | None) -> Steps[Any]:
        yield from self._prepare()
        schema_id, payload = self._unframed(data, ctx)
        if self._registry is None:
            own = None
            if self._schema is not None:
                own = yield from self._parsed_schema(self._schema)
            self._keep_conversion(data, ctx, (None, own), (None, own))
            return self._converted(payload, own, own, schema_id, ctx)
        subject = None
        if ctx is not None:
            subject = yield from self._subject(ctx, None)
        writer = yield from self._writer_schema(schema_id, subject, ctx)
        parsed_writer = yield from self._parsed_for(writer, ctx, schema_id)
        if subject is None and ctx is not None:
            try:
                name = self._record_name_of(parsed_writer, schema_id)
            except SerializationError as error:
                self._raise_with_context(error, ctx, schema_id)
            subject = yield from self._subject(ctx, name)
        latest = yield from self._pinned_schema(subject)
        migrations: list[tuple[RuleMode, Schema, Schema]] = []
        reader = self._schema or writer
        if latest is not None and subject is not None:
            reader = latest.schema
            migrations = yield from self._migrations(subject, writer, latest)
        parsed_reader = yield from self._parsed_for(reader, ctx, schema_id)
        schemas = (writer, parsed_writer), (reader, parsed_reader)
        if not migrations:
            self._keep_conversion(data, ctx, *schemas, latest, subject)
        if ctx is None or subject is None:
            return self._converted(payload, parsed_writer, parsed_reader, schema_id, ctx)
        return self._through_rules(data, payload, schema_id, ctx, subject, *schemas, migrations)

    def _parsed_for(
        self, schema: Schema, ctx: SerializationContext | None, schema_id: SchemaId
    ) -> Steps[Any]:
        """Parse the schema of a payload, or the reader's schema."""
        try:
            type_ = schema.schema_type or "AVRO"
            if type_ != self._format:
                raise SerializationError(
                    f"the schema is of type {type_}, and the deserializer reads {self._format}"
                )
            parsed = yield from self._parsed_schema(schema)
            return parsed
        except SerializationError as error:
            self._raise_with_context(error, ctx, schema_id)

    def _converted(
        self,
        payload: bytes,
        writer: Any,
        reader: Any,
        schema_id: SchemaId,
        ctx: SerializationContext | None,
    ) -> Any:
        try:
            value = self._decode(payload, writer, reader, schema_id)
            self._check(value, reader)
            return self._from_value(value, ctx)
        except SerializationError as error:
            self._raise_with_context(error, ctx, schema_id)

    def _raise_with_context(
        self, error: SerializationError, ctx: SerializationContext | None, schema_id: SchemaId
    ) -> NoReturn:
        raise SerializationError(f"{where(ctx, schema_id)}: {error}") from error.__cause__

    def _through_rules(
        self,
        data: bytes,
        payload: bytes,
        schema_id: SchemaId,
        ctx: SerializationContext,
        subject: str,
        writer: tuple[Schema, Any],
        reader: tuple[Schema, Any],
        migrations: list[tuple[RuleMode, Schema, Schema]],
    ) -> Any:
        """Decode a payload, and run the rules for it. A schema comes with its parsed form."""
        rules = partial(run_rules, self._rule_registry, ctx, subject)
        encoding = partial(rules, RuleMode.READ, None, writer[0], RulePhase.ENCODING)
        payload = encoding(payload, original=data)
        try:
            value = self._decode(payload, writer[1], None if migrations else reader[1], schema_id)
        except SerializationError as error:
            self._raise_with_context(error, ctx, schema_id)
        if migrations:
            for mode, source, target in migrations:
                value = rules(mode, source, target, RulePhase.MIGRATION, value)
            value = self._migrated(value, reader[1], schema_id)
        if reader[0].rule_set is not None and reader[0].rule_set.domain_rules:
            domain = partial(rules, RuleMode.READ, None, reader[0], RulePhase.DOMAIN)
            tags, transformer = self._inline_tags(reader[1]), self._transformer(reader[1])
            value = domain(value, tags, transformer, data)
        try:
            self._check(value, reader[1])
            return self._from_value(value, ctx)
        except SerializationError as error:
            self._raise_with_context(error, ctx, schema_id)


def references_of(
    schema: Schema,
    registry: Any,
    *,
    text_format: str | None = None,
    skips: Callable[[str], bool] = lambda name: False,
) -> Steps[list[tuple[str, Schema]]]:
    """Find the names and schemas of all references, see `referenced_schemas`.

    :raises SerializationError: A reference is incomplete, or there are too many.
    """
    steps = referenced_schemas(schema, registry, text_format=text_format, skips=skips)
    try:
        return (yield from steps)
    except SchemaError as error:
        raise SerializationError(f"the schema: {error}") from error


def framing_problem(data: bytes, error: Exception) -> str:
    """Return what is wrong with the first bytes of data, and what to do."""
    try:
        read_schema(data)
    except FramingError as problem:
        return str(problem)
    return f"the schema's id can't be read from the payload or its headers: {error}"


class _SyncLifecycle(BaseSerde):
    """Closing, and the cluster's id, without asyncio."""

    def set_cluster_id_resolver(self, resolver: Callable[[], Any]) -> None:
        """Store the function that returns the Kafka cluster's id, for associated subject names."""
        if isinstance(self._subject_name_func, AssociatedNameStrategy):
            self._subject_name_func.set_cluster_id_resolver(resolver)

    def close(self) -> None:
        """Close the rule registry that you passed, and the registry's client if it is owned."""
        try:
            self._close_rules()
        finally:
            client = self._release_client()
            if client is not None:
                client.close()


class _AsyncLifecycle(BaseSerde):
    """Awaiting the constructor, and closing, with asyncio."""

    _associated_strategy: ClassVar[Callable[[], Any]] = AsyncAssociatedNameStrategy
    _awaits_registry: ClassVar[bool] = True

    def __await__(self: S) -> Generator[Any, None, S]:
        """Parse the schema, then return this object."""
        yield from run_async(self._prepare()).__await__()
        return self

    def set_async_cluster_id_resolver(self, resolver: Callable[[], Awaitable[Any]]) -> None:
        """Store the coroutine function that returns the Kafka cluster's id, for subject names."""
        if isinstance(self._subject_name_func, AsyncAssociatedNameStrategy):
            self._subject_name_func.set_async_cluster_id_resolver(resolver)

    async def aclose(self) -> None:
        """Close the rule registry that you passed, and the registry's client if it is owned."""
        try:
            self._close_rules()
        finally:
            client = self._release_client()
            if client is not None:
                await client.aclose()


class BaseSerializer(SerializerSteps, _SyncLifecycle, Serializer):
    """The base of serializers that wait for the registry."""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of an object: the schema's id, then the payload. None stays None.

        :param obj: The object.
        :param ctx: The topic, the field (key or value) and the headers.
        :raises SerializationError: The object doesn't fit the schema. The text names the topic, the
            field, the schema's id and the path.
        :raises SchemaRegistryError: The registry refused a request, or doesn't answer.
        """
        known = self._known_bytes(obj, ctx)
        return run(self._serialize(obj, ctx)) if known is None else known


class AsyncBaseSerializer(SerializerSteps, _AsyncLifecycle, Serializer):
    """The base of serializers for asyncio."""

    async def __call__(  # type: ignore[override]
        self, obj: Any, ctx: SerializationContext | None = None
    ) -> bytes | None:
        """Return the bytes of an object: the schema's id, then the payload. None stays None.

        :param obj: The object.
        :param ctx: The topic, the field (key or value) and the headers.
        :raises SerializationError: The object doesn't fit the schema. The text names the topic, the
            field, the schema's id and the path.
        :raises SchemaRegistryError: The registry refused a request, or doesn't answer.
        """
        known = self._known_bytes(obj, ctx)
        return await run_async(self._serialize(obj, ctx)) if known is None else known


class BaseDeserializer(DeserializerSteps, _SyncLifecycle, Deserializer):
    """The base of deserializers that wait for the registry."""

    def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the object for bytes with a schema's id. None stays None.

        :param data: The bytes of a key or value.
        :param ctx: The topic, the field (key or value) and the headers.
        :raises SerializationError: The bytes have no schema's id, the registry doesn't know the
            schema, or the payload doesn't fit it. The text names the topic, the field, the schema's
            id and the path.
        :raises SchemaRegistryError: The registry refused a request, or doesn't answer.
        """
        value = self._known_object(data, ctx)
        return run(self._deserialize(data, ctx)) if value is Unknown else value


class AsyncBaseDeserializer(DeserializerSteps, _AsyncLifecycle, Deserializer):
    """The base of deserializers for asyncio."""

    async def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the object for bytes with a schema's id. None stays None.

        :param data: The bytes of a key or value.
        :param ctx: The topic, the field (key or value) and the headers.
        :raises SerializationError: The bytes have no schema's id, the registry doesn't know the
            schema, or the payload doesn't fit it. The text names the topic, the field, the schema's
            id and the path.
        :raises SchemaRegistryError: The registry refused a request, or doesn't answer.
        """
        value = self._known_object(data, ctx)
        return await run_async(self._deserialize(data, ctx)) if value is Unknown else value
