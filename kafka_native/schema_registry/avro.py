"""Avro serializers and deserializers with a schema registry.

They need fastavro: ``pip install 'kafka-native[avro]'``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from kafka_native._native.avro_objects import IntCheck
from kafka_native.codecs.avro_reader import AvroReader
from kafka_native.codecs.errors import DecodeError, SchemaError
from kafka_native.schema_registry.avro_limits import HostileCheck
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
    import fastavro
    import fastavro.schema
    import fastavro.validation
except ImportError as error:
    raise ImportError("Avro serializers need fastavro: pip install 'kafka-native[avro]'") from error

__all__ = [
    "AsyncAvroDeserializer",
    "AsyncAvroDeserializerBuilder",
    "AsyncAvroSerializer",
    "AsyncAvroSerializerBuilder",
    "AvroDeserializer",
    "AvroDeserializerBuilder",
    "AvroMessage",
    "AvroSchema",
    "AvroSerializer",
    "AvroSerializerBuilder",
]

AvroSchema: TypeAlias = str | list[Any] | dict[str, Any]
"""A schema as Python objects: the name of a type, a union or a definition."""

AvroMessage: TypeAlias = Any
"""A value of an Avro schema: None, bool, int, float, Decimal, str, bytes, list, dict or tuple."""

ToDict: TypeAlias = Callable[[Any, SerializationContext], Any]
FromDict: TypeAlias = Callable[[Any, SerializationContext], Any]

_FIELD_TYPES = {
    "record": FieldType.RECORD,
    "error": FieldType.RECORD,
    "enum": FieldType.ENUM,
    "array": FieldType.ARRAY,
    "map": FieldType.MAP,
    "fixed": FieldType.FIXED,
    "string": FieldType.STRING,
    "bytes": FieldType.BYTES,
    "int": FieldType.INT,
    "long": FieldType.LONG,
    "float": FieldType.FLOAT,
    "double": FieldType.DOUBLE,
    "boolean": FieldType.BOOLEAN,
}


PROGRAMS_MAX = 100
"""How many readers' schemas a writer's schema keeps a compiled program for."""

_COMPLEX_TYPES = ("record", "error", "enum", "array", "map", "fixed")


def get_type(schema: AvroSchema) -> FieldType:
    """Return the field type of a schema."""
    if isinstance(schema, list):
        return FieldType.COMBINED
    name = schema.get("type") if isinstance(schema, dict) else schema
    return _FIELD_TYPES.get(name, FieldType.NULL) if isinstance(name, str) else FieldType.NULL


def schema_of(schema: str | Schema | None) -> Schema | None:
    """Return the Schema of an argument. A text may be the name of a primitive type."""
    if schema is None or isinstance(schema, Schema):
        return schema
    if not isinstance(schema, str):
        raise TypeError(f"the schema must be a str or a Schema, not {type(schema).__name__}")
    return Schema(_as_object(schema), "AVRO")


def _as_object(text: str) -> str:
    text = text.strip()
    return text if text[:1] in ("{", "[") else '{"type":' + text + "}"


class ParsedAvro:
    """A parsed schema, and what rules need of it."""

    def __init__(self, schema: AvroSchema, name: str | None, definition: AvroSchema) -> None:
        self.schema = schema
        self.name = name
        self._definition = definition
        self._programs: dict[tuple[ParsedAvro | None, Any], AvroReader[Any] | None] = {}
        is_text = isinstance(schema, dict) and schema.get("type") == "bytes"
        self.is_bytes = schema == "bytes" or (is_text and "logicalType" not in schema)
        """Whether payloads are raw bytes, without a length in front, as in other clients."""
        self.hostile = HostileCheck(schema)
        self.int_check = _IntChecks().made(schema)
        self._expanded: AvroSchema | None = None
        self._tags: dict[str, set[str]] | None = None

    def program_for(self, reader: ParsedAvro | None, type: Any = dict) -> AvroReader[Any] | None:
        """Return the program for payloads of this schema. None: only fastavro reads dicts.

        :param reader: The reader's schema. None: this one.
        :param type: The class that a record becomes.
        :raises SchemaError: The schema doesn't fit a class other than dict.
        """
        key = None if reader is self else reader, type
        if key not in self._programs:
            if len(self._programs) >= PROGRAMS_MAX:
                self._programs.clear()
            self._programs[key] = self._compile(*key)
        return self._programs[key]

    def _compile(self, reader: ParsedAvro | None, type: Any) -> AvroReader[Any] | None:
        target = None if reader is None else reader._definition
        if type is not dict:
            return AvroReader(self._definition, target, type=type)
        try:
            program = AvroReader(self._definition, target)
        except SchemaError:
            return None
        return None if program._is_disputed else program

    @property
    def expanded(self) -> AvroSchema:
        """The schema with its named types written out where they are used."""
        if self._expanded is None:
            self._expanded = fastavro.schema.expand_schema(self.schema)
        return self._expanded

    @property
    def tags(self) -> Mapping[str, set[str]]:
        """The ``confluent:tags`` in the schema by full field name."""
        if self._tags is None:
            self._tags = get_inline_tags(self.schema)
        return self._tags


def parse(schema: Schema, references: dict[str, AvroSchema]) -> ParsedAvro:
    """Parse a schema.

    :param references: The schemas that it refers to, by full name.
    :raises SerializationError: The schema is invalid.
    """
    text = _as_object(schema.schema_str or "")
    try:
        definition = json.loads(text)
        complete = _with_references(definition, "", references, set())
        parsed: AvroSchema = fastavro.parse_schema(complete)
    except Exception as error:
        raise SerializationError(f"the Avro schema can't be parsed: {error}") from error
    name = None
    if isinstance(parsed, dict):
        name = parsed.get("name", definition.get("type"))
    return ParsedAvro(parsed, name, complete)


def _with_references(
    schema: Any, namespace: str, references: Mapping[str, AvroSchema], defined: set[str]
) -> Any:
    """Return a schema in which the first use of each referenced type is its definition.

    :param defined: The full names that the part before has defined.
    """
    if isinstance(schema, list):
        return [_with_references(each, namespace, references, defined) for each in schema]
    if isinstance(schema, str):
        name = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        name = name if name in references or name in defined else schema
        if name in defined or name not in references:
            return name if name in defined else schema
        return _with_references(references[name], "", references, defined)
    if not isinstance(schema, dict):
        return schema
    result = dict(schema)
    if "name" in schema:
        name = _full_name(schema, namespace)
        if name in defined and name in references:
            return name  # a type inside of a reference, which was used before
        defined.add(name)
        namespace = name.rpartition(".")[0]
    for part in ("type", "items", "values"):
        if part in schema and (part != "type" or schema["type"] not in _COMPLEX_TYPES):
            result[part] = _with_references(schema[part], namespace, references, defined)
    if isinstance(schema.get("fields"), list):
        result["fields"] = [
            {**field, "type": _with_references(field["type"], namespace, references, defined)}
            for field in schema["fields"]
        ]
    inner = result.get("type")
    is_wrapped = isinstance(inner, dict) or (isinstance(inner, str) and inner in defined)
    return inner if is_wrapped else result  # fastavro doesn't take {"type": "a.Name"}


def definitions_of(schema: Schema, registry: Any) -> Steps[dict[str, AvroSchema]]:
    """Find the definitions of all schemas that a schema refers to, by name."""
    found: dict[str, AvroSchema] = {}
    inner: dict[str, AvroSchema] = {}
    for name, referenced in (yield from references_of(schema, registry)):
        try:
            definition = json.loads(_as_object(referenced.schema_str or ""))
        except ValueError as error:
            raise SerializationError(
                f"the Avro schema can't be parsed: its reference {name}: {error}"
            ) from error
        found[name] = definition
        if isinstance(definition, dict) and "name" in definition:
            found[_full_name(definition, "")] = definition
        _add_named(definition, "", inner)
    return inner | found


def _add_named(schema: Any, namespace: str, found: dict[str, AvroSchema]) -> None:
    """Add the named types inside of a schema. Others may use them before that schema."""
    if isinstance(schema, list):
        for branch in schema:
            _add_named(branch, namespace, found)
    elif isinstance(schema, dict):
        if isinstance(schema.get("name"), str):
            name = _full_name(schema, namespace)
            found[name] = {**schema, "name": name}
            namespace = name.rpartition(".")[0]
        for part in ("type", "items", "values"):
            _add_named(schema.get(part), namespace, found)
        for field in schema.get("fields") or ():
            _add_named(field.get("type"), namespace, found)


def _full_name(definition: Mapping[str, Any], namespace: str) -> str:
    name: str = definition["name"]
    if "." in name:
        return name
    namespace = definition.get("namespace", namespace)
    return f"{namespace}.{name}" if namespace else name


def get_inline_tags(schema: AvroSchema) -> dict[str, set[str]]:
    """Return the ``confluent:tags`` in a schema by full field name."""
    tags: dict[str, set[str]] = {}
    _add_tags(schema, "", tags)
    return tags


def _add_tags(schema: Any, namespace: str, tags: dict[str, set[str]]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _add_tags(branch, namespace, tags)
    elif isinstance(schema, dict):
        for part in ("items", "values", "type"):
            if isinstance(schema.get(part), dict | list):
                _add_tags(schema[part], namespace, tags)
        if get_type(schema) != FieldType.RECORD:
            return
        record = _full_name(schema, namespace)
        for field in schema.get("fields", ()):
            if field.get("confluent:tags"):
                tags.setdefault(f"{record}.{field['name']}", set()).update(field["confluent:tags"])
            _add_tags(field["type"], record.rpartition(".")[0], tags)


def transform(
    ctx: RuleContext, schema: AvroSchema, message: AvroMessage, field_transform: FieldTransform
) -> AvroMessage:
    """Call a function for the fields of a message that have one of the rule's tags.

    Return the new message. The given one stays as it is.

    :param schema: The expanded schema of the message.
    """
    field = ctx.current_field()
    if field is not None:
        field.field_type = get_type(schema)
    if isinstance(schema, list):
        return _transform_union(ctx, schema, message, field_transform)
    if isinstance(schema, dict) and message is not None:
        kind = get_type(schema)
        if kind == FieldType.ARRAY and isinstance(message, list):
            items = schema["items"]
            return [transform(ctx, items, item, field_transform) for item in message]
        if kind == FieldType.MAP and isinstance(message, dict):
            values = schema["values"]
            return {
                key: transform(ctx, values, value, field_transform)
                for key, value in message.items()
            }
        if kind == FieldType.RECORD and isinstance(message, dict):
            message = dict(message)  # the program may write its own object again
            for each in schema["fields"]:
                if each["name"] in message:
                    _transform_field(ctx, schema, each, message, field_transform)
            return message
        if kind in (FieldType.ARRAY, FieldType.MAP, FieldType.RECORD):
            return message  # of another type: encoding reports it
    if field is not None and has_rule_tag(ctx, field):
        return field_transform(ctx, field, message)
    return message


def _transform_union(
    ctx: RuleContext, branches: list[Any], message: AvroMessage, field_transform: FieldTransform
) -> AvroMessage:
    branch, value = _chosen_branch(branches, message)
    if branch is None:
        return message
    changed = transform(ctx, branch, value, field_transform)
    if isinstance(message, tuple) and _fits(branch, changed):
        return (message[0], changed)
    return changed


def _transform_field(
    ctx: RuleContext,
    record: dict[str, Any],
    field: dict[str, Any],
    message: dict[str, Any],
    field_transform: FieldTransform,
) -> None:
    name = field["name"]
    ctx.enter_field(message, f"{record['name']}.{name}", name, get_type(field["type"]), None)
    try:
        value = transform(ctx, field["type"], message[name], field_transform)
        if ctx.rule.kind != RuleKind.CONDITION:
            message[name] = value
        elif value is False:
            raise RuleConditionError(ctx.rule)
    finally:
        ctx.exit_field()


def _chosen_branch(branches: list[Any], message: AvroMessage) -> tuple[AvroSchema | None, Any]:
    """Return the branch of a union that a value belongs to, and the value without its marker.

    A tuple (name, value) or a dict with the key ``-type`` chooses the branch by name.
    """
    marker = None
    if isinstance(message, tuple) and len(message) == 2:
        marker, value = message
    elif isinstance(message, dict) and "-type" in message:
        marker, value = message["-type"], message
    if marker is None:
        return next((each for each in branches if _fits(each, message)), None), message
    for names_of in (_full_names, _short_names):
        for branch in branches:
            if marker in names_of(branch):
                return branch, value
    return None, message


def _full_names(branch: AvroSchema) -> tuple[str, ...]:
    if isinstance(branch, str):
        return (branch,)
    if isinstance(branch, dict):
        return (_full_name(branch, ""),) if "name" in branch else (branch["type"],)
    return ()


def _short_names(branch: AvroSchema) -> tuple[str, ...]:
    return tuple(name.rpartition(".")[2] for name in _full_names(branch))


def _fits(schema: AvroSchema, value: Any) -> bool:
    """Return whether a value belongs to an expanded schema."""
    kind = get_type(schema)
    if isinstance(schema, dict) and kind == FieldType.RECORD:
        return isinstance(value, dict) and all(
            _fits(field["type"], value[field["name"]])
            if field["name"] in value
            else "default" in field or _fits(field["type"], None)
            for field in schema.get("fields", ())
        )
    if isinstance(schema, dict) and kind == FieldType.ARRAY:
        return isinstance(value, list | tuple) and all(
            _fits(schema["items"], item) for item in value
        )
    if isinstance(schema, dict) and kind == FieldType.MAP:
        return isinstance(value, dict) and all(
            isinstance(key, str) and _fits(schema["values"], item) for key, item in value.items()
        )
    if isinstance(schema, list):
        branch, _ = _chosen_branch(schema, value)
        return branch is not None
    if isinstance(schema, str) and get_type(schema) == FieldType.NULL and schema != "null":
        return isinstance(value, dict)  # the name of a record that contains itself
    try:
        return bool(fastavro.validation.validate(value, schema, raise_errors=False))
    except Exception:  # a logical type refuses the value
        return False


def problem_path(schema: AvroSchema, value: Any, path: str = "") -> str:
    """Return the path of the first part of a value that doesn't fit a schema, and why."""
    kind = get_type(schema)
    if isinstance(schema, dict) and kind == FieldType.RECORD and isinstance(value, dict):
        for field in schema.get("fields", ()):
            name, inner = field["name"], f"{path}.{field['name']}" if path else field["name"]
            if name in value:
                if not _fits(field["type"], value[name]):
                    return problem_path(field["type"], value[name], inner)
            elif "default" not in field and not _fits(field["type"], None):
                return f"{inner}: the value is missing, and the schema has no default"
    if isinstance(schema, dict) and kind == FieldType.ARRAY and isinstance(value, list):
        for index, item in enumerate(value):
            if not _fits(schema["items"], item):
                return problem_path(schema["items"], item, f"{path}[{index}]")
    if isinstance(schema, dict) and kind == FieldType.MAP and isinstance(value, dict):
        for key, item in value.items():
            if not _fits(schema["values"], item):
                return problem_path(schema["values"], item, f"{path}[{key!r}]")
    if isinstance(schema, list):
        records = [each for each in schema if get_type(each) == FieldType.RECORD]
        if len(records) == 1 and isinstance(value, dict):
            return problem_path(records[0], value, path)
    expected = " or ".join(_short_names_of(schema))
    return f"{path or 'the value'}: {_shown(value)} isn't a valid {expected}"


