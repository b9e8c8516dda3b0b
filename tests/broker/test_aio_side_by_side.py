"""The calls of `tests/compat/test_aio_side_by_side.py`, on Apache Kafka."""

from __future__ import annotations

import pytest

from tests.broker import test_compat_kafka
from tests.compat.test_aio_side_by_side import *  # noqa: F403

pytestmark = [pytest.mark.broker, pytest.mark.slow]

cluster = test_compat_kafka.cluster
"""The broker, in the place of the mock cluster."""

del globals()["test_throttle_cb_may_be_a_coroutine"]  # it sets throttling in the mock cluster
del globals()["test_unsubscribe_raises_after_a_fatal_error"]  # the mock cluster makes the error
