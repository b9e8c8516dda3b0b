"""Subscriptions: names, patterns, matching topics, and changes."""

from __future__ import annotations

import pytest

from kafka_native.control.group.subscription import Subscription
from kafka_native.control.requests import Backoff
from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse

from .fakes import Cluster


def topic(
    name: str, partitions: int = 1, error: int = 0, *, internal: bool = False
) -> MetadataResponse.Topic:
    made = MetadataResponse.Topic(
        name=name, topic_id=name.encode().ljust(16), error_code=error, is_internal=internal
    )
    for number in range(partitions):
        made.partitions.append(
            MetadataResponse.Topic.Partition(partition_index=number, leader_id=1, leader_epoch=0)
        )
    return made


def reply(*topics: MetadataResponse.Topic) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=1, host="b1", port=9092)], topics=list(topics)
    )


class SubscriptionRig:
    """A subscription and the metadata under it."""

    def __init__(self, **how: object) -> None:
        self.cluster = Cluster()
        self.errors: list[tuple[str, int]] = []
        self.changes = 0
        self.subscription = Subscription(
            self.cluster.metadata,
            refresh_s=300,
            timeout_s=60,
            backoff=Backoff(0.1, 1.0, lambda low, high: 1.0),
            create_topics=False,
            on_error=lambda name, error: self.errors.append((name, error.code())),
            clock=self.cluster.clock,
            **how,  # type: ignore[arg-type]
        )
        self.subscription.on_change.append(self._count)

    def _count(self) -> None:
        self.changes += 1

    def match(self, *topics: MetadataResponse.Topic) -> None:
        """Answer the due request for all topics."""
        [call], _ = self.subscription.poll(self.cluster.clock.now)
        assert isinstance(call.message, MetadataRequest)
        assert call.message.topics is None
        call.on_reply(reply(*topics))


def test_missing_names_are_wanted_too_and_growth_is_a_change() -> None:
    rig = SubscriptionRig()
    rig.subscription.replace(["b", "a", "b"], 1000.0)
    assert rig.subscription.topics == ["a", "b"]
    assert rig.subscription.poll(1000.0)[0] == []
    assert rig.changes == 0
    rig.cluster.metadata.take(reply(topic("a", 2)))
    assert rig.changes == 1
    rig.cluster.metadata.take(reply(topic("a", 2), topic("unwanted")))
    assert rig.changes == 1
    rig.cluster.metadata.take(reply(topic("a", 3), topic("b")))
    assert rig.changes == 3
    assert rig.subscription.partition_count("a") == 3


def test_patterns_match_all_but_internal_and_excluded_topics_and_match_again() -> None:
    rig = SubscriptionRig(excluded=["^log-old"])
    rig.subscription.replace(["^log-", "plain"], 1000.0)
    assert rig.subscription.topics == ["plain"]
    assert not rig.subscription.ready
    rig.match(topic("log-a"), topic("log-old"), topic("other"), topic("log-hidden", internal=True))
    assert rig.subscription.topics == ["log-a", "plain"]
    assert rig.subscription.ready
    assert rig.changes >= 1
    before = rig.changes
    rig.cluster.clock.now += 301
    rig.match(topic("log-b"), topic("log-c", error=29))
    assert rig.subscription.topics == ["log-b", "plain"]
    assert rig.changes > before
    assert "log-a" not in rig.cluster.metadata.topics, "it isn't requested any more"


@pytest.mark.parametrize("name", ["log-\x1b[2J", "log-\n", "log-\u202e", "log-" + 300 * "x"])
def test_a_name_that_no_topic_can_have_isnt_matched(name: str) -> None:
    rig = SubscriptionRig()
    rig.subscription.replace(["^log-"], 1000.0)
    rig.match(topic(name), topic("log-a"))
    assert rig.subscription.topics == ["log-a"]


def test_failed_matching_is_retried_with_back_off() -> None:
    rig = SubscriptionRig()
    rig.subscription.replace(["^a"], 1000.0)
    [call], _ = rig.subscription.poll(1000.0)
    call.on_reply(KafkaError(KafkaError._TIMED_OUT))
    calls, wake_up = rig.subscription.poll(1000.0)
    assert (calls, wake_up) == ([], pytest.approx(1000.1))