def _short_names_of(schema: AvroSchema) -> list[str]:
    if isinstance(schema, list):
        return [name for branch in schema for name in _short_names_of(branch)]
    if isinstance(schema, dict):
        return [str(schema.get("logicalType") or schema.get("name") or schema["type"])]
    return [schema]


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text[:60]}..." if len(text) > 63 else text


def _prefixes(schema: AvroSchema) -> Iterator[tuple[str, AvroSchema]]:
    """Yield the path of each field in the order of the payload, with the schema that ends there."""
    if not isinstance(schema, dict) or get_type(schema) != FieldType.RECORD:
        return
    fields = schema["fields"]
    for count, field in enumerate(fields):
        before = fields[:count]
        for path, inner in _prefixes(field["type"]):
            ended = {**field, "type": inner}
            yield f"{field['name']}.{path}", {**schema, "fields": [*before, ended]}
        yield field["name"], {**schema, "fields": [*before, field]}


def truncated_path(schema: AvroSchema, payload: bytes) -> str | None:
    """Return the path of the first field that can't be read from a payload, or None."""
    for path, prefix in _prefixes(_plain(schema)):
        try:
            fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(prefix), None)
        except Exception:
            return path
    return None


def _plain(schema: Any) -> Any:
    """Return a schema without the marks of fastavro's parser."""
    if isinstance(schema, dict):
        return {key: _plain(part) for key, part in schema.items() if not key.startswith("__")}
    return [_plain(part) for part in schema] if isinstance(schema, list) else schema


