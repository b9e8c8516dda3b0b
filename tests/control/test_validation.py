"""Log truncation (KIP-320): the consumer checks positions when leaders change, and when the log
ends before them.
"""

from __future__ import annotations

from kafka_native.control.positions import EARLIEST, LATEST, Reset
from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kafka_native.types import OFFSET_INVALID

from .fakes import registry
from .test_fetches import ConsumerCluster


class ValidationCluster(ConsumerCluster):
    """Partition 0 was read up to offset 100 in leader epoch 5."""

    def __init__(self, reset: Reset = EARLIEST) -> None:
        super().__init__(("t", 0, 0), reset=reset)
        self.cursor = self.engine.cursors[0]
        assert self.cursor is not None
        self.cursor.position, self.cursor.position_epoch = 100, 5

    def lead(self, node: int, epoch: int) -> None:
        """Make a broker the leader in metadata."""
        self.renew_metadata((node, epoch), (2, 5))

    def ends(self, offset: int, epoch: int, error_code: int = 0) -> OffsetForLeaderEpochRequest:
        """Answer the oldest request with the end of its epoch, and return the request."""
        sent = self.engine.submitted[0]
        request = OffsetForLeaderEpochRequest.decode(sent.body, sent.version)
        answer = OffsetForLeaderEpochResponse.Topic.Partition(
            partition=request.topics[0].partitions[0].partition,
            error_code=error_code,
            leader_epoch=epoch,
            end_offset=offset,
        )
        topic = OffsetForLeaderEpochResponse.Topic(topic="t", partitions=[answer])
        self.answer(OffsetForLeaderEpochResponse(topics=[topic]))
        self.go()
        return request


def test_position_is_checked_when_the_leader_epoch_changes():
    cluster = ValidationCluster()
    cluster.lead(2, 6)
    assert cluster.cursor.log[-1] == ("stop",)
    sent = cluster.engine.submitted[0]
    assert cluster.node_of(sent) == 2
    assert registry.request(sent.api_key) is OffsetForLeaderEpochRequest
    request = cluster.ends(250, 5)
    [asked] = request.topics[0].partitions
    assert (request.replica_id, asked.leader_epoch, asked.current_leader_epoch) == (-1, 5, 6)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 100, 6)
    assert cluster.cursor.position == 100


def test_epoch_of_the_same_leader_is_checked_too_after_the_broker_has_refused_the_old_one():
    cluster = ValidationCluster()
    cluster.stop(1, 180, error_code=KafkaError.FENCED_LEADER_EPOCH)
    cluster.go()
    cluster.answer_metadata((1, 6), (2, 5))
    cluster.ends(100, 5)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(1), 100, 6)


def test_reading_continues_at_the_end_of_a_truncated_log():
    cluster = ValidationCluster(reset=LATEST)
    cluster.lead(2, 7)
    cluster.ends(80, 4)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 80, 7)
    assert cluster.cursor.position == OFFSET_INVALID
    assert cluster.partition_errors == []
    assert cluster.engine.submitted == []
    assert "truncated" in cluster.logged[0]
    assert "80" in cluster.logged[0]
    assert "100" in cluster.logged[0]


def test_truncated_log_is_an_error_without_a_reset_policy():
    cluster = ValidationCluster(reset=None)
    cluster.lead(2, 7)
    cluster.ends(80, 4)
    [(topic, partition, offset, error)] = cluster.partition_errors
    assert (topic, partition, offset, error.code()) == ("t", 0, 100, KafkaError._LOG_TRUNCATION)
    assert "80" in error.str()
    assert "100" in error.str()
    assert cluster.fetches.seek("t", 0, 80) is None
    cluster.go()
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 80, 7)


def test_leader_that_does_not_know_the_epoch_reports_no_loss():
    cluster = ValidationCluster(reset=LATEST)
    cluster.lead(2, 7)
    cluster.ends(-1, -1)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 100, 7)


def test_check_follows_a_leader_that_moves_again():
    cluster = ValidationCluster()
    cluster.lead(2, 6)
    cluster.ends(-1, -1, error_code=KafkaError.NOT_LEADER_FOR_PARTITION)
    cluster.answer(cluster.metadata_reply("t", [(1, 7), (2, 5)]))
    cluster.wait(1)
    sent = cluster.engine.submitted[0]
    assert cluster.node_of(sent) == 1
    cluster.ends(150, 5)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(1), 100, 7)


def test_late_answer_to_a_check_does_not_undo_a_seek():
    cluster = ValidationCluster(reset=LATEST)
    cluster.lead(2, 6)
    cluster.fetches.seek("t", 0, 500)
    cluster.go()
    cluster.ends(80, 4)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 500, 6)


def test_position_without_an_epoch_and_an_epoch_that_is_the_leaders_need_no_check():
    cluster = ValidationCluster()
    cluster.cursor.position_epoch = -1
    cluster.lead(2, 6)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 100, 6)
    cluster.fetches.seek("t", 0, 7, 6)
    cluster.go()
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 7, 6)
    assert cluster.engine.submitted == []


def test_seek_with_an_older_epoch_is_checked():
    cluster = ValidationCluster(reset=LATEST)
    cluster.fetches.seek("t", 0, 70, 3)
    cluster.go()
    cluster.ends(60, 3)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(1), 60, 5)


def test_forbidden_check_is_reported_once_and_repeated():
    cluster = ValidationCluster()
    cluster.lead(2, 6)
    for _ in range(3):
        cluster.ends(-1, -1, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
        cluster.wait(15)
    assert [error.code() for *_, error in cluster.partition_errors] == [
        KafkaError.TOPIC_AUTHORIZATION_FAILED
    ]
    cluster.ends(100, 5)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 100, 6)


def test_position_out_of_range_under_a_new_leader_is_checked_before_it_is_reset():
    cluster = ValidationCluster(reset=LATEST)
    cluster.metadata.topics["t"].partitions[0].epoch = 6
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    cluster.ends(90, 5)
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(1), 90, 6)


def test_position_that_is_out_of_range_and_was_not_truncated_is_reset():
    cluster = ValidationCluster(reset=EARLIEST)
    cluster.metadata.topics["t"].partitions[0].epoch = 6
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    cluster.ends(-1, -1)
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    cluster.offsets(1000)
    assert cluster.cursor.log[-1][:1] + cluster.cursor.log[-1][2:] == ("move", 1000, 6)


def test_position_at_a_broker_without_the_api_is_trusted():
    cluster = ValidationCluster()
    ranges = {3: (0, 12), 2: (0, 5), 23: (0, 1)}
    broker = cluster.pool.nodes[2]
    assert broker.ranges is not None
    broker.ranges = broker.ranges._replace(ranges=ranges)
    cluster.lead(2, 6)
    cluster.go()  # the pool has refused at once
    assert cluster.cursor.log[-1] == ("start", cluster.handle_of(2), 100, 6)
