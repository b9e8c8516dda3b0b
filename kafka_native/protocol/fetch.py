"""Fetch: read records. The C fetcher builds and reads the same bytes itself; tests compare them."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)


class FetchRequest(Request, api_key=ApiKey.FETCH, versions="0-18", flexible="12+"):
    """Read record batches. ``session_id`` identifies the fetch session."""

    class ReplicaState(Struct):
        """Identifies a follower. Clients use the default."""

        replica_id: int = int32("15+", default=-1)
        replica_epoch: int = int64("15+", default=-1)

    class Topic(Struct):
        """The partitions of one topic to read, or to add to the session."""

        class Partition(Struct):
            """The offset at which to read one partition, and the size limit."""

            partition: int = int32("0+")
            current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
            fetch_offset: int = int64("0+")
            last_fetched_epoch: int = int32("12+", default=-1)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            partition_max_bytes: int = int32("0+")
            replica_directory_id: bytes = uuid("17+", tag=0, ignorable=True)
            high_watermark: int = int64("18+", default=0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)

        topic: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    class ForgottenTopic(Struct):
        """Partitions to remove from the session."""

        topic: str = string("7-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partitions: list[int] = array(int32(), "7+")

    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)  # 0 read_uncommitted, 1 read_committed
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)  # 0 opens a session, -1 ends it
    topics: list[Topic] = array(Topic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class FetchResponse(Response, api_key=ApiKey.FETCH, versions="0-18", flexible="12+"):
    """Record batches. In a session, the response only contains partitions with changes."""

    class Topic(Struct):
        """The records of one topic."""

        class Partition(Struct):
            """The records of one partition, or its error."""

            class DivergingEpoch(Struct):
                """The point where the log diverges from the reader's copy."""

                epoch: int = int32("12+", default=-1)
                end_offset: int = int64("12+", default=-1)

            class CurrentLeader(Struct):
                """The new leader. The broker sends it with an error about leadership."""

                leader_id: int = int32("12+", default=-1)
                leader_epoch: int = int32("12+", default=-1)

            class SnapshotId(Struct):
                """The snapshot to load instead. Only the metadata log uses it."""

                end_offset: int = int64("0+", default=-1)
                epoch: int = int32("0+", default=-1)

            class AbortedTransaction(Struct):
                """A producer whose records from this offset on are aborted."""

                producer_id: int = int64("4+")
                first_offset: int = int64("4+")

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            high_watermark: int = int64("0+")
            last_stable_offset: int = int64("4+", default=-1, ignorable=True)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            diverging_epoch: DivergingEpoch = struct(DivergingEpoch, "12+", tag=0)
            current_leader: CurrentLeader = struct(CurrentLeader, "12+", tag=1)
            snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2)
            aborted_transactions: list[AbortedTransaction] | None = array(
                AbortedTransaction, "4+", nullable="4+", ignorable=True
            )
            preferred_read_replica: int = int32("11+", default=-1)
            records: bytes | memoryview | None = record_batches("0+", nullable="0+")

        topic: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    class NodeEndpoint(Struct):
        """The address of a leader named in this response."""

        node_id: int = int32("16+")
        host: str = string("16+")
        port: int = int32("16+")
        rack: str | None = string("16+", nullable="16+", default=None)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[Topic] = array(Topic, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
