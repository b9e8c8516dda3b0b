"""Consumers and transactional producers of both libraries do the same on Apache Kafka."""

from __future__ import annotations

import pytest

from tests.broker import test_compat_kafka
from tests.compat.test_consumer_side_by_side import (  # noqa: F401
    test_consumers_do_the_same,
    test_missing_topics_are_the_same_messages,
)
from tests.compat.test_transactions_side_by_side import *  # noqa: F403

pytestmark = [pytest.mark.broker, pytest.mark.slow]

cluster = test_compat_kafka.cluster
"""The broker, in the place of the mock cluster."""
