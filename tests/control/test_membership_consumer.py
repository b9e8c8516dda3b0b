"""The consumer group protocol (KIP-848): one rule a test, with a fake clock and given answers."""

from __future__ import annotations

import re

import pytest

from kafka_native.control.group.consumer_membership import server_regex
from kafka_native.control.group.heartbeats import State, new_member_id
from kafka_native.control.group.membership import Membership
from kafka_native.control.requests import NEVER
from kafka_native.errors import KafkaError

from .consumer_group import COORDINATOR, ID_A, ID_B, Group, owned_of, response, stable_member


def test_consumer_membership_implements_membership() -> None:
    membership: Membership = Group().membership  # mypy's to check
    assert membership.poll(0.0) == ([], NEVER)


# --- joining ---


def test_member_id_is_made_by_the_client_as_java_spells_it() -> None:
    ids = {new_member_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", each) for each in ids)


def test_join_sends_every_field() -> None:
    group = Group("one", rack="r1", assignor="range")
    own_id = group.member.member_id
    assert not group.member.joined
    group.membership.subscribe(group.clock.now)
    sent = group.sent()
    assert (sent.group_id, sent.member_id, sent.member_epoch, sent.instance_id) == (
        "g",
        own_id,
        0,
        "one",
    )
    assert (sent.rack_id, sent.rebalance_timeout_ms, sent.server_assignor) == (
        "r1",
        300_000,
        "range",
    )
    assert (sent.subscribed_topic_names, sent.subscribed_topic_regex, sent.topic_partitions) == (
        ["a"],
        "",
        [],
    )
    assert group.pool.heartbeats == {}
    group.answer(5, {}, member_id="given")
    # version 0: the broker may rename it
    assert (group.member.member_id, group.member.generation) == ("given", 5)
    assert group.member.joined


def test_join_waits_for_the_coordinator() -> None:
    group = Group()
    group.coordinator.target = None
    group.membership.subscribe(group.clock.now)
    assert group.turn() == NEVER
    assert group.nothing_sent()
    group.coordinator.found(8)
    assert group.sent().member_epoch == 0
    assert group.calls[0].target == 8


def test_assignment_is_applied_and_confirmed_then_the_broker_thread_continues() -> None:
    group = Group(subscribed=True)
    group.answer(1, {ID_A: [0, 1]})
    assert group.rebalance.taken() == [("assign", [("a", 0), ("a", 1)])]
    assert group.pool.heartbeats == {}  # not before the coordinator has answered
    confirmed = group.sent()
    assert (confirmed.member_epoch, owned_of(confirmed)) == (1, {ID_A: [0, 1]})
    assert (
        confirmed.rebalance_timeout_ms == 300_000
    )  # a full one: its answer contains the assignment
    group.answer(1, {ID_A: [0, 1]})
    assert group.nothing_sent()
    message, interval_s, _ = group.heartbeat
    assert interval_s == 5.0
    assert (message.member_epoch, owned_of(message)) == (1, {ID_A: [0, 1]})
    assert (message.subscribed_topic_names, message.rebalance_timeout_ms, message.rack_id) == (
        None,
        -1,
        None,
    )
    assert message.server_assignor is None


def test_heartbeats_report_partitions_that_the_application_is_about_to_get() -> None:
    # Otherwise the coordinator may give them to another member, and both read them.
    group = Group(subscribed=True)
    group.rebalance.at_once = False
    group.answer(1, {ID_A: [0, 1]})
    assert group.nothing_sent()
    assert owned_of(group.heartbeat[0]) == {ID_A: [0, 1]}
    group.rebalance.finish()
    assert owned_of(group.sent()) == {ID_A: [0, 1]}


def test_an_empty_assignment_calls_no_callback() -> None:
    group = Group(subscribed=True)
    group.answer(1, {})
    assert group.rebalance.taken() == []
    assert group.nothing_sent()
    assert group.heartbeat[0].member_epoch == 1


def test_protocol_is_cooperative_from_the_first_subscription_on() -> None:
    group = Group()
    assert group.membership.assignor_protocol == "NONE"
    group.join()
    assert group.membership.assignor_protocol == "COOPERATIVE"


# --- heartbeats ---


@pytest.mark.parametrize(
    ("reported_ms", "used_s"),
    [
        (3000, 3.0),
        (500, 0.5),
        (1, 0.1),
        (0, 5.0),
        (-1, 5.0),
        (60_000, 60.0),
        (60_001, 60.0),
        (2**31 - 1, 60.0),
    ],
)
def test_interval_is_the_coordinators_within_100_ms_and_a_minute(
    reported_ms: int, used_s: float
) -> None:
    group = Group(subscribed=True)
    group.answer(1, {}, heartbeat_interval_ms=reported_ms)
    assert group.heartbeat[1] == used_s


def test_another_interval_rearms_the_heartbeat() -> None:
    group = stable_member()
    group.heartbeat[2](response(1, heartbeat_interval_ms=1000))
    assert group.pool.heartbeats == {}
    assert group.sent().member_epoch == 1
    group.answer(1, {}, heartbeat_interval_ms=1000)
    assert group.heartbeat[1] == 1.0


def test_the_same_answer_changes_nothing() -> None:
    group = stable_member({ID_A: [0]})
    group.heartbeat[2](response(1))
    assert group.nothing_sent()
    assert group.pool.stopped == 0
    assert group.rebalance.taken() == []


def test_another_epoch_is_followed_by_a_full_heartbeat() -> None:
    # A short heartbeat in between may have got an assignment that was lost.
    group = stable_member({ID_A: [0]})
    group.heartbeat[2](response(2))
    assert group.member.generation == 2
    assert group.pool.heartbeats == {}
    assert group.sent().subscribed_topic_names == ["a"]
    group.answer(2, {ID_A: [0, 3]})
    assert group.rebalance.taken() == [("assign", [("a", 3)])]


def test_one_heartbeat_at_a_time() -> None:
    group = stable_member()
    group.membership.subscribe(group.clock.now)
    group.turn()
    assert len(group.calls) == 1
    assert group.pool.heartbeats == {}
    group.membership.subscribe(group.clock.now)
    group.turn()
    assert len(group.calls) == 1  # the second waits for the first one's answer
    group.answer(1, {})
    assert group.pool.heartbeats == {}
    assert group.sent().member_epoch == 1


# --- from one assignment to the next ---


def test_revocation_is_confirmed_before_the_assignment() -> None:
    group = Group()
    group.metadata.names[ID_B] = "b"
    group.join({ID_A: [0, 1]})
    group.rebalance.at_once = False
    group.heartbeat[2](response(1, {ID_A: [0], ID_B: [5]}))
    assert group.rebalance.taken() == [("revoke", [("a", 1)])]
    # still its own: the application has not revoked it
    assert owned_of(group.sent()) == {ID_A: [0, 1]}
    group.answer(1, {ID_A: [0], ID_B: [5]})
    assert group.heartbeat[0].member_epoch == 1  # heartbeats continue during a slow callback
    group.rebalance.finish()
    assert group.rebalance.taken() == [("assign", [("b", 5)])]
    assert owned_of(group.sent()) == {ID_A: [0], ID_B: [5]}
    group.answer(2, {ID_A: [0], ID_B: [5]})
    group.rebalance.finish()
    confirmed = group.sent()
    assert (confirmed.member_epoch, owned_of(confirmed)) == (2, {ID_A: [0], ID_B: [5]})
    group.answer(2, {ID_A: [0], ID_B: [5]})
    assert group.nothing_sent()


def test_a_newer_target_follows_the_current_step() -> None:
    group = stable_member({ID_A: [0, 1, 2]})
    group.rebalance.at_once = False
    group.heartbeat[2](response(1, {ID_A: [0, 1]}))
    group.answer(1, {ID_A: [0, 1]})
    group.heartbeat[2](response(1, {ID_A: [0, 9]}))
    assert group.rebalance.taken() == [("revoke", [("a", 2)])]
    group.rebalance.finish()
    assert group.rebalance.taken() == [("revoke", [("a", 1)])]
    group.rebalance.finish()
    assert group.rebalance.taken() == [("assign", [("a", 9)])]


def test_unknown_topic_ids_are_looked_up_and_then_assigned() -> None:
    group = Group(subscribed=True)
    group.answer(1, {ID_A: [0], ID_B: [1]})
    assert group.rebalance.taken() == [("assign", [("a", 0)])]
    assert group.metadata.asked == {ID_B}
    group.answer(1, {ID_A: [0], ID_B: [1]})
    assert group.nothing_sent()
    group.metadata.learn(ID_B, "b")
    assert group.rebalance.taken() == [("assign", [("b", 1)])]
    assert owned_of(group.sent()) == {ID_A: [0], ID_B: [1]}
    assert group.metadata.asked == set()


def test_a_deleted_topic_without_a_known_name_is_looked_up_no_longer() -> None:
    group = Group(subscribed=True)
    group.answer(1, {ID_B: [1]})
    assert group.metadata.asked == {ID_B}
    group.heartbeat[2](response(2, {}))
    assert group.metadata.asked == set()
    group.metadata.learn(ID_B, "b")
    assert group.rebalance.taken() == []


def test_a_recreated_topic_is_revoked_and_assigned_again() -> None:
    group = stable_member({ID_A: [0]})
    group.metadata.names[ID_B] = "a"  # deleted and recreated: the same name, another id
    group.heartbeat[2](response(2, {ID_B: [0]}))
    assert group.rebalance.taken() == [("revoke", [("a", 0)]), ("assign", [("a", 0)])]
    assert owned_of(group.sent()) == {ID_B: [0]}


# --- subscriptions ---


def test_a_topic_with_another_id_in_metadata_is_lost_at_once_and_waits_for_the_coordinator() -> (
    None
):
    group = stable_member({ID_A: [0, 1]})
    group.membership.on_ended([("a", 0)])
    assert group.rebalance.taken() == [("lose ended", [("a", 0), ("a", 1)])]
    assert owned_of(group.sent()) == {}
    group.answer(2, {ID_A: [0, 1]})  # it doesn't know the change yet
    assert group.rebalance.taken() == []
    group.metadata.names[ID_B] = "a"
    group.clock.now += 10
    group.heartbeat[2](response(3, {ID_B: [0, 1]}))
    assert group.rebalance.taken() == [("assign", [("a", 0), ("a", 1)])]
    assert owned_of(group.sent()) == {ID_B: [0, 1]}


def test_no_offset_is_committed_for_a_topic_whose_name_has_another_id_in_the_assignment() -> None:
    group = stable_member({ID_A: [0]})
    group.metadata.names[ID_B] = "a"
    group.heartbeat[2](response(2, {ID_B: [0]}))
    assert group.rebalance.ended == {("a", 0)}
    assert group.rebalance.taken()[0] == ("revoke", [("a", 0)])


def test_a_new_subscription_is_sent_at_once_and_revokes_nothing() -> None:
    group = stable_member({ID_A: [0]})
    group.subscription.wanted = ["a", "c"]
    group.membership.subscribe(group.clock.now)
    sent = group.sent()
    assert (sent.member_epoch, sent.subscribed_topic_names) == (1, ["a", "c"])
    assert owned_of(sent) == {ID_A: [0]}
    assert group.rebalance.taken() == []


def test_patterns_go_to_the_broker_and_names_beside_them() -> None:
    group = Group()
    group.subscription.wanted = ["^x.*", "a", "^y$"]
    group.membership.subscribe(group.clock.now)
    sent = group.sent()
    assert sent.subscribed_topic_names == ["a"]
    assert sent.subscribed_topic_regex == ".*(?:(?:^x.*)|(?:^y$)).*"
    group.answer(1, {})
    group.subscription.wanted = ["a"]
    group.membership.subscribe(group.clock.now)
    assert group.sent().subscribed_topic_regex == ""  # None would keep the old one


@pytest.mark.parametrize("pattern", ["^or", "^or.*", "^orders$", "^x|ders", "^(?:a|o)r"])
def test_regex_for_the_broker_finds_what_a_search_finds(pattern: str) -> None:
    # The broker uses RE2 and matches whole names. In these expressions RE2 and Python agree.
    for topic in ("orders", "order", "orders-eu", "my-orders", "arders"):
        assert bool(re.fullmatch(server_regex([pattern]), topic)) == bool(
            re.search(pattern, topic)
        ), topic


def test_a_broker_without_patterns_has_them_matched_here() -> None:
    group = Group()
    group.subscription.wanted = ["^x", "a"]
    group.membership.subscribe(group.clock.now)
    message = group.sent()
    with pytest.raises(Exception, match="subscribed_topic_regex"):
        message.encode(0)
    group.fail(KafkaError(KafkaError._INVALID_ARG))  # the pool turns it into this error
    assert group.subscription.server_side is False
    sent = group.sent()
    assert (sent.subscribed_topic_names, sent.subscribed_topic_regex) == (["a"], "")
    sent.for_version(0).encode(0)
    group.answer(1, {})
    group.subscription.matched = ["x1"]
    for listener in group.subscription.on_change:
        listener()
    assert group.sent().subscribed_topic_names == ["a", "x1"]


def test_invalid_expression_is_reported_and_the_member_stays() -> None:
    group = stable_member({ID_A: [0]})
    group.subscription.wanted = ["^("]
    group.membership.subscribe(group.clock.now)
    group.answer(error_code=KafkaError.INVALID_REGULAR_EXPRESSION, error_message="missing )")
    assert [error.code() for error in group.errors] == [KafkaError.INVALID_REGULAR_EXPRESSION]
    assert "missing )" in group.errors[0].str()
    assert group.nothing_sent()
    assert group.heartbeat[0].member_epoch == 1
    assert group.rebalance.taken() == []
    group.subscription.wanted = ["a"]
    group.membership.subscribe(group.clock.now)
    assert group.sent().subscribed_topic_names == ["a"]


# --- errors ---


@pytest.mark.parametrize("code", [KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID])
@pytest.mark.parametrize("by_heartbeat", [True, False])
def test_fenced_loses_everything_and_joins_under_the_same_id(code: int, by_heartbeat: bool) -> None:
    group = stable_member({ID_A: [0]})
    group.rebalance.at_once = False
    if by_heartbeat:
        group.heartbeat[2](response(0, error_code=code))
    else:
        group.membership.subscribe(group.clock.now)
        group.answer(error_code=code)
    assert group.rebalance.taken() == [("lose", [])]
    assert group.pool.heartbeats == {}
    assert not group.member.joined
    assert group.nothing_sent()  # until the application knows
    group.rebalance.finish()
    sent = group.sent()
    assert (sent.member_id, sent.member_epoch, sent.topic_partitions) == ("member", 0, [])
    assert sent.subscribed_topic_names == ["a"]
    group.answer(3, {ID_A: [0]})
    assert group.rebalance.taken() == [("assign", [("a", 0)])]


def test_fencing_ends_the_step_under_way() -> None:
    group = stable_member({ID_A: [0, 1]})
    group.rebalance.at_once = False
    group.heartbeat[2](response(1, {ID_A: [0]}))
    group.answer(1, {ID_A: [0]})
    late = group.rebalance.open[0]
    group.heartbeat[2](response(0, error_code=KafkaError.FENCED_MEMBER_EPOCH))
    late()  # a real one never calls it
    group.rebalance.finish()
    assert group.sent().member_epoch == 0


def test_joins_that_are_fenced_are_retried_with_a_pause() -> None:
    group = stable_member()
    group.heartbeat[2](response(0, error_code=KafkaError.FENCED_MEMBER_EPOCH))
    assert group.sent().member_epoch == 0  # the first time at once
    for pause_s in (0.1, 0.2, 0.4):
        group.answer(error_code=KafkaError.UNKNOWN_MEMBER_ID)
        assert group.nothing_sent()
        group.clock.now += pause_s * 0.9
        assert group.nothing_sent()
        group.clock.now += pause_s * 0.2
        assert group.sent().member_epoch == 0


def test_joins_after_fencing_are_retried_with_a_pause() -> None:
    """It lets the member in each time, so no join fails."""
    group = stable_member()
    began, joins = group.clock.now, 0
    while group.clock.now < began + 10:
        group.heartbeat[2](response(0, error_code=KafkaError.FENCED_MEMBER_EPOCH))
        while group.nothing_sent():
            group.clock.now += 0.05
        assert group.sent().member_epoch == 0
        group.answer(2**31 - 1)
        joins += 1
        assert joins < 60
    assert joins > 5


@pytest.mark.parametrize("epoch", [0, -1, -2, -(2**31)])
def test_an_impossible_epoch_is_an_error_and_is_not_sent_back(epoch: int) -> None:
    group = stable_member({ID_A: [0]})
    group.heartbeat[2](response(epoch))
    assert [error.code() for error in group.errors] == [KafkaError._BAD_MSG]
    assert group.nothing_sent()
    group.clock.now += 6
    assert group.sent().member_epoch == 1
    group.answer(2, {ID_A: [0]})
    assert group.heartbeat[0].member_epoch == 2
    assert group.rebalance.taken()[1:] == []


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.UNRELEASED_INSTANCE_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.UNSUPPORTED_ASSIGNOR,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.GROUP_MAX_SIZE_REACHED,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.INVALID_REQUEST,
    ],
)
def test_fatal_errors_end_the_membership(code: int) -> None:
    group = stable_member({ID_A: [0]}, instance_id="static")
    group.heartbeat[2](response(0, error_code=code))
    assert [(error.code(), error.fatal()) for error in group.fatal] == [(code, True)]
    assert "group g" in group.fatal[0].str()
    assert group.rebalance.taken() == [("lose", [])]
    assert group.pool.heartbeats == {}
    group.membership.subscribe(group.clock.now)
    group.clock.now += 1000
    assert group.nothing_sent()
    done = group.leave("close")
    assert done == [1]


