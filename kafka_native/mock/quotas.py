"""Client quotas, and the throttle times that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    Entity = frozenset[tuple[str, str | None]]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
CLIENT_QUOTAS = frozenset({PRODUCE, FETCH, "request_percentage", "controller_mutation_rate"})
ADDRESS_QUOTAS = frozenset({"connection_creation_rate"})
WINDOW_S = 1.0
"""A client may use the quota of this many seconds at once."""


def refusal(entity: Entity, keys: set[str]) -> str | None:
    """Return why an entity can't have these quotas, or None."""
    kinds = {kind for kind, _ in entity}
    if not kinds or len(kinds) < len(entity) or not (kinds <= {USER, CLIENT_ID} or kinds == {IP}):
        return f"there is no entity of these types: {sorted(kinds)}"
    unknown = sorted(keys - (ADDRESS_QUOTAS if kinds == {IP} else CLIENT_QUOTAS))
    return f"{unknown[0]} is no quota of this entity" if unknown else None


class Quotas:
    """The quotas of a cluster. The cluster's lock guards them."""

    def __init__(self) -> None:
        """Start without quotas."""
        self.entries: dict[Entity, dict[str, float]] = {}
        self._used: dict[tuple[int, Entity, str, str, str], tuple[float, float]] = {}

    def alter(self, entity: Entity, changes: dict[str, float | None]) -> None:
        """Set quotas. None removes one."""
        kept = self.entries.setdefault(entity, {})
        for key, value in changes.items():
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = value
        if not kept:
            del self.entries[entity]

    def throttle_ms(
        self, broker: int, user: str, client_id: str, key: str, size: int, now: float
    ) -> int:
        """Return the throttle time after this many bytes, by the client's most specific quota."""
        for entity in _most_specific_first(user, client_id):
            rate = self.entries.get(entity, {}).get(key)
            if rate is not None:
                return self._take((broker, entity, key, user, client_id), rate, size, now)
        return 0

    def _take(
        self, client: tuple[int, Entity, str, str, str], rate: float, size: int, now: float
    ) -> int:
        level, since = self._used.get(client, (0.0, now))
        level = max(level - (now - since) * rate, 0.0) + size
        self._used[client] = level, now
        return max(int((level / rate - WINDOW_S) * 1000), 0)


def _most_specific_first(user: str, client_id: str) -> Iterator[Entity]:
    """Yield a client's entities in Kafka's order, the most specific first."""
    for name in (user, None):
        for client in (client_id, None):
            yield frozenset({(USER, name), (CLIENT_ID, client)})
        yield frozenset({(USER, name)})
    for client in (client_id, None):
        yield frozenset({(CLIENT_ID, client)})