class _IntChecks:
    """Makes the check of a schema that finds numbers beyond 32 bits for the type int.

    In a union fastavro refuses them itself, unless a tuple names the branch.
    """

    def __init__(self) -> None:
        self._named: dict[str, IntCheck] = {}

    def made(self, schema: Any) -> IntCheck | None:
        """Return the check. None: the schema has no int."""
        if isinstance(schema, list):
            return self._union(schema)
        kind = schema.get("type") if isinstance(schema, dict) else schema
        if kind == "int":
            return IntCheck("int")
        if kind in ("record", "error"):
            return self._record(schema)
        if kind in ("array", "map"):
            items = self.made(schema["items" if kind == "array" else "values"])
            return None if items is None else _part_of(kind, items)
        if kind in self._named:
            return self._named[kind]
        return self.made(kind) if isinstance(kind, dict | list) else None

    def _record(self, schema: dict[str, Any]) -> IntCheck | None:
        check = self._named[schema["name"]] = IntCheck("record")  # it may contain itself
        has_ints = False
        for each in schema["fields"]:
            found = self.made(each["type"])
            if found is not None:
                check.add(each["name"], found)
                has_ints = True
        return check if has_ints else None

    def _union(self, branches: list[Any]) -> IntCheck | None:
        checks = [(each, self.made(each)) for each in branches]

        def choose(value: Any) -> tuple[IntCheck | None, Any]:
            chosen, inner = _chosen_branch(branches, value)
            return next((check for branch, check in checks if branch is chosen), None), inner

        if all(check is None for _, check in checks):
            return None
        return IntCheck("union", choose)


