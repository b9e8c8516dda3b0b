"""A schema as the registry stores it, in one of its three languages."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from kafka_native.mock.schema_registry import (
    avro,
    json_schema,
    protobuf,
    protobuf_compatibility,
)
from kafka_native.mock.schema_registry.errors import (
    UNPROCESSABLE,
    InvalidSchemaError,
    RegistryError,
)

TYPES: Final = ("JSON", "PROTOBUF", "AVRO")


class Reference(NamedTuple):
    """A name in a schema, and the version of a subject that it stands for."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema with all that belongs to its identity."""

    text: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    serialized: str | None = field(default=None, compare=False)
    """The descriptor of a Protobuf schema, in base64."""

    @property
    def key(self) -> str:
        """The identity: schemas with the same key have the same id."""
        extras = _without_empty(self.metadata), _without_empty(self.rule_set)
        return json.dumps([self.text, self.type, self.references, *extras], sort_keys=True)

    @property
    def guid(self) -> str:
        """The identity across registries and contexts."""
        digest = hashlib.md5(self.key.encode(), usedforsecurity=False).digest()
        return str(uuid.UUID(bytes=digest, version=4))

    def without_rules(self) -> Schema:
        """Return the same schema without metadata and rules."""
        return replace(self, metadata=None, rule_set=None)


def _without_empty(document: Any) -> Any:
    """Return a document without nulls, empty lists and empty objects, which mean nothing."""
    if isinstance(document, dict):
        made = {key: _without_empty(value) for key, value in document.items()}
        return {key: value for key, value in made.items() if value not in (None, [], {})} or None
    if isinstance(document, list):
        return [_without_empty(each) for each in document]
    return document


@dataclass
class Parsed:
    """A schema that can be compared with another one of its type."""

    type: str
    content: Any
    names: frozenset[str] = frozenset()
    """The names that an Avro schema has from its references."""


class Resolved(NamedTuple):
    """A schema that a reference names, with its own references resolved."""

    name: str
    text: str


def from_request(body: Any) -> Schema:
    """Read a schema from the body of a request. Raises ``RegistryError``."""
    if not isinstance(body, dict):
        raise RegistryError(UNPROCESSABLE, "The body of the request is not a JSON object")
    text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
    if not isinstance(text, str) or not text.strip():
        raise InvalidSchemaError("the request has no schema")
    if kind not in TYPES:
        raise InvalidSchemaError(f"there is no schema type {json.dumps(kind)[:100]}")
    references = body.get("references") or []
    if not isinstance(references, list):
        raise InvalidSchemaError("the references are not a list")
    return Schema(
        text,
        kind,
        tuple(_reference(each) for each in references),
        metadata_of(body),
        rule_set_of(body),
    )


def metadata_of(body: dict[str, Any], key: str = "metadata") -> dict[str, Any] | None:
    """Return the metadata in a request. Raises ``RegistryError`` if they can't be any."""
    metadata = _object(body, key)
    properties = (metadata or {}).get("properties") or {}
    if not isinstance(properties, dict) or not all(
        isinstance(value, str) for value in properties.values()
    ):
        raise RegistryError(UNPROCESSABLE, f"the properties of {key} are not texts")
    return metadata


def rule_set_of(body: dict[str, Any], key: str = "ruleSet") -> dict[str, Any] | None:
    """Return the rule set in a request. Raises ``RegistryError`` if it can't be one."""
    rules = _object(body, key)
    for kind in ("migrationRules", "domainRules", "encodingRules"):
        found = (rules or {}).get(kind) or []
        if not isinstance(found, list) or not all(
            isinstance(rule, dict) and isinstance(rule.get("name"), str) for rule in found
        ):
            raise RegistryError(UNPROCESSABLE, f"{key}: {kind} is not a list of rules with names")
    return rules


def _object(body: dict[str, Any], key: str) -> dict[str, Any] | None:
    value = body.get(key)
    if value is not None and not isinstance(value, dict):
        raise RegistryError(UNPROCESSABLE, f"{key} is not a JSON object")
    return value or None


def _reference(document: Any) -> Reference:
    try:
        name, subject, version = (document[key] for key in ("name", "subject", "version"))
        return Reference(str(name), str(subject), int(version))
    except (KeyError, TypeError, ValueError):
        raise InvalidSchemaError("a reference needs a name, a subject and a version") from None


def parse(schema: Schema, references: list[Resolved]) -> Parsed:
    """Read the text of a schema, with the schemas that it refers to, deepest first.

    Raises ``InvalidSchemaError``.
    """
    if schema.type == "AVRO":
        names: avro.Names = {}
        for text in dict.fromkeys(each.text for each in references):
            avro.parse(text, names)
        known = frozenset(names)
        return Parsed("AVRO", avro.parse(schema.text, names), known)
    texts = {each.name: each.text for each in references}
    if schema.type == "JSON":
        return Parsed("JSON", json_schema.parse(schema.text, texts))
    return Parsed("PROTOBUF", protobuf.parse(schema.serialized or schema.text, texts))


def canonical(schema: Schema, parsed: Parsed, normalize: bool) -> Schema:
    """Return the schema in the form in which the registry stores and compares it."""
    if schema.type == "AVRO":
        return replace(schema, text=avro.text_of(parsed.content, normalize, parsed.names))
    if schema.type == "JSON":
        return replace(schema, text=json_schema.text_of(parsed.content, normalize))
    text = protobuf.text_of(parsed.content, normalize)
    descriptor = base64.b64encode(parsed.content.file.SerializeToString()).decode()
    return replace(schema, text=text, serialized=descriptor)


def incompatibilities(new: Parsed, old: Parsed) -> list[str]:
    """Return why data of ``old`` can't be read with ``new``: none, or one text each."""
    if new.type != old.type:
        change = f"from {old.type} to {new.type}"
        return [f"{{errorType:'TYPE_CHANGED', description:'the schema type changes {change}'}}"]
    if new.type == "AVRO":
        return avro.incompatibilities(new.content, old.content)
    if new.type == "JSON":
        return json_schema.incompatibilities(new.content, old.content)
    return protobuf_compatibility.incompatibilities(new.content, old.content)
