"""The input of a request handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_native.mock.access import GROUP, TOPIC, TRANSACTIONAL_ID

if TYPE_CHECKING:
    from kafka_native.mock.server import Broker, Connection
    from kafka_native.mock.state import ClusterState


class Call(NamedTuple):
    """One request, on the broker that received it."""

    cluster: ClusterState
    broker: Broker
    connection: Connection
    api_key: int
    version: int
    client_id: str

    def denies_topic(self, name: str) -> bool:
        """Return whether the ACLs or the test forbid the client this request for a topic."""
        return name in self.cluster.groups.settings.denied_topics or self._denies(TOPIC, name)

    def denies_group(self, group_id: str) -> bool:
        """Return whether the ACLs or the test forbid the client this request for a group."""
        return group_id in self.cluster.groups.settings.denied_groups or self._denies(
            GROUP, group_id
        )

    def denies_transactional_id(self, name: str) -> bool:
        """Return whether the ACLs forbid the client this request for a transactional id."""
        return self._denies(TRANSACTIONAL_ID, name)

    def _denies(self, kind: int, name: str) -> bool:
        client = self.connection
        return self.cluster.access.denies(
            client.login.principal, client.peer[0], kind, name, self.api_key
        )