def _part_of(kind: str, items: IntCheck) -> IntCheck:
    check = IntCheck(kind)
    check.add("", items)
    return check


class _AvroSteps:
    """What the Avro serializers and deserializers have in common."""

    _registry: Any

    def _parse(self, schema: Schema) -> Steps[ParsedAvro]:
        return parse(schema, (yield from definitions_of(schema, self._registry)))

    def _transformer(self, parsed: ParsedAvro) -> FieldTransformer:
        def walk(ctx: RuleContext, field_transform: FieldTransform, message: Any) -> Any:
            return transform(ctx, parsed.expanded, message, field_transform)

        return walk

    def _inline_tags(self, parsed: ParsedAvro) -> Mapping[str, set[str]]:
        return parsed.tags


class _AvroSerializerSteps(_AvroSteps, SerializerSteps):
    _format: ClassVar[str] = "AVRO"
    _default_conf: ClassVar[dict[str, Any]] = {
        **SerializerSteps._default_conf,
        "validate.strict": False,
        "validate.strict.allow.default": False,
    }

    def __init__(
        self,
        schema_registry_client: Any,
        schema_str: str | Schema | None = None,
        to_dict: ToDict | None = None,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
    ) -> None:
        if to_dict is not None and not callable(to_dict):
            raise ValueError("to_dict must be callable with (object, SerializationContext)")
        properties = Properties(self._default_conf, conf)
        self._init_serializer(schema_registry_client, properties)
        self._strict = properties.take_bool("validate.strict")
        self._strict_allow_default = properties.take_bool("validate.strict.allow.default")
        properties.check_empty()
        self._to_dict = to_dict
        self._schema = schema_of(schema_str)
        self._init_rules(rule_conf, rule_registry)

    def _record_name(self, obj: Any) -> str | None:
        return self._own.name if self._own is not None else None

    def _walk_rules(self, validation: Validation, parsed: ParsedAvro, value: Any) -> None:
        _check_rules(validation, parsed.expanded, value, "")

    def _encode(self, parsed: ParsedAvro, value: Any) -> bytes:
        if parsed.is_bytes:
            if isinstance(value, str):
                return value.encode()
            if isinstance(value, bytes | bytearray | memoryview):
                return bytes(value)
            raise SerializationError(f"the value: {_shown(value)} isn't a valid bytes")
        out = io.BytesIO()
        parsed.hostile.check_value(value)
        try:
            fastavro.schemaless_writer(
                out,
                parsed.schema,
                value,
                strict=self._strict,
                strict_allow_default=self._strict_allow_default,
            )
        except Exception as error:
            if _fits(parsed.expanded, value):
                raise SerializationError(f"the value doesn't fit the schema: {error}") from error
            raise SerializationError(problem_path(parsed.expanded, value)) from error
        if parsed.int_check is not None and (found := parsed.int_check.find(value)):
            path = found[0].removeprefix(".") or "the value"
            raise SerializationError(f"{path}: {_shown(found[1])} isn't a valid int")
        return out.getvalue()