@pytest.mark.parametrize("local", [True, False])
def test_an_old_broker_gives_a_clear_error(local: bool) -> None:
    group = Group(subscribed=True)
    if local:
        group.fail(KafkaError(KafkaError._UNSUPPORTED_FEATURE, "no version"))
    else:
        group.answer(error_code=KafkaError.UNSUPPORTED_VERSION)
    assert "group.protocol=classic" in group.fatal[0].str()


def test_coordinator_moves_without_a_rebalance() -> None:
    group = stable_member({ID_A: [0]})
    group.heartbeat[2](response(0, error_code=KafkaError.NOT_COORDINATOR))
    assert group.coordinator.lost == 1
    assert group.nothing_sent()
    assert group.pool.heartbeats == {}
    group.coordinator.found(9)
    sent = group.sent()
    assert group.calls[0].target == 9
    assert (sent.member_epoch, owned_of(sent), sent.subscribed_topic_names) == (
        1,
        {ID_A: [0]},
        ["a"],
    )
    group.answer(1, {ID_A: [0]})
    assert list(group.pool.heartbeats) == [9]
    assert group.rebalance.taken() == []
    assert group.errors == []


@pytest.mark.parametrize("by_heartbeat", [True, False])
def test_a_lost_connection_is_no_lost_membership(by_heartbeat: bool) -> None:
    group = stable_member({ID_A: [0]})
    if by_heartbeat:
        group.heartbeat[2](KafkaError(KafkaError._TRANSPORT))
    else:
        group.membership.subscribe(group.clock.now)
        group.fail(KafkaError(KafkaError._TRANSPORT))
    group.clock.now += 100_000  # at any session timeout: only the coordinator ends a session
    assert group.nothing_sent()
    assert group.rebalance.taken() == []
    group.coordinator.found()
    assert owned_of(group.sent()) == {ID_A: [0]}


