"""Value types of the schema registry: schemas, rules, metadata, configurations, associations.

Each type has `to_dict()` and `from_dict()`, which write and read the registry's JSON. `from_dict()`
raises TypeError or ValueError if the JSON has another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias, TypeVar

__all__ = [
    "Association",
    "AssociationCreateOrUpdateInfo",
    "AssociationCreateOrUpdateRequest",
    "AssociationInfo",
    "AssociationResponse",
    "ConfigCompatibilityLevel",
    "Metadata",
    "MetadataProperties",
    "MetadataTags",
    "RegisteredSchema",
    "Rule",
    "RuleKind",
    "RuleMode",
    "RuleParams",
    "RulePhase",
    "RuleSet",
    "Schema",
    "SchemaReference",
    "SchemaVersion",
    "ServerConfig",
]

ID_MAX = (1 << 31) - 1
"""A registry's ids are Java's int. In a record they have four bytes."""

JsonObject: TypeAlias = dict[str, Any]
T = TypeVar("T")
E = TypeVar("E", bound=Enum)


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a JSON object, not {type(value).__name__}")
    return value


def _items(value: object, what: str, read: Callable[[Any], T]) -> list[T]:
    if not isinstance(value, list):
        raise TypeError(f"{what} must be a JSON array, not {type(value).__name__}")
    return [read(each) for each in value]


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {type(value).__name__}")
    return value


def _optional_text(source: Mapping[str, Any], name: str) -> str | None:
    value = source.get(name)
    return None if value is None else _text(value, name)


def _optional_number(source: Mapping[str, Any], name: str) -> int | None:
    value = source.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    return value


def _optional_id(source: Mapping[str, Any]) -> int | None:
    value = _optional_number(source, "id")
    if value is not None and not 0 <= value <= ID_MAX:
        raise ValueError(f"id must be a number from 0 to {ID_MAX}")
    return value


def _optional_flag(source: Mapping[str, Any], name: str) -> bool | None:
    value = source.get(name)
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name} must be a boolean, not {type(value).__name__}")
    return value


def _optional_enum(source: Mapping[str, Any], name: str, enum: type[E]) -> E | None:
    value = source.get(name)
    return None if value is None else enum(value)


def _optional(
    source: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], T]
) -> T | None:
    value = source.get(name)
    return None if value is None else read(_object(value, name))


def _list(source: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """Return the objects of an array. A missing array is empty."""
    value = source.get(name)
    if value is None:
        return []
    return _items(value, name, lambda each: read(_object(each, f"each item of {name}")))


def _texts(source: Mapping[str, Any], name: str) -> list[str] | None:
    value = source.get(name)
    if value is None:
        return None
    return _items(value, name, lambda each: _text(each, f"each item of {name}"))


def _strings(source: Mapping[str, Any], what: str) -> dict[str, str]:
    return {key: _text(value, f"{what} {key}") for key, value in _object(source, what).items()}


def _without_none(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _dict_of(value: Any) -> Any:
    """Return the JSON of a value type. None stays None."""
    return None if value is None else value.to_dict()


def _dicts_of(values: list[Any] | None) -> list[JsonObject] | None:
    return None if values is None else [each.to_dict() for each in values]


class _TextEnum(str, Enum):
    """An enum whose members are strings, and print as their value."""

    def __str__(self) -> str:
        return str(self.value)


class RuleKind(_TextEnum):
    """What a rule does: it checks a message or changes it."""

    CONDITION = "CONDITION"
    TRANSFORM = "TRANSFORM"


class RulePhase(_TextEnum):
    """When a rule runs: between schema versions, on the decoded message, or on its bytes."""

    MIGRATION = "MIGRATION"
    DOMAIN = "DOMAIN"
    ENCODING = "ENCODING"


class RuleMode(_TextEnum):
    """The operations that a rule applies to."""

    UPGRADE = "UPGRADE"
    DOWNGRADE = "DOWNGRADE"
    UPDOWN = "UPDOWN"
    READ = "READ"
    WRITE = "WRITE"
    WRITEREAD = "WRITEREAD"


class ConfigCompatibilityLevel(_TextEnum):
    """The compatibility that a subject demands of a new schema."""

    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    NONE = "NONE"


@dataclass(slots=True)
class RuleParams:
    """The parameters of a rule.

    Parameters
    ----------
    params : dict[str, str]
        Names and values.
    """

    params: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return dict(self.params)

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> RuleParams:
        """Read the registry's JSON."""
        return cls(params=_strings(src_dict, "params"))

    def __hash__(self) -> int:
        return hash(frozenset(self.params.items()))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a data contract.

    Parameters
    ----------
    name, doc : str, optional
        The rule's name and description.
    kind : RuleKind, optional
        Condition or transformation.
    mode : RuleMode, optional
        The operations that the rule applies to.
    type : str, optional
        The executor's type, for example ``"CEL"`` or ``"ENCRYPT"``.
    tags : list[str], optional
        The tags of the fields that the rule applies to.
    params : RuleParams, optional
        The executor's parameters.
    expr : str, optional
        The rule's expression.
    on_success, on_failure : str, optional
        The actions after the rule.
    disabled : bool, optional
        Whether the rule is switched off.
    """

    name: str | None
    doc: str | None
    kind: RuleKind | None
    mode: RuleMode | None
    type: str | None
    tags: list[str] | None = field(hash=False)
    params: RuleParams | None
    expr: str | None
    on_success: str | None
    on_failure: str | None
    disabled: bool | None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            name=self.name,
            doc=self.doc,
            kind=None if self.kind is None else self.kind.value,
            mode=None if self.mode is None else self.mode.value,
            type=self.type,
            tags=self.tags,
            params=_dict_of(self.params),
            expr=self.expr,
            onSuccess=self.on_success,
            onFailure=self.on_failure,
            disabled=self.disabled,
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Rule:
        """Read the registry's JSON."""
        return cls(
            name=_optional_text(src_dict, "name"),
            doc=_optional_text(src_dict, "doc"),
            kind=_optional_enum(src_dict, "kind", RuleKind),
            mode=_optional_enum(src_dict, "mode", RuleMode),
            type=_optional_text(src_dict, "type"),
            tags=_texts(src_dict, "tags"),
            params=_optional(src_dict, "params", RuleParams.from_dict),
            expr=_optional_text(src_dict, "expr"),
            on_success=_optional_text(src_dict, "onSuccess"),
            on_failure=_optional_text(src_dict, "onFailure"),
            disabled=_optional_flag(src_dict, "disabled"),
        )


