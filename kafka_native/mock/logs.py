"""Changes that tests make to logs and replicas: truncation, retention, racks, lagging followers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_native.mock.state import ClusterState


class Logs:
    """The logs of the cluster and their replicas, as ``cluster.logs``."""

    def __init__(self, cluster: ClusterState) -> None:
        """Act on the cluster's topics and transactions, under its lock."""
        self._cluster = cluster

    def truncate(self, topic: str, partition: int, offset: int, broker: int | None = None) -> None:
        """Delete the records of a partition from an offset on, and begin a new leader epoch.

        An unclean election has the same effect. A batch that contains the offset is deleted as a
        whole. OffsetForLeaderEpoch returns the new end. Fetches beyond it get OFFSET_OUT_OF_RANGE.
        New records get the deleted offsets again.

        :param broker: The new leader. By default the leader stays the same.
        """
        if broker is not None and broker not in self._cluster.brokers:
            raise ValueError(f"there is no broker {broker}")
        with self._cluster.lock:
            found = self._cluster.topics[topic].partitions[partition]
            if not found.log.start_offset <= offset <= found.log.end_offset:
                raise ValueError(
                    f"the log has offsets {found.log.start_offset} to {found.log.end_offset}"
                )
            found.log.truncate_from(offset)
            found.lead(found.leader if broker is None else broker)

    def move_log_start(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition before an offset, as retention does.

        Fetches below the offset get OFFSET_OUT_OF_RANGE. An offset beyond the end leaves an empty
        log that begins there.
        """
        with self._cluster.lock:
            found = self._cluster.topics[topic].partitions[partition]
            if offset < found.log.start_offset:
                raise ValueError(f"the log begins at {found.log.start_offset} already")
            found.log.move_end(offset)
            self._cluster.move_start(found, offset)
            found.wake()

    def hang_transaction(self, transactional_id: str) -> None:
        """Make the coordinator forget a transactional id, so that its open transaction hangs.

        The transaction stays open in its partitions. Without KIP-890 a lost marker, or a batch
        after the marker, has the same effect. Raises ``KeyError`` for an unknown id.
        """
        with self._cluster.lock:
            self._cluster.transactions.forget(transactional_id)

    def set_rack(self, broker: int, rack: str | None) -> None:
        """Set the rack of a broker. None removes it.

        A leader redirects consumers with a rack (Fetch 11 or newer) to the replica in that rack
        (KIP-392). It doesn't if the leader is in that rack itself, or if the replica lacks the
        offset. A follower without a rack serves no fetches.
        """
        self._cluster.brokers[broker].rack = rack

    def set_follower_lag(self, topic: str, partition: int, broker: int, records: int) -> None:
        """Make a follower lack the last records of a partition.

        It answers fetches beyond its end with OFFSET_OUT_OF_RANGE.
        """
        with self._cluster.lock:
            found = self._cluster.topics[topic].partitions[partition]
            if broker not in found.replicas:
                raise ValueError(f"broker {broker} has no replica of {topic} [{partition}]")
            found.lags[broker] = records
            found.wake()
