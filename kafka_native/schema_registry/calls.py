"""Every call of the client, once for both clients: requests, answers, caches, retries, failover."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urljoin, urlsplit

from kafka_native.cleaning import clean
from kafka_native.schema_registry.caches import LruCache, SharedRequests
from kafka_native.schema_registry.config import RegistryConfig
from kafka_native.schema_registry.error import SchemaRegistryError
from kafka_native.schema_registry.retries import is_retriable, retry_after_s
from kafka_native.schema_registry.schemas import (
    Association,
    AssociationCreateOrUpdateRequest,
    AssociationResponse,
    RegisteredSchema,
    Schema,
    SchemaVersion,
    ServerConfig,
)
from kafka_native.schema_registry.steps import (
    Call,
    ConnectionFailed,
    Join,
    Response,
    Send,
    Sleep,
    UnusableAnswer,
)

T = TypeVar("T")
Read = Callable[[Any], T]

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
ACCEPT = f"{MEDIA_TYPE}, application/vnd.schemaregistry+json, application/json"
REDIRECTS_MAX = 5
ANSWER_SHOWN_MAX = 200
MESSAGE_SHOWN_MAX = 8000
"""The longest message of a registry that an error shows. It may list incompatible fields."""
CREDENTIAL_HEADERS = frozenset({"Authorization", "target-sr-cluster", "Confluent-Identity-Pool-Id"})


def _package_version() -> str:
    try:
        return version("kafka-native")
    except PackageNotFoundError:  # imported from a folder that isn't installed
        return "unknown"


USER_AGENT = f"kafka-native/{_package_version()}"


def _shown(text: str, length_max: int) -> str:
    """Return a text of the registry as one printable line."""
    start = text[: length_max + 1]
    return clean("".join(" " if each.isspace() else each for each in start), length_max)


def _attempts(tried: list[str]) -> str:
    """Join the problems of attempts. Equal ones are counted."""
    counts = Counter(tried).items()
    return "; ".join(each if count == 1 else f"{each} ({count} times)" for each, count in counts)


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _query(**parameters: Any) -> str:
    """Return a URL's query. Parameters that are None are left out."""
    pairs = [
        (name, _flag(each) if isinstance(each, bool) else each)
        for name, value in parameters.items()
        if value is not None
        for each in (value if isinstance(value, list) else [value])
    ]
    return f"?{urlencode(pairs, quote_via=quote)}" if pairs else ""


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"a JSON object was expected, not {type(value).__name__}")
    return value


def _list_of(read: Read[T]) -> Read[list[T]]:
    def read_list(value: Any) -> list[T]:
        if not isinstance(value, list):
            raise TypeError(f"a JSON array was expected, not {type(value).__name__}")
        return [read(each) for each in value]

    return read_list


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string was expected, not {type(value).__name__}")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"an integer was expected, not {type(value).__name__}")
    return value


def _flag_named(name: str) -> Read[bool]:
    def read(value: Any) -> bool:
        found = _object(value)[name]
        if not isinstance(found, bool):
            raise TypeError(f"{name} must be a boolean, not {type(found).__name__}")
        return found

    return read


def _text_named(name: str) -> Read[str]:
    return lambda value: _text(_object(value)[name])


def _object_as(read: Callable[[Mapping[str, Any]], T]) -> Read[T]:
    return lambda value: read(_object(value))


def _registered(value: Any) -> RegisteredSchema:
    """Read an answer that has to contain a schema."""
    found = RegisteredSchema.from_dict(_object(value))
    if found.schema.schema_str is None:
        raise TypeError("schema is missing")
    return found


def _registration(value: Any) -> RegisteredSchema:
    """Read an answer that has to contain an id."""
    found = RegisteredSchema.from_dict(_object(value))
    if found.schema_id is None:
        raise TypeError("id is missing")
    return found


def _incompatibilities(value: Any) -> list[str]:
    """Read the reasons of an incompatible schema; none of a compatible one."""
    if _flag_named("is_compatible")(value):
        return []
    found = _list_of(_text)(value.get("messages") or [])
    return [_shown(each, MESSAGE_SHOWN_MAX) for each in found] or ["the registry gave no reason"]


def _nothing(value: Any) -> None:
    """Accept any answer to a request that only has to succeed."""


