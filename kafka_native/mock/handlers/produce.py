"""The handler for Produce requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._native.records import decode_batches
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import message_sets
from kafka_native.mock.handlers.leaders import Hints, find
from kafka_native.mock.log import Refused, check_batches
from kafka_native.protocol.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_native._native.records import BatchHeader
    from kafka_native.mock.call import Call
    from kafka_native.mock.topics import Partition, Topic

    _Store = Callable[[Partition, int | None, ProduceResponse.Topic.Partition], bool]

_FIRST_WITH_HINTS = 10
_FIRST_WITH_BATCHES = 3
_FIRST_IMPLICIT = 12
_ADMIN_CLIENT = "__admin_client"
"""The only client id that may write to internal topics."""
_ACKS = (-1, 0, 1)


def produce(call: Call, request: ProduceRequest) -> ProduceResponse | None:
    """Append each partition's batch. With acks=0 there is no response."""
    if request.acks not in _ACKS:
        return refuse(call, request, ErrorCode.INVALID_REQUIRED_ACKS)
    hints = Hints(call, _FIRST_WITH_HINTS)
    response = ProduceResponse()
    failed = False
    for topic in request.topic_data:
        answers = []
        for part in topic.partition_data:
            answer = _append(call, topic, part, hints)
            failed = failed or answer.error_code != ErrorCode.NO_ERROR
            answers.append(answer)
        response.responses.append(
            ProduceResponse.Topic(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    call.cluster.enforce_retention()
    if request.acks == 0:
        if failed:
            # with acks=0 a broker can only close the connection to report an error
            call.connection.stop()
        return None
    response.node_endpoints = [
        ProduceResponse.NodeEndpoint(
            node_id=broker.id, host=broker.endpoint[0], port=broker.endpoint[1]
        )
        for broker in hints.brokers.values()
    ]
    return response


def _append(
    call: Call, requested: ProduceRequest.Topic, part: ProduceRequest.Topic.Partition, hints: Hints
) -> ProduceResponse.Topic.Partition:
    """Store a batch, unless a test ordered an error.

    An error with ``done`` stores the batch too.
    """
    found = find(call, requested.name, requested.topic_id, part.index)
    name = requested.name if found.topic is None else found.topic.name
    pushed = call.cluster.faults.take_error_within(call.api_key, call.broker.id, name, part.index)
    if pushed is None or pushed.code == ErrorCode.NO_ERROR:
        return _store(call, requested, part, hints)
    if pushed.done:
        _store(call, requested, part, hints)
    answer = ProduceResponse.Topic.Partition(
        index=part.index, error_code=pushed.code, base_offset=-1
    )
    leader, epoch = hints.leader(pushed.code, found.partition)
    answer.current_leader.leader_id, answer.current_leader.leader_epoch = leader, epoch
    return answer


def _store(
    call: Call, requested: ProduceRequest.Topic, part: ProduceRequest.Topic.Partition, hints: Hints
) -> ProduceResponse.Topic.Partition:
    """Check a batch without the lock, then store it under the lock."""
    answer = ProduceResponse.Topic.Partition(index=part.index, base_offset=-1)
    found = find(call, requested.name, requested.topic_id, part.index)
    if found.topic is not None and found.topic.is_internal and call.client_id != _ADMIN_CLIENT:
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return answer
    if found.topic is not None and found.error == ErrorCode.NO_ERROR:
        data = part.records
        data = data if isinstance(data, memoryview) else memoryview(bytearray(data or b""))
        try:
            store = _check(call, data, found.topic)
            with call.cluster.lock:
                # The leader or the topic may have changed since the first look-up.
                found = find(call, requested.name, requested.topic_id, part.index)
                if (
                    found.error == ErrorCode.NO_ERROR
                    and found.topic is not None
                    and found.partition is not None
                ):
                    now = call.cluster.clock.time_ms() if found.topic.has_append_time else None
                    is_new = store(found.partition, now, answer)
                    if is_new:
                        call.cluster.count_append(found.partition, len(data))
        except Refused as error:
            answer.error_code = error.code
            answer.error_message = error.text
            answer.record_errors = [
                ProduceResponse.Topic.Partition.RecordError(
                    batch_index=index, batch_index_error_message=error.text
                )
                for index in error.bad_records
            ]
            return answer
    answer.error_code = found.error
    answer.current_leader.leader_id, answer.current_leader.leader_epoch = hints.leader(
        found.error, found.partition
    )
    return answer


def _check(call: Call, data: memoryview, topic: Topic) -> _Store:
    """Verify the records, and return the function that stores them. Raises ``Refused``."""
    limit = topic.max_message_bytes(call.cluster.settings.message_max_bytes)
    if call.version < _FIRST_WITH_BATCHES:
        messages = message_sets.check(data, max_bytes=limit)

        def store_messages(
            partition: Partition, now: int | None, answer: ProduceResponse.Topic.Partition
        ) -> bool:
            answer.base_offset = partition.log.end_offset
            message_sets.store(partition.log, messages, partition.leader_epoch)
            return True

        return store_messages
    header = check_batches(data, version=call.version, max_bytes=limit)
    if topic.is_compacted:
        keyless = [
            at for at, record in enumerate(decode_batches(data)[0].records) if record.key is None
        ]
        if keyless:
            raise Refused(
                ErrorCode.INVALID_RECORD, "a compacted topic takes no record without a key", keyless
            )

    def store_batch(
        partition: Partition, now: int | None, answer: ProduceResponse.Topic.Partition
    ) -> bool:
        if header.is_transactional:
            _check_transaction(call, partition, header)
        answer.base_offset, is_new = partition.log.append(data, header, partition.leader_epoch, now)
        answer.log_append_time_ms = -1 if now is None else now
        answer.log_start_offset = partition.log.start_offset
        return is_new

    return store_batch


def _check_transaction(call: Call, partition: Partition, header: BatchHeader) -> None:
    """Raise ``Refused`` unless the batch belongs to an open transaction."""
    transactions = call.cluster.transactions
    transactions.expire()
    key = (partition.topic, partition.index)
    implicitly = call.version >= _FIRST_IMPLICIT and call.cluster.transaction_version > 1
    code = transactions.write(key, header.producer_id, header.producer_epoch, implicitly=implicitly)
    if code:
        raise Refused(code, f"{key} isn't in a transaction of producer {header.producer_id}")


def refuse(call: Call, request: ProduceRequest, code: int) -> ProduceResponse:
    """Return the same error for every partition, with leader hints where the error allows them."""
    hints = Hints(call, _FIRST_WITH_HINTS)
    response = ProduceResponse()
    for topic in request.topic_data:
        answers = []
        for part in topic.partition_data:
            answer = ProduceResponse.Topic.Partition(
                index=part.index, error_code=code, base_offset=-1
            )
            with call.cluster.lock:
                partition = find(call, topic.name, topic.topic_id, part.index).partition
                answer.current_leader.leader_id, answer.current_leader.leader_epoch = hints.leader(
                    code, partition
                )
            answers.append(answer)
        response.responses.append(
            ProduceResponse.Topic(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    response.node_endpoints = [
        ProduceResponse.NodeEndpoint(
            node_id=broker.id, host=broker.endpoint[0], port=broker.endpoint[1]
        )
        for broker in hints.brokers.values()
    ]
    return response
