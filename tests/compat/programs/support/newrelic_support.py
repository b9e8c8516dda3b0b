"""A pytest plugin that passes the mock cluster's address to the tests of New Relic's agent."""

from __future__ import annotations

import os

from testing_support import db_settings


def _settings() -> list[dict[str, str]]:
    host, _, port = os.environ["BOOTSTRAP_SERVERS"].partition(":")
    return [{"host": host, "port": port}]


db_settings.kafka_settings = _settings
