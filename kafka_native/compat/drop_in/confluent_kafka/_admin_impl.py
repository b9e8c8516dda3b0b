"""confluent_kafka's `_AdminClientImpl`, the base of its AdminClient.

Each call takes a list and a future, and sets the future's result when all of the list is done, as
the C functions there do. It (1) converts its arguments, (2) checks that the client is open, (3)
checks its options and items, (4) makes kafka_native's call with plain types.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

from kafka_native import admin
from kafka_native._native.arguments import Arguments
from kafka_native.admin.base import CLOSED_TEXT
from kafka_native.client_core import HANDLE_CLOSED_TEXT
from kafka_native.errors import KafkaError, KafkaException, error_text
from kafka_native.types import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    TopicCollection,
    TopicPartition,
)

from ._admin_types import NOT_GIVEN, NewPartitions, NewTopic, int32
from ._arguments import CLIENT, Signature, parses

Given: TypeAlias = dict[str, Any]
Outcomes: TypeAlias = list[Any]
"""The outcomes of a call's items: a value or a KafkaError each."""

OPTION_MAX_MS: Final = 3_600_000
UNSET: Final = -12345
"""This value of an option means that it isn't given."""
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
PARTITIONS_MAX, BROKERS_MAX = 100_000, 10_000


# --- arguments ---


def _listed(given: Any, kind: str) -> list[Any]:
    """The given list, which has to be one and not empty."""
    if not isinstance(given, list) or not given:
        raise ValueError(f"Expected non-empty list of {kind} objects")
    return list(given)


def _flags(given: Given) -> Given:
    """The options that are bools."""
    flags = ("validate_only", "include_authorized_operations", "require_stable")
    found = {name: given[name] for name in flags if name in given}
    for name, value in found.items():
        if not isinstance(value, bool):
            raise TypeError(f"Expected {name} to be bool type, not {type(value).__name__}")
    return found


def _c_int(value: float) -> int:
    """A float as C makes it an ``int``."""
    if not math.isfinite(value) or not INT32_MIN <= value <= INT32_MAX:
        return INT32_MIN
    return int(value)


def _whole_ms(timeout: float) -> float:
    """A timeout, without the part of a millisecond; no number is a wait without limit."""
    return _c_int(timeout * 1000) / 1000


def _wait_s(timeout: float, task: str, code: int = KafkaError._TIMED_OUT) -> float:
    """The timeout of a call that waits; too large ones leave no time, as there.

    Without time, the call fails with the code.
    """
    if timeout < 0:
        return -1
    wait_s = _whole_ms(timeout)
    if wait_s <= 0:
        raise failed(code, f"Failed to {task}: {error_text(code)}")
    return wait_s


def _in_range(name: str, value: int, value_min: int, value_max: int) -> int:
    if not value_min <= value <= value_max:
        raise ValueError(
            f'Invalid value type for "{name}": expecting integer in range '
            f"{value_min}..{value_max}, not {value}"
        )
    return value


def _text(value: Any, refusal: str, kind: type[Exception] = ValueError) -> str:
    """The text of an object as a C string, which ends at the first NUL."""
    try:
        text = str(value)
        text.encode()
    except Exception as error:
        raise kind(refusal) from error
    return text.partition("\0")[0]


def _c_text(made: Any, name: str) -> str:
    """A field that is exactly a str, as a C string."""
    text: str = _exact(made, name, str)
    text.encode()  # it raises UnicodeEncodeError
    return text.partition("\0")[0]


def _exact(made: Any, name: str, kind: type, *, optional: bool = False) -> Any:
    """A field that has exactly this type."""
    try:
        value = getattr(made, name)
    except AttributeError:
        raise TypeError(f"Required attribute .{name} missing") from None
    if type(value) is not kind and not (optional and value is None):
        raise TypeError(f"Expected .{name} to be {kind.__name__} type, not {type(value).__name__}")
    return value


def _settings(given: Any) -> dict[str, str]:
    """Settings as text. Those that are no dict are ignored."""
    found = {}
    for key, value in dict(given).items() if isinstance(given, dict) else ():
        name = _text(key, "expected config name to be unicode string")
        found[name] = _text(value, f"expect config value for {name} to be unicode string")
    return found


