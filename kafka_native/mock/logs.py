"""What tests do to logs and replicas: truncation, retention, racks, followers that lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_native.mock.cluster import MockCluster
    from kafka_native.mock.server import Broker


class Logs:
    """The logs of the cluster and the replicas that have them, as ``cluster.logs``."""

    def __init__(self, cluster: MockCluster, brokers: Mapping[int, Broker]) -> None:
        """Act on the cluster's topics and transactions, under its lock."""
        self._cluster = cluster
        self._brokers = brokers

    def truncate(self, topic: str, partition: int, offset: int, broker: int | None = None) -> None:
        """Lose the records of a partition from an offset on, as by an unclean election: a new leader epoch begins.

        A batch that holds the offset is lost as a whole. OffsetForLeaderEpoch tells of it, fetches beyond the new end
        are answered with OFFSET_OUT_OF_RANGE, and what is produced from now on gets the lost offsets again.

        :param broker: The new leader; by default the old one goes on, in the new epoch.
        """
        if broker is not None and broker not in self._brokers:
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
        """Lose the records of a partition before an offset, as retention does; fetches below it are out of range.

        An offset beyond the end leaves the log empty, beginning there.
        """
        with self._cluster.lock:
            found = self._cluster.topics[topic].partitions[partition]
            if offset < found.log.start_offset:
                raise ValueError(f"the log begins at {found.log.start_offset} already")
            found.log.reach(offset)
            self._cluster.begin_at(found, offset)
            found.wake()

    def hang_transaction(self, transactional_id: str) -> None:
        """Let the coordinator forget a transactional id: its open transaction hangs in the partitions written to.

        That is what a lost marker, or a batch that came after it, leaves on brokers without KIP-890. KeyError: nothing
        is known of the id.
        """
        with self._cluster.lock:
            self._cluster.transactions.forget(transactional_id)

    def set_rack(self, broker: int, rack: str | None) -> None:
        """Let a broker stand in a rack; None for nowhere.

        A leader sends consumers that say a rack (Fetch 11 or newer) to the replica of that rack (KIP-392), unless it
        stands there itself or the replica doesn't have the offset yet. A follower that stands nowhere serves none.
        """
        self._brokers[broker].rack = rack

    def set_follower_lag(self, topic: str, partition: int, broker: int, records: int) -> None:
        """Let a follower lack the last records of a partition: it answers OFFSET_OUT_OF_RANGE beyond what it has."""
        with self._cluster.lock:
            found = self._cluster.topics[topic].partitions[partition]
            if broker not in found.replicas:
                raise ValueError(f"broker {broker} has no replica of {topic} [{partition}]")
            found.lags[broker] = records
            found.wake()
