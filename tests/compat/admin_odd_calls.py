"""Calls of the admin client with odd arguments, and their outcomes on one library.

Run as a program, it makes all calls on one library and writes one line of JSON for each:
``python -m tests.compat.admin_odd_calls LIBRARY SERVERS [FIRST [STEP [PATTERN]]]``.
"""

from __future__ import annotations

import decimal
import importlib
import json
import os
import re
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, TimeoutError
from enum import Enum
from typing import Any, NamedTuple

import confluent_kafka

from kafka_native.compat.drop_in import confluent_kafka as drop_in

LIBRARIES = {"theirs": confluent_kafka, "ours": drop_in}
TOPIC, GROUP, NOWHERE = "odd-topic", "odd-group", "odd-nowhere"
TIMEOUT_MS = 2000
AT_ONCE_S = 0.5
WAITS_S = 0.75 * TIMEOUT_MS / 1000
NEVER_S = 2 * TIMEOUT_MS / 1000
NOBODY = "127.0.0.1:9"
"""An address where nothing listens."""

Call = Callable[["Tool"], Any]


class Text(str):
    """A str of another class."""


class Number(int):
    """An int of another class."""


class Items(list[Any]):
    """A list of another class."""


class Indexed:
    """An object that is an index."""

    def __index__(self) -> int:
        return 1


class Floating:
    """An object that is a float."""

    def __float__(self) -> float:
        return 1.0


class Spoken:
    """An object with a text of its own."""

    def __str__(self) -> str:
        return "spoken"


class Mute:
    """An object without a text."""

    def __str__(self) -> str:
        raise LookupError("mute")

    __repr__ = __str__


class Tool:
    """A library, its module ``admin``, and a client."""

    def __init__(self, lib: Any, client: Any) -> None:
        self.lib, self.client = lib, client
        self.admin = importlib.import_module(f"{lib.__name__}.admin")
        self.name = f"odd-{uuid.uuid4().hex[:12]}"
        """A new name of a topic."""

    def at(self, *args: Any) -> Any:
        return self.lib.TopicPartition(*args)

    def topic(self, *args: Any, **kwargs: Any) -> Any:
        return self.admin.NewTopic(self.name, *args, **kwargs)

    def resource(self, *args: Any, **kwargs: Any) -> Any:
        return self.admin.ConfigResource(*(args or ("topic", TOPIC)), **kwargs)

    def entry(self, name: Any = "max.message.bytes", value: Any = "5000", by: Any = "SET") -> Any:
        operation = self.admin.AlterConfigOpType[by] if isinstance(by, str) else by
        return self.admin.ConfigEntry(name, value, incremental_operation=operation)

    def changed(self, *entries: Any) -> Any:
        return self.resource(incremental_configs=list(entries))

    def acl(self, name: Any = NOWHERE, **fields: Any) -> Any:
        return self._acl(self.admin.AclBinding, name, fields)

    def acls(self, name: Any = NOWHERE, **fields: Any) -> Any:
        return self._acl(self.admin.AclBindingFilter, name, fields)

    def _acl(self, kind: Any, name: Any, fields: dict[str, Any]) -> Any:
        basics = ("topic", name, "literal", "User:x", "*", "read", "allow")
        names = (
            "restype",
            "name",
            "resource_pattern_type",
            "principal",
            "host",
            "operation",
            "permission_type",
        )
        return kind(**{**dict(zip(names, basics, strict=True)), **fields})

    def group(self, *args: Any) -> Any:
        return self.lib.ConsumerGroupTopicPartitions(*args)

    def upsertion(self, user: Any = "odd-user", **fields: Any) -> Any:
        info = self.admin.ScramCredentialInfo(
            fields.pop("mechanism", self.admin.ScramMechanism.SCRAM_SHA_256),
            fields.pop("iterations", 4096),
        )
        given = {"scram_credential_info": info, "password": b"a password", **fields}
        return self.admin.UserScramCredentialUpsertion(user, **given)

    def deletion(self, user: Any = "odd-user", mechanism: Any = None) -> Any:
        return self.admin.UserScramCredentialDeletion(
            user, mechanism or self.admin.ScramMechanism.SCRAM_SHA_256
        )


class Kind(NamedTuple):
    """A call of AdminClient: its good items, and its options."""

    item: Callable[[Tool], Any] | None
    options: tuple[str, ...]
    before: tuple[Callable[[Tool], Any], ...] = ()
    """Arguments before the list."""
    given: Callable[[Any], Any] = lambda items: items
    """Makes the argument from a list."""