@dataclass(slots=True)
class RuleSet:
    """The rules of a schema.

    Parameters
    ----------
    migration_rules : list[Rule], optional
        Rules between two versions of the schema.
    domain_rules : list[Rule], optional
        Rules on the decoded message.
    encoding_rules : list[Rule], optional
        Rules on the encoded bytes.
    enable_at : str, optional
        From when on the rules apply.
    """

    migration_rules: list[Rule] | None
    domain_rules: list[Rule] | None
    encoding_rules: list[Rule] | None = None
    enable_at: str | None = None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            migrationRules=_dicts_of(self.migration_rules),
            domainRules=_dicts_of(self.domain_rules),
            encodingRules=_dicts_of(self.encoding_rules),
            enableAt=self.enable_at,
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> RuleSet:
        """Read the registry's JSON."""
        return cls(
            migration_rules=_list(src_dict, "migrationRules", Rule.from_dict),
            domain_rules=_list(src_dict, "domainRules", Rule.from_dict),
            encoding_rules=_list(src_dict, "encodingRules", Rule.from_dict),
            enable_at=_optional_text(src_dict, "enableAt"),
        )

    def __hash__(self) -> int:
        rules = (self.migration_rules, self.domain_rules, self.encoding_rules)
        return hash((*(frozenset(each or ()) for each in rules), self.enable_at))


@dataclass(slots=True)
class MetadataTags:
    """The tags of fields.

    Parameters
    ----------
    tags : dict[str, list[str]]
        The tags of each path. A path may have wildcards.
    """

    tags: dict[str, list[str]] = field(default_factory=dict)

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return dict(self.tags)

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> MetadataTags:
        """Read the registry's JSON."""
        return cls(tags={name: _texts(src_dict, name) or [] for name in src_dict})

    def __hash__(self) -> int:
        return hash(frozenset((name, tuple(tags)) for name, tags in self.tags.items()))


