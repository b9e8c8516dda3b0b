"""Subjects with their versions, and the ids of schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafka_native.mock.schema_registry import schemas
from kafka_native.mock.schema_registry.errors import (
    ID_DOES_NOT_MATCH,
    INCOMPATIBLE_SCHEMA,
    INVALID_VERSION,
    OPERATION_NOT_PERMITTED,
    REFERENCE_EXISTS,
    SCHEMA_NOT_FOUND,
    SUBJECT_NOT_FOUND,
    SUBJECT_NOT_SOFT_DELETED,
    SUBJECT_SOFT_DELETED,
    VERSION_NOT_FOUND,
    VERSION_NOT_SOFT_DELETED,
    VERSION_SOFT_DELETED,
    InvalidSchemaError,
    RegistryError,
)
from kafka_native.mock.schema_registry.names import DEFAULT_CONTEXT, Subject, subject_of
from kafka_native.mock.schema_registry.schemas import Parsed, Reference, Resolved, Schema
from kafka_native.mock.schema_registry.settings import Settings, merged

LATEST: Final = -1
_VERSION_MAX: Final = 2**31 - 1
_REFERENCE_DEPTH_MAX: Final = 50


@dataclass
class Version:
    """A version of a subject."""

    subject: Subject
    number: int
    id: int
    schema: Schema
    is_deleted: bool = False


@dataclass
class _Context:
    """A context has ids and subjects of its own."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    subjects: dict[str, list[Version]] = field(default_factory=dict)
    last_id: int = 0

    def id_of(self, schema: Schema, wanted: int | None) -> int:
        """Return the id of a schema: its own, the wanted one or the next one."""
        if wanted is not None:
            other = self.schemas.get(wanted)
            if other is not None and other.key != schema.key:
                raise RegistryError(
                    OPERATION_NOT_PERMITTED,
                    f"Overwrite new schema with id {wanted} is not permitted.",
                )
            own = wanted
        else:
            own = self.ids.get(schema.key, self.last_id + 1)
        self.last_id = max(self.last_id, own)
        self.schemas[own] = schema
        self.ids[schema.key] = own
        return own


