"""Copies a topic to another exactly once, as Kafka's own TransactionalMessageCopier does.

python -m tests.broker.copier < settings, then "leave"
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from kafka_native import Message
from tests.broker.transformer import Settings, Transformer

REPEATED = 0.01
"""The share of the messages that a copier with the bug "repeat" copies twice."""


class Copier(Transformer[Settings]):
    """Copies each message to the partition with the same number."""

    def outputs(self, message: Message, is_doomed: bool) -> Iterator[dict[str, Any]]:
        """Return the copy."""
        copy = {
            "topic": self.settings.target,
            "partition": message.partition(),
            "key": message.key(),
            "value": message.value(),
        }
        yield copy
        if self.settings.bug == "repeat" and self.random.random() < REPEATED:
            yield copy


if __name__ == "__main__":
    Copier(Settings(**json.loads(sys.stdin.readline()))).run()