def _of_compatibility(
    subject: str, version: int | str | None, normalize: bool, verbose: bool
) -> str:
    """Return the path that compares with a version of a subject; None: with all that count."""
    path = f"compatibility/subjects/{_quoted(subject)}/versions"
    if version is not None:
        path += f"/{_quoted(str(version))}"
    return path + _query(normalize=normalize, verbose=verbose)


def _redirected(request: Send, response: Response) -> Send | None:
    """Return the request that an answer redirects to, if the client may follow.

    Another host gets no credentials. A request with a body is only sent again as it is.
    """
    location = response.headers.get("location")
    if response.status not in (301, 302, 303, 307, 308) or not location:
        return None
    try:
        url = urljoin(request.url, location)
        old, new = urlsplit(request.url), urlsplit(url)
        _ = new.port  # ValueError if it is none
    except ValueError:  # the caller reports the answer's status
        return None
    is_safe = new.scheme == old.scheme or (old.scheme, new.scheme) == ("http", "https")
    if not is_safe or (request.content is not None and response.status < 307):
        return None
    headers = dict(request.headers)
    if (old.scheme, old.netloc) != (new.scheme, new.netloc):
        headers = {name: each for name, each in headers.items() if name not in CREDENTIAL_HEADERS}
    url = new._replace(netloc=new.netloc.rpartition("@")[2]).geturl()
    return Send(request.method, url, headers, request.content)


class Requests:
    """Sends requests with retries, and fails over from one base URL to the next.

    Parameters
    ----------
    config : RegistryConfig
        The client's configuration.
    """

    def __init__(self, config: RegistryConfig) -> None:
        self._urls = [each.url for each in config.base_urls]
        self._first = 0
        self._retries = config.retries
        self._authentication = config.authentication

    def request(
        self, method: str, path: str, read: Read[T], body: Mapping[str, Any] | None = None
    ) -> Call[T]:
        """Send a request and read its answer.

        :raises SchemaRegistryError: The registry refused the request or can't be reached, or its
            answer has a wrong shape.
        """
        response = yield from self._response(method, path, body)
        try:
            value = json.loads(response.body) if response.body else None
            return read(value)
        except KeyError as missing:
            problem = f"{missing.args[0]} is missing"
        except (ValueError, TypeError, RecursionError) as error:
            problem = clean(str(error), ANSWER_SHOWN_MAX)
        text = f"{method} /{path}: the answer of the registry has a wrong shape: {problem}"
        raise SchemaRegistryError(response.status, SchemaRegistryError.UNKNOWN, text)

    def _response(self, method: str, path: str, body: Mapping[str, Any] | None) -> Call[Response]:
        """Send a request until a registry answers it with success."""
        content = None if body is None else json.dumps(body).encode()
        tried: list[str] = []
        retries = 0
        while True:
            wait_s = 0.0
            last: Response | None = None
            cause: Exception | None = None
            for offset in range(len(self._urls)):
                index = (self._first + offset) % len(self._urls)
                try:
                    last = yield from self._send(method, self._urls[index], path, content)
                except ConnectionFailed as error:
                    tried.append(f"{self._urls[index]}: {error}")
                    last, cause = None, error
                    continue
                if not is_retriable(last):
                    self._first = index
                    if last.is_success:
                        return last
                    raise self._refused(method, path, last, tried)
                tried.append(f"{self._urls[index]}: HTTP {last.status}")
                wait_s = max(wait_s, retry_after_s(last))
            if retries >= self._retries.max_retries or not self._retries.allows(wait_s):
                raise self._gave_up(method, path, last, tried, wait_s) from cause
            yield Sleep(self._retries.wait_s(retries, wait_s))
            retries += 1

    def _send(self, method: str, base_url: str, path: str, content: bytes | None) -> Call[Response]:
        """Send one request. If the registry refuses a token, send it again with a new one."""
        url = f"{base_url}/{path}"
        for attempt in range(2):
            headers = {"Accept": ACCEPT, "User-Agent": USER_AGENT}
            if content is not None:
                headers["Content-Type"] = MEDIA_TYPE
                headers["Confluent-Accept-Unknown-Properties"] = "true"
            headers.update((yield from self._authentication.headers(base_url)))
            try:
                response = yield from self._follow(Send(method, url, headers, content))
            except UnusableAnswer as error:
                raise SchemaRegistryError(-1, SchemaRegistryError.UNKNOWN, str(error)) from error
            if response.status != 401 or attempt or not self._authentication.renew(headers):
                break
        return response

    def _follow(self, request: Send) -> Call[Response]:
        """Send a request and follow redirects."""
        for _ in range(REDIRECTS_MAX + 1):
            response: Response = yield request
            redirected = _redirected(request, response)
            if redirected is None:
                break
            request = redirected
        return response

    def _refused(
        self, method: str, path: str, response: Response, tried: list[str]
    ) -> SchemaRegistryError:
        """Return the error that an answer describes."""
        unknown = SchemaRegistryError.UNKNOWN
        try:
            answer = _object(json.loads(response.body))
            code = _number(answer.get("error_code", unknown))
            text = _shown(_text(answer["message"]), MESSAGE_SHOWN_MAX)
        except (ValueError, TypeError, KeyError, RecursionError):
            body = response.body[: 4 * ANSWER_SHOWN_MAX].decode("utf-8", "replace")
            shown = _shown(body, ANSWER_SHOWN_MAX)
            code = unknown
            text = f"{method} /{path}: HTTP {response.status} without the registry's error: {shown}"
            if location := response.headers.get("location"):
                text += f" (the redirect to {clean(location.partition('?')[0])} isn't followed)"
        if tried:
            text += f" (tried before: {_attempts(tried)})"
        return SchemaRegistryError(response.status, code, text)

    def _gave_up(
        self, method: str, path: str, last: Response | None, tried: list[str], wait_s: float
    ) -> SchemaRegistryError:
        """Return the error after the last attempt, which names every attempt."""
        if last is not None:
            error = self._refused(method, path, last, tried[:-1])
            if not self._retries.allows(wait_s):
                error.error_message += (
                    f" (Retry-After is {wait_s:.0f} s, above retries.max.wait.ms)"
                )
            return error
        text = f"{method} /{path}: no registry answered. Tried: {_attempts(tried)}"
        return SchemaRegistryError(-1, SchemaRegistryError.UNKNOWN, text)