def test_another_coordinator_ends_the_heartbeat_to_the_old_one() -> None:
    group = stable_member()
    group.coordinator.found(9)
    assert group.pool.heartbeats == {}
    group.answer(1, {})
    assert list(group.pool.heartbeats) == [9]


def test_a_loading_coordinator_is_asked_again_after_a_pause() -> None:
    group = Group(subscribed=True)
    group.answer(error_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    assert group.coordinator.lost == 0
    assert group.turn() == pytest.approx(group.clock.now + 0.1)
    assert group.nothing_sent()
    group.clock.now += 0.11
    assert group.sent().member_epoch == 0


def test_a_stale_epoch_is_taken_over_and_tried_again() -> None:
    group = stable_member({ID_A: [0]})
    group.heartbeat[2](response(4, error_code=KafkaError.STALE_MEMBER_EPOCH))
    group.clock.now += 0.11
    assert group.sent().member_epoch == 4
    assert group.rebalance.taken() == []
    assert group.errors == []


def test_an_unauthorized_topic_is_reported_now_and_then_and_tried_again() -> None:
    group = stable_member({ID_A: [0]})
    start = group.clock.now
    group.heartbeat[2](
        response(0, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED, error_message="topic a")
    )
    while group.clock.now < start + 190:
        group.clock.now += 1.0
        if not group.nothing_sent():
            group.answer(error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED, error_message="topic a")
    assert {error.code() for error in group.errors} == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert len(group.errors) == 4, "at once, and then once a minute"
    assert "topic a" in group.errors[0].str()
    assert group.membership.state is State.JOINED


def test_a_refused_coordinator_is_reported() -> None:
    group = Group()
    for listener in group.coordinator.on_refused:
        listener(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert [error.code() for error in group.errors] == [KafkaError.GROUP_AUTHORIZATION_FAILED]


# --- leaving ---


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("one", -2)])
def test_leave_revokes_then_sends_the_leave_epoch(instance_id: str | None, epoch: int) -> None:
    group = stable_member({ID_A: [0, 1]}, instance_id=instance_id)
    group.rebalance.at_once = False
    done = group.leave("unsubscribed")
    assert group.rebalance.taken() == [("revoke", [("a", 0), ("a", 1)])]
    assert COORDINATOR in group.pool.heartbeats  # its session continues until the callback has run
    assert group.nothing_sent()
    group.rebalance.finish()
    sent = group.sent()
    assert (sent.member_id, sent.member_epoch, sent.instance_id) == ("member", epoch, instance_id)
    assert group.pool.heartbeats == {}
    assert group.calls[0].deadline <= group.clock.now + 5.0
    assert done == []
    group.answer(epoch)
    assert done == [1]
    assert group.member.generation == -1
    assert group.nothing_sent()


def test_the_epoch_is_kept_current_until_everything_is_revoked() -> None:
    # Commits in the callback must have the coordinator's epoch.
    group = stable_member({ID_A: [0, 1]})
    group.rebalance.at_once = False
    group.membership.leave("unsubscribed", lambda: None, group.clock.now)
    group.rebalance.taken()
    group.heartbeat[2](response(2, {ID_A: [0]}))
    assert group.member.generation == 2
    assert group.rebalance.taken() == []
    confirmed = group.sent()
    assert (confirmed.member_epoch, owned_of(confirmed)) == (2, {ID_A: [0, 1]})
    group.answer(2, {ID_A: [0]})
    assert group.heartbeat[0].member_epoch == 2
    group.rebalance.finish()
    assert group.sent().member_epoch == -1


def test_member_that_is_fenced_while_leaving_still_leaves() -> None:
    group = stable_member({ID_A: [0]})
    group.rebalance.at_once = False
    done = group.leave("unsubscribed")
    group.heartbeat[2](response(0, error_code=KafkaError.FENCED_MEMBER_EPOCH))
    assert group.nothing_sent()
    assert group.pool.heartbeats == {}
    group.rebalance.finish()
    group.answer(error_code=KafkaError.UNKNOWN_MEMBER_ID)
    assert done == [1]
    assert group.rebalance.taken() == [("revoke", [("a", 0)])]


