"""What is cached, how much of it, and who sends the request."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native.schema_registry import (
    AsyncSchemaRegistryClient,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
    forks,
    transports,
)
from kafka_native.schema_registry.caches import LruCache
from kafka_native.schema_registry.config import parse
from tests.registry.client.conftest import NO_WAIT, Caller
from tests.registry.client.server import Answer, Cut, Request, Server
from tests.waiting import WAIT_S, wait_for

GUID = "0b3a4e24-8c1c-4b26-9a94-1cbb9f2d8a11"
REGISTERED = {"schema": '"int"', "id": 7, "guid": GUID, "subject": "s", "version": 2}
SCHEMA = Schema('"int"')
Connect = Callable[..., Caller]


def paths(server: Server) -> list[str]:
    return [f"{each.method} {each.path}" for each in server.requests]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("get_schema", (7,)),
        ("get_schema", (7, "s")),
        ("get_schema_by_guid", (GUID,)),
        ("register_schema", ("s", SCHEMA)),
        ("register_schema_full_response", ("s", SCHEMA)),
        ("lookup_schema", ("s", SCHEMA)),
        ("get_latest_version", ("s",)),
        ("get_latest_with_metadata", ("s", {"a": "b"})),
        ("get_version", ("s", 2)),
    ],
)
def test_a_result_is_cached(
    server: Server, connect: Connect, name: str, args: tuple[Any, ...]
) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    first = caller(name, *args)
    assert caller(name, *args) == first
    assert len(server.requests) == 1
    caller("clear_caches")
    caller(name, *args)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("get_version", ("s", "latest")),
        ("get_version", ("s", -1)),  # another name of the latest version
        ("get_subjects", ()),
        ("get_versions", ("s",)),
        ("get_config", ()),
    ],
)
def test_what_changes_is_not_cached(
    server: Server, connect: Connect, name: str, args: tuple[Any, ...]
) -> None:
    bodies = {"get_subjects": [], "get_versions": [], "get_config": {}}
    server.answer(Answer(body=bodies.get(name, REGISTERED)))
    caller = connect()
    caller(name, *args)
    caller(name, *args)
    assert len(server.requests) == 2


def test_a_cached_schema_needs_no_step(server: Server, connect: Connect) -> None:
    """A deserializer asks for each message, so a hit builds no request and takes no step."""
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    caller("get_schema", 7)
    call = caller.client._calls.get_schema(7, None, None, None)
    with pytest.raises(StopIteration) as caught:
        next(call)
    assert caught.value.value == SCHEMA


def test_an_error_is_not_cached(server: Server, connect: Connect) -> None:
    missing = Answer(404, {"error_code": 40403, "message": "missing"})
    server.answer(missing, Answer(body=REGISTERED))
    caller = connect()
    with pytest.raises(SchemaRegistryError):
        caller("get_schema", 7)
    assert caller("get_schema", 7) == SCHEMA


def test_one_answer_serves_related_calls(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    assert caller("lookup_schema", "s", SCHEMA).version == 2
    assert caller("register_schema", "s", SCHEMA) == 7
    assert caller("get_schema", 7, "s") == SCHEMA
    assert caller("get_schema_by_guid", GUID) == SCHEMA
    assert paths(server) == ["POST /subjects/s"]


def test_a_lookup_keeps_the_rules_of_the_registered_schema(
    server: Server, connect: Connect
) -> None:
    """A registry finds a schema with rules by its text alone."""
    rule = {"name": "r", "kind": "CONDITION", "mode": "READ", "type": "CEL", "expr": "false"}
    server.answer(Answer(body={**REGISTERED, "ruleSet": {"domainRules": [rule]}}))
    caller = connect()
    assert caller("lookup_schema", "s", SCHEMA).schema == SCHEMA
    for found in (caller("get_schema", 7, "s"), caller("get_schema_by_guid", GUID)):
        assert [each.name for each in found.rule_set.domain_rules] == ["r"]
    assert len(server.requests) == 1


def test_a_deleted_schema_that_was_looked_up_is_registered_again(
    server: Server, connect: Connect
) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    caller("lookup_schema", "s", SCHEMA, deleted=True)
    caller("register_schema", "s", SCHEMA)
    assert paths(server) == ["POST /subjects/s", "POST /subjects/s/versions"]


@pytest.mark.parametrize("fmt", ["serialized", None])
def test_a_format_has_its_own_entry(server: Server, connect: Connect, fmt: str | None) -> None:
    other = None if fmt else "serialized"
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    for each in (fmt, other, fmt, other):
        caller("get_schema", 7, None, each)
        caller("get_latest_version", "s", each)
    assert len(server.requests) == 4


def test_registering_forgets_the_latest_version(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    caller("get_latest_version", "s")
    caller("get_latest_version", "t")
    caller("register_schema", "s", Schema('"long"'))
    caller("get_latest_version", "s")
    caller("get_latest_version", "t")
    assert len(server.requests) == 4


@pytest.mark.parametrize("name", ["delete_subject", "delete_version"])
def test_deleting_forgets_the_subject(server: Server, connect: Connect, name: str) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("register_schema", ("s", SCHEMA)),
        ("lookup_schema", ("s", SCHEMA)),
        ("get_version", ("s", 2)),
        ("get_latest_version", ("s",)),
        ("get_latest_with_metadata", ("s", {})),
    ]
    for call, args in calls:
        caller(call, *args)
    before = len(server.requests)
    server.answer(Answer(body=[2] if name == "delete_subject" else 2), Answer(body=REGISTERED))
    caller(name, *(("s",) if name == "delete_subject" else ("s", 2)))
    # The lookup comes first, as it serves a registration as well.
    for call, args in calls:
        caller(call, *args)
    assert len(server.requests) == before + 1


def test_a_deletion_while_a_version_is_fetched(server: Server, connect: Connect) -> None:
    """An answer from before a deletion isn't stored after it."""
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    server.on_request = lambda request: caller.client._calls._forget("s")  # type: ignore[union-attr]
    caller("get_latest_version", "s")
    server.on_request = lambda request: None
    caller("get_latest_version", "s")
    assert len(server.requests) == 2


