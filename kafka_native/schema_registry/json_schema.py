"""JSON serializers and deserializers with a schema registry, checked by JSON Schema.

They need jsonschema: ``pip install 'kafka-native[json]'``. If orjson is installed, it reads and
writes JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from kafka_native.schema_registry.json_acceptance import acceptor_of
from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.rule_types import (
    FieldTransform,
    FieldTransformer,
    FieldType,
    RuleConditionError,
    RuleContext,
    has_rule_tag,
)
from kafka_native.schema_registry.schema_ids import SchemaId
from kafka_native.schema_registry.schemas import RuleKind, Schema
from kafka_native.schema_registry.serde_builders import (
    AsyncRegistryBuilder,
    B,
    DeserializerSettings,
    RegistryBuilder,
    S,
    SerializerSettings,
)
from kafka_native.schema_registry.serdes import (
    AsyncBaseDeserializer,
    AsyncBaseSerializer,
    BaseDeserializer,
    BaseSerializer,
    DeserializerSteps,
    Properties,
    SerializerSteps,
    Steps,
    references_of,
    run,
)
from kafka_native.schema_registry.validation_rules import (
    VALIDATION_RULES_PROP,
    Validation,
    parse_validation_rules,
)
from kafka_native.serialization import SerializationContext, SerializationError

try:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7
except ImportError as error:
    raise ImportError(
        "JSON serializers need jsonschema: pip install 'kafka-native[json]'"
    ) from error

try:
    import orjson
except ImportError:
    orjson = None

__all__ = [
    "AsyncJSONDeserializer",
    "AsyncJSONDeserializerBuilder",
    "AsyncJSONSerializer",
    "AsyncJSONSerializerBuilder",
    "JSONDeserializer",
    "JSONDeserializerBuilder",
    "JSONSerializer",
    "JSONSerializerBuilder",
    "JsonMessage",
    "JsonSchema",
]

JsonSchema: TypeAlias = bool | dict[str, Any]
"""A schema as Python objects."""

JsonMessage: TypeAlias = Any
"""A value of JSON: None, bool, int, float, str, list or dict."""

ToDict: TypeAlias = Callable[[Any, SerializationContext], Any]
FromDict: TypeAlias = Callable[[Any, SerializationContext], Any]

DEFAULT_SPEC = DRAFT7
"""The specification of a schema without ``$schema``."""

CHECK_ERRORS = (Unresolvable, RecursionError, ArithmeticError, TypeError)
"""What jsonschema raises for values and schemas that it can't check.

