"""The calls of `tests/compat/test_share_side_by_side.py` that need a cluster, on Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.broker import test_compat_kafka
from tests.broker.cluster import Cluster, quiet
from tests.compat.test_share_side_by_side import *  # noqa: F403
from tests.waiting import WAIT_S

pytestmark = [pytest.mark.broker, pytest.mark.slow]

cluster = test_compat_kafka.cluster
"""The broker, in the place of the mock cluster."""

for _name in (
    "test_every_call_has_the_same_outcome",
    "test_exceptions_are_of_the_same_kinds",
    "test_properties_without_effect_are_refused_by_both",
):
    del globals()[_name]  # they need no cluster

GROUP = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "60000"}
"""Groups begin at the start of a topic, and locks outlast the pauses of a slow machine."""


@pytest.fixture
def begin(kafka: Cluster) -> Callable[[str], None]:
    """Set the start offset of a group, which Kafka keeps with the group."""

    def change(group: str) -> None:
        entries = [
            ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET)
            for each in GROUP.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
        with AdminClient(quiet(kafka.conf())) as admin:
            admin.incremental_alter_configs([resource])[resource].result(WAIT_S)

    return change