def test_a_latest_version_from_before_a_registration_is_not_kept(server: Server) -> None:
    """The answer arrives after the registration. No later caller gets it."""
    new = {**REGISTERED, "schema": '"long"', "id": 8, "version": 3}
    server.answer(Answer(body=REGISTERED), Answer(body={"id": 8}), Answer(body=new))
    during: list[int | None] = []

    with SchemaRegistryClient({"url": server.url, **NO_WAIT}) as client:

        def ask() -> None:
            during.append(client.get_latest_version("s").version)

        asker = threading.Thread(target=ask)

        def register(request: Request) -> None:
            if request.method == "GET" and len(server.requests) == 1:
                client.register_schema("s", Schema('"long"'))
                asker.start()
                asker.join(1)  # it doesn't wait for this answer

        server.on_request = register
        client.get_latest_version("s")
        asker.join(WAIT_S)
        assert during == [3]
        assert client.get_latest_version("s").version == 3


def test_a_registration_without_an_answer_forgets_the_latest_version(
    server: Server, connect: Connect
) -> None:
    """It may have taken effect."""
    server.answer(Answer(body=REGISTERED))
    caller = connect({"max.retries": 0})
    caller("get_latest_version", "s")
    server.answer(Cut(), Answer(body=REGISTERED))
    with pytest.raises(SchemaRegistryError):
        caller("register_schema", "s", Schema('"long"'))
    caller("get_latest_version", "s")
    assert paths(server) == ["POST /subjects/s/versions", "GET /subjects/s/versions/latest"]


