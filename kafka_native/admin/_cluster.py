"""What `describe_cluster()` tells."""

from __future__ import annotations

from kafka_native.admin._acl import AclOperation
from kafka_native.admin._convert import members_of
from kafka_native.types import Node


class DescribeClusterResult:
    """The cluster.

    :param controller: The broker that requests for the controller go to; None if there is none at the moment.
    :param nodes: The brokers.
    :param cluster_id: The cluster's id.
    :param authorized_operations: What this client may do to the cluster; None if it wasn't asked for.
    """

    def __init__(
        self,
        controller: Node | None,
        nodes: list[Node],
        cluster_id: str | None = None,
        authorized_operations: list[str | int | AclOperation] | None = None,
    ) -> None:
        """Make one; see the class for the arguments."""
        self.cluster_id = cluster_id
        self.controller = controller
        self.nodes = nodes
        self.authorized_operations = members_of(authorized_operations, AclOperation)
