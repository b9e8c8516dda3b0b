"""Look-ups that any broker can answer, and when to ask another broker too.

A broker may keep its connections open and answer nothing: it is frozen, or about to stop. Without a
second broker, a look-up would wait for the whole request timeout.

Thread: the control thread only.
"""

from __future__ import annotations

from kafka_native.control.requests import ANY_BROKER, NEVER, Call
from kafka_native.protocol import ApiKey

ANSWER_S = 1.0
"""The time for one broker's answer before another broker is asked too. It doubles each time."""
LOOKUPS = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.INIT_PRODUCER_ID,
    }
)
"""Requests that several brokers may get. An unused producer id does no harm."""


class Lookup:
    """A look-up that was sent and has no answer yet."""

    def __init__(self) -> None:
        """Was sent to no broker yet."""
        self.asked: set[tuple[str, int]] = set()
        """The addresses of the brokers that have got it."""
        self.in_flight = 0
        self.next_at = NEVER
        """When another broker is asked."""
        self.wait_s = ANSWER_S


class Lookups:
    """All look-ups without an answer. The first answer counts."""

    def __init__(self) -> None:
        """Knows no look-up."""
        self._waiting: dict[Call, Lookup] = {}

    def on_sent(self, call: Call, address: tuple[str, int], now: float) -> None:
        """Notes that a broker got the call."""
        if call.target is not ANY_BROKER or call.message.api_key not in LOOKUPS:
            return
        lookup = self._waiting.setdefault(call, Lookup())
        lookup.asked.add(address)
        lookup.in_flight += 1
        lookup.next_at = now + lookup.wait_s
        lookup.wait_s *= 2

    def on_ended(self, call: Call, *, answered: bool) -> bool:
        """Handles an answer or a failure. False: it isn't the call's result.

        Another broker has answered before, or may still answer.
        """
        lookup = self._waiting.get(call)
        if lookup is None:
            return not call.answered
        lookup.in_flight -= 1
        if lookup.in_flight and not answered:
            return False
        del self._waiting[call]
        return True

    def due(self, now: float) -> list[tuple[Call, Lookup]]:
        """The look-ups for which another broker is to be asked."""
        return [each for each in self._waiting.items() if now >= each[1].next_at]

    def __len__(self) -> int:
        """The number of look-ups without an answer."""
        return len(self._waiting)

    def next_at(self, now: float) -> float:
        """The next time from ``now`` on at which a look-up is due."""
        times = [lookup.next_at for lookup in self._waiting.values() if lookup.next_at > now]
        return min(times, default=NEVER)

    def clear(self) -> None:
        """Forgets all: the client is closing."""
        self._waiting.clear()
