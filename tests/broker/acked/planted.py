"""Planted bugs: ways in which a client could break a rule. Each must be caught by its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tests.broker.acked.ledger import NOT_PERSISTED, PERSISTED

EVERY = 500
"""One message in so many is treated wrongly."""


class Sender(Protocol):
    """The producer that a bug spoils."""

    def send(self, number: int, partition: int, value: bytes | None = None) -> None: ...
    def write(self, number: int, partition: int, offset: int | None, status: str) -> None: ...
    def value_for(self, number: int, partition: int) -> bytes: ...


class Bug:
    """No bug: everything goes on as it should."""

    rule = ""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def order(self, batch: list[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Return the order in which messages are produced."""
        return batch

    def send(self, number: int, partition: int) -> None:
        """Produce a message."""
        self._sender.send(number, partition)

    def report(self, number: int, partition: int, offset: int | None, status: str) -> None:
        """Pass on a report."""
        self._sender.write(number, partition, offset, status)

    @staticmethod
    def hits(number: int) -> bool:
        """Return whether a message is one of those that are treated wrongly."""
        return number % EVERY == EVERY - 1


class Early(Bug):
    """Reports a message as written, and never sends it."""

    rule = "acked_is_there"

    def send(self, number: int, partition: int) -> None:
        if self.hits(number):
            self._sender.write(number, partition, 1 << 40, PERSISTED)
        else:
            super().send(number, partition)


class Twice(Bug):
    """Sends a message again, as a retry without its sequence number would. Reports it once."""

    rule = "nothing_twice"

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        self._again: set[int] = set()

    def send(self, number: int, partition: int) -> None:
        super().send(number, partition)
        if self.hits(number):
            self._again.add(number)
            super().send(number, partition)

    def report(self, number: int, partition: int, offset: int | None, status: str) -> None:
        if number in self._again:
            self._again.discard(number)
        else:
            super().report(number, partition, offset, status)


class Swapped(Bug):
    """Sends messages in another order, as a retry behind a later batch would."""

    rule = "in_order"

    def order(self, batch: list[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        return batch[::-1]


class Foreign(Bug):
    """Sends the bytes of another message, as a buffer that is used again too early would."""

    rule = "every_byte_is_its_own"

    def send(self, number: int, partition: int) -> None:
        if self.hits(number):
            self._sender.send(number, partition, self._sender.value_for(number, partition + 1))
        else:
            super().send(number, partition)


class Silent(Bug):
    """Loses a report."""

    rule = "one_report_each"

    def report(self, number: int, partition: int, offset: int | None, status: str) -> None:
        if not self.hits(number):
            super().report(number, partition, offset, status)


class Repeated(Bug):
    """Reports a message twice."""

    rule = "one_report_each"

    def report(self, number: int, partition: int, offset: int | None, status: str) -> None:
        super().report(number, partition, offset, status)
        if self.hits(number):
            super().report(number, partition, offset, status)


class Dishonest(Bug):
    """Reports a written message as not written."""

    rule = "failures_are_honest"

    def report(self, number: int, partition: int, offset: int | None, status: str) -> None:
        wrong = self.hits(number)
        super().report(number, partition, offset, NOT_PERSISTED if wrong else status)


class Misplaced(Bug):
    """Reports an offset that is one too high, as a batch with a wrong base offset would."""

    rule = "acked_is_there"

    def report(self, number: int, partition: int, offset: int | None, status: str) -> None:
        wrong = self.hits(number) and offset is not None
        super().report(number, partition, offset + 1 if wrong and offset else offset, status)


BUGS: dict[str, type[Bug]] = {
    kind.__name__.lower(): kind
    for kind in (Early, Twice, Swapped, Foreign, Silent, Repeated, Dishonest, Misplaced)
}