def _assignment(given: Any, count_min: int, count_max: int, about: str) -> list[list[int]]:
    """A ``replica_assignment``: a list of the brokers of each partition."""
    refusal = f"replica_assignment must be a list of int lists with an outer size of {about}"
    if not isinstance(given, list) or not count_min <= len(given) <= count_max:
        raise ValueError(refusal)
    for brokers in given:
        if not isinstance(brokers, list) or not brokers:
            raise ValueError(refusal)
        if not all(isinstance(each, int) for each in brokers):
            raise ValueError(refusal)
    return [[int32(each) for each in brokers] for brokers in given]


# --- items ---


def _plain_topic(given: Any) -> admin.NewTopic:
    if not isinstance(given, admin.NewTopic):
        raise ValueError("Expected list of NewTopic objects")
    count, replicas = given.num_partitions, given.replication_factor
    if not -1 <= count <= PARTITIONS_MAX or not -1 <= replicas <= BROKERS_MAX:
        raise ValueError(f"Invalid NewTopic({given.topic})")
    assignment = _field(given, "replica_assignment")
    if assignment is not NOT_GIVEN:
        if replicas != -1:
            raise ValueError("replication_factor and replica_assignment are mutually exclusive")
        size = count
        if count == -1:
            size = len(assignment) if isinstance(assignment, list) else -1
        assignment = _assignment(assignment, size, size, "num_partitions")
        if count == -1 and assignment:
            raise ValueError(
                "Specifying a default partition count and a replica assignment "
                "are mutually exclusive"
            )
    config = _field(given, "config")
    return admin.NewTopic(
        given.topic,
        count,
        replicas,
        None if assignment is NOT_GIVEN else assignment,
        None if config is NOT_GIVEN else _settings(config),
    )


def _field(given: Any, name: str) -> Any:
    """A field; kafka_native's own types have None in place of no value."""
    if isinstance(given, NewTopic | NewPartitions):
        return getattr(given, f"_{name}")
    value = getattr(given, name)
    return NOT_GIVEN if value is None else value


def _plain_partitions(given: Any) -> admin.NewPartitions:
    if not isinstance(given, admin.NewPartitions):
        raise ValueError("Expected list of NewPartitions objects")
    count = given.new_total_count
    if not 1 <= count <= PARTITIONS_MAX:
        raise ValueError(f"Invalid NewPartitions({given.topic})")
    assignment = _field(given, "replica_assignment")
    if assignment is not NOT_GIVEN:
        about = "new_total_count - existing partition count"
        assignment = _assignment(assignment, 1, count, about)
    return admin.NewPartitions(given.topic, count, None if assignment is NOT_GIVEN else assignment)


def _plain_resource(given: Any) -> admin.ConfigResource:
    """A resource without its settings."""
    if not isinstance(given, admin.ConfigResource):
        raise ValueError("Expected list of ConfigResource objects")
    kind = _exact(given, "restype_int", int)
    name = _c_text(given, "name")
    try:
        if not name:
            raise ValueError(name)
        return admin.ConfigResource(kind, name)
    except ValueError:
        raise ValueError(f"Invalid ConfigResource({kind},{name})") from None


def _replaced_resource(given: Any) -> admin.ConfigResource:
    made = _plain_resource(given)
    made.set_config_dict = _settings(_exact(given, "set_config_dict", dict))
    return made


def _changed_resource(given: Any) -> admin.ConfigResource:
    made = _plain_resource(given)
    entries = list(_exact(given, "incremental_configs", list))
    if not entries:
        raise ValueError(
            "expected non-empty list of ConfigEntry to alter incrementally "
            "in incremental_configs field"
        )
    made.incremental_configs = [_plain_entry(number, each) for number, each in enumerate(entries)]
    return made