class Subjects:
    """All subjects of a registry. The registry's lock guards them."""

    def __init__(self, settings: Settings) -> None:
        """Start without subjects."""
        self._settings = settings
        self._contexts: dict[str, _Context] = {DEFAULT_CONTEXT: _Context()}
        self._parsed: dict[str, Parsed] = {}

    # --- reading ---

    def contexts(self) -> list[str]:
        """Return the names of the contexts that have subjects, and of the default context."""
        return sorted(name for name, each in self._contexts.items() if each.subjects or name == ".")

    def all(self, prefix: str = ":*:", deleted: bool = False) -> Iterator[Version]:
        """Yield the versions of the subjects with a prefix, ordered by subject and version."""
        for context in sorted(self._contexts):
            for name in sorted(self._contexts[context].subjects):
                subject = Subject(context, name)
                if _has_prefix(subject, prefix):
                    versions = self._contexts[context].subjects[name]
                    yield from (each for each in versions if deleted or not each.is_deleted)

    def names(self, prefix: str, deleted: bool, deleted_only: bool) -> list[str]:
        """Return the names of subjects."""
        every = list(self.all(prefix, deleted=True))
        live = {str(each.subject) for each in every if not each.is_deleted}
        found = dict.fromkeys(str(each.subject) for each in every)
        if deleted_only:
            return [name for name in found if name not in live]
        return [name for name in found if deleted or name in live]

    def versions(
        self, subject: Subject, deleted: bool = False, deleted_only: bool = False
    ) -> list[Version]:
        """Return the versions of a subject. Raises ``RegistryError`` if there is none."""
        every = self._versions(subject)
        found = [
            each
            for each in every
            if (each.is_deleted if deleted_only else deleted or not each.is_deleted)
        ]
        if not found:
            raise RegistryError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        return found

    def version(self, subject: Subject, number: int, deleted: bool = False) -> Version:
        """Return one version of a subject, or the latest one."""
        versions = self.versions(subject, deleted)
        if number == LATEST:
            return versions[-1]
        for each in versions:
            if each.number == number:
                return each
        raise RegistryError(VERSION_NOT_FOUND, f"Version {number} not found.")

    def with_metadata(self, subject: Subject, wanted: dict[str, str], deleted: bool) -> Version:
        """Return the latest version whose metadata has these properties."""
        for each in reversed(self.versions(subject, deleted)):
            properties = (each.schema.metadata or {}).get("properties") or {}
            if wanted.items() <= properties.items():
                return each
        raise RegistryError(SCHEMA_NOT_FOUND, "Schema not found")

    def by_id(self, schema_id: int, subject: Subject | None) -> Schema:
        """Return a schema by its id, in the context of a subject or in the default one.

        If a subject of the default context doesn't use this id, subjects of this name in other
        contexts are searched.
        """
        context = DEFAULT_CONTEXT if subject is None else subject.context
        schema = self._context(context).schemas.get(schema_id)
        if schema is None and subject is not None and context == DEFAULT_CONTEXT:
            for each in self.all(deleted=True):
                if each.id == schema_id and each.subject.name == subject.name:
                    schema = each.schema
        if schema is None:
            raise RegistryError(SCHEMA_NOT_FOUND, f"Schema {schema_id} not found")
        return schema

    def id_max(self, context: str) -> int:
        """Return the highest id of a context."""
        return self._context(context).last_id

    def by_guid(self, guid: str) -> tuple[Schema, list[tuple[str, int]]]:
        """Return a schema by its GUID, with its contexts and ids."""
        places = [
            (name, own, schema)
            for name, context in self._contexts.items()
            for own, schema in context.schemas.items()
            if schema.guid == guid
        ]
        if not places:
            raise RegistryError(SCHEMA_NOT_FOUND, f"Schema {guid} not found")
        return places[0][2], [(name, own) for name, own, _ in places]

    def uses(self, schema_id: int, context: str, deleted: bool) -> list[Version]:
        """Return the versions that have this id."""
        found = [
            each
            for each in self.all(deleted=True)
            if each.id == schema_id and each.subject.context == context
        ]
        if not found:
            raise RegistryError(SCHEMA_NOT_FOUND, f"Schema {schema_id} not found")
        return [each for each in found if deleted or not each.is_deleted]

    def referenced_by(self, version: Version) -> list[int]:
        """Return the ids of the schemas that refer to a version."""
        own = (version.subject, version.number)
        return sorted(
            {
                each.id
                for each in self.all()
                for reference in each.schema.references
                if (subject_of(reference.subject, each.subject.context), reference.version) == own
            }
        )

    def lookup(self, subject: Subject, schema: Schema, normalize: bool, deleted: bool) -> Version:
        """Return the version of a subject that has this schema."""
        every = self._versions(subject)
        if not any(deleted or not each.is_deleted for each in every):
            raise RegistryError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        schema = self._canonical(subject, schema, normalize)
        found = self._find(subject, schema, deleted)
        if found is None:
            raise RegistryError(SCHEMA_NOT_FOUND, "Schema not found")
        return found

    def _find(self, subject: Subject, schema: Schema, deleted: bool = False) -> Version | None:
        versions = [
            each for each in reversed(self._versions(subject)) if deleted or not each.is_deleted
        ]
        for each in versions:
            if each.schema.key == schema.key:
                return each
        if schema.metadata is None and schema.rule_set is None:
            for each in versions:
                if each.schema.without_rules().key == schema.key:
                    return each
        return None

    # --- registering ---

    def register(
        self,
        subject: Subject,
        schema: Schema,
        normalize: bool,
        wanted_id: int | None = None,
        wanted_version: int | None = None,
    ) -> Version:
        """Register a schema under a subject, and return its version, old or new."""
        mode = self._settings.mode(subject, inherit=True)
        self._check_mode(subject, mode, wanted_id)
        schema = self._canonical(subject, schema, normalize)
        found = self._find(subject, schema)
        if found is not None:
            if wanted_id not in (None, found.id):
                raise RegistryError(ID_DOES_NOT_MATCH, "Schema already registered with id "
                                    f"{found.id} instead of input id {wanted_id}")  # fmt: skip
            return found
        schema = self._with_rules(subject, schema)
        found = self._find(subject, schema)
        if found is not None:
            return found
        if mode != "IMPORT":
            self._check_compatibility(subject, schema)
        context = self._contexts.setdefault(subject.context, _Context())
        versions = context.subjects.setdefault(subject.name, [])
        number = wanted_version or max((each.number for each in versions), default=0) + 1
        if any(each.number == number for each in versions):
            raise RegistryError(
                OPERATION_NOT_PERMITTED,
                f"Overwrite version {number} of subject '{subject}' is not permitted.",
            )
        made = Version(subject, number, context.id_of(schema, wanted_id), schema)
        versions.append(made)
        versions.sort(key=lambda each: each.number)
        return made

    def _check_mode(self, subject: Subject, mode: str, wanted_id: int | None) -> None:
        if mode in ("READONLY", "READONLY_OVERRIDE"):
            raise RegistryError(
                OPERATION_NOT_PERMITTED,
                f"Subject {subject} in context {subject.context} is in read-only mode",
            )
        if (mode == "IMPORT") != (wanted_id is not None):
            state = "is in" if mode == "IMPORT" else "is not in"
            raise RegistryError(
                OPERATION_NOT_PERMITTED,
                f"Subject {subject} in context {subject.context} {state} import mode",
            )

    def check_writable(self, subject: Subject) -> None:
        """Raise ``RegistryError`` if the subject is in a read-only mode."""
        if self._settings.mode(subject, inherit=True).startswith("READONLY"):
            self._check_mode(subject, "READONLY", None)

    def check_import(self, subject: Subject | None, force: bool) -> None:
        """Raise ``RegistryError`` if there are versions, which the import mode doesn't allow."""
        if not force and any(
            subject is None
            or each.subject == subject
            or (not subject.name and each.subject.context == subject.context)
            for each in self.all()
        ):
            raise RegistryError(
                OPERATION_NOT_PERMITTED, "Cannot import since found existing subjects"
            )

    def _with_rules(self, subject: Subject, schema: Schema) -> Schema:
        """Add the settings' metadata and rules, or else those of the latest version."""
        config = self._settings.effective(subject)
        live = [each for each in self._versions(subject) if not each.is_deleted]
        latest = live[-1].schema if live else None
        metadata, rules = schema.metadata, schema.rule_set
        if latest is not None:
            metadata = latest.metadata if metadata is None else metadata
            rules = latest.rule_set if rules is None else rules
        return replace(
            schema,
            metadata=merged(
                config.get("defaultMetadata"), metadata, config.get("overrideMetadata")
            ),
            rule_set=merged(config.get("defaultRuleSet"), rules, config.get("overrideRuleSet")),
        )

    # --- compatibility ---

    def _check_compatibility(self, subject: Subject, schema: Schema) -> None:
        versions = [each for each in self._versions(subject) if not each.is_deleted]
        problems = self.compare(subject, schema, versions)
        if problems:
            raise RegistryError(
                INCOMPATIBLE_SCHEMA,
                "Schema being registered is incompatible with an earlier schema for subject "
                f'"{subject}", details: [{", ".join(problems)}]',
            )

    def check(
        self, subject: Subject, schema: Schema, number: int | None, normalize: bool
    ) -> list[str]:
        """Return why a schema isn't compatible with a version, or with the subject's versions."""
        schema = self._canonical(subject, schema, normalize)
        versions = [each for each in self._versions(subject) if not each.is_deleted]
        if number is not None and not (number == LATEST and not versions):
            versions = [self.version(subject, number)]
        return self.compare(subject, schema, versions)

    def compare(self, subject: Subject, schema: Schema, versions: list[Version]) -> list[str]:
        """Return the incompatibilities with these versions, as the subject's level has it."""
        config = self._settings.effective(subject)
        level = str(config["compatibilityLevel"])
        group = config.get("compatibilityGroup")
        if group is not None:
            own = _property(schema, group)
            versions = [each for each in versions if _property(each.schema, group) == own]
        if level == "NONE":
            return []
        if not level.endswith("_TRANSITIVE"):
            versions = versions[-1:]
        new = self.parsed(subject, schema)
        for each in reversed(versions):
            old = self.parsed(subject, each.schema)
            problems: list[str] = []
            if level.startswith(("BACKWARD", "FULL")):
                problems += schemas.incompatibilities(new, old)
            if level.startswith(("FORWARD", "FULL")):
                problems += schemas.incompatibilities(old, new)
            if problems:
                return [
                    *problems,
                    f"{{oldSchemaVersion: {each.number}}}",
                    f"{{oldSchema: '{each.schema.text}'}}",
                    f"{{compatibility: '{level}'}}",
                ]
        return []

    # --- deleting ---

    def delete_subject(self, subject: Subject, permanent: bool) -> list[int]:
        """Delete all versions of a subject, and return their numbers."""
        self.check_writable(subject)
        every = self._versions(subject)
        live = [each for each in every if not each.is_deleted]
        if not every:
            raise RegistryError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        if permanent and live:
            raise RegistryError(
                SUBJECT_NOT_SOFT_DELETED,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
        if not permanent and not live:
            raise RegistryError(
                SUBJECT_SOFT_DELETED,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        chosen = every if permanent else live
        for each in chosen:
            self._check_unreferenced(each)
        if permanent:
            del self._context(subject.context).subjects[subject.name]
            self._settings.forget(subject)
            self._drop_unused(subject.context)
        for each in chosen:
            each.is_deleted = True
        return [each.number for each in chosen]

    def delete_version(self, subject: Subject, number: int, permanent: bool) -> int:
        """Delete one version of a subject, and return its number."""
        self.check_writable(subject)
        version = self.version(subject, number, deleted=True)
        if number == LATEST and not permanent:
            version = self.version(subject, number)
        if permanent and not version.is_deleted:
            raise RegistryError(
                VERSION_NOT_SOFT_DELETED,
                f"Subject '{subject}' Version {version.number} was not deleted first before being "
                "permanently deleted",
            )
        if not permanent and version.is_deleted:
            raise RegistryError(
                VERSION_SOFT_DELETED,
                f"Subject '{subject}' Version {version.number} was soft deleted. "
                "Set permanent=true to delete permanently",
            )
        self._check_unreferenced(version)
        version.is_deleted = True
        if permanent:
            versions = self._versions(subject)
            versions.remove(version)
            if not versions:
                del self._context(subject.context).subjects[subject.name]
                self._settings.forget(subject)
            self._drop_unused(subject.context)
        return version.number

    def _check_unreferenced(self, version: Version) -> None:
        if not version.is_deleted and self.referenced_by(version):
            raise RegistryError(
                REFERENCE_EXISTS,
                "One or more references exist to the schema "
                f"{{subject={version.subject},version={version.number}}}.",
            )

    def _drop_unused(self, context: str) -> None:
        """Forget the schemas that no version has any more. Their ids aren't used again."""
        self._parsed.clear()  # a subject that is registered again may have another schema
        own = self._context(context)
        used = {each.id for versions in own.subjects.values() for each in versions}
        for schema_id in own.schemas.keys() - used:
            own.ids.pop(own.schemas.pop(schema_id).key, None)

    # --- schemas ---

    def parsed(self, subject: Subject, schema: Schema) -> Parsed:
        """Return the content of a schema. Raises ``InvalidSchemaError``."""
        key = f"{subject.context} {schema.key}"
        if key not in self._parsed:
            self._parsed[key] = schemas.parse(
                schema, self.resolve(subject.context, schema.references)
            )
        return self._parsed[key]

    def resolve(self, context: str, references: tuple[Reference, ...]) -> list[Resolved]:
        """Return the schemas that references name, and those that these refer to before them."""
        found: dict[tuple[str, str, int], Resolved] = {}
        self._resolve(context, references, found, 0)
        return list(found.values())

    def _resolve(
        self,
        context: str,
        references: tuple[Reference, ...],
        found: dict[tuple[str, str, int], Resolved],
        depth: int,
    ) -> None:
        if depth > _REFERENCE_DEPTH_MAX:
            raise InvalidSchemaError("the references are nested too deeply")
        for each in references:
            key = (each.name, each.subject, each.version)
            if key in found:
                continue
            try:
                version = self.version(subject_of(each.subject, context), each.version)
            except RegistryError:
                raise InvalidSchemaError(
                    f'No schema reference found for subject "{each.subject}" '
                    f"and version {each.version}"
                ) from None
            self._resolve(version.subject.context, version.schema.references, found, depth + 1)
            schema = version.schema
            found[key] = Resolved(each.name, schema.serialized or schema.text)

    def _canonical(self, subject: Subject, schema: Schema, normalize: bool) -> Schema:
        normalize = normalize or self._settings.effective(subject).get("normalize") is True
        references = tuple(self._numbered(subject, each) for each in schema.references)
        schema = replace(schema, references=references)
        resolved = self.resolve(subject.context, references)
        return schemas.canonical(schema, schemas.parse(schema, resolved), normalize)

    def _numbered(self, subject: Subject, reference: Reference) -> Reference:
        """Return a reference with the number of the latest version in the place of -1."""
        if reference.version != LATEST:
            return reference
        try:
            version = self.version(subject_of(reference.subject, subject.context), LATEST)
        except RegistryError:
            return reference  # resolving reports it
        return reference._replace(version=version.number)

    def _versions(self, subject: Subject) -> list[Version]:
        return self._context(subject.context).subjects.get(subject.name, [])

    def _context(self, name: str) -> _Context:
        return self._contexts.get(name) or _Context()


def version_number(text: str) -> int:
    """Read the number of a version in a path: a positive number, ``latest`` or -1."""
    if text in ("latest", "-1"):
        return LATEST
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= _VERSION_MAX:
        raise RegistryError(
            INVALID_VERSION,
            f"The specified version '{text[:100]}' is not a valid version id. Allowed values are "
            'between [1, 2^31-1] and the string "latest"',
        )
    return int(text)


def _property(schema: Schema, name: str) -> Any:
    return ((schema.metadata or {}).get("properties") or {}).get(name)


def _has_prefix(subject: Subject, prefix: str) -> bool:
    if prefix.startswith(":*:"):
        return subject.name.startswith(prefix[3:])
    if prefix.startswith(":."):
        return f":{subject.context}:{subject.name}".startswith(prefix)
    return subject.context == DEFAULT_CONTEXT and subject.name.startswith(prefix)