TIMES = ("request_timeout", "operation_timeout")
KINDS = {
    "create_topics": Kind(lambda t: t.topic(1, 1), ("validate_only", *TIMES)),
    "delete_topics": Kind(lambda t: t.name, TIMES),
    "create_partitions": Kind(
        lambda t: t.admin.NewPartitions(NOWHERE, 5), ("validate_only", *TIMES)
    ),
    "describe_configs": Kind(lambda t: t.resource(), ("request_timeout", "broker")),
    "alter_configs": Kind(lambda t: t.resource(), ("validate_only", "request_timeout", "broker")),
    "incremental_alter_configs": Kind(
        lambda t: t.changed(t.entry()), ("validate_only", "request_timeout", "broker")
    ),
    "create_acls": Kind(lambda t: t.acl(), ("request_timeout",)),
    "describe_acls": Kind(None, ("request_timeout",), (lambda t: t.acls(),)),
    "delete_acls": Kind(lambda t: t.acls(), ("request_timeout",)),
    "list_consumer_groups": Kind(None, ("states", "types", "request_timeout")),
    "describe_consumer_groups": Kind(
        lambda t: NOWHERE, ("include_authorized_operations", "request_timeout")
    ),
    "describe_topics": Kind(lambda t: TOPIC, ("include_authorized_operations", "request_timeout")),
    "describe_cluster": Kind(None, ("include_authorized_operations", "request_timeout")),
    "delete_consumer_groups": Kind(lambda t: NOWHERE, ("request_timeout",)),
    "list_consumer_group_offsets": Kind(
        lambda t: t.group(GROUP), ("require_stable", "request_timeout")
    ),
    "alter_consumer_group_offsets": Kind(
        lambda t: t.group(GROUP, [t.at(TOPIC, 0, 5)]), ("request_timeout",)
    ),
    "describe_user_scram_credentials": Kind(lambda t: "odd-user", ("request_timeout",)),
    "alter_user_scram_credentials": Kind(lambda t: t.upsertion(), ("request_timeout",)),
    "list_offsets": Kind(None, ("isolation_level", "request_timeout")),
    "delete_records": Kind(lambda t: t.at(TOPIC, 0, 1), TIMES),
    "elect_leaders": Kind(
        lambda t: t.at(TOPIC, 0), TIMES, (lambda t: t.lib.ElectionType.PREFERRED,)
    ),
    "list_topics": Kind(None, ("topic", "timeout")),
    "list_groups": Kind(None, ("group", "timeout")),
    "cluster_id": Kind(None, ("timeout",)),
    "set_sasl_credentials": Kind(None, (), (lambda t: "user", lambda t: "password")),
    "poll": Kind(None, ("timeout",)),
}
"""The public calls."""

GOOD = {
    "list_offsets": lambda t: {t.at(TOPIC, 0): t.admin.OffsetSpec.latest()},
    "poll": lambda t: 0,
}

LISTS: dict[str, Callable[[Tool, Any], Any]] = {
    "good": lambda t, item: [item],
    "twice": lambda t, item: [item, item],
    "tuple": lambda t, item: (item,),
    "set": lambda t, item: {item},
    "frozenset": lambda t, item: frozenset({item}),
    "iterator": lambda t, item: iter([item]),
    "generator": lambda t, item: (each for each in [item]),
    "dict": lambda t, item: {item: 1},
    "keys": lambda t, item: {item: 1}.keys(),
    "list subclass": lambda t, item: Items([item]),
    "no list": lambda t, item: item,
    "with None": lambda t, item: [item, None],
    "with an int": lambda t, item: [item, 5],
    "with a list": lambda t, item: [item, []],
    "with text": lambda t, item: [item, "text"],
    "with bytes": lambda t, item: [item, b"bytes"],
    "with Text": lambda t, item: [Text("of-a-class")],
    "with an object": lambda t, item: [item, object()],
    "with a NewTopic": lambda t, item: [t.topic(1, 1)],
    "with a partition": lambda t, item: [t.at(TOPIC, 0)],
    "with a Spoken": lambda t, item: [Spoken()],
    "with a Mute": lambda t, item: [Mute()],
    "None": lambda t, item: None,
    "empty": lambda t, item: [],
    "empty tuple": lambda t, item: (),
    "empty text": lambda t, item: "",
    "text": lambda t, item: "abc",
    "bytes": lambda t, item: b"abc",
    "int": lambda t, item: 1,
    "zero": lambda t, item: 0,
    "float": lambda t, item: 0.5,
    "True": lambda t, item: True,
    "empty dict": lambda t, item: {},
    "a list of ''": lambda t, item: [""],
    "a list of None": lambda t, item: [None],
    "a long name": lambda t, item: ["x" * 40000],
    "a NUL": lambda t, item: ["a\0b"],
    "a surrogate": lambda t, item: ["\ud800"],
    "class": lambda t, item: list,
    "object": lambda t, item: object(),
    "type": lambda t, item: type(item),
}