def _check_rules(validation: Validation, schema: Any, value: Any, path: str) -> None:
    """Check the rules in an expanded schema for a value and its parts."""
    if value is None:
        return
    if isinstance(schema, list):
        branch, inner = _chosen_branch(schema, value)
        if branch is not None:
            _check_rules(validation, branch, inner, path)
        return
    kind = get_type(schema)
    if not isinstance(schema, dict):
        return
    if kind == FieldType.ARRAY and isinstance(value, list):
        for index, item in enumerate(value):
            _check_rules(validation, schema["items"], item, f"{path}[{index}]")
    elif kind == FieldType.MAP and isinstance(value, dict):
        for key, item in value.items():
            _check_rules(validation, schema["values"], item, f'{path}["{key}"]')
    elif kind == FieldType.RECORD and isinstance(value, dict):
        rules = parse_validation_rules(schema.get(VALIDATION_RULES_PROP))
        validation.check(rules, schema, value, path)
        for field in schema.get("fields", ()):
            item = value.get(field["name"])
            inner_path = f"{path}.{field['name']}" if path else field["name"]
            if item is not None:
                rules = parse_validation_rules(field.get(VALIDATION_RULES_PROP))
                validation.check(rules, field["type"], item, inner_path)
                _check_rules(validation, field["type"], item, inner_path)


