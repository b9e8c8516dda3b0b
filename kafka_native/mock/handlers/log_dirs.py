"""DescribeLogDirs and AlterReplicaLogDirs.

Each broker has two directories. The sizes of their partitions are real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.broker_settings import directories
from kafka_native.protocol.partitions import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.topics import Partition

TOTAL_BYTES = 1 << 40


def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Return the directories of this broker and their partitions."""
    wanted = (
        None
        if request.topics is None
        else {each.topic: set(each.partitions) for each in request.topics}
    )
    kind = DescribeLogDirsResponse.LogDir
    response = DescribeLogDirsResponse()
    with call.cluster.lock:
        partitions = [
            each
            for topic in call.cluster.topics.values()
            for each in topic.partitions
            if call.broker.id in each.replicas
            and (wanted is None or each.index in wanted.get(topic.name, ()))
        ]
        for path in directories(call.broker.id):
            here = [each for each in partitions if _directory_of(call, each) == path]
            found: dict[str, DescribeLogDirsResponse.LogDir.Topic] = {}
            for each in here:
                found.setdefault(each.topic, kind.Topic(name=each.topic)).partitions.append(
                    _describe_partition(call, each)
                )
            used = sum(each.log.size_bytes for each in here)
            response.results.append(
                kind(
                    log_dir=path,
                    topics=list(found.values()),
                    total_bytes=TOTAL_BYTES,
                    usable_bytes=TOTAL_BYTES - used,
                )
            )
    return response


def _directory_of(call: Call, partition: Partition) -> str:
    return partition.directories.get(call.broker.id, directories(call.broker.id)[0])


def _describe_partition(
    call: Call, partition: Partition
) -> DescribeLogDirsResponse.LogDir.Topic.Partition:
    return DescribeLogDirsResponse.LogDir.Topic.Partition(
        partition_index=partition.index,
        partition_size=partition.log.size_bytes,
        offset_lag=partition.log.end_offset - partition.end_at(call.broker.id),
    )


def alter_replica_log_dirs(
    call: Call, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Move partitions to other directories of this broker, at once."""
    found: dict[str, AlterReplicaLogDirsResponse.Topic] = {}
    kind = AlterReplicaLogDirsResponse.Topic
    with call.cluster.lock:
        for directory in request.dirs:
            for topic in directory.topics:
                answer = found.setdefault(topic.name, kind(topic_name=topic.name))
                for index in topic.partitions:
                    code = _alter(call, directory.path, topic.name, index)
                    answer.partitions.append(kind.Partition(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(found.values()))


def _alter(call: Call, path: str, name: str, index: int) -> ErrorCode:
    topic = call.cluster.topics.get(name)
    partition = None if topic is None else topic.partition(index)
    if path not in directories(call.broker.id):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if call.broker.id not in partition.replicas:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    partition.directories[call.broker.id] = path
    return ErrorCode.NO_ERROR


def refuse_alter(request: AlterReplicaLogDirsRequest, code: int) -> AlterReplicaLogDirsResponse:
    """Return the same error for every partition."""
    kind = AlterReplicaLogDirsResponse.Topic
    return AlterReplicaLogDirsResponse(
        results=[
            kind(
                topic_name=topic.name,
                partitions=[
                    kind.Partition(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )
