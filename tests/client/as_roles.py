"""A pytest plugin that makes every producer and consumer of the tests a role of a shared client.

``pytest -p tests.client.as_roles tests/client``. Roles with the same properties of the connection
share a Client, as long as one of them lives.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import Client, Consumer, Producer, ShareConsumer
from kafka_native.client_core import ClientCore
from kafka_native.config import declared_property
from kafka_native.role_config import belongs_to_host

NEW_ROLE = 0  # stands for a role that is being made; others are addresses
_clients: weakref.WeakValueDictionary[Any, ClientCore] = weakref.WeakValueDictionary()


def _is_of_connection(name: object) -> bool:
    declared = declared_property(str(name))
    return declared is not None and belongs_to_host(declared.alias_of or declared.name)


@contextmanager
def _client_of(conf: Mapping[str, Any]) -> Iterator[ClientCore]:
    """The shared client with these properties. Behind the block it ends with its last role."""
    key = (os.getpid(), repr(sorted(conf.items(), key=str)))
    known = _clients.get(key)
    if known is not None and known.is_host and not known.main.stopping:
        known._living.add(NEW_ROLE)  # the collector may take the other roles meanwhile
        try:
            yield known
        finally:
            known._living.discard(NEW_ROLE)
            known.drop_with_roles()
        return
    client = Client(conf)
    _clients[key] = client._client
    yield client._client


def _as_role(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def init_role(self: Any, config: Any = None, /, **kwargs: Any) -> None:
        if self._host is not None or not isinstance(config, Mapping | None):
            init(self, config, **kwargs)
            return
        conf = {**(config or {}), **kwargs}
        shared = {name: value for name, value in conf.items() if _is_of_connection(name)}
        with _client_of(shared) as self._host:
            try:
                init(self, {name: value for name, value in conf.items() if name not in shared})
            finally:
                del self._host

    return init_role


def pytest_configure() -> None:
    """Replace the constructors."""
    for kind in (Producer, Consumer, ShareConsumer):
        kind.__init__ = _as_role(kind.__init__)  # type: ignore[method-assign]


NOT_OF_ROLES = {
    "test_brokers_add.py": "reads the client's own list of bootstrap servers",
    "test_shared_client.py": "makes its own shared clients",
    "test_telemetry.py": "the Client pushes figures of its own too",
    "test_consumer.py::test_consumers_and_producers_leave_no_threads": "looks for threads at once",
    "test_logging.py": "log lines of connections have the Client's name, and its poll() has them",
    "test_error_cb.py::test_each_change_is": "the Client's connections fail too, with errors",
    "test_error_cb.py::test_changed_cause_is": "the Client's connections fail too, with errors",
    "test_error_cb.py::test_with_an_error_cb_the_log": "the Client has no error_cb, so it logs",
    "test_old_releases.py::test_closed_connection_is_explained": "counts connections",
    "test_config_effect_time.py::test_pauses_between_connections": "reads the client's own figures",
    "test_purge.py::test_throttled_metadata": "the Client's throttle_cb has it",
    "test_config_effect_mock.py::test_each_client_has_a": "the Client's cluster is for all roles",
}
"""Tests of what a role does in another way, by the first letters behind tests/client/, and why."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of what a role does in another way."""
    left_out = [item for item in items if _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _is_left_out(item: pytest.Item) -> bool:
    return item.nodeid.removeprefix("tests/client/").startswith(tuple(NOT_OF_ROLES))