For instance a number is too large for ``multipleOf``, or a key is no text.
"""

MESSAGE_SHOWN_MAX = 400
"""How many characters of a message of jsonschema an error shows."""

_FIELD_TYPES = {
    "array": FieldType.ARRAY,
    "string": FieldType.STRING,
    "integer": FieldType.INT,
    "number": FieldType.DOUBLE,
    "boolean": FieldType.BOOLEAN,
    "null": FieldType.NULL,
}
_RULE_TYPES = (
    FieldType.ENUM,
    FieldType.STRING,
    FieldType.INT,
    FieldType.DOUBLE,
    FieldType.BOOLEAN,
)


def _json_loads(data: str | bytes | bytearray) -> Any:
    return json.loads(data) if orjson is None else orjson.loads(data)


def _converter_of(type: Any) -> Callable[[Any], Any]:
    """Return a function that makes objects of a class from values of JSON.

    :raises TypeError: The class, or an annotation in it, is of no kind that JSON has values for.
    """
    try:
        import msgspec
    except ImportError as error:
        raise ImportError("type= needs msgspec: pip install 'kafka-native[json]'") from error
    msgspec.json.Decoder(type)  # checks the annotations
    convert = msgspec.convert

    def converted(value: Any) -> Any:
        try:
            return convert(value, type, str_keys=True)
        except msgspec.ValidationError as error:
            name = getattr(type, "__name__", type)
            raise SerializationError(f"the value doesn't fit {name}: {error}") from error

    return converted


def _json_dumps(value: Any) -> str | bytes:
    if orjson is not None:
        dumped: bytes = orjson.dumps(value)
        return dumped
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def get_type(schema: JsonSchema) -> FieldType:
    """Return the field type of a schema."""
    if isinstance(schema, bool):
        return FieldType.COMBINED
    if schema.get("const") is not None or schema.get("enum") is not None:
        return FieldType.ENUM
    name = schema.get("type")
    if name == "object":
        return FieldType.RECORD if schema.get("properties") else FieldType.MAP
    if isinstance(name, str) and name in _FIELD_TYPES:
        return _FIELD_TYPES[name]
    return FieldType.RECORD if schema.get("properties") is not None else FieldType.NULL


class ParsedJson:
    """A parsed schema, the schemas that it refers to, and its validator."""

    def __init__(self, schema: JsonSchema, references: Registry[Any]) -> None:
        self.schema = schema
        self.references = references
        self.title = schema.get("title") if isinstance(schema, dict) else None
        self._validator: Any = None
        self._accepts: Callable[[Any], bool] | None = None

    @property
    def resolver(self) -> Any:
        """The resolver of references, starting at the schema."""
        root: Resource[Any] = Resource.from_contents(self.schema, DEFAULT_SPEC)
        return self.references.resolver_with_root(root)

    @property
    def validator(self) -> Any:
        """The validator of jsonschema.

        :raises SerializationError: The schema is invalid.
        """
        if self._validator is None:
            class_ = validator_for(self.schema)
            try:
                class_.check_schema(self.schema)
                self._accepts = acceptor_of(self.schema, class_.VALIDATORS)
            except SchemaError as invalid:
                raise SerializationError(
                    f"the JSON schema is invalid at {invalid.json_path}: {invalid.message}"
                ) from invalid
            except RecursionError as deep:
                raise SerializationError("the JSON schema is nested too deep") from deep
            self._validator = class_(self.schema, registry=self.references)
        return self._validator

    @property
    def acceptor(self) -> Callable[[Any], bool] | None:
        """A function that accepts most valid values, or None.

        :raises SerializationError: The schema is invalid.
        """
        return self._accepts if self.validator is not None else None

    def check(self, value: JsonMessage) -> None:
        """Raise SerializationError if a value doesn't fit the schema."""
        try:
            if self._accepts is not None and self._accepts(value):
                return
            error = next(self.validator.iter_errors(value), None)
        except CHECK_ERRORS as failure:
            raise SerializationError(_explained(failure)) from failure
        if error is not None:
            raise SerializationError(f"{error.json_path}: {_shown(error.message)}") from error


def _explained(error: Exception) -> str:
    """Return why jsonschema can't check a value."""
    if isinstance(error, Unresolvable):
        return f"the JSON schema refers to {error.ref}, which is not among its references"
    if isinstance(error, RecursionError):
        return "the value is nested too deep"
    return f"the value can't be checked: {error}"


def _shown(message: str) -> str:
    """Return a message of jsonschema, which has the whole value before the reason."""
    if len(message) <= MESSAGE_SHOWN_MAX:
        return message
    return f"{message[: MESSAGE_SHOWN_MAX // 2]} ... {message[-MESSAGE_SHOWN_MAX // 2 :]}"


def parse(schema: Schema) -> JsonSchema:
    """Parse a schema's text.

    :raises SerializationError: The text isn't JSON.
    """
    try:
        parsed: JsonSchema = _json_loads(schema.schema_str or "")
    except ValueError as error:
        raise SerializationError(f"the JSON schema isn't valid JSON: {error}") from error
    if not isinstance(parsed, bool | dict):
        raise SerializationError("the JSON schema must be an object or a bool")
    return parsed


def _first_fit(
    references: Registry[Any], schemas: list[Any], resolver: Any, value: Any
) -> tuple[Any, Any] | None:
    """Return the first schema that a value fits, and its resolver."""
    for each in schemas:
        if not isinstance(each, dict):
            continue
        schema, inner = each, resolver
        if "$ref" in schema:
            found = resolver.lookup(schema["$ref"])
            schema, inner = found.contents, found.resolver
        class_ = validator_for(schema)
        if class_(schema, registry=references, _resolver=inner).is_valid(value):
            return schema, inner
    return None