@dataclass(slots=True)
class MetadataProperties:
    """The properties of a schema, as names and values.

    Parameters
    ----------
    properties : dict[str, str]
        Names and values.
    """

    properties: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return dict(self.properties)

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> MetadataProperties:
        """Read the registry's JSON."""
        return cls(properties=_strings(src_dict, "properties"))

    def __hash__(self) -> int:
        return hash(frozenset(self.properties.items()))


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a data contract says about a schema.

    Parameters
    ----------
    tags : MetadataTags, optional
        The tags of fields.
    properties : MetadataProperties, optional
        Properties of the schema.
    sensitive : list[str], optional
        The names of sensitive properties.
    """

    tags: MetadataTags | None
    properties: MetadataProperties | None
    sensitive: list[str] | None = field(hash=False)

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            tags=_dict_of(self.tags),
            properties=_dict_of(self.properties),
            sensitive=None if self.sensitive is None else list(self.sensitive),
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Metadata:
        """Read the registry's JSON."""
        return cls(
            tags=_optional(src_dict, "tags", MetadataTags.from_dict),
            properties=_optional(src_dict, "properties", MetadataProperties.from_dict),
            sensitive=_texts(src_dict, "sensitive") or [],
        )


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject.

    Parameters
    ----------
    subject : str, optional
        The subject.
    version : int, optional
        The version.
    """

    subject: str | None
    version: int | None

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> SchemaVersion:
        """Read the registry's JSON."""
        return cls(
            subject=_optional_text(src_dict, "subject"),
            version=_optional_number(src_dict, "version"),
        )


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A reference from one schema to another.

    Parameters
    ----------
    name : str, optional
        The name that the referring schema uses.
    subject : str, optional
        The subject of the other schema.
    version : int, optional
        The version of the other schema.
    """

    name: str | None
    subject: str | None
    version: int | None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(name=self.name, subject=self.subject, version=self.version)

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> SchemaReference:
        """Read the registry's JSON."""
        return cls(
            name=_optional_text(src_dict, "name"),
            subject=_optional_text(src_dict, "subject"),
            version=_optional_number(src_dict, "version"),
        )