def test_the_capacity_is_a_limit(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect({"cache.capacity": 2})
    for schema_id in (1, 2, 1, 3, 1, 2):
        caller("get_schema", schema_id)
    assert [int(each.path.rpartition("/")[2]) for each in server.requests] == [1, 2, 3, 2]


def test_a_cache_without_capacity_stores_nothing(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect({"cache.capacity": 0})
    caller("get_schema", 7)
    caller("get_schema", 7)
    assert len(server.requests) == 2


def test_entries_become_too_old() -> None:
    now = [100.0]
    cache: LruCache[str, int] = LruCache(10, ttl_s=5, clock=lambda: now[0])
    cache.put("a", 1)
    now[0] = 104.9
    assert cache.get("a") == 1
    now[0] = 105.0
    assert cache.get("a") is None
    assert len(cache) == 0


def test_the_latest_version_has_a_time_limit(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect({"cache.latest.ttl.sec": 0})
    caller("get_latest_version", "s")
    caller("get_latest_version", "s")
    caller("get_version", "s", 2)
    caller("get_version", "s", 2)
    assert len(server.requests) == 3


class Gate:
    """Holds the server's answers back until the test opens it."""

    def __init__(self, server: Server) -> None:
        self.is_open = threading.Event()
        server.on_request = self._wait

    def _wait(self, request: Request) -> None:
        self.is_open.wait(WAIT_S)


def waiting(caller: Caller) -> int:
    """Return how many requests are in flight."""
    return len(caller.client._calls._shared._futures)


def test_concurrent_misses_make_one_request(server: Server, connect: Connect) -> None:
    gate = Gate(server)
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    opener = threading.Thread(
        target=lambda: (wait_for(lambda: server.requests), gate.is_open.set())
    )
    opener.start()
    found = caller.together(8, "get_schema", 7)
    opener.join()
    assert found == [SCHEMA] * 8
    assert len(server.requests) == 1
    assert waiting(caller) == 0


def test_a_cancelled_task_leaves_the_request_to_the_others(server: Server) -> None:
    gate = Gate(server)
    server.answer(Answer(body=REGISTERED))

    async def main() -> Schema:
        async with AsyncSchemaRegistryClient({"url": server.url, **NO_WAIT}) as client:
            first = asyncio.create_task(client.get_schema(7))
            while not server.requests:
                await asyncio.sleep(0)
            cancelled = asyncio.create_task(client.get_schema(7))
            second = asyncio.create_task(client.get_schema(7))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.sleep(0)
            first.cancel()
            gate.is_open.set()
            found = await second
            for task in (first, cancelled):
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert not client._calls._shared._futures
            return found

    assert asyncio.run(main()) == SCHEMA
    assert len(server.requests) == 2


def test_a_shared_request_fails_for_all(server: Server, connect: Connect) -> None:
    server.answer(Answer(404, {"error_code": 40403, "message": "missing"}))
    caller = connect()
    for _ in range(2):
        with pytest.raises(SchemaRegistryError, match="missing"):
            caller("get_schema", 7)
    assert len(server.requests) == 2
    assert waiting(caller) == 0


def test_a_fork_leaves_incomplete_transports_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(transport: Any) -> None:
        raise OSError("no connections")

    monkeypatch.setattr(transports.SyncTransport, "_open", fail)
    incomplete = transports.SyncTransport.__new__(transports.SyncTransport)
    with pytest.raises(OSError, match="no connections"):
        incomplete.__init__(parse({"url": "http://localhost:1"}))  # type: ignore[misc]
    forks._reset()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_its_own_connections_and_locks(server: Server) -> None:
    """The parent is in the middle of a request while it forks."""
    server.answer(Answer(body=REGISTERED))
    with SchemaRegistryClient({"url": server.url, **NO_WAIT}) as client:
        client.get_schema(1)
        gate = Gate(server)
        thread = threading.Thread(target=client.get_schema, args=(2,))
        thread.start()
        wait_for(lambda: len(server.requests) == 2)
        locks = [each._lock for each in (client._calls._by_id, client._calls._shared)]
        for lock in locks:
            lock.acquire()
        server.on_request = lambda request: None
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.alarm(int(WAIT_S))  # a process that hangs ends
                found = [client.get_schema(schema_id) for schema_id in (1, 2, 3)]
                status = 0 if found == [SCHEMA] * 3 else 2
            finally:
                os._exit(status)
        for lock in locks:
            lock.release()
        _, status = os.waitpid(pid, 0)
        gate.is_open.set()
        thread.join()
        assert os.waitstatus_to_exitcode(status) == 0
        # The child sent its own requests, and the parent's connections still work.
        assert client.get_schema(4) == SCHEMA
    assert len(server.requests) == 5