def test_leave_ends_without_an_answer() -> None:
    group = stable_member()
    done = group.leave("close")
    group.fail(KafkaError(KafkaError._TRANSPORT))
    assert done == [1]


def test_leave_without_a_coordinator_ends_at_once() -> None:
    group = stable_member()
    group.coordinator.target = None
    done = group.leave("close")
    assert done == [1]
    assert group.nothing_sent()


def test_leave_while_a_join_is_under_way_is_sent_behind_it() -> None:
    group = Group(subscribed=True)
    group.turn()
    done = group.leave("close")
    group.turn()
    assert [call.message.member_epoch for call in group.calls] == [0, -1]  # type: ignore[attr-defined]
    group.answer(1, {ID_A: [0]})  # the answer has no effect any more
    assert group.rebalance.taken() == [("revoke", [])]
    group.answer(-1)
    assert done == [1]


def test_leave_revokes_a_pending_assignment() -> None:
    group = Group()
    group.rebalance.at_once = False
    group.membership.subscribe(group.clock.now)
    group.answer(1, {ID_A: [0]})
    group.membership.leave("unsubscribed", lambda: None, group.clock.now)
    assert group.rebalance.taken() == [("assign", [("a", 0)]), ("revoke", [("a", 0)])]


def test_leave_twice_ends_twice_and_before_joining_at_once() -> None:
    group = Group()
    done: list[int] = []
    group.membership.leave("close", lambda: done.append(0), group.clock.now)
    assert done == [0]
    group.join()
    group.membership.leave("unsubscribed", lambda: done.append(1), group.clock.now)
    group.membership.leave("close", lambda: done.append(2), group.clock.now)
    group.answer(-1)
    assert done == [0, 1, 2]