def test_replaced_subscription_is_no_change_and_ends_the_matching() -> None:
    rig = SubscriptionRig()
    rig.subscription.replace(["^a"], 1000.0)
    [call], _ = rig.subscription.poll(1000.0)
    rig.subscription.replace(["b"], 1000.0)
    call.on_reply(reply(topic("a")))
    assert rig.subscription.topics == ["b"]
    assert rig.changes == 0
    rig.subscription.replace([], 1000.0)
    assert rig.subscription.topics == []


def test_unavailable_topic_is_reported_once_until_the_error_changes() -> None:
    rig = SubscriptionRig()
    rig.subscription.replace(["a"], 1000.0)
    denied = int(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    for _ in range(2):
        rig.cluster.metadata.take(reply(topic("a", 0, denied)))
    assert rig.errors == [("a", denied)]
    rig.cluster.metadata.take(reply(topic("a")))
    rig.cluster.metadata.take(reply(topic("a", 0, denied)))
    assert rig.errors == [("a", denied)] * 2


def test_missing_topic_is_reported_once_until_it_exists() -> None:
    rig = SubscriptionRig()
    cluster, code = rig.cluster, int(KafkaError.UNKNOWN_TOPIC_OR_PART)
    rig.subscription.replace(["a"], cluster.clock.now)

    def away(seconds: float) -> None:
        end = cluster.clock.now + seconds
        while cluster.clock.now < end:
            cluster.metadata._on_reply(reply(topic("a", 0, code)))
            cluster.clock.now += 0.2

    away(0.5)
    assert rig.errors == [("a", code)]
    away(60)
    assert cluster.metadata.topics["a"].failed is not None
    assert rig.errors == [("a", code)], (
        "it is reported once, and not again after the propagation time"
    )
    cluster.metadata.take(reply(topic("a", 2)))
    assert rig.changes == 1
    assert rig.subscription.partition_count("a") == 2
    assert rig.errors == [("a", code)]
    away(10)
    assert rig.errors == [("a", code)] * 2, "it is missing again"
    assert rig.changes == 1, "a topic that doesn't come back is a change later"
    away(30)
    assert (rig.errors, rig.changes) == ([("a", code)] * 2, 2)
    rig.subscription.replace(["a"], cluster.clock.now)
    away(10)
    assert rig.errors == [("a", code)] * 3, "a new subscription reports it again"


def test_bad_pattern_is_refused_and_changes_nothing() -> None:
    rig = SubscriptionRig()
    rig.subscription.replace(["a"], 1000.0)
    with pytest.raises(ValueError, match=r"\^\(' is no regular expression"):
        rig.subscription.replace(["^("], 1000.0)
    assert rig.subscription.wanted == ["a"]


def test_patterns_that_the_broker_matches_are_left_to_it() -> None:
    rig = SubscriptionRig(server_side=True)
    rig.subscription.replace(["^(?U)a", "b"], 1000.0)
    assert rig.subscription.poll(1000.0)[0] == []
    assert rig.subscription.topics == ["b"]
    assert rig.subscription.patterns == ["^(?U)a"]


def test_names_of_topic_ids_are_found_by_a_separate_request() -> None:
    cluster = Cluster()
    names: list[str | None] = []
    one, other = b"1" * 16, b"2" * 16
    cluster.metadata.on_names.append(lambda: names.append(cluster.metadata.name_of(one)))
    cluster.metadata.resolve([one, other], 1000.0)
    [call], _ = cluster.metadata.poll(1000.0)
    assert sorted(each.topic_id for each in call.message.topics) == [one, other]
    call.on_reply(MetadataResponse(topics=[MetadataResponse.Topic(name="t", topic_id=one)]))
    assert names == ["t"]
    calls, wake_up = cluster.metadata.poll(1000.0)
    assert calls == []
    [call], _ = cluster.metadata.poll(wake_up)
    assert [each.topic_id for each in call.message.topics] == [other]
    cluster.metadata.unresolve([other])
    call.on_reply(KafkaError(KafkaError._TRANSPORT))
    assert cluster.metadata.poll(wake_up + 100)[0] == []