class AvroSerializer(_AvroSerializerSteps, BaseSerializer):
    """Converts objects to Avro, with the id of their schema in the registry.

        serializer = AvroSerializer(client, schema_text)
        payload = serializer({"name": "Ada"}, SerializationContext("users", MessageField.VALUE))

    The configuration has these properties:

    - ``auto.register.schemas`` (default True): register the schema if the subject doesn't have it.
    - ``normalize.schemas`` (False): the registry writes the schema in its normal form first.
    - ``use.schema.id`` (None): write with the registered schema of this id.
    - ``use.latest.version`` (False): write with the subject's latest schema. It excludes
      ``auto.register.schemas``.
    - ``use.latest.with.metadata`` (None): write with the latest schema that has these properties.
    - ``subject.name.strategy`` (None): a function of (SerializationContext, record name) that
      returns the subject.
    - ``subject.name.strategy.type`` (``ASSOCIATED``): ``TOPIC``, ``RECORD``, ``TOPIC_RECORD`` or
      ``ASSOCIATED``.
    - ``subject.name.strategy.conf`` (None): the configuration of ``ASSOCIATED``.
    - ``schema.id.serializer`` (`prefix_schema_id_serializer`): writes the id before the payload, or
      the GUID into a header (`header_schema_id_serializer`).
    - ``validation.rules.execution`` (``DISABLED``): when to check the rules in the schema's text:
      ``BEFORE_DOMAIN_RULES`` or ``AFTER_DOMAIN_RULES``.
    - ``validation.rules.executor`` (a `CelValidator`): the `ValidationRuleExecutor` that checks
      them.
    - ``validation.rules.fail.fast`` (False): stop at the first violation.
    - ``validate.strict`` (False): refuse records that lack fields, or have others.
    - ``validate.strict.allow.default`` (False): as ``validate.strict``, but fields with a default
      may be missing.

    :param schema_registry_client: The registry's client.
    :param schema_str: The schema. A `Schema` may refer to other schemas of the registry.
    :param to_dict: Converts your object to a dict. It gets (object, SerializationContext).
    :param conf: The configuration.
    :param rule_conf: The configuration of rule executors and actions.
    :param rule_registry: The rule executors and actions. Default: those of the process.
    :raises ValueError: The configuration is invalid.
    :raises SerializationError: The schema is invalid.
    """

    def __init__(
        self,
        schema_registry_client: Any,
        schema_str: str | Schema | None = None,
        to_dict: ToDict | None = None,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
    ) -> None:
        super().__init__(
            schema_registry_client, schema_str, to_dict, conf, rule_conf, rule_registry
        )
        run(self._prepare())


class AsyncAvroSerializer(_AvroSerializerSteps, AsyncBaseSerializer):
    """An `AvroSerializer` for asyncio: ``await AsyncAvroSerializer(client, schema_text)``.

    The client is an `AsyncSchemaRegistryClient`. Calls of the serializer are awaited. If you don't
    await the constructor, the first call parses the schema.
    """


