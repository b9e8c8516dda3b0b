"""The canonical names of the bootstrap servers: client.dns.lookup=resolve_canonical_bootstrap_servers_only.

For a name that stands for many brokers, where what they prove (a certificate, a Kerberos principal) is about their own.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}


def canonical_servers(
    servers: Iterable[tuple[str, int]], family: str, on_unknown: Callable[[str, OSError], None]
) -> list[tuple[str, int]]:
    """Every address behind the servers, by the name that belongs to it. Blocks while names are resolved.

    :param family: broker.address.family.
    :param on_unknown: Told of a server that can't be resolved; it stays in the list as it is.
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
            name, _ = socket.getnameinfo(address, socket.NI_NUMERICSERV)  # the address itself where it has no name
            found[name, port] = None
    return list(found)
