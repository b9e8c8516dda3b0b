"""Bootstrap servers: the order in which a client tries servers, and their canonical names.

Thread: the control thread only, except for `canonical_servers()`.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterable, Sequence

from kafka_native.control.brokers.broker import Broker

FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}

Shuffle = Callable[[list[Broker]], None]
"""Puts a list into another order, in place."""

shuffle: Shuffle = random.SystemRandom().shuffle
"""A random order, which a seed of the application's random numbers doesn't change."""


class ServerOrder:
    """Chooses the server to try next: each server once a round, each round in random order.

    Many clients then spread over the servers, instead of all using the first one.
    """

    def __init__(self, shuffle: Shuffle) -> None:
        """Begins without a round."""
        self._shuffle = shuffle
        self._round: list[Broker] = []  # the servers that this round hasn't tried yet, last first

    def next(self, servers: Sequence[Broker]) -> Broker:
        """The next of these servers, which may be other ones in each call."""
        self._round = [each for each in self._round if each in servers]
        if not self._round:
            self._round = list(servers)
            self._shuffle(self._round)
            self._round.reverse()
        return self._round.pop()


def canonical_servers(
    servers: Iterable[tuple[str, int]], family: str, on_unknown: Callable[[str, OSError], None]
) -> list[tuple[str, int]]:
    """All addresses of the servers, by their canonical host names. Blocks during name resolution.

    :param family: broker.address.family.
    :param on_unknown: Called for a server that can't be resolved; it stays in the list unchanged.
    """
    found: dict[tuple[str, int], None] = {}
    for host, port in servers:
        try:
            addresses = socket.getaddrinfo(host, port, FAMILIES[family], socket.SOCK_STREAM)
        except OSError as error:
            on_unknown(host, error)
            found[host, port] = None
            continue
        for *_, address in addresses:
            # the address itself if it has no name
            name, _ = socket.getnameinfo(address, socket.NI_NUMERICSERV)
            found[name, port] = None
    return list(found)