class RegistryCalls:
    """The calls of the clients, as generators. The clients' methods document them.

    Parameters
    ----------
    config : RegistryConfig
        The client's configuration.
    """

    def __init__(self, config: RegistryConfig) -> None:
        self._requests = Requests(config)
        self._shared = SharedRequests()
        self._deletions = 0
        self._changes = 0
        """Deletions and registrations: both may change the latest version."""
        size, ttl_s = config.cache_capacity, config.cache_latest_ttl_s
        # The first part of each key is the subject, if the cache is for subjects.
        self._by_id: LruCache[tuple[Any, ...], Schema] = LruCache(size)
        self._by_guid: LruCache[tuple[Any, ...], Schema] = LruCache(size)
        self._registrations: LruCache[tuple[Any, ...], RegisteredSchema] = LruCache(size)
        self._lookups: LruCache[tuple[Any, ...], RegisteredSchema] = LruCache(size)
        self._versions: LruCache[tuple[Any, ...], RegisteredSchema] = LruCache(size)
        self._latest: LruCache[tuple[Any, ...], RegisteredSchema] = LruCache(size, ttl_s)
        self._with_metadata: LruCache[tuple[Any, ...], RegisteredSchema] = LruCache(size, ttl_s)

    # -- caches

    def _cached(
        self,
        cache: LruCache[tuple[Any, ...], T],
        key: tuple[Any, ...],
        fetch: Callable[[], Call[T]],
        also: Callable[[T], None] | None = None,
    ) -> Call[T]:
        """Return a value of a cache. If it is missing, one caller fetches it for all."""
        value = cache.get(key)
        if value is not None:
            return value

        state = self._state_of(cache)

        def fill() -> Call[T]:
            value = cache.get(key)
            if value is None:
                value = yield from fetch()
                if state == self._state_of(cache):  # what a change made old isn't stored
                    cache.put(key, value)
                    if also is not None:
                        also(value)
            return value

        # A caller after a change doesn't wait for a request from before it.
        return (yield from self._once((id(cache), key, state), fill))

    def _state_of(self, cache: LruCache[tuple[Any, ...], T]) -> int:
        """Return a number that grows when the values of a cache may have changed."""
        is_of_latest = cache in (self._latest, self._with_metadata)
        return self._changes if is_of_latest else self._deletions

    def _once(self, key: Hashable, call: Callable[[], Call[T]]) -> Call[T]:
        """Perform a call, or wait for the same call of another caller."""
        while True:
            future, is_first = self._shared.join(key)
            if not is_first:
                try:
                    result: T = yield Join(future)
                except _Abandoned:
                    continue
                return result
            try:
                result = yield from call()
            except BaseException as error:
                self._shared.leave(key)
                # A caller that was cancelled or interrupted leaves the request to the others.
                future.set_exception(error if isinstance(error, Exception) else _Abandoned())
                raise
            self._shared.leave(key)
            future.set_result(result)
            return result

    def _forget(self, subject: str) -> None:
        """Remove what the caches have about a subject."""
        self._deletions += 1
        for cache in (self._by_id, self._registrations, self._lookups, self._versions):
            cache.remove_if(lambda key: key[0] == subject)
        self._forget_latest(subject)

    def _forget_latest(self, subject: str) -> None:
        self._changes += 1
        for cache in (self._latest, self._with_metadata):
            cache.remove_if(lambda key: key[0] == subject)

    def clear_latest_caches(self) -> None:
        """Empty the caches of latest versions."""
        self._changes += 1
        self._latest.clear()
        self._with_metadata.clear()

    def clear_caches(self) -> None:
        """Empty all caches of the client."""
        self.clear_latest_caches()
        self._deletions += 1
        for cache in (self._by_id, self._by_guid):
            cache.clear()
        for registered in (self._registrations, self._lookups, self._versions):
            registered.clear()

    def _remember(self, subject: str | None, found: RegisteredSchema, fmt: str | None) -> None:
        """Store a schema under its id and GUID as well."""
        if subject is not None and found.schema_id is not None:
            self._by_id.put((subject, found.schema_id, fmt, None), found.schema)
        if found.guid is not None:
            self._by_guid.put((found.guid, fmt), found.schema)

    # -- schemas

    def register_schema(self, subject: str, schema: Schema, normalize: bool) -> Call[int]:
        found = yield from self.register_schema_full_response(subject, schema, normalize)
        assert found.schema_id is not None  # `_registration` has checked it
        return found.schema_id

    def register_schema_full_response(
        self, subject: str, schema: Schema, normalize: bool
    ) -> Call[RegisteredSchema]:
        def fetch() -> Call[RegisteredSchema]:
            path = f"subjects/{_quoted(subject)}/versions{_query(normalize=normalize)}"
            try:
                found = yield from self._requests.request(
                    "POST", path, _registration, schema.to_dict()
                )
            finally:
                # The schema may be the new latest version, even if no answer arrived.
                self._forget_latest(subject)
            has_schema = found.schema.schema_str is not None
            return RegisteredSchema(
                subject=found.subject or subject,
                version=found.version,
                schema_id=found.schema_id,
                guid=found.guid,
                schema=found.schema if has_schema else schema,
            )

        def also(found: RegisteredSchema) -> None:
            self._remember(subject, found, None)

        key = (subject, schema, normalize)
        return (yield from self._cached(self._registrations, key, fetch, also))

    def lookup_schema(
        self, subject: str, schema: Schema, normalize: bool, fmt: str | None, deleted: bool
    ) -> Call[RegisteredSchema]:
        stored: RegisteredSchema | None = None

        def fetch() -> Call[RegisteredSchema]:
            nonlocal stored
            query = _query(normalize=normalize, deleted=deleted, format=fmt)
            path = f"subjects/{_quoted(subject)}{query}"
            found = yield from self._requests.request("POST", path, _registration, schema.to_dict())
            stored = found if found.schema.schema_str is not None else None
            return RegisteredSchema(
                subject=found.subject,
                version=found.version,
                schema_id=found.schema_id,
                guid=found.guid,
                schema=schema,  # the caller's own, whatever format the answer has
            )

        def also(found: RegisteredSchema) -> None:
            if stored is not None:  # the caller's own schema may lack the rules of the stored one
                self._remember(subject, stored, fmt)
            if not deleted:
                self._registrations.put((subject, schema, normalize), found)

        key = (subject, schema, normalize, fmt, deleted)
        return (yield from self._cached(self._lookups, key, fetch, also))

    def get_schema(
        self, schema_id: int, subject: str | None, fmt: str | None, reference_format: str | None
    ) -> Call[Schema]:
        def fetch() -> Call[Schema]:
            query = _query(subject=subject, format=fmt, reference_format=reference_format)
            path = f"schemas/ids/{_number(schema_id)}{query}"
            found = yield from self._requests.request("GET", path, _registered)
            if found.guid is not None and reference_format is None:
                self._by_guid.put((found.guid, fmt), found.schema)
            return found.schema

        key = (subject, schema_id, fmt, reference_format)
        return (yield from self._cached(self._by_id, key, fetch))

    def get_schema_by_guid(self, guid: str, fmt: str | None) -> Call[Schema]:
        def fetch() -> Call[Schema]:
            path = f"schemas/guids/{_quoted(guid)}{_query(format=fmt)}"
            found = yield from self._requests.request("GET", path, _registered)
            return found.schema

        return (yield from self._cached(self._by_guid, (guid, fmt), fetch))

    def get_schema_types(self) -> Call[list[str]]:
        return self._requests.request("GET", "schemas/types", _list_of(_text))

    def get_subjects_by_schema_id(
        self, schema_id: int, subject: str | None, deleted: bool, offset: int, limit: int
    ) -> Call[list[str]]:
        path = f"schemas/ids/{_number(schema_id)}/subjects" + _query(
            offset=offset, limit=limit, subject=subject, deleted=deleted or None
        )
        return self._requests.request("GET", path, _list_of(_text))

    def get_schema_versions(
        self, schema_id: int, subject: str | None, deleted: bool, offset: int, limit: int
    ) -> Call[list[SchemaVersion]]:
        path = f"schemas/ids/{_number(schema_id)}/versions" + _query(
            offset=offset, limit=limit, subject=subject, deleted=deleted or None
        )
        read = _list_of(_object_as(SchemaVersion.from_dict))
        return self._requests.request("GET", path, read)

    # -- subjects and versions

    def get_subjects(
        self, prefix: str | None, deleted: bool, deleted_only: bool, offset: int, limit: int
    ) -> Call[list[str]]:
        path = "subjects" + _query(
            deleted=deleted,
            deletedOnly=deleted_only,
            offset=offset,
            limit=limit,
            subjectPrefix=prefix,
        )
        return self._requests.request("GET", path, _list_of(_text))

    def delete_subject(self, subject: str, permanent: bool) -> Call[list[int]]:
        path = f"subjects/{_quoted(subject)}{_query(permanent=permanent or None)}"
        try:
            return (yield from self._requests.request("DELETE", path, _list_of(_number)))
        finally:
            self._forget(subject)

    def get_latest_version(self, subject: str, fmt: str | None) -> Call[RegisteredSchema]:
        def fetch() -> Call[RegisteredSchema]:
            path = f"subjects/{_quoted(subject)}/versions/latest{_query(format=fmt)}"
            return self._requests.request("GET", path, _registered)

        def also(found: RegisteredSchema) -> None:
            self._remember(subject, found, fmt)

        return (yield from self._cached(self._latest, (subject, fmt), fetch, also))

    def get_latest_with_metadata(
        self, subject: str, metadata: Mapping[str, str], deleted: bool, fmt: str | None
    ) -> Call[RegisteredSchema]:
        def fetch() -> Call[RegisteredSchema]:
            path = f"subjects/{_quoted(subject)}/metadata" + _query(
                deleted=deleted, format=fmt, key=list(metadata), value=list(metadata.values())
            )
            return self._requests.request("GET", path, _registered)

        key = (subject, frozenset(metadata.items()), deleted, fmt)
        return (yield from self._cached(self._with_metadata, key, fetch))

    def get_version(
        self, subject: str, version: int | str, deleted: bool, fmt: str | None
    ) -> Call[RegisteredSchema]:
        def fetch() -> Call[RegisteredSchema]:
            query = _query(deleted=deleted, format=fmt)
            path = f"subjects/{_quoted(subject)}/versions/{_quoted(str(version))}{query}"
            return self._requests.request("GET", path, _registered)

        def also(found: RegisteredSchema) -> None:
            self._remember(subject, found, fmt)

        if version in ("latest", -1, "-1"):
            found = yield from fetch()
            also(found)
            return found
        key = (subject, version, deleted, fmt)
        return (yield from self._cached(self._versions, key, fetch, also))

    def get_referenced_by(
        self, subject: str, version: int | str, offset: int, limit: int
    ) -> Call[list[int]]:
        path = f"subjects/{_quoted(subject)}/versions/{_quoted(str(version))}/referencedby"
        path += _query(offset=offset, limit=limit)
        return self._requests.request("GET", path, _list_of(_number))

    def get_versions(
        self, subject: str, deleted: bool, deleted_only: bool, offset: int, limit: int
    ) -> Call[list[int]]:
        path = f"subjects/{_quoted(subject)}/versions" + _query(
            deleted=deleted, deletedOnly=deleted_only, offset=offset, limit=limit
        )
        return self._requests.request("GET", path, _list_of(_number))

    def delete_version(self, subject: str, version: int, permanent: bool) -> Call[int]:
        path = f"subjects/{_quoted(subject)}/versions/{_quoted(str(version))}"
        path += _query(permanent=permanent or None)
        try:
            return (yield from self._requests.request("DELETE", path, _number))
        finally:
            self._forget(subject)

    # -- compatibility, configurations and modes

    def set_compatibility(self, subject: str | None, level: str | None) -> Call[dict[str, Any]]:
        if level is None:
            raise ValueError("level is missing")
        body = {"compatibility": level.upper()}
        return self._requests.request("PUT", _of_subject("config", subject), _object, body)

    def get_compatibility(self, subject: str | None) -> Call[str]:
        read = _text_named("compatibilityLevel")
        return self._requests.request("GET", _of_subject("config", subject), read)

    def test_compatibility(
        self,
        subject: str,
        schema: Schema,
        version: int | str | None,
        normalize: bool,
        verbose: bool,
    ) -> Call[bool]:
        path = _of_compatibility(subject, version, normalize, verbose)
        read = _flag_named("is_compatible")
        return self._requests.request("POST", path, read, schema.to_dict())

    def explain_compatibility(
        self, subject: str, schema: Schema, version: int | str | None, normalize: bool
    ) -> Call[list[str]]:
        path = _of_compatibility(subject, version, normalize, verbose=True)
        return self._requests.request("POST", path, _incompatibilities, schema.to_dict())

    def set_config(self, subject: str | None, config: ServerConfig | None) -> Call[dict[str, Any]]:
        if config is None:
            raise ValueError("config is missing")
        path = _of_subject("config", subject)
        return self._requests.request("PUT", path, _object, config.to_dict())

    def delete_config(self, subject: str | None) -> Call[ServerConfig]:
        read = _object_as(ServerConfig.from_dict)
        return self._requests.request("DELETE", _of_subject("config", subject), read)

    def get_config(self, subject: str | None) -> Call[ServerConfig]:
        read = _object_as(ServerConfig.from_dict)
        return self._requests.request("GET", _of_subject("config", subject), read)

    def get_mode(self, subject: str | None) -> Call[str]:
        path = _of_subject("mode", subject)
        return self._requests.request("GET", path, _text_named("mode"))

    def update_mode(self, subject: str | None, mode: str, force: bool) -> Call[str]:
        path = _of_subject("mode", subject) + _query(force=force)
        return self._requests.request("PUT", path, _text_named("mode"), {"mode": mode})

    def delete_mode(self, subject: str) -> Call[str]:
        path = _of_subject("mode", subject)
        return self._requests.request("DELETE", path, _text_named("mode"))

    def get_contexts(self, offset: int, limit: int) -> Call[list[str]]:
        path = f"contexts{_query(offset=offset, limit=limit)}"
        return self._requests.request("GET", path, _list_of(_text))

    # -- associations

    def get_associations_by_resource_name(
        self,
        name: str,
        namespace: str,
        resource_type: str | None,
        association_types: list[str] | None,
        offset: int,
        limit: int,
    ) -> Call[list[Association]]:
        path = f"associations/resources/{_quoted(namespace)}/{_quoted(name)}" + _query(
            resourceType=resource_type,
            associationType=association_types,
            offset=offset if offset > 0 else None,
            limit=limit if limit > 0 else None,
        )
        read = _list_of(_object_as(Association.from_dict))
        return self._requests.request("GET", path, read)

    def create_association(
        self, request: AssociationCreateOrUpdateRequest
    ) -> Call[AssociationResponse]:
        read = _object_as(AssociationResponse.from_dict)
        return self._requests.request("POST", "associations", read, request.to_dict())

    def delete_associations(
        self,
        resource_id: str,
        resource_type: str | None,
        association_types: list[str] | None,
        cascade_lifecycle: bool,
    ) -> Call[None]:
        path = f"associations/resources/{_quoted(resource_id)}" + _query(
            cascadeLifecycle=cascade_lifecycle,
            resourceType=resource_type,
            associationType=association_types,
        )
        return self._requests.request("DELETE", path, _nothing)


def _of_subject(path: str, subject: str | None) -> str:
    """Return the path of a subject's settings, or of the global ones."""
    return path if subject is None else f"{path}/{_quoted(subject)}"


class _Abandoned(Exception):
    """The caller that sent a shared request stopped before the answer came."""