def test_subscribed_again_while_leaving_joins_behind_it() -> None:
    group = stable_member({ID_A: [0]})
    group.membership.leave("unsubscribed", lambda: None, group.clock.now)
    group.membership.subscribe(group.clock.now)
    assert group.sent().member_epoch == -1
    group.answer(-1)
    sent = group.sent()
    assert (sent.member_id, sent.member_epoch) == ("member", 0)


def test_close_ends_a_leave_that_is_waited_for() -> None:
    group = stable_member({ID_A: [0]})
    group.rebalance.at_once = False
    done = group.leave("close")
    group.membership.close()
    assert done == [1]
    assert group.pool.heartbeats == {}
    assert group.nothing_sent()


# --- max.poll.interval.ms ---


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("one", -2)])
def test_no_poll_leaves_at_once_and_joins_with_the_next(
    instance_id: str | None, epoch: int
) -> None:
    group = stable_member({ID_A: [0]}, instance_id=instance_id)
    group.rebalance.at_once = False
    group.membership.on_poll_exceeded(group.clock.now)
    assert group.sent().member_epoch == epoch
    assert group.pool.heartbeats == {}
    group.answer(epoch)
    assert group.rebalance.taken() == [("lose", [])]
    group.clock.now += 100
    assert group.nothing_sent()
    group.membership.rejoin("polled", group.clock.now)
    assert group.nothing_sent()  # first the callback, in that poll()
    group.rebalance.finish()
    sent = group.sent()
    assert (sent.member_id, sent.member_epoch) == ("member", 0)


