"""Client quotas: those that are set, whom they hold for, and for how long a response says to keep still."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    Entity = frozenset[tuple[str, str | None]]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
OF_CLIENTS = frozenset({PRODUCE, FETCH, "request_percentage", "controller_mutation_rate"})
OF_ADDRESSES = frozenset({"connection_creation_rate"})
WINDOW_S = 1.0
"""What comes within it may be as much as the quota grants for it, all at once."""


def unfit(entity: Entity, keys: set[str]) -> str | None:
    """Why these aren't quotas of such an entity, None if they are."""
    kinds = {kind for kind, _ in entity}
    if not kinds or len(kinds) < len(entity) or not (kinds <= {USER, CLIENT_ID} or kinds == {IP}):
        return f"there is no such entity: {sorted(kinds)}"
    unknown = sorted(keys - (OF_ADDRESSES if kinds == {IP} else OF_CLIENTS))
    return f"{unknown[0]} is no quota of it" if unknown else None


class Quotas:
    """The quotas of a cluster; used under its lock."""

    def __init__(self) -> None:
        """Nobody has one."""
        self.entries: dict[Entity, dict[str, float]] = {}
        self._used: dict[tuple[int, Entity, str, str, str], tuple[float, float]] = {}

    def alter(self, entity: Entity, changes: dict[str, float | None]) -> None:
        """Set quotas; None removes one."""
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
        """For how long a client has to keep still after so many bytes, by the most specific quota that it has."""
        for entity in _most_specific_first(user, client_id):
            rate = self.entries.get(entity, {}).get(key)
            if rate is not None:
                return self._take((broker, entity, key, user, client_id), rate, size, now)
        return 0

    def _take(
        self, who: tuple[int, Entity, str, str, str], rate: float, size: int, now: float
    ) -> int:
        level, since = self._used.get(who, (0.0, now))
        level = max(level - (now - since) * rate, 0.0) + size
        self._used[who] = level, now
        return max(int((level / rate - WINDOW_S) * 1000), 0)


def _most_specific_first(user: str, client_id: str) -> Iterator[Entity]:
    """In Kafka's order: the user's own before the default user's, those of a client before those of all."""
    for name in (user, None):
        for client in (client_id, None):
            yield frozenset({(USER, name), (CLIENT_ID, client)})
        yield frozenset({(USER, name)})
    for client in (client_id, None):
        yield frozenset({(CLIENT_ID, client)})