def _plain_entry(number: int, given: Any) -> admin.ConfigEntry:
    if not isinstance(given, admin.ConfigEntry):
        raise TypeError(f"expected ConfigEntry type in incremental_configs field, index {number}")
    operation = _exact(given.incremental_operation, "value", int)
    name = _c_text(given, "name")
    value = None
    if operation != admin.AlterConfigOpType.DELETE.value:
        value = _c_text(given, "value")
    known = [each for each in admin.AlterConfigOpType if each.value == operation]
    if not name or not known:
        raise ValueError(f'setting config entry "{name}", index {number}, failed')
    return admin.ConfigEntry(name, value, incremental_operation=known[0])


# --- futures ---


def failed(code: int, text: str) -> KafkaException:
    """The exception of a whole call."""
    return KafkaException(KafkaError(code, text))


def _outcome(future: Future[Any]) -> Any:
    """The value or the KafkaError of a future. It raises other exceptions."""
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return error.args[0]
    raise error


def when_done(futures: Iterable[Future[Any]], call: Callable[[], object]) -> None:
    """Calls once, when all futures are done."""
    waiting = list(futures)
    lock, left = threading.Lock(), len(waiting)

    def done(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            call()

    for each in waiting:
        each.add_done_callback(done)
    if not waiting:
        call()


def _follow(
    future: Future[Any], futures: list[Future[Any]], result_of: Callable[[Outcomes], Any]
) -> None:
    """Sets the future's result when all others are done."""

    def done() -> None:
        try:
            result = result_of([_outcome(each) for each in futures])
        except BaseException as error:  # also SystemExit, for a thread that waits at the end
            future.set_exception(error)
        else:
            future.set_result(result)

    when_done(futures, done)


def _errors_of(names: list[str]) -> Callable[[Outcomes], dict[str, Any]]:
    """Each name's error, or None. A name that is given twice has the broker's error for that."""

    def result_of(outcomes: Outcomes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, outcome in zip(dict.fromkeys(names), outcomes, strict=True):
            found[name] = outcome if isinstance(outcome, KafkaError) else None
            if names.count(name) > 1 and found[name].code() == KafkaError._INVALID_ARG:
                found[name] = KafkaError(KafkaError.INVALID_REQUEST, "Duplicate topic in request.")
        return found

    return result_of


def _by_key(keys: Iterable[Any]) -> Callable[[Outcomes], dict[Any, Any]]:
    given = list(keys)
    return lambda outcomes: dict(zip(given, outcomes, strict=True))


def _only(outcomes: Outcomes) -> Any:
    """The only outcome, which fails the call if it is an error."""
    if isinstance(outcomes[0], KafkaError):
        raise KafkaException(outcomes[0])
    return outcomes[0]


def _listed_groups(outcomes: Outcomes) -> Any:
    """The groups. An error of the whole call is one of its errors, which are KafkaErrors."""
    (found,) = outcomes
    if isinstance(found, KafkaError):
        return admin.ListConsumerGroupsResult([], outcomes)
    errors = [each.args[0] for each in found.errors]
    return admin.ListConsumerGroupsResult(found.valid, errors)


def _described(resources: list[admin.ConfigResource]) -> Callable[[Outcomes], dict[Any, Any]]:
    """Each resource with its error and its settings."""

    def result_of(outcomes: Outcomes) -> dict[Any, Any]:
        found = {}
        for resource, outcome in zip(resources, outcomes, strict=True):
            error = outcome if isinstance(outcome, KafkaError) else None
            key = admin.ConfigResource(resource.restype, resource.name, error=error)
            found[key] = None if error is not None else outcome
        return found

    return result_of


# --- the calls ---

TOPICS = Arguments(
    "OO|Odd", "topics", "future", "validate_only", "request_timeout", "operation_timeout"
)
DELETE_TOPICS = Arguments("OO|dd", "topics", "future", "request_timeout", "operation_timeout")
DESCRIBE_CONFIGS = Arguments("OO|di", "resources", "future", "request_timeout", "broker")
ALTER_CONFIGS = Arguments(
    "OO|Odi", "resources", "future", "validate_only", "request_timeout", "broker"
)
ACLS = Arguments("OO|d", "acls", "future", "request_timeout")
DESCRIBE_ACLS = Arguments("OO|d", "acl_binding_filter", "future", "request_timeout")
LIST_GROUPS = Arguments("O|OOd", "future", "states_int", "types_int", "request_timeout")
# these names are those of confluent_kafka, in its order
DESCRIBE_GROUPS = Arguments(
    "OO|dO", "future", "group_ids", "request_timeout", "include_authorized_operations"
)
DESCRIBE_TOPICS = Arguments(
    "OO|dO", "future", "topic_names", "request_timeout", "include_authorized_operations"
)
DESCRIBE_CLUSTER = Arguments("O|dO", "future", "request_timeout", "include_authorized_operations")
DELETE_GROUPS = Arguments("OO|d", "group_ids", "future", "request_timeout")
LIST_GROUP_OFFSETS = Arguments("OO|Od", "request", "future", "require_stable", "request_timeout")
ALTER_GROUP_OFFSETS = Arguments("OO|d", "request", "future", "request_timeout")
DESCRIBE_USERS = Arguments("OO|d", "users", "future", "request_timeout")
ALTER_USERS = Arguments("OO|d", "alterations", "future", "request_timeout")
LIST_OFFSETS = Arguments(
    "OO|id", "topic_partitions", "future", "isolation_level_value", "request_timeout"
)
DELETE_RECORDS = Arguments(
    "OO|dd", "topic_partition_offsets", "future", "request_timeout", "operation_timeout"
)
ELECT_LEADERS = Arguments(
    "OOO|dd", "election_type", "partitions", "future", "request_timeout", "operation_timeout"
)
WAITING = {
    **CLIENT,
    "list_groups": Signature(Arguments("|zd", "group", "timeout")),
}
"""The calls that wait."""


def _check_handle(client: Any) -> None:
    client._ready(HANDLE_CLOSED_TEXT)


@parses(
    {"poll": Signature(Arguments("d", "timeout"), calls_back=True)},
    lambda client: client._ready(),
)
@parses(WAITING, _check_handle)
class _AdminClientImpl(admin.AdminClient):
    """A `kafka_native.admin.AdminClient` whose calls set the result of a given future."""

    _waits_for_brokers = True
    _cluster_id: str | None = None
    """The cluster's id, which a call without time returns if it is known."""

    def __init__(self, conf: Mapping[str, Any], **kwargs: Any) -> None:
        """Creates the client. An open one can't be created again."""
        if getattr(self, "_client", None) is not None and not self._client.closed:
            raise RuntimeError("Admin already __init__:ialized")
        if any("on_delivery" in each for each in (conf, kwargs) if isinstance(each, dict)):
            text = 'No such configuration property: "on_delivery"'
            raise failed(KafkaError._INVALID_ARG, text)
        self._closed = False
        super().__init__(conf, **kwargs)

    def __bool__(self) -> bool:
        """Whether events wait, as there. None do."""
        return len(self) > 0

    def poll(self, timeout: float = -1) -> int:
        """See `kafka_native.admin.AdminClient.poll`."""
        return super().poll(_whole_ms(timeout))

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """See `kafka_native.admin.AdminClient.list_topics`."""
        self._ready(HANDLE_CLOSED_TEXT)
        pool = self._client.main.pool
        is_up = any(broker.up for broker in (*pool.nodes.values(), *pool.bootstrap))
        code = KafkaError._TIMED_OUT if is_up else KafkaError._TRANSPORT
        found = super().list_topics(topic, _wait_s(timeout, "get metadata", code))
        self._cluster_id = found.cluster_id or self._cluster_id
        return found

    def cluster_id(self, timeout: float = -1) -> str | None:
        """See `kafka_native.admin.AdminClient.cluster_id`."""
        self._ready(HANDLE_CLOSED_TEXT)
        wait_s = -1 if timeout < 0 else _whole_ms(timeout)
        if wait_s == 0 and self._cluster_id is not None:
            return self._cluster_id
        try:
            self._cluster_id = super().cluster_id(wait_s)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TRANSPORT:
                raise
            text = "Failed to retrieve cluster id: Local: Timed out"
            raise failed(KafkaError._TIMED_OUT, text) from error
        return self._cluster_id

    def list_groups(self, group: str | None = None, timeout: float = -1, **kwargs: Any) -> Any:
        """See `kafka_native.admin.AdminClient.list_groups`."""
        self._ready(HANDLE_CLOSED_TEXT)
        return super().list_groups(group, _wait_s(timeout, "list groups"), **kwargs)

    def close(self) -> None:
        """Closes the client; one that was never created is closed."""
        if getattr(self, "_client", None) is not None:
            super().close()

    def __enter__(self) -> Any:
        """The client itself, open or not."""
        return self

    def __repr__(self) -> str:
        return super().__repr__() if hasattr(self, "_client") else object.__repr__(self)

    def _ready(self, closed_text: str = CLOSED_TEXT) -> None:
        """Raises RuntimeError if the client is closed, or was never created."""
        if getattr(self, "_client", None) is None:
            raise RuntimeError(closed_text)
        self._client.check_open(closed_text)
        self._check_open()

    def _check_open(self) -> None:
        if getattr(self, "_client", None) is None:
            raise RuntimeError(CLOSED_TEXT)
        super()._check_open()

    def _times(self, given: Given) -> Given:
        """The options that are numbers, after the check that the client is open."""
        self._ready()
        found: Given = {}
        for name, value_min in (("request_timeout", 0), ("operation_timeout", -1)):
            value = ctypes.c_float(given.get(name, UNSET)).value
            if _c_int(value) != UNSET:
                milliseconds = _c_int(ctypes.c_float(value * 1000).value)
                found[name] = _in_range(name, milliseconds, value_min, OPTION_MAX_MS) / 1000
        if found.get("operation_timeout", 0) < 0:
            found["operation_timeout"] = 0  # the broker replies at once
        if given.get("broker", UNSET) != UNSET:
            found["broker"] = _in_range("broker", given["broker"], 0, INT32_MAX)
        return found

    def _call(
        self,
        future: Future[Any],
        name: str,
        args: tuple[Any, ...],
        options: Given,
        result_of: Callable[[Outcomes], Any],
    ) -> None:
        """Makes kafka_native's call, and sets the result of the future when it is done."""
        if options.get("request_timeout") == 0:
            future.set_exception(failed(KafkaError._TIMED_OUT, "Local: Timed out"))
            return
        made = getattr(super(), name)(*args, **options)
        futures = list(made.values()) if isinstance(made, dict) else [made]
        _follow(future, futures, result_of)

    def _is_repeated(
        self, future: Future[Any], keys: list[Any], code: int, what: str = "item"
    ) -> bool:
        """Whether an item is given twice. Then the whole call fails."""
        if len(set(keys)) == len(keys):
            return False
        future.set_exception(failed(code, f"Duplicate {what} not allowed"))
        return True

    def create_topics(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Creates topics. The future's result is a dict of errors by name."""
        given = TOPICS.parse(args, kwargs)
        topics, future = _listed(given["topics"], "NewTopic"), given["future"]
        options = {**_flags(given), **self._times(given)}
        plain = [_plain_topic(each) for each in topics]
        names = [each.topic for each in plain]
        self._call(future, "create_topics", (plain,), options, _errors_of(names))

    def delete_topics(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Deletes topics. The future's result is a dict of errors by name."""
        given = DELETE_TOPICS.parse(args, kwargs)
        if not isinstance(given["topics"], list):
            raise TypeError(f"argument 1 must be list, not {type(given['topics']).__name__}")
        topics, future = _listed(given["topics"], "topic string"), given["future"]
        options = self._times(given)
        refusal = "Expected list of topic strings"
        if None in [each if each is None else 1 for each in topics]:
            raise ValueError(f"{refusal}, not NoneType")
        names = [_text(each, refusal) for each in topics]
        self._call(future, "delete_topics", (names,), options, _errors_of(names))

    def create_partitions(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Adds partitions. The future's result is a dict of errors by name."""
        given = TOPICS.parse(args, kwargs)
        topics, future = _listed(given["topics"], "NewPartitions"), given["future"]
        options = {**_flags(given), **self._times(given)}
        plain = [_plain_partitions(each) for each in topics]
        names = [each.topic for each in plain]
        self._call(future, "create_partitions", (plain,), options, _errors_of(names))

    def describe_configs(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Describes settings. The future's result is a dict by resource."""
        given = DESCRIBE_CONFIGS.parse(args, kwargs)
        self._for_resources("describe_configs", given, _plain_resource, KafkaError._BAD_MSG)

    def alter_configs(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Replaces settings. The future's result is a dict by resource."""
        given = ALTER_CONFIGS.parse(args, kwargs)
        self._for_resources("alter_configs", given, _replaced_resource, KafkaError._BAD_MSG)

    def incremental_alter_configs(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> None:
        """Changes settings. The future's result is a dict by resource."""
        given = ALTER_CONFIGS.parse(args, kwargs)
        name, repeated = "incremental_alter_configs", KafkaError._INVALID_ARG
        self._for_resources(name, given, _changed_resource, repeated)

    def _for_resources(
        self, name: str, given: Given, plain_of: Callable[[Any], Any], repeated: int
    ) -> None:
        resources, future = _listed(given["resources"], "ConfigResource"), given["future"]
        options = {**_flags(given), **self._times(given)}
        plain = [plain_of(each) for each in resources]
        brokers = [each for each in plain if each.restype is admin.ResourceType.BROKER]
        for each in plain:
            names = [entry.name for entry in each.incremental_configs]
            if self._is_repeated(future, names, repeated, "configuration entry"):
                return
        if len(brokers) > 1:
            text = "Only one ConfigResource of type BROKER is allowed per call"
            future.set_exception(failed(KafkaError._CONFLICT, text))
        elif not self._is_repeated(future, plain, repeated, "resource"):
            self._call(future, name, (plain,), options, _described(plain))

    def create_acls(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Creates permissions. The future's result is a list of errors."""
        given = ACLS.parse(args, kwargs)
        acls = _listed(given["acls"], "AclBinding")
        options = self._times(given)
        if not all(isinstance(each, admin.AclBinding) for each in acls):
            raise ValueError("Expected list of AclBinding objects")
        for each in acls:
            if (
                min(
                    each.restype_int,
                    each.resource_pattern_type_int,
                    each.operation_int,
                    each.permission_type_int,
                )
                < 1
            ):
                raise ValueError("Invalid resource type, pattern type, operation or permission")
        acls = [_plain_acl(each) for each in acls]
        self._call(given["future"], "create_acls", (acls,), options, list)

    def describe_acls(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Describes permissions. The future's result is a list of them."""
        given = DESCRIBE_ACLS.parse(args, kwargs)
        options, wanted = self._times(given), given["acl_binding_filter"]
        if not isinstance(wanted, admin.AclBindingFilter):
            raise TypeError("Expected an AclBindingFilter object")
        self._call(given["future"], "describe_acls", (wanted,), options, _only)

    def delete_acls(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Deletes permissions. The future's result is a list of lists and errors."""
        given = ACLS.parse(args, kwargs)
        acls = _listed(given["acls"], "AclBindingFilter")
        options = self._times(given)
        if not all(isinstance(each, admin.AclBindingFilter) for each in acls):
            raise ValueError("Expected list of AclBindingFilter objects")
        self._call(given["future"], "delete_acls", (acls,), options, list)

    def list_consumer_groups(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Lists groups. The future's result is a ListConsumerGroupsResult."""
        given = LIST_GROUPS.parse(args, kwargs)
        kinds = {"states": ConsumerGroupState, "types": ConsumerGroupType}
        chosen: Given = {}
        for name in kinds:
            numbers = given.get(f"{name}_int")
            if numbers is None:
                continue
            if not isinstance(numbers, list):
                raise ValueError(f"{name} must of type list")
            if not all(isinstance(each, int) for each in numbers):
                raise ValueError(f"Element of {name} must be valid {name}")
            chosen[name] = numbers
        options = self._times(given)
        for name, numbers in chosen.items():
            if len(set(numbers)) < len(numbers):
                raise ValueError(f"Duplicate {name} not allowed")
            members = [each for each in kinds[name] if each.value in numbers]
            if len(members) < len(numbers) or (name == "types" and 0 in numbers):
                raise ValueError(f"Only a valid {name} is allowed")
            options[name] = set(members)
        if options.get("request_timeout") == 0:
            error = KafkaError(KafkaError._TIMED_OUT, "Local: Timed out")
            given["future"].set_result(_listed_groups([error]))
        else:
            self._call(given["future"], "list_consumer_groups", (), options, _listed_groups)

    def describe_consumer_groups(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Describes groups. The future's result is a list of descriptions and errors."""
        given = DESCRIBE_GROUPS.parse(args, kwargs)
        group_ids, future = given["future"], given["group_ids"]  # by position, the other way round
        options = _flags(given)
        ids = [_group_id(each) for each in _listed(group_ids, "group_id")]
        options |= self._times(given)
        if not self._is_repeated(future, ids, KafkaError._INVALID_ARG, "group"):
            self._call(future, "describe_consumer_groups", (ids,), options, list)

    def describe_topics(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Describes topics. The future's result is a list of descriptions and errors."""
        given = DESCRIBE_TOPICS.parse(args, kwargs)
        topics, future = given["future"], given["topic_names"]  # by position, the other way round
        options = _flags(given)
        if not isinstance(topics, list):
            raise TypeError("Expected a list of topics")
        names = []
        for number, each in enumerate(topics):
            if not isinstance(each, str):
                raise TypeError(f"Expected list of topics strings, not {type(each).__name__}")
            names.append(each.partition("\0")[0])
            if not names[-1]:
                raise ValueError(f"Empty topic name at index {number} isn't allowed")
        options |= self._times(given)
        if not self._is_repeated(future, names, KafkaError._INVALID_ARG, "topic"):
            self._call(future, "describe_topics", (TopicCollection(names),), options, list)

    def describe_cluster(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Describes the cluster. The future's result is a DescribeClusterResult."""
        given = DESCRIBE_CLUSTER.parse(args, kwargs)
        options = {**_flags(given), **self._times(given)}
        self._call(given["future"], "describe_cluster", (), options, _only)

    def delete_consumer_groups(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Deletes groups. The future's result is a list of errors."""
        given = DELETE_GROUPS.parse(args, kwargs)
        future, options = given["future"], self._times(given)
        if not isinstance(given["group_ids"], list):
            raise ValueError("Expected 'group_ids' to be a list")
        ids = [_group_id(each, TypeError) for each in given["group_ids"]]
        if not self._is_repeated(future, ids, KafkaError._INVALID_ARG, "group"):
            self._call(future, "delete_consumer_groups", (ids,), options, list)

    def list_consumer_group_offsets(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> None:
        """Lists a group's offsets. The future's result is a list of one."""
        given = LIST_GROUP_OFFSETS.parse(args, kwargs)
        options = {**_flags(given), **self._times(given)}
        self._for_group("list_consumer_group_offsets", given, options)

    def alter_consumer_group_offsets(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> None:
        """Alters a group's offsets. The future's result is a list of one."""
        given = ALTER_GROUP_OFFSETS.parse(args, kwargs)
        self._for_group("alter_consumer_group_offsets", given, self._times(given))

    def _for_group(self, name: str, given: Given, options: Given) -> None:
        request, future = given["request"], given["future"]
        if not isinstance(request, list) or len(request) != 1:
            raise ValueError("Currently we support only 1 consumer group")
        group = request[0]
        try:
            ident = _c_text(group, "group_id")
        except (TypeError, UnicodeEncodeError):
            raise ValueError("Group name is mandatory for this operation") from None
        partitions = group.topic_partitions
        repeated = [(each.topic, each.partition) for each in partitions or ()]
        if not self._is_repeated(future, repeated, KafkaError._INVALID_ARG, "partition"):
            plain = ConsumerGroupTopicPartitions(ident, partitions)
            self._call(future, name, ([plain],), options, list)

    def describe_user_scram_credentials(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> None:
        """Describes users. The future's result is a dict by name."""
        given = DESCRIBE_USERS.parse(args, kwargs)
        users, future = given["users"], given["future"]
        if users is not None and not isinstance(users, list):
            raise ValueError("Expected non-empty list of string objects in 'users' parameter")
        options, name = self._times(given), "describe_user_scram_credentials"
        if users is None:
            self._call(future, name, (None,), options, _only)
            return
        if None in users:
            raise TypeError("'users' must not contain None")
        names = [_text(each, "'users' must be convertible to str") for each in users]
        if not names:
            self._call(future, name, (None,), options, _only)
        elif not self._is_repeated(future, names, KafkaError._INVALID_ARG, "user"):
            self._call(future, name, (names,), options, _by_key(names))

    def alter_user_scram_credentials(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> None:
        """Alters users. The future's result is a dict of errors by name."""
        given = ALTER_USERS.parse(args, kwargs)
        alterations = given["alterations"]
        if not isinstance(alterations, list):
            raise TypeError("Expected non-empty list of Alteration objects")
        options = self._times(given)
        names = dict.fromkeys(each.user for each in alterations)
        name = "alter_user_scram_credentials"
        self._call(given["future"], name, (alterations,), options, _by_key(names))

    def list_offsets(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Lists offsets. The future's result is a dict by partition."""
        given = LIST_OFFSETS.parse(args, kwargs)
        partitions, options = given["topic_partitions"], self._times(given)
        level = given.get("isolation_level_value", UNSET)
        if level != UNSET:
            options["isolation_level"] = IsolationLevel(_in_range("isolation_level", level, 0, 1))
        for each in partitions:
            if each.offset < admin.OffsetSpec.max_timestamp()._value:
                text = f"Partition {each.partition} has an invalid offset {each.offset}"
                given["future"].set_exception(failed(KafkaError._INVALID_ARG, text))
                return
        wanted = {
            TopicPartition(each.topic, each.partition): _spec(each.offset) for each in partitions
        }
        self._call(given["future"], "list_offsets", (wanted,), options, _by_key(partitions))

    def delete_records(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Deletes records. The future's result is a dict by partition."""
        given = DELETE_RECORDS.parse(args, kwargs)
        partitions, future = given["topic_partition_offsets"], given["future"]
        options = self._times(given)
        if not self._is_repeated(future, partitions, KafkaError._INVALID_ARG, "partition"):
            self._call(future, "delete_records", (partitions,), options, _by_key(partitions))

    def elect_leaders(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Elects leaders. The future's result is a dict of errors by partition."""
        given = ELECT_LEADERS.parse(args, kwargs)
        partitions, future = given["partitions"], given["future"]
        options, kind = self._times(given), ElectionType(given["election_type"])
        if partitions is not None and not isinstance(partitions, list):
            raise ValueError("partitions must be None or a list")
        if not self._is_repeated(future, partitions or [], KafkaError._INVALID_ARG, "partition"):
            self._call(future, "elect_leaders", (kind, partitions), options, _only)


def _plain_acl(given: admin.AclBinding) -> admin.AclBinding:
    """A permission. A filter is taken as one, if it has all fields."""
    if not isinstance(given, admin.AclBindingFilter):
        return given
    name, principal, host = (_c_text(given, name) for name in ("name", "principal", "host"))
    return admin.AclBinding(
        given.restype,
        name,
        given.resource_pattern_type,
        principal,
        host,
        given.operation,
        given.permission_type,
    )


def _group_id(given: Any, kind: type[Exception] = ValueError) -> str:
    if given is None and kind is ValueError:
        raise ValueError("Expected list of group strings, not NoneType")
    return _text(given, "Expected list of group strings", kind)


def _spec(offset: int) -> Any:
    """The OffsetSpec with a number."""
    known: Mapping[int, Any] = {
        each._value: each
        for each in (
            admin.OffsetSpec.earliest(),
            admin.OffsetSpec.latest(),
            admin.OffsetSpec.max_timestamp(),
        )
    }
    return known.get(offset) or admin.OffsetSpec.for_timestamp(offset)