VALUES: dict[str, Callable[[Tool], Any]] = {
    "None": lambda t: None,
    "True": lambda t: True,
    "False": lambda t: False,
    "'false'": lambda t: "false",
    "0": lambda t: 0,
    "1": lambda t: 1,
    "2": lambda t: 2,
    "-1": lambda t: -1,
    "-2": lambda t: -2,
    "-0.5": lambda t: -0.5,
    "-0.0005": lambda t: -0.0005,
    "0.0": lambda t: 0.0,
    "0.0005": lambda t: 0.0005,
    "3600": lambda t: 3600,
    "3600.5": lambda t: 3600.5,
    "3601": lambda t: 3601,
    "-12345": lambda t: -12345,
    "-12345.5": lambda t: -12345.5,
    "10**9": lambda t: 10**9,
    "2**31": lambda t: 2**31,
    "10**30": lambda t: 10**30,
    "1e300": lambda t: 1e300,
    "nan": lambda t: float("nan"),
    "inf": lambda t: float("inf"),
    "-inf": lambda t: float("-inf"),
    "'5'": lambda t: "5",
    "b'5'": lambda t: b"5",
    "Decimal": lambda t: decimal.Decimal("1.5"),
    "complex": lambda t: 1j,
    "Number": lambda t: Number(1),
    "Indexed": lambda t: Indexed(),
    "Floating": lambda t: Floating(),
    "list": lambda t: [],
    "[5]": lambda t: [5],
    "tuple": lambda t: (1,),
    "set": lambda t: set(),
    "{None}": lambda t: {None},
    "frozenset": lambda t: frozenset(),
    "{STABLE}": lambda t: {t.lib.ConsumerGroupState.STABLE},
    "{CLASSIC}": lambda t: {t.lib.ConsumerGroupType.CLASSIC},
    "{UNKNOWN}": lambda t: {t.lib.ConsumerGroupState.UNKNOWN},
    "{unknown type}": lambda t: {t.lib.ConsumerGroupType.UNKNOWN},
    "READ_COMMITTED": lambda t: t.lib.IsolationLevel.READ_COMMITTED,
    "object": lambda t: object(),
    "topic": lambda t: TOPIC,
    "text": lambda t: Text(TOPIC),
    "empty": lambda t: "",
    "NUL": lambda t: "a\0b",
    "surrogate": lambda t: "\ud800",
}
ENDLESS = {
    *("2", "-1", "-2", "-0.5", "3600", "3600.5", "3601", "-12345", "-12345.5", "10**9", "2**31"),
    *("10**30", "1e300", "nan", "inf", "-inf", "Decimal"),
}
"""The timeouts that poll() would wait for."""
EVERY_OPTION = sorted(
    {name for kind in KINDS.values() for name in kind.options}
    | {"bogus", "future", "timeout", "states_int", "types_int", "isolation_level_value", "topics"}
)


def good(call: str, tool: Tool) -> list[Any]:
    """Return good arguments of a call."""
    kind = KINDS[call]
    if call in GOOD:
        return [GOOD[call](tool)]
    made = [each(tool) for each in kind.before]
    return made if kind.item is None else [*made, collected(call, tool, [kind.item(tool)])]


def collected(call: str, tool: Tool, items: Any) -> Any:
    return tool.lib.TopicCollection(items) if call == "describe_topics" else items


def by_list(call: str, shape: str) -> Call:
    def run(tool: Tool) -> Any:
        kind = KINDS[call]
        assert kind.item is not None
        items = LISTS[shape](tool, kind.item(tool))
        made = [each(tool) for each in kind.before]
        return getattr(tool.client, call)(*made, collected(call, tool, items))

    return run


def by_first(call: str, shape: str) -> Call:
    """Return the call with something in place of its first argument."""

    def run(tool: Tool) -> Any:
        given = good(call, tool)
        odd = LISTS[shape](tool, given[0] if given else None)
        return getattr(tool.client, call)(odd, *given[1:])

    return run


def by_option(call: str, option: str, value: str) -> Call:
    def run(tool: Tool) -> Any:
        given = good(call, tool) if option != "timeout" or call != "poll" else []
        return getattr(tool.client, call)(*given, **{option: VALUES[value](tool)})

    return run


def generated() -> Iterator[tuple[str, Call]]:
    for call, kind in KINDS.items():
        if kind.item is not None:
            for shape in LISTS:
                yield f"{call}({shape})", by_list(call, shape)
        if kind.item is None or kind.before or call == "describe_topics":
            for shape in LISTS:
                yield f"{call}(first: {shape})", by_first(call, shape)
        for option in kind.options:
            for value in VALUES:
                if call != "poll" or value not in ENDLESS:
                    yield f"{call}({option}={value})", by_option(call, option, value)
        for option in EVERY_OPTION:
            if option not in kind.options:
                yield f"{call}({option}=1)", by_option(call, option, "1")
        yield f"{call}() without", lambda t, call=call: getattr(t.client, call)()
        yield (
            f"{call}() too many",
            lambda t, call=call: getattr(t.client, call)(*good(call, t), 1, 1, 1, 1),
        )