def _typed(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema of several types as one schema for each type."""
    return [{**schema, "type": each} for each in schema["type"]]


class _RuleCheck:
    """Checks the rules in a schema for a value and its parts."""

    def __init__(self, parsed: ParsedJson, validation: Validation) -> None:
        self._references, self._validation = parsed.references, validation

    def value(self, schema: Any, resolver: Any, path: str, value: Any) -> None:
        """Check a value."""
        if value is None or not isinstance(schema, dict):
            return
        for matching in self._alternatives(schema, resolver, value):
            self.value(*matching, path, value)
        if isinstance(schema.get("type"), list):
            return
        combined = any(name in schema for name in ("allOf", "oneOf", "anyOf"))
        if "$ref" in schema and not combined and not isinstance(value, list):
            found = resolver.lookup(schema["$ref"])
            self.value(found.contents, found.resolver, path, value)
            return
        if isinstance(value, dict):
            self._object(schema, resolver, path, value)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self.value(schema.get("items"), resolver, f"{path}[{index}]", item)

    def _alternatives(
        self, schema: dict[str, Any], resolver: Any, value: Any
    ) -> list[tuple[Any, Any]]:
        """Return the schemas inside a schema that a value fits, each with its resolver."""
        if isinstance(schema.get("type"), list):
            groups = [_typed(schema)]
        elif "allOf" in schema:
            return [(each, resolver) for each in schema["allOf"]]
        elif "oneOf" in schema:
            groups = [schema["oneOf"]]
        else:
            groups = [[each] for each in schema.get("anyOf", ())]
        fits = [_first_fit(self._references, group, resolver, value) for group in groups]
        return [fit for fit in fits if fit is not None]

    def _object(
        self, schema: dict[str, Any], resolver: Any, path: str, value: dict[str, Any]
    ) -> None:
        rules = parse_validation_rules(schema.get(VALIDATION_RULES_PROP))
        self._validation.check(rules, schema, value, path)
        for name, inner in (schema.get("properties") or {}).items():
            item = value.get(name)
            if item is not None and isinstance(inner, dict):
                rules = parse_validation_rules(inner.get(VALIDATION_RULES_PROP))
                self._validation.check(rules, inner, item, f"{path}.{name}")
                self.value(inner, resolver, f"{path}.{name}", item)


class _Walk:
    """Calls a function for the fields of a message that have one of the rule's tags."""

    def __init__(self, parsed: ParsedJson, ctx: RuleContext, call: FieldTransform) -> None:
        self._references, self._ctx, self._call = parsed.references, ctx, call

    def value(self, schema: Any, resolver: Any, path: str, value: Any) -> Any:
        """Return a value after the function has seen its fields."""
        if value is None or not isinstance(schema, dict):
            return value
        field = self._ctx.current_field()
        if field is not None:
            field.field_type = get_type(schema)
        if isinstance(schema.get("type"), list):
            matching = self._first(_typed(schema), resolver, value)
            return value if matching is None else self.value(*matching, path, value)
        if any(name in schema for name in ("allOf", "oneOf", "anyOf")):
            value = self._combined(schema, resolver, path, value)
            value = self._properties(schema, resolver, path, value)
            return self._items(schema, resolver, path, value)
        if isinstance(value, list) and "items" in schema:
            return self._items(schema, resolver, path, value)
        if "$ref" in schema:
            found = resolver.lookup(schema["$ref"])
            return self.value(found.contents, found.resolver, path, value)
        kind = get_type(schema)
        if kind == FieldType.RECORD:
            return self._properties(schema, resolver, path, value)
        if kind in _RULE_TYPES and field is not None and has_rule_tag(self._ctx, field):
            return self._call(self._ctx, field, value)
        return value

    def _combined(self, schema: dict[str, Any], resolver: Any, path: str, value: Any) -> Any:
        if "allOf" in schema:
            for each in schema["allOf"]:
                value = self.value(each, resolver, path, value)
        elif "oneOf" in schema:
            matching = self._first(schema["oneOf"], resolver, value)
            return value if matching is None else self.value(*matching, path, value)
        else:
            for each in schema["anyOf"]:
                matching = self._first([each], resolver, value)
                value = value if matching is None else self.value(*matching, path, value)
        return value

    def _first(self, schemas: list[Any], resolver: Any, value: Any) -> tuple[Any, Any] | None:
        return _first_fit(self._references, schemas, resolver, value)

    def _items(self, schema: dict[str, Any], resolver: Any, path: str, value: Any) -> Any:
        if not isinstance(value, list) or "items" not in schema:
            return value
        return [self.value(schema["items"], resolver, path, item) for item in value]

    def _properties(self, schema: dict[str, Any], resolver: Any, path: str, value: Any) -> Any:
        if isinstance(value, dict):
            value = dict(value)  # the program may write its own object again
            for name, property_ in (schema.get("properties") or {}).items():
                if isinstance(property_, dict):
                    self._field(property_, resolver, f"{path}.{name}", name, value)
        return value

    def _field(
        self, schema: dict[str, Any], resolver: Any, path: str, name: str, holder: dict[str, Any]
    ) -> None:
        ctx = self._ctx
        ctx.enter_field(holder, path, name, get_type(schema), schema.get("confluent:tags") or ())
        try:
            if holder.get(name) is None:
                return
            value = self.value(schema, resolver, path, holder[name])
            if ctx.rule.kind != RuleKind.CONDITION:
                holder[name] = value
            elif value is False:
                raise RuleConditionError(ctx.rule)
        finally:
            ctx.exit_field()


def _schema_of(schema: str | Schema | None) -> Schema | None:
    if schema is None or isinstance(schema, Schema):
        return schema
    if not isinstance(schema, str):
        raise TypeError(f"the schema must be a str or a Schema, not {type(schema).__name__}")
    return Schema(schema, "JSON")


class _JsonSteps:
    """What the JSON serializers and deserializers have in common."""

    _registry: Any

    def _parse(self, schema: Schema) -> Steps[ParsedJson]:
        references: Registry[Any] = Registry().with_resources(
            (name, Resource.from_contents(parse(referenced), DEFAULT_SPEC))
            for name, referenced in (yield from references_of(schema, self._registry))
        )
        return ParsedJson(parse(schema), references)

    def _transformer(self, parsed: ParsedJson) -> FieldTransformer:
        def walk(ctx: RuleContext, field_transform: FieldTransform, message: Any) -> Any:
            fields = _Walk(parsed, ctx, field_transform)
            return fields.value(parsed.schema, parsed.resolver, "$", message)

        return walk


class _JsonSerializerSteps(_JsonSteps, SerializerSteps):
    _format: ClassVar[str] = "JSON"
    _default_conf: ClassVar[dict[str, Any]] = {**SerializerSteps._default_conf, "validate": True}

    def __init__(
        self,
        schema_str: str | Schema | None,
        schema_registry_client: Any,
        to_dict: ToDict | None = None,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        json_encode: Callable[[Any], str | bytes] | None = None,
    ) -> None:
        if to_dict is not None and not callable(to_dict):
            raise ValueError("to_dict must be callable with (object, SerializationContext)")
        properties = Properties(self._default_conf, conf)
        self._init_serializer(schema_registry_client, properties)
        self._validate = properties.take_bool("validate")
        properties.check_empty()
        self._to_dict = to_dict
        self._json_encode = json_encode or _json_dumps
        self._schema = _schema_of(schema_str)
        self._init_rules(rule_conf, rule_registry)

    def _record_name(self, obj: Any) -> str | None:
        return self._own.title if self._own is not None else None

    def _walk_rules(self, validation: Validation, parsed: ParsedJson, value: Any) -> None:
        try:
            _RuleCheck(parsed, validation).value(parsed.schema, parsed.resolver, "$", value)
        except CHECK_ERRORS as failure:
            raise SerializationError(_explained(failure)) from failure

    def _encode(self, parsed: ParsedJson, value: Any) -> bytes:
        if self._validate:
            parsed.check(value)
        try:
            text = self._json_encode(value)
            return text.encode() if isinstance(text, str) else bytes(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"the value can't be written as JSON: {error}") from error


class JSONSerializer(_JsonSerializerSteps, BaseSerializer):
    """Converts objects to JSON, with the id of their schema in the registry.

        serializer = JSONSerializer(schema_text, client)
        payload = serializer({"name": "Ada"}, SerializationContext("users", MessageField.VALUE))

    The configuration has the properties of `AvroSerializer` without ``validate.strict`` and
    ``validate.strict.allow.default``, and:

    - ``validate`` (default True): refuse values that don't fit the schema.

    References of the schema are taken from the registry only, never from the network.

    :param schema_str: The schema. A `Schema` may refer to other schemas of the registry. None needs
        a property that chooses a registered schema.
    :param schema_registry_client: The registry's client.
    :param to_dict: Converts your object to a dict. It gets (object, SerializationContext).
    :param conf: The configuration.
    :param rule_conf: The configuration of rule executors and actions.
    :param rule_registry: The rule executors and actions. Default: those of the process.
    :param json_encode: Converts a value to JSON. Default: orjson if it is installed, or else
        Python's json, without spaces.
    :raises ValueError: The configuration is invalid.
    :raises SerializationError: The schema is invalid.
    """

    def __init__(
        self,
        schema_str: str | Schema | None,
        schema_registry_client: Any,
        to_dict: ToDict | None = None,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        json_encode: Callable[[Any], str | bytes] | None = None,
    ) -> None:
        super().__init__(
            schema_str,
            schema_registry_client,
            to_dict,
            conf,
            rule_conf,
            rule_registry,
            json_encode,
        )
        run(self._prepare())


class AsyncJSONSerializer(_JsonSerializerSteps, AsyncBaseSerializer):
    """A `JSONSerializer` for asyncio: ``await AsyncJSONSerializer(schema_text, client)``.

    The client is an `AsyncSchemaRegistryClient`. Calls of the serializer are awaited. If you don't
    await the constructor, the first call parses the schema.
    """


class _JsonDeserializerSteps(_JsonSteps, DeserializerSteps):
    _format: ClassVar[str] = "JSON"
    _default_conf: ClassVar[dict[str, Any]] = {**DeserializerSteps._default_conf, "validate": True}

    def __init__(
        self,
        schema_str: str | Schema | None,
        from_dict: FromDict | None = None,
        schema_registry_client: Any = None,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        json_decode: Callable[[bytes], Any] | None = None,
        *,
        type: Any = dict,
    ) -> None:
        schema = _schema_of(schema_str)
        if schema_registry_client is None and (schema is None or schema.references):
            raise ValueError("schema_registry_client is needed without a complete schema")
        if type is not dict and from_dict is not None:
            raise ValueError("type excludes from_dict")
        if from_dict is not None and not callable(from_dict):
            raise ValueError("from_dict must be callable with (dict, SerializationContext)")
        properties = Properties(self._default_conf, conf)
        self._init_deserializer(schema_registry_client, properties)
        self._validate = properties.take_bool("validate")
        properties.check_empty()
        self._from_dict = from_dict
        self._convert = None if type is dict else _converter_of(type)
        self._json_decode = json_decode or _json_loads
        self._schema = schema
        self._init_rules(rule_conf, rule_registry)

    def _record_name_of(self, parsed: ParsedJson, schema_id: SchemaId) -> str | None:
        return parsed.title

    def _decode(
        self, payload: bytes, writer: ParsedJson, reader: ParsedJson | None, schema_id: SchemaId
    ) -> Any:
        try:
            return self._json_decode(payload)
        except (ValueError, RecursionError) as error:
            raise SerializationError(
                f"the payload of {len(payload)} bytes isn't valid JSON: {error}"
            ) from error

    def _read_function(self, writer: Any, reader: ParsedJson) -> Callable[[bytes], Any]:
        decode, convert = self._json_decode, self._convert
        if not self._validate:
            return decode if convert is None else lambda payload: convert(decode(payload))
        accepts, check = reader.acceptor, reader.check

        def read(payload: bytes) -> Any:
            value = decode(payload)
            if accepts is None or not accepts(value):
                check(value)
            return value if convert is None else convert(value)

        return read

    def _from_value(self, value: Any, ctx: SerializationContext | None) -> Any:
        return super()._from_value(value, ctx) if self._convert is None else self._convert(value)

    def _check(self, value: Any, reader: ParsedJson) -> None:
        if self._validate:
            reader.check(value)


class JSONDeserializer(_JsonDeserializerSteps, BaseDeserializer):
    """Converts JSON with the id of its schema to objects.

        deserializer = JSONDeserializer(None, schema_registry_client=client)
        value = deserializer(payload, SerializationContext("users", MessageField.VALUE))

    The configuration has the properties of `AvroDeserializer`, and:

    - ``validate`` (default True): refuse values that don't fit the reader's schema.

    :param schema_str: The reader's schema. None: the schema of the writer.
    :param from_dict: Converts a dict to your object. It gets (dict, SerializationContext).
    :param schema_registry_client: The registry's client. With a schema it may be missing: then the
        id before the payload is skipped.
    :param conf: The configuration.
    :param rule_conf: The configuration of rule executors and actions.
    :param rule_registry: The rule executors and actions. Default: those of the process.
    :param json_decode: Converts the bytes of JSON to a value. Default: orjson if it is installed,
        or else Python's json.
    :param type: The class of the objects, instead of from_dict: a dataclass, a ``msgspec.Struct``,
        a TypedDict, or another type that msgspec converts values of JSON to. Default: dict.
    :raises ValueError: The configuration is invalid.
    :raises TypeError: The annotations of ``type`` have no values in JSON.
    :raises ImportError: ``type`` is given, and msgspec isn't installed.
    :raises SerializationError: The schema is invalid.
    """

    def __init__(
        self,
        schema_str: str | Schema | None,
        from_dict: FromDict | None = None,
        schema_registry_client: Any = None,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        json_decode: Callable[[bytes], Any] | None = None,
        *,
        type: Any = dict,
    ) -> None:
        super().__init__(
            schema_str,
            from_dict,
            schema_registry_client,
            conf,
            rule_conf,
            rule_registry,
            json_decode,
            type=type,
        )
        run(self._prepare())


class AsyncJSONDeserializer(_JsonDeserializerSteps, AsyncBaseDeserializer):
    """A `JSONDeserializer` for asyncio: ``await AsyncJSONDeserializer(None, None, client)``.

    The client is an `AsyncSchemaRegistryClient`. Calls of the deserializer are awaited. If you
    don't await the constructor, the first call parses the schema.
    """


class _JSONSerializerSettings(SerializerSettings[S]):
    def __init__(
        self,
        schema_registry_config: dict[str, Any] | None = None,
        schema_registry_client: Any = None,
        schema: str | Schema | None = None,
        to_dict: ToDict | None = None,
        serializer_config: dict[str, Any] | None = None,
        rule_config: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        json_encode: Callable[[Any], str | bytes] | None = None,
        serializer_init: Callable[[S], Any] | None = None,
    ) -> None:
        super().__init__(schema_registry_config, schema_registry_client, rule_config, rule_registry)
        self._schema = schema
        self._to_dict = to_dict
        self._json_encode = json_encode
        self._conf = serializer_config
        self._init = serializer_init

    def set_schema(self: B, schema_str: str | Schema) -> B:
        """Use this schema: its text, or a `Schema` with references."""
        self._schema = schema_str  # type: ignore[attr-defined]
        return self

    def set_to_dict(self: B, to_dict: ToDict) -> B:
        """Convert objects with this function of (object, SerializationContext)."""
        self._to_dict = to_dict  # type: ignore[attr-defined]
        return self

    def set_json_encode(self: B, json_encode: Callable[[Any], str | bytes]) -> B:
        """Write JSON with this function instead of the default."""
        self._json_encode = json_encode  # type: ignore[attr-defined]
        return self


class JSONSerializerBuilder(
    RegistryBuilder[JSONSerializer], _JSONSerializerSettings[JSONSerializer]
):
    """Makes a `JSONSerializer`, as the value of ``value.serializer.builder``.

    The parameters are those of `JSONSerializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param serializer_config: The configuration of the serializer.
    :param serializer_init: A function that gets the serializer after it is built.
    """

    def _construct(self, client: Any) -> JSONSerializer:
        return JSONSerializer(
            self._schema,
            client,
            self._to_dict,
            self._conf,
            self._rule_conf,
            self._rule_registry,
            self._json_encode,
        )


class AsyncJSONSerializerBuilder(
    AsyncRegistryBuilder[AsyncJSONSerializer], _JSONSerializerSettings[AsyncJSONSerializer]
):
    """Makes an `AsyncJSONSerializer`, as the value of ``value.serializer.builder``.

    The parameters are those of `AsyncJSONSerializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param serializer_config: The configuration of the serializer.
    :param serializer_init: A function that gets the serializer after it is built. It is awaited.
    """

    def _construct(self, client: Any) -> AsyncJSONSerializer:
        return AsyncJSONSerializer(
            self._schema,
            client,
            self._to_dict,
            self._conf,
            self._rule_conf,
            self._rule_registry,
            self._json_encode,
        )


class _JSONDeserializerSettings(DeserializerSettings[S]):
    def __init__(
        self,
        schema_registry_config: dict[str, Any] | None = None,
        schema_registry_client: Any = None,
        schema: str | Schema | None = None,
        from_dict: FromDict | None = None,
        deserializer_config: dict[str, Any] | None = None,
        rule_config: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        json_decode: Callable[[bytes], Any] | None = None,
        deserializer_init: Callable[[S], Any] | None = None,
        *,
        type: Any = dict,
    ) -> None:
        super().__init__(schema_registry_config, schema_registry_client, rule_config, rule_registry)
        self._schema = schema
        self._from_dict = from_dict
        self._json_decode = json_decode
        self._type = type
        self._conf = deserializer_config
        self._init = deserializer_init

    def set_schema(self: B, schema_str: str | Schema) -> B:
        """Use this schema: its text, or a `Schema` with references."""
        self._schema = schema_str  # type: ignore[attr-defined]
        return self

    def set_from_dict(self: B, from_dict: FromDict) -> B:
        """Convert dicts with this function of (dict, SerializationContext)."""
        self._from_dict = from_dict  # type: ignore[attr-defined]
        return self

    def set_type(self: B, type: Any) -> B:
        """Make objects of this class instead of dicts."""
        self._type = type  # type: ignore[attr-defined]
        return self

    def set_json_decode(self: B, json_decode: Callable[[bytes], Any]) -> B:
        """Read JSON with this function instead of the default."""
        self._json_decode = json_decode  # type: ignore[attr-defined]
        return self


class JSONDeserializerBuilder(
    RegistryBuilder[JSONDeserializer], _JSONDeserializerSettings[JSONDeserializer]
):
    """Makes a `JSONDeserializer`, as the value of ``value.deserializer.builder``.

    The parameters are those of `JSONDeserializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param deserializer_config: The configuration of the deserializer.
    :param deserializer_init: A function that gets the deserializer after it is built.
    """

    def _construct(self, client: Any) -> JSONDeserializer:
        return JSONDeserializer(
            self._schema,
            self._from_dict,
            client,
            self._conf,
            self._rule_conf,
            self._rule_registry,
            self._json_decode,
            type=self._type,
        )


class AsyncJSONDeserializerBuilder(
    AsyncRegistryBuilder[AsyncJSONDeserializer], _JSONDeserializerSettings[AsyncJSONDeserializer]
):
    """Makes an `AsyncJSONDeserializer`, as the value of ``value.deserializer.builder``.

    The parameters are those of `AsyncJSONDeserializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param deserializer_config: The configuration of the deserializer.
    :param deserializer_init: A function that gets the deserializer at the end. It is awaited.
    """

    def _construct(self, client: Any) -> AsyncJSONDeserializer:
        return AsyncJSONDeserializer(
            self._schema,
            self._from_dict,
            client,
            self._conf,
            self._rule_conf,
            self._rule_registry,
            self._json_decode,
            type=self._type,
        )