class _AvroDeserializerSteps(_AvroSteps, DeserializerSteps):
    _format: ClassVar[str] = "AVRO"

    def __init__(
        self,
        schema_registry_client: Any,
        schema_str: str | Schema | None = None,
        from_dict: FromDict | None = None,
        return_record_name: bool = False,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        *,
        type: Any = dict,
    ) -> None:
        if type is not dict and (from_dict is not None or return_record_name):
            raise ValueError("type excludes from_dict and return_record_name")
        if from_dict is not None and not callable(from_dict):
            raise ValueError("from_dict must be callable with (dict, SerializationContext)")
        if not isinstance(return_record_name, bool):
            raise ValueError("return_record_name must be a boolean value")
        properties = Properties(self._default_conf, conf)
        self._init_deserializer(schema_registry_client, properties)
        properties.check_empty()
        self._from_dict = from_dict
        self._return_record_name = return_record_name
        self._type = type
        self._schema = schema_of(schema_str)
        self._init_rules(rule_conf, rule_registry)

    def _record_name_of(self, parsed: ParsedAvro, schema_id: SchemaId) -> str | None:
        return parsed.name

    def _decode(
        self, payload: bytes, writer: ParsedAvro, reader: ParsedAvro | None, schema_id: SchemaId
    ) -> Any:
        if writer.is_bytes:
            return payload
        program = self._program(writer, reader)
        if program is not None:
            try:
                return program.read(bytes(payload))
            except DecodeError as error:
                text = _unreadable(payload, error.path, error.problem)
                raise SerializationError(text) from error
        writer.hostile.check_payload(payload)
        target = None if reader is None or reader is writer else reader.schema
        try:
            return fastavro.schemaless_reader(
                io.BytesIO(payload), writer.schema, target, self._return_record_name
            )
        except Exception as error:
            raise SerializationError(self._problem(payload, writer, error)) from error

    def _read_function(
        self, writer: ParsedAvro, reader: ParsedAvro | None
    ) -> Callable[[bytes], Any] | None:
        if writer.is_bytes:
            return bytes
        program = self._program(writer, reader)
        return None if program is None else program.read

    def _program(self, writer: ParsedAvro, reader: ParsedAvro | None) -> AvroReader[Any] | None:
        if self._type is dict:
            return None if self._return_record_name else writer.program_for(reader)
        if reader is None:
            raise SerializationError(f"migration rules need dicts, not {_name_of(self._type)}")
        try:
            return writer.program_for(reader, self._type)
        except SchemaError as error:
            raise SerializationError(
                f"the schema doesn't fit {_name_of(self._type)}: {error}"
            ) from error

    def _transformer(self, parsed: ParsedAvro) -> FieldTransformer:
        if self._type is not dict:
            raise SerializationError(f"domain rules need dicts, not {_name_of(self._type)}")
        return super()._transformer(parsed)

    def _problem(self, payload: bytes, writer: ParsedAvro, error: Exception) -> str:
        path = truncated_path(writer.schema, payload)
        reason = "the payload ends too early" if isinstance(error, EOFError) else str(error)
        return _unreadable(payload, path, reason or type(error).__name__)


def _name_of(type: Any) -> str:
    return str(getattr(type, "__name__", type))


def _unreadable(payload: bytes, path: str | None, reason: str) -> str:
    if path:
        return f"field {path} can't be read from the payload of {len(payload)} bytes: {reason}"
    return f"the payload of {len(payload)} bytes can't be read with the schema: {reason}"


class AvroDeserializer(_AvroDeserializerSteps, BaseDeserializer):
    """Converts Avro with the id of its schema to objects.

        deserializer = AvroDeserializer(client)
        value = deserializer(payload, SerializationContext("users", MessageField.VALUE))

    The configuration has these properties:

    - ``use.latest.version`` (default False): convert to the subject's latest schema.
    - ``use.latest.with.metadata`` (None): convert to the latest schema that has these properties.
    - ``subject.name.strategy``, ``subject.name.strategy.type``, ``subject.name.strategy.conf``: as
      for `AvroSerializer`.
    - ``schema.id.deserializer`` (`dual_schema_id_deserializer`): reads the GUID from a header if
      there is one, or else the id before the payload.

    :param schema_registry_client: The registry's client.
    :param schema_str: The reader's schema. Default: the schema of the writer.
    :param from_dict: Converts a dict to your object. It gets (dict, SerializationContext).
    :param return_record_name: Whether records in unions become tuples (name, record).
    :param conf: The configuration.
    :param rule_conf: The configuration of rule executors and actions.
    :param rule_registry: The rule executors and actions. Default: those of the process.
    :param type: What a record becomes, as in `kafka_native.codecs.AvroReader`: a dataclass, a
        msgspec.Struct, a NamedTuple or a TypedDict. It excludes ``from_dict``. Domain rules and
        migration rules need dicts.
    :raises ValueError: The configuration is invalid.
    :raises SerializationError: The schema is invalid.
    """

    def __init__(
        self,
        schema_registry_client: Any,
        schema_str: str | Schema | None = None,
        from_dict: FromDict | None = None,
        return_record_name: bool = False,
        conf: dict[str, Any] | None = None,
        rule_conf: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        *,
        type: Any = dict,
    ) -> None:
        super().__init__(
            schema_registry_client,
            schema_str,
            from_dict,
            return_record_name,
            conf,
            rule_conf,
            rule_registry,
            type=type,
        )
        run(self._prepare())


