"""Produce: append records. The C sender builds the same bytes itself; tests compare them."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    error_text,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)


class ProduceRequest(Request, api_key=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    """Append record batches to partitions. With ``acks=0`` the broker sends no response."""

    class Topic(Struct):
        """The batches for one topic, by name up to version 12, by id from version 13 on."""

        class Partition(Struct):
            """The batches for one partition, in wire form."""

            index: int = int32("0+")
            records: bytes | memoryview | None = record_batches("0+", nullable="0+")

        name: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partition_data: list[Partition] = array(Partition, "0+")

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")  # 0 none, 1 the leader, -1 all in-sync replicas
    timeout_ms: int = int32("0+")
    topic_data: list[Topic] = array(Topic, "0+")


class ProduceResponse(Response, api_key=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    """The offsets of the batches."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

            class RecordError(Struct):
                """A record that made the broker refuse its batch."""

                batch_index: int = int32("8+")
                batch_index_error_message: str | None = error_text(
                    "8+", nullable="8+", default=None
                )

            class CurrentLeader(Struct):
                """The new leader. The broker sends it with an error about leadership."""

                leader_id: int = int32("10+", default=-1)
                leader_epoch: int = int32("10+", default=-1)

            index: int = int32("0+")
            error_code: int = int16("0+")
            base_offset: int = int64("0+")
            # -1 if the topic keeps the client's timestamps
            log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            record_errors: list[RecordError] = array(RecordError, "8+", ignorable=True)
            error_message: str | None = error_text(
                "8+", nullable="8+", default=None, ignorable=True
            )
            current_leader: CurrentLeader = struct(CurrentLeader, "10+", tag=0)

        name: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partition_responses: list[Partition] = array(Partition, "0+")

    class NodeEndpoint(Struct):
        """The address of a leader named in this response."""

        node_id: int = int32("10+")
        host: str = string("10+")
        port: int = int32("10+")
        rack: str | None = string("10+", nullable="10+", default=None)

    responses: list[Topic] = array(Topic, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
