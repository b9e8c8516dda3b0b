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
        return json.dumps(
            [self.text, self.type, self.references, self.metadata, self.rule_set], sort_keys=True
        )

    @property
    def guid(self) -> str:
        """The identity across registries and contexts."""
        digest = hashlib.md5(self.key.encode(), usedforsecurity=False).digest()
        return str(uuid.UUID(bytes=digest, version=4))

    def without_rules(self) -> Schema:
        """Return the same schema without metadata and rules."""
        return replace(self, metadata=None, rule_set=None)


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
    return Schema(
        text,
        kind,
        tuple(_reference(each) for each in body.get("references") or ()),
        _object(body, "metadata"),
        _rules(body),
    )


def _object(body: dict[str, Any], key: str) -> dict[str, Any] | None:
    value = body.get(key)
    if value is not None and not isinstance(value, dict):
        raise RegistryError(UNPROCESSABLE, f"{key} is not a JSON object")
    return value or None


def _rules(body: dict[str, Any]) -> dict[str, Any] | None:
    rules = _object(body, "ruleSet")
    if rules is None:
        return None
    for kind in ("migrationRules", "domainRules", "encodingRules"):
        for rule in rules.get(kind) or ():
            if not isinstance(rule, dict) or not rule.get("name"):
                raise RegistryError(
                    UNPROCESSABLE, f"Invalid rule set: a rule of {kind} has no name"
                )
    return rules


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
