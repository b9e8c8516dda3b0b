"""The REST paths of the registry, and what each of them does."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from kafka_native.mock.schema_registry import schemas, settings
from kafka_native.mock.schema_registry.errors import (
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    SCHEMA_NOT_FOUND,
    UNPROCESSABLE,
    InvalidSchemaError,
    RegistryError,
)
from kafka_native.mock.schema_registry.keys import Keys
from kafka_native.mock.schema_registry.names import (
    DEFAULT_CONTEXT,
    Subject,
    context_of,
    subject_of,
)
from kafka_native.mock.schema_registry.schemas import Schema
from kafka_native.mock.schema_registry.settings import Settings
from kafka_native.mock.schema_registry.subjects import Subjects, Version, version_number

JSON: Final = "application/vnd.schemaregistry.v1+json"


class Answer(NamedTuple):
    """The status and the body of an answer."""

    status: int
    body: bytes
    content_type: str = JSON


class Call:
    """One request: the parts of its path, its query and its body."""

    def __init__(self, method: str, target: str, body: bytes) -> None:
        parts = urlsplit(target)
        self.method = method
        self.parts = [unquote(each) for each in parts.path.split("/") if each]
        self.query = parse_qs(parts.query, keep_blank_values=True)
        self.context = DEFAULT_CONTEXT
        if len(self.parts) > 2 and self.parts[0] == "contexts":
            self.context = context_of(self.parts[1])
            del self.parts[:2]
        self._body = body

    def text(self, name: str) -> str | None:
        """Return a parameter of the query."""
        return self.query.get(name, [None])[-1]

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the query is ``true``."""
        return (self.text(name) or "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a number in the query."""
        text = self.text(name)
        try:
            return default if text is None else int(text[:12])
        except ValueError:
            raise RegistryError(NOT_FOUND, "HTTP 404 Not Found") from None

    def page(self, items: list[Any]) -> list[Any]:
        """Return the part of a list that ``offset`` and ``limit`` select."""
        first, count = max(self.number("offset", 0), 0), self.number("limit", -1)
        return items[first:] if count < 0 else items[first : first + count]

    def json(self) -> Any:
        """Return the decoded body. Raises ``RegistryError``."""
        try:
            return json.loads(self._body or b"null")
        except (ValueError, RecursionError):
            raise RegistryError(UNPROCESSABLE, "The body of the request is not JSON") from None

    def subject(self, text: str) -> Subject:
        """Return a subject of the path, in the context of the path."""
        return subject_of(text, self.context)


class Raw(str):
    """A text that is an answer as it is."""

    __slots__ = ()


Handler = Callable[..., Any]
_ROUTES: list[tuple[str, re.Pattern[str], str]] = []


def route(method: str, path: str) -> Callable[[Handler], Handler]:
    """Register a handler. ``{}`` in a path stands for a part that the handler gets."""
    pattern = re.compile(re.escape(path).replace(r"\{\}", "([^/]+)"))

    def add(handler: Handler) -> Handler:
        _ROUTES.append((method, pattern, handler.__name__))
        return handler

    return add


class Routes:
    """Answers requests. One lock guards all that the registry stores."""

    def __init__(self) -> None:
        """Start with an empty registry."""
        self._lock = threading.Lock()
        self._settings = Settings()
        self._subjects = Subjects(self._settings)
        self._keys = Keys()

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        """Carry a request out. An error becomes an answer, too."""
        try:
            call = Call(method, target, body)
            with self._lock:
                result = self._handle(call)
        except RegistryError as error:
            return _error(error)
        except RecursionError:
            return _error(InvalidSchemaError("the schema is nested too deeply"))
        if isinstance(result, Raw):
            return Answer(200, result.encode())
        if result is None:
            return Answer(204, b"")
        return Answer(200, json.dumps(result, separators=(",", ":")).encode())

    def _handle(self, call: Call) -> Any:
        # A part may contain a slash, so the parts are matched in their quoted form.
        path = "/" + "/".join(each.replace("%", "%25").replace("/", "%2F") for each in call.parts)
        allowed = False
        for method, pattern, name in _ROUTES:
            match = pattern.fullmatch(path)
            if match is not None:
                if method == call.method:
                    return getattr(self, name)(call, *map(unquote, match.groups()))
                allowed = True
        if call.parts[:1] == ["exporters"]:
            raise RegistryError(NOT_IMPLEMENTED, "The mock registry has no exporters")
        if allowed:
            raise RegistryError(METHOD_NOT_ALLOWED, "HTTP 405 Method Not Allowed")
        raise RegistryError(NOT_FOUND, "HTTP 404 Not Found")

    # --- the registry ---

    @route("GET", "/")
    def _root(self, call: Call) -> Any:
        return {}

    @route("GET", "/v1/metadata/id")
    def _cluster(self, call: Call) -> Any:
        clusters = {"kafka-cluster": "mock", "schema-registry-cluster": "mock"}
        return {"scope": {"path": [], "clusters": clusters}}

    @route("GET", "/v1/metadata/version")
    def _version_of_registry(self, call: Call) -> Any:
        return {"version": "8.0.0", "commitId": "mock"}

    @route("GET", "/contexts")
    def _contexts(self, call: Call) -> Any:
        return call.page(self._subjects.contexts())

    # --- schemas ---

    @route("GET", "/schemas")
    def _schemas(self, call: Call) -> Any:
        prefix = call.text("subjectPrefix") or _all_of(call)
        found = list(self._subjects.all(prefix, call.flag("deleted")))
        if call.flag("latestOnly"):
            found = list({each.subject: each for each in found}.values())
        return [_version_body(each, None) for each in call.page(found)]

    @route("GET", "/schemas/types")
    def _types(self, call: Call) -> Any:
        return list(schemas.TYPES)

    def _schema_by_id(self, call: Call, text: str) -> Schema:
        place = self._place(call, call.text("subject"))
        return self._subjects.by_id(_id(text), place)

    @route("GET", "/schemas/ids/{}")
    def _by_id(self, call: Call, text: str) -> Any:
        schema = self._schema_by_id(call, text)
        body = _schema_body(schema, call.text("format")) | {"guid": schema.guid}
        if call.flag("fetchMaxId"):
            body["maxId"] = self._subjects.id_max(call.context)
        return body

    @route("GET", "/schemas/ids/{}/schema")
    def _text_by_id(self, call: Call, text: str) -> Any:
        return Raw(_text(self._schema_by_id(call, text), call.text("format")))

    def _uses(self, call: Call, text: str) -> list[Version]:
        subject = call.text("subject")
        place = None if subject is None else call.subject(subject)
        context = call.context if place is None else place.context
        found = self._subjects.uses(_id(text), context, call.flag("deleted"))
        if place is not None and place.name:
            found = [each for each in found if each.subject == place]
        return found

    @route("GET", "/schemas/ids/{}/subjects")
    def _subjects_by_id(self, call: Call, text: str) -> Any:
        return call.page(list(dict.fromkeys(str(each.subject) for each in self._uses(call, text))))

    @route("GET", "/schemas/ids/{}/versions")
    def _versions_by_id(self, call: Call, text: str) -> Any:
        found = self._uses(call, text)
        return call.page([{"subject": str(e.subject), "version": e.number} for e in found])

    @route("GET", "/schemas/guids/{}")
    def _by_guid(self, call: Call, guid: str) -> Any:
        schema, _ = self._subjects.by_guid(guid)
        return _schema_body(schema, call.text("format")) | {"guid": guid}

    @route("GET", "/schemas/guids/{}/ids")
    def _ids_by_guid(self, call: Call, guid: str) -> Any:
        _, places = self._subjects.by_guid(guid)
        return [{"context": context, "schemaId": own} for context, own in places]

    # --- subjects ---

    @route("GET", "/subjects")
    def _list_subjects(self, call: Call) -> Any:
        prefix = call.text("subjectPrefix") or _all_of(call)
        deleted, deleted_only = call.flag("deleted"), call.flag("deletedOnly")
        return call.page(self._subjects.names(prefix, deleted, deleted_only))

    @route("POST", "/subjects/{}")
    def _lookup(self, call: Call, name: str) -> Any:
        schema = schemas.from_request(call.json())
        found = self._subjects.lookup(
            call.subject(name), schema, call.flag("normalize"), call.flag("deleted")
        )
        return _version_body(found, call.text("format"))

    @route("DELETE", "/subjects/{}")
    def _delete_subject(self, call: Call, name: str) -> Any:
        return self._subjects.delete_subject(call.subject(name), call.flag("permanent"))

    @route("GET", "/subjects/{}/versions")
    def _list_versions(self, call: Call, name: str) -> Any:
        found = self._subjects.versions(
            self._aliased(call, name), call.flag("deleted"), call.flag("deletedOnly")
        )
        return call.page([each.number for each in found])

    @route("POST", "/subjects/{}/versions")
    def _register(self, call: Call, name: str) -> Any:
        body = call.json()
        schema = schemas.from_request(body)
        found = self._subjects.register(
            call.subject(name),
            schema,
            call.flag("normalize"),
            _wanted(body, "id"),
            _wanted(body, "version"),
        )
        # The text stays as the client wrote it: clients keep it for this id.
        answer = _version_body(found, None) | {"schema": schema.text}
        return {key: value for key, value in answer.items() if key != "subject"}

    @route("GET", "/subjects/{}/metadata")
    def _with_metadata(self, call: Call, name: str) -> Any:
        keys, values = call.query.get("key", []), call.query.get("value", [])
        # Clients quote these a second time.
        wanted = {unquote(key): unquote(value) for key, value in zip(keys, values, strict=False)}
        found = self._subjects.with_metadata(
            self._aliased(call, name), wanted, call.flag("deleted")
        )
        return _version_body(found, call.text("format"))

    def _version(self, call: Call, name: str, number: str) -> Version:
        return self._subjects.version(
            self._aliased(call, name), version_number(number), call.flag("deleted")
        )

    @route("GET", "/subjects/{}/versions/{}")
    def _one_version(self, call: Call, name: str, number: str) -> Any:
        return _version_body(self._version(call, name, number), call.text("format"))

    @route("GET", "/subjects/{}/versions/{}/schema")
    def _text_of_version(self, call: Call, name: str, number: str) -> Any:
        return Raw(_text(self._version(call, name, number).schema, call.text("format")))

    @route("GET", "/subjects/{}/versions/{}/referencedby")
    def _referenced_by(self, call: Call, name: str, number: str) -> Any:
        return call.page(self._subjects.referenced_by(self._version(call, name, number)))

    @route("DELETE", "/subjects/{}/versions/{}")
    def _delete_version(self, call: Call, name: str, number: str) -> Any:
        return self._subjects.delete_version(
            call.subject(name), version_number(number), call.flag("permanent")
        )

    def _aliased(self, call: Call, name: str) -> Subject:
        """Return a subject, or the one that its alias names."""
        subject = call.subject(name)
        alias = self._settings.effective(subject).get("alias")
        return call.subject(str(alias)) if alias else subject

    # --- compatibility ---

    @route("POST", "/compatibility/subjects/{}/versions/{}")
    def _check_version(self, call: Call, name: str, number: str) -> Any:
        return self._check(call, name, version_number(number))

    @route("POST", "/compatibility/subjects/{}/versions")
    def _check_all(self, call: Call, name: str) -> Any:
        return self._check(call, name, None)

    def _check(self, call: Call, name: str, number: int | None) -> Any:
        schema = schemas.from_request(call.json())
        problems = self._subjects.check(call.subject(name), schema, number, call.flag("normalize"))
        answer: dict[str, Any] = {"is_compatible": not problems}
        return answer | ({"messages": problems} if call.flag("verbose") else {})

    # --- settings and modes ---

    def _place(self, call: Call, name: str | None) -> Subject | None:
        if name is not None:
            return call.subject(name)
        return None if call.context == DEFAULT_CONTEXT else Subject(call.context, "")

    @route("GET", "/config")
    def _global_config(self, call: Call) -> Any:
        return self._config(call, None)

    @route("GET", "/config/{}")
    def _config(self, call: Call, name: str | None) -> Any:
        return self._settings.config(self._place(call, name), call.flag("defaultToGlobal"))

    @route("PUT", "/config")
    def _set_global_config(self, call: Call) -> Any:
        return self._set_config(call, None)

    @route("PUT", "/config/{}")
    def _set_config(self, call: Call, name: str | None) -> Any:
        return self._settings.set_config(self._place(call, name), call.json())

    @route("DELETE", "/config")
    def _delete_global_config(self, call: Call) -> Any:
        return self._delete_config(call, None)

    @route("DELETE", "/config/{}")
    def _delete_config(self, call: Call, name: str | None) -> Any:
        return self._settings.delete_config(self._place(call, name))

    @route("GET", "/mode")
    def _global_mode(self, call: Call) -> Any:
        return self._mode(call, None)

    @route("GET", "/mode/{}")
    def _mode(self, call: Call, name: str | None) -> Any:
        inherit = call.flag("defaultToGlobal")
        return {"mode": self._settings.mode(self._place(call, name), inherit)}

    @route("PUT", "/mode")
    def _set_global_mode(self, call: Call) -> Any:
        return self._set_mode(call, None)

    @route("PUT", "/mode/{}")
    def _set_mode(self, call: Call, name: str | None) -> Any:
        place, body = self._place(call, name), call.json()
        if settings.wanted_mode(body) == "IMPORT":
            self._subjects.check_import(place, call.flag("force"))
        return {"mode": self._settings.set_mode(place, body)}

    @route("DELETE", "/mode")
    def _delete_global_mode(self, call: Call) -> Any:
        return self._delete_mode(call, None)

    @route("DELETE", "/mode/{}")
    def _delete_mode(self, call: Call, name: str | None) -> Any:
        return {"mode": self._settings.delete_mode(self._place(call, name))}

    # --- keys ---

    @route("GET", "/dek-registry/v1/keks")
    def _keks(self, call: Call) -> Any:
        return call.page(self._keys.keks(call.flag("deleted")))

    @route("POST", "/dek-registry/v1/keks")
    def _create_kek(self, call: Call) -> Any:
        return _key_body(self._keys.create_kek(call.json()))

    @route("GET", "/dek-registry/v1/keks/{}")
    def _kek(self, call: Call, name: str) -> Any:
        return _key_body(self._keys.kek(name, call.flag("deleted")))

    @route("PUT", "/dek-registry/v1/keks/{}")
    def _change_kek(self, call: Call, name: str) -> Any:
        return _key_body(self._keys.change_kek(name, call.json()))

    @route("DELETE", "/dek-registry/v1/keks/{}")
    def _delete_kek(self, call: Call, name: str) -> Any:
        self._keys.delete_kek(name, call.flag("permanent"))

    @route("POST", "/dek-registry/v1/keks/{}/undelete")
    def _undelete_kek(self, call: Call, name: str) -> Any:
        self._keys.undelete_kek(name)

    @route("GET", "/dek-registry/v1/keks/{}/deks")
    def _dek_subjects(self, call: Call, kek: str) -> Any:
        return call.page(self._keys.subjects(kek, call.flag("deleted")))

    @route("POST", "/dek-registry/v1/keks/{}/deks")
    def _create_dek(self, call: Call, kek: str) -> Any:
        return _key_body(self._keys.create_dek(kek, call.json()))

    @route("POST", "/dek-registry/v1/keks/{}/deks/{}")
    def _create_dek_of(self, call: Call, kek: str, subject: str) -> Any:
        return _key_body(self._keys.create_dek(kek, call.json(), subject))

    @route("GET", "/dek-registry/v1/keks/{}/deks/{}")
    def _first_dek(self, call: Call, kek: str, subject: str) -> Any:
        return self._dek(call, kek, subject, "1")

    @route("GET", "/dek-registry/v1/keks/{}/deks/{}/versions")
    def _dek_versions(self, call: Call, kek: str, subject: str) -> Any:
        algorithm, deleted = call.text("algorithm"), call.flag("deleted")
        return call.page(self._keys.versions(kek, subject, algorithm, deleted))

    @route("GET", "/dek-registry/v1/keks/{}/deks/{}/versions/{}")
    def _dek(self, call: Call, kek: str, subject: str, number: str) -> Any:
        algorithm, deleted = call.text("algorithm"), call.flag("deleted")
        return _key_body(self._keys.dek(kek, subject, version_number(number), algorithm, deleted))

    @route("DELETE", "/dek-registry/v1/keks/{}/deks/{}")
    def _delete_deks(self, call: Call, kek: str, subject: str) -> Any:
        algorithm, permanent = call.text("algorithm"), call.flag("permanent")
        self._keys.delete_dek(kek, subject, None, algorithm, permanent)

    @route("DELETE", "/dek-registry/v1/keks/{}/deks/{}/versions/{}")
    def _delete_dek(self, call: Call, kek: str, subject: str, number: str) -> Any:
        algorithm, permanent = call.text("algorithm"), call.flag("permanent")
        self._keys.delete_dek(kek, subject, version_number(number), algorithm, permanent)

    @route("POST", "/dek-registry/v1/keks/{}/deks/{}/undelete")
    def _undelete_deks(self, call: Call, kek: str, subject: str) -> Any:
        self._keys.undelete_dek(kek, subject, None, call.text("algorithm"))

    @route("POST", "/dek-registry/v1/keks/{}/deks/{}/versions/{}/undelete")
    def _undelete_dek(self, call: Call, kek: str, subject: str, number: str) -> Any:
        self._keys.undelete_dek(kek, subject, version_number(number), call.text("algorithm"))


def error_answer(code: int, message: str, status: int | None = None) -> Answer:
    """Return an answer with an error code and a sentence."""
    body = json.dumps({"error_code": code, "message": message}).encode()
    return Answer(int(str(code)[:3]) if status is None else status, body)


def _error(error: RegistryError) -> Answer:
    return error_answer(error.code, error.message)


def _all_of(call: Call) -> str:
    """Return the prefix of all subjects that a path reaches."""
    return ":*:" if call.context == DEFAULT_CONTEXT else f":{call.context}:"


def _id(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise RegistryError(NOT_FOUND, "HTTP 404 Not Found")
    if len(text) > 10:
        raise RegistryError(SCHEMA_NOT_FOUND, f"Schema {text[:100]} not found")
    return int(text)


def _wanted(body: dict[str, Any], key: str) -> int | None:
    """Return the id or version that a request wants. 0 and -1 stand for any."""
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise RegistryError(UNPROCESSABLE, f"{key} is not a number")
    return value if value > 0 else None


def _text(schema: Schema, form: str | None) -> str:
    if form == "serialized" and schema.serialized is not None:
        return schema.serialized
    return schema.text


def _schema_body(schema: Schema, form: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if schema.type != "AVRO":
        body["schemaType"] = schema.type
    body["schema"] = _text(schema, form)
    if schema.references:
        body["references"] = [each._asdict() for each in schema.references]
    if schema.metadata is not None:
        body["metadata"] = schema.metadata
    if schema.rule_set is not None:
        body["ruleSet"] = schema.rule_set
    return body


def _version_body(version: Version, form: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "subject": str(version.subject),
        "version": version.number,
        "id": version.id,
        "guid": version.schema.guid,
        **_schema_body(version.schema, form),
    }
    if version.is_deleted:
        body["deleted"] = True
    return body


def _key_body(key: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in key.items() if value is not None}