class AsyncAvroDeserializer(_AvroDeserializerSteps, AsyncBaseDeserializer):
    """An `AvroDeserializer` for asyncio: ``await AsyncAvroDeserializer(client)``.

    The client is an `AsyncSchemaRegistryClient`. Calls of the deserializer are awaited. If you
    don't await the constructor, the first call parses the schema.
    """


class _AvroSerializerSettings(SerializerSettings[S]):
    def __init__(
        self,
        schema_registry_config: dict[str, Any] | None = None,
        schema_registry_client: Any = None,
        schema: str | Schema | None = None,
        to_dict: ToDict | None = None,
        serializer_config: dict[str, Any] | None = None,
        rule_config: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        serializer_init: Callable[[S], Any] | None = None,
    ) -> None:
        super().__init__(schema_registry_config, schema_registry_client, rule_config, rule_registry)
        self._schema = schema
        self._to_dict = to_dict
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


class AvroSerializerBuilder(
    RegistryBuilder[AvroSerializer], _AvroSerializerSettings[AvroSerializer]
):
    """Makes an `AvroSerializer`, as the value of ``value.serializer.builder``.

    The parameters are those of `AvroSerializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param serializer_config: The configuration of the serializer.
    :param serializer_init: A function that gets the serializer after it is built.
    """

    def _construct(self, client: Any) -> AvroSerializer:
        return AvroSerializer(
            client,
            self._schema,
            self._to_dict,
            self._conf,
            self._rule_conf,
            self._rule_registry,
        )


class AsyncAvroSerializerBuilder(
    AsyncRegistryBuilder[AsyncAvroSerializer], _AvroSerializerSettings[AsyncAvroSerializer]
):
    """Makes an `AsyncAvroSerializer`, as the value of ``value.serializer.builder``.

    The parameters are those of `AsyncAvroSerializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param serializer_config: The configuration of the serializer.
    :param serializer_init: A function that gets the serializer after it is built. It is awaited.
    """

    def _construct(self, client: Any) -> AsyncAvroSerializer:
        return AsyncAvroSerializer(
            client,
            self._schema,
            self._to_dict,
            self._conf,
            self._rule_conf,
            self._rule_registry,
        )


class _AvroDeserializerSettings(DeserializerSettings[S]):
    def __init__(
        self,
        schema_registry_config: dict[str, Any] | None = None,
        schema_registry_client: Any = None,
        schema: str | Schema | None = None,
        from_dict: FromDict | None = None,
        return_record_name: bool = False,
        deserializer_config: dict[str, Any] | None = None,
        rule_config: dict[str, Any] | None = None,
        rule_registry: RuleRegistry | None = None,
        deserializer_init: Callable[[S], Any] | None = None,
        *,
        type: Any = dict,
    ) -> None:
        super().__init__(schema_registry_config, schema_registry_client, rule_config, rule_registry)
        self._schema = schema
        self._type = type
        self._from_dict = from_dict
        self._return_record_name = return_record_name
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

    def set_return_record_name(self: B, return_record_name: bool) -> B:
        """Return records in unions as tuples (name, record), or not."""
        self._return_record_name = return_record_name  # type: ignore[attr-defined]
        return self


class AvroDeserializerBuilder(
    RegistryBuilder[AvroDeserializer], _AvroDeserializerSettings[AvroDeserializer]
):
    """Makes an `AvroDeserializer`, as the value of ``value.deserializer.builder``.

    The parameters are those of `AvroDeserializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param deserializer_config: The configuration of the deserializer.
    :param deserializer_init: A function that gets the deserializer after it is built.
    """

    def _construct(self, client: Any) -> AvroDeserializer:
        return AvroDeserializer(
            client,
            self._schema,
            self._from_dict,
            self._return_record_name,
            self._conf,
            self._rule_conf,
            self._rule_registry,
            type=self._type,
        )


class AsyncAvroDeserializerBuilder(
    AsyncRegistryBuilder[AsyncAvroDeserializer], _AvroDeserializerSettings[AsyncAvroDeserializer]
):
    """Makes an `AsyncAvroDeserializer`, as the value of ``value.deserializer.builder``.

    The parameters are those of `AsyncAvroDeserializer`, and:

    :param schema_registry_config: The configuration of a new client.
    :param schema_registry_client: A client instead, which stays open.
    :param deserializer_config: The configuration of the deserializer.
    :param deserializer_init: A function that gets the deserializer at the end. It is awaited.
    """

    def _construct(self, client: Any) -> AsyncAvroDeserializer:
        return AsyncAvroDeserializer(
            client,
            self._schema,
            self._from_dict,
            self._return_record_name,
            self._conf,
            self._rule_conf,
            self._rule_registry,
            type=self._type,
        )
