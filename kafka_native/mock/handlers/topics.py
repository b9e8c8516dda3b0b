"""CreateTopics, DeleteTopics, CreatePartitions and ElectLeaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.broker_settings import static_settings
from kafka_native.mock.log import Refused
from kafka_native.mock.resources import TOPIC
from kafka_native.mock.topics import NO_LEADER
from kafka_native.protocol.partitions import ElectLeadersRequest, ElectLeadersResponse
from kafka_native.protocol.schema import ZERO_UUID
from kafka_native.protocol.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call

_FIRST_WITH_IDS = 6
_PREFERRED = 0


def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create the requested topics."""
    names = [topic.name for topic in request.topics]
    response = CreateTopicsResponse()
    for topic in {topic.name: topic for topic in request.topics}.values():
        answer = CreateTopicsResponse.Topic(name=topic.name, error_message=None, configs=[])
        response.topics.append(answer)
        try:
            if names.count(topic.name) > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the topic occurs twice")
            _check_allowed(call, topic.name)
            _create(call, topic, answer, only_check=request.validate_only)
        except Refused as error:
            answer.error_code, answer.error_message = error.code, error.text
    return response


def _check_allowed(call: Call, name: str) -> None:
    """Raise ``Refused`` if the ACLs or the test forbid the client this request for a topic."""
    if call.denies_topic(name):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _create(
    call: Call,
    requested: CreateTopicsRequest.Topic,
    answer: CreateTopicsResponse.Topic,
    *,
    only_check: bool,
) -> None:
    cluster = call.cluster
    static = static_settings(cluster, call.broker)
    configs = {each.name: each.value for each in requested.configs if each.value is not None}
    problem = cluster.resources.problem(TOPIC, configs, call.broker.id, static)
    if problem is not None:
        raise Refused(*problem)
    assignment = None
    if requested.assignments:
        by_index = {one.partition_index: one.broker_ids for one in requested.assignments}
        if sorted(by_index) != list(range(len(by_index))):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the partitions aren't numbered from 0 on"
            )
        assignment = [by_index[index] for index in range(len(by_index))]
    with cluster.lock:
        replicas = cluster.plan_topic(
            requested.name,
            None if requested.num_partitions == -1 else requested.num_partitions,
            None if requested.replication_factor == -1 else requested.replication_factor,
            assignment,
        )
        answer.num_partitions = len(replicas)
        answer.replication_factor = len(replicas[0])
        answer.configs = [
            CreateTopicsResponse.Topic.Config(
                name=each.setting.name, value=each.value, config_source=each.source
            )
            for each in cluster.resources.describe(TOPIC, configs, call.broker.id, static)
        ]
        if not only_check:
            answer.topic_id = cluster.add_topic(requested.name, replicas, configs).id


def refuse_create(request: CreateTopicsRequest, code: int) -> CreateTopicsResponse:
    """Return the same error for every topic."""
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.Topic(
                name=topic.name, error_code=code, error_message=None, configs=None
            )
            for topic in request.topics
        ]
    )


def delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics, by name or by id."""
    cluster = call.cluster
    response = DeleteTopicsResponse()
    wanted = _topics_to_delete(call, request)
    for name, topic_id in dict.fromkeys(wanted):
        with cluster.lock:
            topic = cluster.topic_by_id(topic_id) if name is None else cluster.topics.get(name)
            if topic is not None and call.denies_topic(topic.name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                answer = DeleteTopicsResponse.Topic(name=name, topic_id=topic_id, error_code=code)
            elif wanted.count((name, topic_id)) > 1:
                code = ErrorCode.INVALID_REQUEST
                answer = DeleteTopicsResponse.Topic(name=name, topic_id=topic_id, error_code=code)
            elif topic is not None:
                cluster.remove_topic(topic)
                answer = DeleteTopicsResponse.Topic(name=topic.name, topic_id=topic.id)
            else:
                code = (
                    ErrorCode.UNKNOWN_TOPIC_ID
                    if name is None
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                answer = DeleteTopicsResponse.Topic(name=name, topic_id=topic_id, error_code=code)
        response.responses.append(answer)
    return response


def _topics_to_delete(call: Call, request: DeleteTopicsRequest) -> list[tuple[str | None, bytes]]:
    if call.version < _FIRST_WITH_IDS:
        return [(name, ZERO_UUID) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def refuse_delete(call: Call, request: DeleteTopicsRequest, code: int) -> DeleteTopicsResponse:
    """Return the same error for every topic."""
    return DeleteTopicsResponse(
        responses=[
            DeleteTopicsResponse.Topic(name=name, topic_id=topic_id, error_code=code)
            for name, topic_id in _topics_to_delete(call, request)
        ]
    )


def create_partitions(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions to topics."""
    names = [topic.name for topic in request.topics]
    response = CreatePartitionsResponse()
    for topic in {topic.name: topic for topic in request.topics}.values():
        answer = CreatePartitionsResponse.Topic(name=topic.name)
        response.results.append(answer)
        nodes = None if topic.assignments is None else [one.broker_ids for one in topic.assignments]
        try:
            if names.count(topic.name) > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            _check_allowed(call, topic.name)
            call.cluster.grow_topic(
                topic.name, topic.count, nodes, only_check=request.validate_only
            )
        except Refused as error:
            answer.error_code, answer.error_message = error.code, error.text
    return response


def elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect the first replica that is up as the leader.

    An unclean election changes only partitions without a leader.
    """
    response = ElectLeadersResponse()
    with call.cluster.lock:
        for name, numbers in _to_elect(call, request):
            answer = ElectLeadersResponse.Topic(topic=name)
            for number in numbers:
                code = _elect(call, request.election_type, name, number)
                if code != ErrorCode.ELECTION_NOT_NEEDED or request.topic_partitions is not None:
                    answer.partition_result.append(
                        ElectLeadersResponse.Topic.Partition(
                            partition_id=number, error_code=code, error_message=None
                        )
                    )
            if answer.partition_result:
                response.replica_election_results.append(answer)
    return response


def _to_elect(call: Call, request: ElectLeadersRequest) -> list[tuple[str, list[int]]]:
    if request.topic_partitions is not None:
        return [(each.topic, each.partitions) for each in request.topic_partitions]
    return [
        (name, list(range(len(topic.partitions)))) for name, topic in call.cluster.topics.items()
    ]


def _elect(call: Call, kind: int, name: str, number: int) -> ErrorCode:
    topic = call.cluster.topics.get(name)
    partition = None if topic is None else topic.partition(number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    up = partition.in_sync()
    if kind == _PREFERRED:
        wanted = partition.replicas[0]
        if partition.leader != wanted and wanted not in up:
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        wanted = partition.leader if partition.leader != NO_LEADER else next(iter(up), NO_LEADER)
        if wanted == NO_LEADER:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if partition.leader == wanted:
        return ErrorCode.ELECTION_NOT_NEEDED
    partition.lead(wanted)
    return ErrorCode.NO_ERROR