class Mine:
    """A namespace of the calls that aren't generated."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}

    def add(self, prefix: str, call: Callable[[Tool, Any], Any], values: dict[str, Any]) -> None:
        for name, value in values.items():
            self.calls[f"{prefix} {name}"] = lambda t, value=value: call(
                t, value(t) if callable(value) and not isinstance(value, type) else value
            )


ANY = {name: value for name, value in VALUES.items() if not name.startswith("{")} | {
    "b'delete'": lambda t: b"delete",
    "Spoken": lambda t: Spoken(),
    "Mute": lambda t: Mute(),
    "dict": lambda t: {},
    "{5: 5}": lambda t: {5: 5},
    "[[1]]": lambda t: [[1]],
    "[[1], [1]]": lambda t: [[1], [1]],
    "[[]]": lambda t: [[]],
    "[(1,)]": lambda t: [(1,)],
    "([1],)": lambda t: ([1],),
    "[[1.5]]": lambda t: [[1.5]],
    "[['1']]": lambda t: [["1"]],
    "[[None]]": lambda t: [[None]],
    "[[True]]": lambda t: [[True]],
    "[[-1]]": lambda t: [[-1]],
    "[[2**31]]": lambda t: [[2**31]],
    "[[10**30]]": lambda t: [[10**30]],
    "[[1, 1]]": lambda t: [[1, 1]],
    "[[Number]]": lambda t: [[Number(1)]],
    "Items": lambda t: Items([[1]]),
    "ItemsIn": lambda t: [Items([1])],
    "uuid": lambda t: uuid.UUID(int=5),
}
MINE = Mine()


def _create(t: Tool, *args: Any, **kwargs: Any) -> Any:
    return t.client.create_topics([t.topic(*args, **kwargs)])


def _grow(t: Tool, *args: Any) -> Any:
    return t.client.create_partitions([t.admin.NewPartitions(*args)], validate_only=True)


MINE.add(
    "NewTopic.topic",
    lambda t, v: t.client.create_topics([t.admin.NewTopic(v, 1, 1)], validate_only=True),
    ANY,
)
MINE.add("NewTopic.num_partitions", lambda t, v: _create(t, v, 1), ANY)
MINE.add("NewTopic.replication_factor", lambda t, v: _create(t, 1, v), ANY)
MINE.add("NewTopic.replica_assignment", lambda t, v: _create(t, 1, replica_assignment=v), ANY)
MINE.add("NewTopic.replica_assignment, -1", lambda t, v: _create(t, replica_assignment=v), ANY)
MINE.add("NewTopic.replica_assignment, 1, 1", lambda t, v: _create(t, 1, 1, v), ANY)
MINE.add("NewTopic.config", lambda t, v: _create(t, 1, 1, config=v), ANY)
MINE.add("NewTopic.config value", lambda t, v: _create(t, 1, 1, config={"retention.ms": v}), ANY)
MINE.add(
    "NewTopic.config key",
    lambda t, v: _create(t, 1, 1, config={v: "1"}),
    {
        n: v
        for n, v in ANY.items()
        if n not in ("list", "[5]", "set", "dict", "{5: 5}")
        and not n.startswith("[")
        and n != "Items"
    },
)
MINE.add("NewPartitions.topic", lambda t, v: _grow(t, v, 5), ANY)
MINE.add("NewPartitions.new_total_count", lambda t, v: _grow(t, TOPIC, v), ANY)
MINE.add("NewPartitions.replica_assignment", lambda t, v: _grow(t, TOPIC, 3, v), ANY)


def _set(t: Tool, made: Any, name: str, value: Any) -> Any:
    setattr(made, name, value)
    return made


for _name in ("num_partitions", "replication_factor", "replica_assignment", "config", "topic"):
    MINE.add(
        f"NewTopic set {_name}",
        lambda t, v, name=_name: t.client.create_topics([_set(t, t.topic(1, 1), name, v)]),
        ANY,
    )
for _name in ("new_total_count", "replica_assignment", "topic"):
    MINE.add(
        f"NewPartitions set {_name}",
        lambda t, v, name=_name: t.client.create_partitions(
            [_set(t, t.admin.NewPartitions(TOPIC, 3), name, v)], validate_only=True
        ),
        ANY,
    )
MINE.add(
    "ConfigResource.restype",
    lambda t, v: t.client.describe_configs([t.resource(v, TOPIC)]),
    ANY
    | {
        "topic": "topic",
        "Broker": "Broker",
        "any": "any",
        "unknown": "unknown",
        "transactional_id": "transactional_id",
    },
)
MINE.add(
    "ConfigResource.name", lambda t, v: t.client.describe_configs([t.resource("topic", v)]), ANY
)
MINE.add(
    "ConfigResource broker",
    lambda t, v: t.client.describe_configs([t.resource("broker", v)], request_timeout=1),
    ANY,
)
MINE.add(
    "ConfigResource.set_config",
    lambda t, v: t.client.alter_configs([t.resource("topic", TOPIC, v)]),
    ANY,
)
MINE.add(
    "ConfigResource.set_config value",
    lambda t, v: t.client.alter_configs([t.resource("topic", TOPIC, {"retention.ms": v})]),
    ANY,
)
MINE.add(
    "ConfigResource.set_config() value",
    lambda t, v: (lambda r: (r.set_config("retention.ms", v), t.client.alter_configs([r]))[1])(
        t.resource()
    ),
    ANY,
)
MINE.add(
    "ConfigResource.described_configs",
    lambda t, v: t.resource("topic", TOPIC, described_configs=v).configs is not None,
    ANY,
)
MINE.add(
    "ConfigResource.error",
    lambda t, v: t.client.describe_configs([t.resource("topic", TOPIC, error=v)]),
    ANY,
)
MINE.add(
    "ConfigResource.incremental_configs",
    lambda t, v: t.client.incremental_alter_configs(
        [t.resource("topic", TOPIC, incremental_configs=v)]
    ),
    ANY,
)
MINE.add(
    "ConfigResource set set_config_dict",
    lambda t, v: t.client.alter_configs([_set(t, t.resource(), "set_config_dict", v)]),
    ANY,
)
MINE.add(
    "ConfigResource set incremental_configs",
    lambda t, v: t.client.incremental_alter_configs(
        [_set(t, t.resource(), "incremental_configs", v)]
    ),
    ANY,
)
MINE.add(
    "ConfigResource set name",
    lambda t, v: t.client.describe_configs([_set(t, t.resource(), "name", v)]),
    ANY,
)
MINE.add(
    "ConfigResource set restype_int",
    lambda t, v: t.client.describe_configs([_set(t, t.resource(), "restype_int", v)]),
    ANY,
)
MINE.add(
    "ConfigEntry.name",
    lambda t, v: t.client.incremental_alter_configs([t.changed(t.entry(v))]),
    ANY,
)
MINE.add(
    "ConfigEntry.value",
    lambda t, v: t.client.incremental_alter_configs([t.changed(t.entry(value=v))]),
    ANY,
)
MINE.add(
    "ConfigEntry.value DELETE",
    lambda t, v: t.client.incremental_alter_configs([t.changed(t.entry(value=v, by="DELETE"))]),
    ANY,
)
MINE.add(
    "ConfigEntry.incremental_operation",
    lambda t, v: t.client.incremental_alter_configs(
        [t.changed(t.admin.ConfigEntry("retention.ms", "5", incremental_operation=v))]
    ),
    ANY,
)
for _name in (
    "restype",
    "name",
    "resource_pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
):
    MINE.add(
        f"AclBinding.{_name}",
        lambda t, v, name=_name: t.client.create_acls([t.acl(**{name: v})]),
        {name: value for name, value in ANY.items() if name not in ("topic", "text")},
    )
    MINE.add(
        f"AclBindingFilter.{_name}",
        lambda t, v, name=_name: t.client.describe_acls(t.acls(**{name: v})),
        ANY,
    )
MINE.add("group id", lambda t, v: t.client.list_consumer_group_offsets([t.group(v)]), ANY)
MINE.add(
    "group partitions", lambda t, v: t.client.list_consumer_group_offsets([t.group(GROUP, v)]), ANY
)
MINE.add(
    "group partition", lambda t, v: t.client.list_consumer_group_offsets([t.group(GROUP, [v])]), ANY
)
MINE.add(
    "altered id",
    lambda t, v: t.client.alter_consumer_group_offsets([t.group(v, [t.at(TOPIC, 0, 1)])]),
    ANY,
)
MINE.add(
    "altered partitions",
    lambda t, v: t.client.alter_consumer_group_offsets([t.group(GROUP, v)]),
    ANY,
)
MINE.add(
    "altered partition",
    lambda t, v: t.client.alter_consumer_group_offsets([t.group(GROUP, [v])]),
    ANY,
)
for _name in ("user", "password", "salt", "mechanism", "scram_credential_info"):
    MINE.add(
        f"upsertion {_name}",
        lambda t, v, name=_name: t.client.alter_user_scram_credentials([t.upsertion(**{name: v})]),
        ANY,
    )
MINE.add("deletion user", lambda t, v: t.client.alter_user_scram_credentials([t.deletion(v)]), ANY)
MINE.add(
    "deletion mechanism",
    lambda t, v: t.client.alter_user_scram_credentials([t.deletion("u", v)]),
    ANY,
)
MINE.add("list_offsets spec", lambda t, v: t.client.list_offsets({t.at(TOPIC, 0): v}), ANY)
MINE.add(
    "OffsetSpec", lambda t, v: t.client.list_offsets({t.at(TOPIC, 0): t.admin.OffsetSpec(v)}), ANY
)
MINE.add(
    "for_timestamp",
    lambda t, v: t.client.list_offsets({t.at(TOPIC, 0): t.admin.OffsetSpec.for_timestamp(v)}),
    ANY,
)
MINE.add("TopicCollection", lambda t, v: t.client.describe_topics(t.lib.TopicCollection(v)), ANY)
MINE.add(
    "elect_leaders type",
    lambda t, v: t.client.elect_leaders(v, [t.at(TOPIC, 0)]),
    ANY | {"UNCLEAN": lambda t: t.lib.ElectionType.UNCLEAN},
)
MINE.add(
    "partition",
    lambda t, v: t.client.delete_records([v]),
    {
        "-1": lambda t: t.at(TOPIC, -1),
        "-5": lambda t: t.at(TOPIC, -5),
        "none": lambda t: t.at(TOPIC),
        "no topic": lambda t: t.at("", 0, 0),
        "offset -1": lambda t: t.at(TOPIC, 0, -1),
        "offset -2": lambda t: t.at(TOPIC, 0, -2),
        "offset -5": lambda t: t.at(TOPIC, 0, -5),
        "far": lambda t: t.at(TOPIC, 0, 10**9),
        "nowhere": lambda t: t.at(NOWHERE, 0, 0),
        "partition 9": lambda t: t.at(TOPIC, 9, 0),
        "invalid": lambda t: t.at(TOPIC, 0),
    },
)
MINE.add(
    "election of",
    lambda t, v: t.client.elect_leaders(t.lib.ElectionType.PREFERRED, v),
    {
        "-1": lambda t: [t.at(TOPIC, -1)],
        "no topic": lambda t: [t.at("", 0)],
        "9": lambda t: [t.at(TOPIC, 9)],
        "none": lambda t: [],
        "twice": lambda t: [t.at(TOPIC, 0), t.at(TOPIC, 0)],
        "nowhere": lambda t: [t.at(NOWHERE, 0)],
    },
)
MINE.add(
    "offsets of",
    lambda t, v: t.client.list_offsets({v: t.admin.OffsetSpec.latest()}),
    {
        "-1": lambda t: t.at(TOPIC, -1),
        "no topic": lambda t: t.at("", 0),
        "9": lambda t: t.at(TOPIC, 9),
        "nowhere": lambda t: t.at(NOWHERE, 0),
        "None": lambda t: None,
        "int": lambda t: 5,
        "an offset": lambda t: t.at(TOPIC, 0, 5),
    },
)
MINE.calls |= {
    "iterations 0": lambda t: t.client.alter_user_scram_credentials([t.upsertion(iterations=0)]),
    "iterations None": lambda t: t.client.alter_user_scram_credentials(
        [t.upsertion(iterations=None)]
    ),
    "iterations text": lambda t: t.client.alter_user_scram_credentials(
        [t.upsertion(iterations="5")]
    ),
    "several brokers": lambda t: t.client.describe_configs(
        [t.resource("broker", "1"), t.resource("broker", "2")]
    ),
    "missing broker": lambda t: t.client.describe_configs([t.resource("broker", "99")]),
    "broker=99": lambda t: t.client.describe_configs([t.resource()], broker=99),
    "broker=2": lambda t: t.client.describe_configs([t.resource()], broker=2),
    "broker of a broker": lambda t: t.client.describe_configs(
        [t.resource("broker", "1")], broker=2
    ),
    "alter several brokers": lambda t: t.client.alter_configs(
        [t.resource("broker", "1"), t.resource("broker", "2")]
    ),
    "change several brokers": lambda t: t.client.incremental_alter_configs(
        [
            t.resource("broker", b, incremental_configs=[t.entry("log.cleaner.threads", "1")])
            for b in "12"
        ]
    ),
    "a broker and a topic": lambda t: t.client.describe_configs(
        [t.resource("broker", "1"), t.resource()]
    ),
    "topics twice": lambda t: t.client.create_topics([t.topic(1, 1), t.topic(1, 1)]),
    "topics twice and one": lambda t: t.client.create_topics(
        [t.topic(1, 1), t.topic(1, 1), t.admin.NewTopic(t.name + "x", 1, 1)]
    ),
    "deleted twice and one": lambda t: t.client.delete_topics([NOWHERE, NOWHERE, "odd-2"]),
    "grown twice and one": lambda t: t.client.create_partitions(
        [
            t.admin.NewPartitions(NOWHERE, 5),
            t.admin.NewPartitions(NOWHERE, 5),
            t.admin.NewPartitions("odd-2", 5),
        ]
    ),
    "described twice and one": lambda t: t.client.describe_topics(
        t.lib.TopicCollection([TOPIC, TOPIC, NOWHERE])
    ),
    "groups described twice": lambda t: t.client.describe_consumer_groups(
        [NOWHERE, NOWHERE, GROUP]
    ),
    "groups deleted twice": lambda t: t.client.delete_consumer_groups([NOWHERE, NOWHERE, "odd-2"]),
    "configs twice and one": lambda t: t.client.describe_configs(
        [t.resource(), t.resource(), t.resource("topic", NOWHERE)]
    ),
    "changed twice": lambda t: t.client.incremental_alter_configs(
        [t.changed(t.entry()), t.changed(t.entry())]
    ),
    "replaced twice": lambda t: t.client.alter_configs([t.resource(), t.resource()]),
    "one entry twice": lambda t: t.client.incremental_alter_configs(
        [t.changed(t.entry(), t.entry())]
    ),
    "records twice": lambda t: t.client.delete_records(
        [t.at(TOPIC, 0, 1), t.at(TOPIC, 0, 1), t.at(TOPIC, 1, 0)]
    ),
    "records twice, other offset": lambda t: t.client.delete_records(
        [t.at(TOPIC, 0, 1), t.at(TOPIC, 0, 0)]
    ),
    "users twice": lambda t: t.client.describe_user_scram_credentials(["u", "u", "v"]),
    "users changed twice": lambda t: t.client.alter_user_scram_credentials(
        [t.upsertion(), t.upsertion()]
    ),
    "users changed twice, other": lambda t: t.client.alter_user_scram_credentials(
        [t.upsertion(), t.deletion()]
    ),
    "partitions altered twice": lambda t: t.client.alter_consumer_group_offsets(
        [t.group(GROUP, [t.at(TOPIC, 0, 1)] * 2)]
    ),
    "partitions listed twice": lambda t: t.client.list_consumer_group_offsets(
        [t.group(GROUP, [t.at(TOPIC, 0)] * 2)]
    ),
    "acl as filter": lambda t: t.client.describe_acls(t.acl()),
    "filter as acl": lambda t: t.client.create_acls([t.acls()]),
    "acl as filter to delete": lambda t: t.client.delete_acls([t.acl()]),
    "NewTopic == 1": lambda t: t.topic(1) == 1,
    "NewTopic != 1": lambda t: t.topic(1) != 1,
    "NewTopic < 1": lambda t: t.topic(1) < 1,
    "NewTopic == subclass": lambda t: (
        t.topic(1) == type("Other", (t.admin.NewTopic,), {})(t.name, 1)
    ),
    "NewTopic in list": lambda t: 1 in [t.topic(1)],
    "NewTopic == NewTopic": lambda t: (
        t.topic(1) == t.topic(1),
        t.topic(1) == t.topic(2),
        t.topic(1) < t.topic(2),
        t.topic(3) >= t.topic(2),
    ),
    "NewPartitions == None": lambda t: t.admin.NewPartitions("a", 1) == None,  # noqa: E711
    "NewPartitions == NewTopic": lambda t: t.admin.NewPartitions("a", 1) == t.topic(1),
    "NewTopic str": lambda t: [
        str(t.admin.NewTopic("a", 2)),
        repr(t.admin.NewTopic("a")),
        str(t.admin.NewPartitions("a", 3)),
    ],
    "NewTopic hash": lambda t: [
        hash(t.admin.NewTopic("a", 2)) == hash("a") ^ 2,
        hash(t.admin.NewTopic("a")) == hash("a"),
        hash(t.admin.NewPartitions("a", 3)) == hash("a") ^ 3,
    ],
    "NewTopic fields": lambda t: [
        getattr(t.topic(1), n)
        for n in ("num_partitions", "replication_factor", "replica_assignment", "config")
    ],
    "NewTopic attribute": lambda t: setattr(t.topic(1), "more", 1),
    "NewTopic subclass": lambda t: t.client.create_topics(
        [type("Mine", (t.admin.NewTopic,), {})(t.name, 1, 1)]
    ),
    "NewTopic delete attribute": lambda t: (lambda n: (delattr(n, "config"), n.config))(t.topic(1)),
    "NewTopic None assignment": lambda t: t.client.create_topics([t.topic(1, 1, None)]),
    "len": lambda t: len(t.client),
    "bool": lambda t: bool(t.client),
    "hash": lambda t: isinstance(hash(t.client), int),
    "init again": lambda t: t.client.__init__({"bootstrap.servers": NOBODY}),
    "enter": lambda t: t.client.__enter__() is t.client,
    "exit too few": lambda t: t.client.__exit__(),
    "conf None": lambda t: t.admin.AdminClient(None),
    "conf missing": lambda t: t.admin.AdminClient(),
    "conf list": lambda t: t.admin.AdminClient([]),
    "conf pairs": lambda t: t.admin.AdminClient([("bootstrap.servers", NOBODY)]),
    "conf {}": lambda t: t.admin.AdminClient({}) and 1,
    "conf unknown": lambda t: t.admin.AdminClient({"bogus": 1}),
    "conf int key": lambda t: t.admin.AdminClient({1: 1}),
    "conf group.id": lambda t: (
        t.admin.AdminClient({"group.id": "x", "auto.offset.reset": "latest"}) and 1
    ),
    "conf keyword": lambda t: t.admin.AdminClient({}, bogus=1),
    "conf keyword logger": lambda t: t.admin.AdminClient({}, logger=None) and 1,
    "conf twice": lambda t: t.admin.AdminClient({}, {}),
    "conf error_cb": lambda t: t.admin.AdminClient({"error_cb": 5}),
    "conf stats_cb": lambda t: t.admin.AdminClient({"stats_cb": "x"}),
    "conf on_delivery": lambda t: t.admin.AdminClient({"on_delivery": print}) and 1,
    "conf dr_cb": lambda t: t.admin.AdminClient({"dr_cb": 5}),
    "conf acks": lambda t: t.admin.AdminClient({"acks": 7000}),
    "impl": lambda t: [
        t.lib.cimpl._AdminClientImpl in t.admin.AdminClient.__mro__,
        t.admin.AdminClient is t.lib.cimpl._AdminClientImpl,
    ],
    "no impl topics": lambda t: (
        lambda f: (t.lib.cimpl._AdminClientImpl.delete_topics(t.client, [NOWHERE], f), f)[1]
    )(t.admin.AdminClient._create_future()),
    "public": lambda t: sorted(
        n for n in dir(t.lib.cimpl._AdminClientImpl) if not n.startswith("_") and n in KINDS
    ),
}
CALLS: dict[str, Call] = dict(generated()) | MINE.calls


# --- states ---


class Unmade:
    """Makes a client whose ``__init__`` was never called."""

    def __new__(cls, admin: Any) -> Any:
        return type("Unmade", (admin.AdminClient,), {"__init__": lambda self: None})()


def client_in(state: str, lib: Any, servers: str) -> Any:
    admin = importlib.import_module(f"{lib.__name__}.admin")
    if state == "never initialised":
        return Unmade(admin)
    where = NOBODY if state == "unreachable" else servers
    made = admin.AdminClient(
        {"bootstrap.servers": where, "socket.timeout.ms": TIMEOUT_MS, "log_level": 0}
    )
    if state == "closed":
        made.__exit__(None, None, None)
    return made


def in_states() -> Iterator[tuple[str, str, Call]]:
    """Yield state, name and call."""
    for name, call in CALLS.items():
        yield "open", name, call
    for state in ("closed", "never initialised"):
        for call in KINDS:
            yield (
                state,
                f"{call} good",
                lambda t, call=call: getattr(t.client, call)(*good(call, t)),
            )
            yield state, f"{call} None", lambda t, call=call: getattr(t.client, call)(None)
            yield state, f"{call} nothing", lambda t, call=call: getattr(t.client, call)()
            if KINDS[call].item is not None:
                yield state, f"{call} [None]", by_list(call, "a list of None")
            for option in KINDS[call].options:
                yield state, f"{call} {option}='x'", by_option(call, option, "'5'")
                yield state, f"{call} {option}=-5", by_option(call, option, "-2")
        for name in ("len", "bool", "enter", "exit too few"):
            yield state, name, CALLS[name]
        yield state, "exit", lambda t: t.client.__exit__(None, None, None)
        yield state, "with", _with
        yield state, "init", lambda t: t.client.__init__({"bootstrap.servers": NOBODY})
    for call in KINDS:
        if call in ("set_sasl_credentials", "poll"):
            continue
        option = "timeout" if "timeout" in KINDS[call].options else "request_timeout"
        for value in ("0", "0.0005", "1"):
            yield "unreachable", f"{call} {option}={value}", by_option(call, option, value)


def _with(t: Tool) -> Any:
    with t.client as client:
        return client is t.client


# --- outcomes ---


def plain(value: Any, deadline: float) -> Any:
    """Return a value as JSON has it, without what varies."""
    kind = type(value).__name__
    if isinstance(value, Future):
        try:
            return plain(value.result(max(0, deadline - time.monotonic())), deadline)
        except TimeoutError:
            if not value.done():
                return "never"
            return failure(value.exception())
        except BaseException as error:
            return failure(error)
    if isinstance(value, dict):
        return {key_text(key): plain(each, deadline) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, deadline) for each in value]
    if isinstance(value, Enum):
        return f"{kind}.{value.name}"
    if kind == "KafkaError":
        return ["error", value.name(), value.fatal(), value.retriable(), value.txn_requires_abort()]
    if isinstance(value, bool | int | float | str | None):
        return cleaned(value) if isinstance(value, str) else value
    if kind == "TopicPartition":
        return [cleaned(value.topic), value.partition, value.offset, plain(value.error, deadline)]
    return kind


def failure(error: BaseException) -> list[Any]:
    cause = error.args[0] if error.args else None
    if type(cause).__name__ == "KafkaError":
        return [type(error).__name__, *plain(cause, 0)[1:]]
    return [type(error).__name__]


def cleaned(text: str) -> str:
    return re.sub(r"odd-[0-9a-f]{12}|^[\w-]{22}$", "NEW", text)


def key_text(key: Any) -> str:
    kind = type(key).__name__
    try:
        if kind == "TopicPartition":
            return str([key.topic, key.partition])
        return f"{kind} {cleaned(str(key))[:60]}" if isinstance(key, str | int | None) else kind
    except Exception:
        return kind


def outcome(call: Call, tool: Tool) -> dict[str, Any]:
    begin = time.monotonic()
    text = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        try:
            returned: Any = call(tool)
        except BaseException as error:
            result: Any = {"raises": failure(error)}
            text = str(error)[:150] if not isinstance(error, LookupError) else ""
        else:
            called_s = time.monotonic() - begin
            result = {"returns": plain(returned, begin + NEVER_S), "call": time_class(called_s)}
    return {
        **result,
        "warnings": sorted({each.category.__name__ for each in caught}),
        "time": time_class(time.monotonic() - begin),
        "text": cleaned(text),
    }


def time_class(elapsed_s: float) -> str:
    if elapsed_s < AT_ONCE_S:
        return "at once"
    return "short" if elapsed_s < WAITS_S else "timeout" if elapsed_s < 0.95 * NEVER_S else "never"


def main(library: str, servers: str, first: str = "0", step: str = "1", pattern: str = "") -> None:
    lib = LIBRARIES[library]
    importlib.import_module(f"{lib.__name__}.admin")
    clients: dict[str, Any] = {}
    for number, (state, name, call) in enumerate(in_states()):
        if number < int(first) or number % int(step) or not re.search(pattern, f"{state}: {name}"):
            continue
        print(json.dumps([number, f"{state}: {name}"]), flush=True)
        if state not in clients or "exit" in name or "with" in name or "init" in name:
            clients[state] = client_in(state, lib, servers)
        found = outcome(call, Tool(lib, clients[state]))
        if "never" in json.dumps(found):
            clients.pop(state)
        print(json.dumps([number, f"{state}: {name}", found]), flush=True)
    print(json.dumps("done"), flush=True)
    os._exit(0)  # open clients are of no interest


if __name__ == "__main__":
    main(*sys.argv[1:])