def test_joins_when_the_callback_ran_before_the_poll_was_seen() -> None:
    group = stable_member({ID_A: [0]})
    group.membership.on_poll_exceeded(group.clock.now)
    group.answer(-1)
    assert group.nothing_sent()
    group.membership.rejoin("polled", group.clock.now)
    assert group.sent().member_epoch == 0


def test_no_poll_while_leaving_leaves_without_the_callback() -> None:
    group = stable_member({ID_A: [0]})
    group.rebalance.at_once = False
    done = group.leave("unsubscribed")
    group.membership.on_poll_exceeded(group.clock.now)
    assert group.sent().member_epoch == -1
    group.answer(-1)
    assert done == [1]


def test_unsubscribed_while_out_for_not_polling() -> None:
    group = stable_member({ID_A: [0]})
    group.membership.on_poll_exceeded(group.clock.now)
    group.answer(-1)
    done = group.leave("unsubscribed")
    assert done == [1]
    group.membership.rejoin("polled", group.clock.now)
    assert group.nothing_sent()


# --- hostile answers ---


def test_impossible_partitions_are_left_out() -> None:
    group = Group(subscribed=True)
    group.answer(1, {ID_A: [-1, 0, 0]})
    assert group.rebalance.taken() == [("assign", [("a", 0)])]


def test_answers_to_an_earlier_membership_are_ignored() -> None:
    group = stable_member({ID_A: [0]})
    old = group.heartbeat[2]
    group.heartbeat[2](response(0, error_code=KafkaError.FENCED_MEMBER_EPOCH))
    group.rebalance.taken()
    old(response(9, {ID_A: [4]}))
    assert group.rebalance.taken() == []
    assert group.sent().member_epoch == 0