@dataclass(slots=True)
class ServerConfig:
    """The configuration of the registry or of one subject.

    Parameters
    ----------
    compatibility : ConfigCompatibilityLevel, optional
        The level to set.
    compatibility_level : ConfigCompatibilityLevel, optional
        The level that the registry returned.
    compatibility_group : str, optional
        The property that separates groups of compatible schemas.
    default_metadata, override_metadata : Metadata, optional
        Metadata for schemas without their own, and metadata that replace a schema's own.
    default_rule_set, override_rule_set : RuleSet, optional
        Rules for schemas without their own, and rules that replace a schema's own.
    """

    compatibility: ConfigCompatibilityLevel | None = None
    compatibility_level: ConfigCompatibilityLevel | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        level, old = self.compatibility, self.compatibility_level
        return _without_none(
            compatibility=None if level is None else level.value,
            compatibilityLevel=None if old is None else old.value,
            compatibilityGroup=self.compatibility_group,
            defaultMetadata=_dict_of(self.default_metadata),
            overrideMetadata=_dict_of(self.override_metadata),
            defaultRuleSet=_dict_of(self.default_rule_set),
            overrideRuleSet=_dict_of(self.override_rule_set),
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> ServerConfig:
        """Read the registry's JSON."""
        level = ConfigCompatibilityLevel
        return cls(
            compatibility=_optional_enum(src_dict, "compatibility", level),
            compatibility_level=_optional_enum(src_dict, "compatibilityLevel", level),
            compatibility_group=_optional_text(src_dict, "compatibilityGroup"),
            default_metadata=_optional(src_dict, "defaultMetadata", Metadata.from_dict),
            override_metadata=_optional(src_dict, "overrideMetadata", Metadata.from_dict),
            default_rule_set=_optional(src_dict, "defaultRuleSet", RuleSet.from_dict),
            override_rule_set=_optional(src_dict, "overrideRuleSet", RuleSet.from_dict),
        )


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, registered or not.

    Parameters
    ----------
    schema_str : str, optional
        The schema's text.
    schema_type : str, optional
        ``"AVRO"``, ``"JSON"`` or ``"PROTOBUF"``.
    references : list[SchemaReference], optional
        The schemas that this one refers to.
    metadata : Metadata, optional
        The data contract's metadata.
    rule_set : RuleSet, optional
        The data contract's rules.
    """

    schema_str: str | None
    schema_type: str | None = "AVRO"
    references: list[SchemaReference] | None = field(default_factory=list, hash=False)
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            schema=self.schema_str,
            schemaType=self.schema_type,
            references=_dicts_of(self.references or []),
            metadata=_dict_of(self.metadata),
            ruleSet=_dict_of(self.rule_set),
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Schema:
        """Read the registry's JSON."""
        return cls(
            schema_str=_optional_text(src_dict, "schema"),
            schema_type=_optional_text(src_dict, "schemaType") or "AVRO",
            references=_list(src_dict, "references", SchemaReference.from_dict),
            metadata=_optional(src_dict, "metadata", Metadata.from_dict),
            rule_set=_optional(src_dict, "ruleSet", RuleSet.from_dict),
        )


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema that the registry knows.

    Parameters
    ----------
    subject : str, optional
        The subject that the schema is registered under.
    version : int, optional
        The version in the subject.
    schema_id : int, optional
        The id, the same in all subjects of a context.
    guid : str, optional
        The GUID, the same in all registries.
    schema : Schema
        The schema.
    """

    subject: str | None
    version: int | None
    schema_id: int | None
    guid: str | None
    schema: Schema

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return self.schema.to_dict() | _without_none(
            id=self.schema_id, guid=self.guid, subject=self.subject, version=self.version
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> RegisteredSchema:
        """Read the registry's JSON."""
        return cls(
            subject=_optional_text(src_dict, "subject"),
            version=_optional_number(src_dict, "version"),
            schema_id=_optional_id(src_dict),
            guid=_optional_text(src_dict, "guid"),
            schema=Schema.from_dict(src_dict),
        )


@dataclass(frozen=True, slots=True)
class Association:
    """An association of a subject with a resource, such as a topic.

    Parameters
    ----------
    subject : str, optional
        The subject.
    guid : str, optional
        The association's GUID.
    resource_name, resource_namespace, resource_id, resource_type : str, optional
        The resource, for example a topic's name, its cluster's id, its own id, and ``"topic"``.
    association_type : str, optional
        ``"key"`` or ``"value"``.
    frozen : bool
        Whether the subject accepts no other schema.
    """

    subject: str | None
    guid: str | None
    resource_name: str | None
    resource_namespace: str | None
    resource_id: str | None
    resource_type: str | None
    association_type: str | None
    frozen: bool = False

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            subject=self.subject,
            guid=self.guid,
            resourceName=self.resource_name,
            resourceNamespace=self.resource_namespace,
            resourceId=self.resource_id,
            resourceType=self.resource_type,
            associationType=self.association_type,
            frozen=self.frozen,
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Association:
        """Read the registry's JSON."""
        return cls(
            subject=_optional_text(src_dict, "subject"),
            guid=_optional_text(src_dict, "guid"),
            resource_name=_optional_text(src_dict, "resourceName"),
            resource_namespace=_optional_text(src_dict, "resourceNamespace"),
            resource_id=_optional_text(src_dict, "resourceId"),
            resource_type=_optional_text(src_dict, "resourceType"),
            association_type=_optional_text(src_dict, "associationType"),
            frozen=_optional_flag(src_dict, "frozen") or False,
        )


@dataclass(slots=True)
class AssociationInfo:
    """An association in the registry's answer.

    Parameters
    ----------
    subject : str, optional
        The subject.
    association_type : str, optional
        ``"key"`` or ``"value"``.
    lifecycle : str, optional
        ``"STRONG"`` or ``"WEAK"``: whether the subject is deleted with the resource.
    frozen : bool
        Whether the subject accepts no other schema.
    schema : Schema, optional
        The subject's schema.
    """

    subject: str | None = None
    association_type: str | None = None
    lifecycle: str | None = None
    frozen: bool = False
    schema: Schema | None = None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            subject=self.subject,
            associationType=self.association_type,
            lifecycle=self.lifecycle,
            frozen=self.frozen,
            schema=_dict_of(self.schema),
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> AssociationInfo:
        """Read the registry's JSON."""
        return cls(
            subject=_optional_text(src_dict, "subject"),
            association_type=_optional_text(src_dict, "associationType"),
            lifecycle=_optional_text(src_dict, "lifecycle"),
            frozen=_optional_flag(src_dict, "frozen") or False,
            schema=_optional(src_dict, "schema", Schema.from_dict),
        )


@dataclass(slots=True)
class AssociationCreateOrUpdateInfo:
    """An association to create or to update.

    Parameters
    ----------
    subject : str, optional
        The subject.
    association_type : str, optional
        ``"key"`` or ``"value"``.
    lifecycle : str, optional
        ``"STRONG"`` or ``"WEAK"``: whether the subject is deleted with the resource.
    frozen : bool, optional
        Whether the subject accepts no other schema.
    schema : Schema, optional
        A schema to register under the subject.
    normalize : bool, optional
        Whether the registry normalizes the schema.
    """

    subject: str | None = None
    association_type: str | None = None
    lifecycle: str | None = None
    frozen: bool | None = None
    schema: Schema | None = None
    normalize: bool | None = None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            subject=self.subject,
            associationType=self.association_type,
            lifecycle=self.lifecycle,
            frozen=self.frozen,
            schema=_dict_of(self.schema),
            normalize=self.normalize,
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> AssociationCreateOrUpdateInfo:
        """Read the registry's JSON."""
        return cls(
            subject=_optional_text(src_dict, "subject"),
            association_type=_optional_text(src_dict, "associationType"),
            lifecycle=_optional_text(src_dict, "lifecycle"),
            frozen=_optional_flag(src_dict, "frozen"),
            schema=_optional(src_dict, "schema", Schema.from_dict),
            normalize=_optional_flag(src_dict, "normalize"),
        )


@dataclass(slots=True)
class AssociationCreateOrUpdateRequest:
    """The associations of one resource to create or to update.

    Parameters
    ----------
    resource_name, resource_namespace, resource_id, resource_type : str, optional
        The resource, for example a topic's name, its cluster's id, its own id, and ``"topic"``.
    associations : list[AssociationCreateOrUpdateInfo], optional
        The associations.
    """

    resource_name: str | None = None
    resource_namespace: str | None = None
    resource_id: str | None = None
    resource_type: str | None = None
    associations: list[AssociationCreateOrUpdateInfo] | None = None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            resourceName=self.resource_name,
            resourceNamespace=self.resource_namespace,
            resourceId=self.resource_id,
            resourceType=self.resource_type,
            associations=_dicts_of(self.associations),
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> AssociationCreateOrUpdateRequest:
        """Read the registry's JSON."""
        read = AssociationCreateOrUpdateInfo.from_dict
        return cls(
            resource_name=_optional_text(src_dict, "resourceName"),
            resource_namespace=_optional_text(src_dict, "resourceNamespace"),
            resource_id=_optional_text(src_dict, "resourceId"),
            resource_type=_optional_text(src_dict, "resourceType"),
            associations=_list(src_dict, "associations", read) or None,
        )


@dataclass(slots=True)
class AssociationResponse:
    """The associations of one resource after a change.

    Parameters
    ----------
    resource_name, resource_namespace, resource_id, resource_type : str, optional
        The resource, for example a topic's name, its cluster's id, its own id, and ``"topic"``.
    associations : list[AssociationInfo], optional
        The associations.
    """

    resource_name: str | None = None
    resource_namespace: str | None = None
    resource_id: str | None = None
    resource_type: str | None = None
    associations: list[AssociationInfo] | None = None

    def to_dict(self) -> JsonObject:
        """Return the registry's JSON."""
        return _without_none(
            resourceName=self.resource_name,
            resourceNamespace=self.resource_namespace,
            resourceId=self.resource_id,
            resourceType=self.resource_type,
            associations=_dicts_of(self.associations),
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> AssociationResponse:
        """Read the registry's JSON."""
        return cls(
            resource_name=_optional_text(src_dict, "resourceName"),
            resource_namespace=_optional_text(src_dict, "resourceNamespace"),
            resource_id=_optional_text(src_dict, "resourceId"),
            resource_type=_optional_text(src_dict, "resourceType"),
            associations=_list(src_dict, "associations", AssociationInfo.from_dict) or None,
        )
