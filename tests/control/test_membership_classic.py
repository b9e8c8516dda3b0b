"""The member's side of the classic protocol: joining, syncing, heartbeats, loss, leaving."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.brokers.pool import COORDINATORS
from kafka_native.control.group.classic_membership import MARGIN_S, MATCH_S, State
from kafka_native.control.requests import NEVER
from kafka_native.errors import KafkaError
from kafka_native.protocol.groups import HeartbeatRequest, JoinGroupRequest, SyncGroupResponse

from .classic import SETTINGS, TARGET, Group, refuse, said, subscription

T0, T1, T2, T3 = (("t", number) for number in range(4))


def member(strategies: Any = "range", *keys: Any, **how: Any) -> Group:
    """Return a stable member."""
    group = Group(strategies, **how, subscribed="t")
    group.enter(*keys)
    group.quiet()
    group.log  # noqa: B018
    return group


# --- joining ---


def test_nothing_is_sent_before_a_subscription():
    group = Group()
    group.quiet()
    assert group.membership.assignor_protocol == "NONE"
    assert group.coordinator.wants == 0


def test_member_joins_syncs_and_heartbeats():
    group = Group("range,roundrobin", subscribed="t")
    call = group.join()
    assert call.target == TARGET
    assert call.deadline == group.clock.now + SETTINGS.rebalance_timeout_s + MARGIN_S
    request: Any = call.message
    assert (request.group_id, request.member_id, request.group_instance_id) == ("g", "", None)
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 60_000)
    assert request.protocol_type == "consumer"
    assert [each.name for each in request.protocols] == ["range", "roundrobin"]
    me = said(call)
    assert (me.topics, me.owned, me.generation) == (["t"], [], -1)
    assert request.reason
    refuse(call, KafkaError.MEMBER_ID_REQUIRED, member_id="me")  # KIP-394
    call = group.join()
    request = call.message
    assert request.member_id == "me"
    assert group.pool.heartbeating is None
    group.joined(call, 7)
    assert group.member.generation == 7
    call = group.sync()
    request = call.message
    assert (request.generation_id, request.member_id, request.assignments) == (7, "me", [])
    assert (request.protocol_type, request.protocol_name) == ("consumer", "range")
    group.synced(call, T0, T1)
    assert group.log == [("assign", [T0, T1])]
    heartbeating: Any = group.pool.heartbeating
    assert (heartbeating.target, heartbeating.interval_s) == (TARGET, 1.0)
    assert heartbeating.timeout_s < SETTINGS.session_timeout_s
    assert (heartbeating.message.generation_id, heartbeating.message.member_id) == (7, "me")
    assert group.membership.assignor_protocol == "EAGER"
    assert group.wait(1000.0) == []  # the broker's thread sends heartbeats


def test_join_waits_for_the_coordinator():
    group = Group()
    group.coordinator.hidden = True
    group.subscribe("t")
    group.quiet()
    group.coordinator.find()
    group.enter(T0)


def test_given_member_id_asked_for_twice_is_no_hot_loop():
    group = Group(subscribed="t")
    refuse(group.join(), KafkaError.MEMBER_ID_REQUIRED, member_id="me")
    refuse(group.join(), KafkaError.MEMBER_ID_REQUIRED, member_id="me")
    group.quiet()
    [call] = group.wait(1.0)
    assert isinstance(call.message, JoinGroupRequest)
    assert group.errors


def test_patterns_are_matched_before_the_first_join():
    group = Group(topics={"orders": 2}, subscribed="^ord")
    group.quiet()
    group.subscription.match("orders")
    call = group.join()
    assert said(call).topics == ["orders"]


def test_pattern_without_a_match_still_joins():
    group = Group(subscribed="^nothing")
    group.quiet()
    [call] = group.wait(MATCH_S)
    assert isinstance(call.message, JoinGroupRequest)


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        (KafkaError.GROUP_MAX_SIZE_REACHED, True),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, True),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, True),
        (KafkaError.INVALID_SESSION_TIMEOUT, True),
        (KafkaError.INVALID_GROUP_ID, True),
        (KafkaError.UNKNOWN, True),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, False),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, False),
        (KafkaError.NOT_COORDINATOR, False),
        (KafkaError.REBALANCE_IN_PROGRESS, False),
        (KafkaError.UNKNOWN_MEMBER_ID, False),
        (KafkaError.ILLEGAL_GENERATION, False),
    ],
)
def test_refused_join_is_tried_again_with_back_off(code: int, reported: bool):
    group = Group(subscribed="t")
    refuse(group.join(), KafkaError.MEMBER_ID_REQUIRED, member_id="me")
    joins = 0
    for _ in range(1200):  # one minute
        for call in group.wait(0.05):
            assert isinstance(call.message, JoinGroupRequest)
            joins += 1
            refuse(call, code)
    assert 50 <= joins <= 80
    assert bool(group.errors) is reported
    assert len(group.errors) <= 13  # fewer than one for each attempt
    if reported:
        assert group.errors[0].code() == code
        assert "group g: JoinGroup failed" in group.errors[0].str()
    [call] = group.wait(2.0)
    group.joined(call)
    group.synced(group.sync(), T0)
    assert group.log[-1] == ("assign", [T0])


def test_refused_session_timeout_is_named_with_the_brokers_limits():
    group = Group(subscribed="t")
    refuse(group.join(), KafkaError.INVALID_SESSION_TIMEOUT)
    text = group.errors[0].str()
    assert "session.timeout.ms=10000" in text
    assert "group.max.session.timeout.ms" in text


def test_brokers_without_groups_are_named_as_such():
    group = Group(subscribed="t")
    group.join().answer(KafkaError(KafkaError._UNSUPPORTED_FEATURE, "no version"))
    assert "no version: groups need Apache Kafka 0.9 or newer" in group.errors[0].str()


def test_unknown_member_joins_without_its_id():
    group = Group(subscribed="t")
    refuse(group.join(), KafkaError.MEMBER_ID_REQUIRED, member_id="me")
    refuse(group.join(), KafkaError.UNKNOWN_MEMBER_ID)
    request: Any = group.join().message
    assert request.member_id == ""


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._BAD_MSG]
)
def test_join_without_an_answer_keeps_the_member_id(code: int):
    group = Group(subscribed="t")
    refuse(group.join(), KafkaError.MEMBER_ID_REQUIRED, member_id="me")
    group.join().on_reply(KafkaError(code))
    [call] = group.wait(0.2)
    request: Any = call.message
    assert request.member_id == "me"


def test_protocol_that_was_not_offered_is_refused():
    group = Group(subscribed="t")
    group.joined(group.join(), name="foreign")
    group.quiet()
    assert group.errors[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    assert "foreign" in group.errors[0].str()
    assert group.wait(0.3)


# --- eager and cooperative ---


def test_eager_member_revokes_everything_before_it_joins_again():
    group = member("range", T0, T1)
    group.rebalance.manual = True
    group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
    group.quiet()
    assert group.log == [("revoke", [T0, T1])]
    assert group.pool.heartbeating is not None  # while the application revokes
    group.rebalance.manual = False
    group.rebalance.finish()
    call = group.join()
    assert group.pool.heartbeating is None
    assert said(call).owned == []
    group.joined(call, 2)
    group.synced(group.sync(), T1)
    assert group.log == [("assign", [T1])]
    group.quiet()


def test_cooperative_member_keeps_its_partitions_and_rejoins_after_a_revocation():
    group = member("cooperative-sticky", T0, T1)
    assert group.membership.assignor_protocol == "COOPERATIVE"
    group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
    call = group.join()
    me = said(call)
    assert (me.owned, me.generation) == ([T0, T1], 1)
    assert group.log == []
    group.joined(call, 2)
    group.synced(group.sync(), T0, T2)
    assert group.log == [("revoke", [T1]), ("assign", [T2])]
    call = group.join()
    assert said(call).owned == [T0, T2]
    group.joined(call, 3)
    group.synced(group.sync(), T0, T2)
    assert group.log == [("assign", [])]  # the application gets a callback for every rebalance
    group.quiet()


def test_cooperative_rejoin_waits_for_the_application():
    group = member("cooperative-sticky", T0, T1)
    group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
    group.joined(group.join(), 2)
    group.rebalance.manual = True
    group.synced(group.sync(), T0, T2)
    group.quiet()
    group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
    group.quiet()
    group.rebalance.finish()  # T1 is revoked
    group.quiet()
    assert group.log == [("revoke", [T1]), ("assign", [T2])]
    group.rebalance.finish()
    assert said(group.join()).owned == [T0, T2]


def test_cooperative_member_revokes_unsubscribed_topics_before_it_joins():
    group = member("cooperative-sticky", T0, ("u", 0))
    group.membership._assignment.add(("u", 0))
    group.rebalance.owned.add(("u", 0))
    group.subscribe("t")
    group.join()
    assert group.log == [("revoke", [("u", 0)])]


def test_unsubscribed_topics_of_an_assignment_do_not_reach_the_application():
    group = Group(topics={"t": 4, "u": 1})
    group.subscribe("t", "u")
    group.joined(group.join())
    call = group.sync()
    group.subscribe("t")  # while the leader assigns
    group.synced(call, T0, ("u", 0))
    assert group.log == [("assign", [T0])]
    group.join()


def test_leader_that_assigns_foreign_topics_is_reported():
    group = Group(subscribed="t")
    group.joined(group.join())
    group.synced(group.sync(), T0, ("secret", 0))
    assert group.log == [("assign", [T0])]
    assert "secret" in group.errors[0].str()
    group.quiet()


# --- subscriptions ---


def test_new_subscription_rejoins():
    group = member("range", T0)
    group.subscribe("t", "u")
    assert said(group.join()).topics == ["t", "u"]
    assert group.log == [("revoke", [T0])]


def test_new_match_rejoins_only_if_topics_differ():
    group = Group(topics={"t1": 1, "t2": 1}, subscribed="^t")
    group.subscription.match("t1")
    group.enter(("t1", 0))
    group.subscription.match("t1")
    group.quiet()
    group.subscription.match("t1", "t2")
    assert said(group.join()).topics == ["t1", "t2"]


def test_subscribe_while_joining_is_followed_by_another_join():
    group = Group(topics={"t": 4, "u": 1}, subscribed="t")
    call = group.join()
    group.subscribe("u")
    group.quiet()
    group.joined(call)
    group.synced(group.sync(), T0)
    assert group.log == [("assign", [])]
    assert said(group.join()).topics == ["u"]


# --- syncing ---


@pytest.mark.parametrize(
    ("code", "lost", "keeps_id"),
    [
        (KafkaError.REBALANCE_IN_PROGRESS, False, True),
        (KafkaError.UNKNOWN_MEMBER_ID, True, False),
        (KafkaError.ILLEGAL_GENERATION, True, True),
    ],
)
def test_overtaken_sync_joins_again_at_once(code: int, lost: bool, keeps_id: bool):
    group = member("cooperative-sticky", T0)
    group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
    group.joined(group.join(), 2)
    refuse(group.sync(), code)
    assert group.log == ([("lose", [T0])] if lost else [])
    call = group.join()
    request: Any = call.message
    assert request.member_id == ("me" if keeps_id else "")
    me = said(call)
    assert (me.owned, me.generation) == (([], -1) if lost else ([T0], 2))
    assert group.errors == []


@pytest.mark.parametrize(
    "code", [KafkaError.REBALANCE_IN_PROGRESS, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.UNKNOWN]
)
def test_sync_that_is_always_refused_is_no_hot_loop(code: int):
    group = Group(subscribed="t")
    syncs = 0
    for _ in range(300):
        for call in group.wait(0.2):
            if isinstance(call.message, JoinGroupRequest):
                group.joined(call)
            else:
                syncs += 1
                refuse(call, code)
    assert 40 < syncs < 90  # a minute


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE])
def test_coordinator_that_moves_during_sync(code: int):
    group = member("cooperative-sticky", T0)
    group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
    group.joined(group.join(), 2)
    call = group.sync()
    group.coordinator.hidden = True
    refuse(call, code)
    assert group.wait(1.0) == []
    group.coordinator.find(TARGET + 1)
    calls = group.turn()
    [join] = [each for each in calls if isinstance(each.message, JoinGroupRequest)]
    assert join.target == TARGET + 1
    assert join.message.member_id == "me"
    assert group.log == []


def test_assignment_that_cannot_be_read_is_reported_and_asked_for_again():
    group = Group(subscribed="t")
    group.joined(group.join())
    group.sync().on_reply(SyncGroupResponse(assignment=b"\0\0\x7f\xff\xff\xff"))
    assert group.errors[0].code() == KafkaError._BAD_MSG
    assert group.wait(0.05) == []
    [call] = group.wait(0.2)
    group.joined(call, 2)
    group.synced(group.sync(), T0)
    assert group.log == [("assign", [T0])]


def test_empty_assignment_is_an_assignment():
    group = Group(subscribed="t")
    group.joined(group.join())
    group.sync().on_reply(SyncGroupResponse(assignment=b""))
    assert group.log == [("assign", [])]
    assert group.state is State.STABLE


def test_sync_in_another_protocol_is_refused():
    group = Group(subscribed="t")
    group.joined(group.join())
    group.sync().on_reply(SyncGroupResponse(protocol_type="connect", protocol_name="range"))
    assert group.errors[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    assert group.log == []


# --- heartbeats ---


@pytest.mark.parametrize(
    ("code", "keeps_id"),
    [(KafkaError.UNKNOWN_MEMBER_ID, False), (KafkaError.ILLEGAL_GENERATION, True)],
)
def test_expelled_member_loses_everything_and_joins_again(code: int, keeps_id: bool):
    group = member("cooperative-sticky", T0, T1)
    group.rebalance.manual = True
    group.heartbeat(code)
    assert group.log == [("lose", [T0, T1])]
    assert group.member.generation == -1
    assert group.pool.heartbeating is None
    group.quiet()  # until the application knows
    group.rebalance.finish()
    call = group.join()
    request: Any = call.message
    assert request.member_id == ("me" if keeps_id else "")
    assert said(call).owned == []


def test_loss_while_another_step_is_open():
    group = Group("cooperative-sticky", subscribed="t")
    group.rebalance.manual = True
    group.enter(T0)
    # the assignment has not reached the application yet
    group.heartbeat(KafkaError.UNKNOWN_MEMBER_ID)
    assert group.log == [("assign", [T0]), ("lose", [])]
    group.rebalance.finish()
    assert group.rebalance.open == []
    group.rebalance.manual = False
    group.enter(T1)
    assert group.log == [("assign", [T1])]


def test_broken_connection_causes_no_rebalance():
    group = member("range", T0)
    group.coordinator.hidden = True
    group.heartbeat_fails()
    assert group.wait(3.0) == []
    group.coordinator.find()
    call = group.one(HeartbeatRequest)
    assert call.target == TARGET
    refuse(call, 0)
    assert group.pool.heartbeating is not None
    assert group.wait(100.0) == []
    assert group.log == []


def test_heartbeats_go_to_the_new_coordinator():
    group = member("range", T0)
    group.coordinator.find(TARGET + 1)
    call = group.one(HeartbeatRequest)
    assert call.target == TARGET + 1
    refuse(call, 0)
    heartbeating: Any = group.pool.heartbeating
    assert heartbeating.target == TARGET + 1
    assert group.log == []


def test_heartbeat_of_the_old_coordinator_is_ignored_later():
    group = member("range", T0)
    old: Any = group.pool.heartbeating
    group.coordinator.find(TARGET + 1)
    refuse(group.one(HeartbeatRequest), 0)
    old.on_reply(KafkaError(KafkaError._TRANSPORT))
    assert group.coordinator.target == TARGET + 1
    group.quiet()


def test_moved_coordinator_is_looked_up_and_the_member_continues():
    group = member("range", T0)
    group.coordinator.hidden = True
    group.heartbeat(KafkaError.NOT_COORDINATOR)
    assert group.pool.heartbeating is None
    group.quiet()
    group.coordinator.find(TARGET + 1)
    refuse(group.one(HeartbeatRequest), KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    [call] = group.wait(SETTINGS.heartbeat_interval_s)
    refuse(call, 0)
    assert group.wait(100.0) == []
    assert group.log == []


def test_session_ends_without_an_answered_heartbeat():
    group = member("range", T0)
    group.clock.now += 500.0
    group.coordinator.hidden = True
    group.heartbeat_fails()
    assert group.wait(SETTINGS.session_timeout_s - 0.1) == []
    assert group.log == []
    group.wait(0.2)
    assert group.log == [("lose", [T0])]
    assert (group.member.member_id, group.member.generation) == ("", -1)
    group.coordinator.find()
    group.enter(T0)


def test_session_counts_from_the_last_answer_when_heartbeats_time_out():
    group = member("range", T0)
    heartbeating: Any = group.pool.heartbeating
    group.coordinator.hidden = True
    group.pool.last_confirmed = group.clock.now
    group.clock.now += heartbeating.timeout_s
    group.heartbeat_fails(KafkaError._TIMED_OUT)
    group.wait(SETTINGS.session_timeout_s - heartbeating.timeout_s + 0.1)
    assert group.log == [("lose", [T0])]


@pytest.mark.parametrize("code", [0, KafkaError.REBALANCE_IN_PROGRESS, KafkaError._TIMED_OUT])
def test_a_member_that_was_frozen_for_its_session_is_a_new_one(code: int):
    group = member("range", T0)
    group.pool.last_confirmed = group.clock.now
    group.clock.now += SETTINGS.session_timeout_s + 1.0
    if code == KafkaError._TIMED_OUT:
        group.heartbeat_fails(code)
    else:
        group.heartbeat(code)  # from before; the group has removed the member since
    call = group.join()
    assert group.log == [("lose", [T0])]
    assert call.message.member_id == ""


def test_refused_heartbeats_are_reported_and_end_the_session():
    group = member("range", T0)
    group.heartbeat(KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert group.errors[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    group.wait(SETTINGS.session_timeout_s - 0.5)
    assert group.log == []
    group.wait(1.0)
    assert group.log == [("lose", [T0])]


def test_answered_heartbeat_resets_the_count_of_refused_ones():
    group = member("range", T0)
    group.heartbeat(KafkaError.UNKNOWN)
    group.wait(5.0)
    group.heartbeat(0)
    assert group.wait(100.0) == []
    assert group.log == []


# --- static members ---


def test_static_member_sends_its_instance_id_and_does_not_leave():
    group = Group(instance_id="i1", subscribed="t")
    call = group.join()
    request: Any = call.message
    assert request.group_instance_id == "i1"
    group.joined(call)
    call = group.sync()
    request = call.message
    assert request.group_instance_id == "i1"
    group.synced(call, T0)
    heartbeating: Any = group.pool.heartbeating
    assert heartbeating.message.group_instance_id == "i1"
    done = group.leave()
    group.quiet()
    assert done == ["left"]
    assert group.log == [("assign", [T0]), ("revoke", [T0])]


@pytest.mark.parametrize("where", ["join", "sync", "heartbeat"])
def test_fenced_instance_is_fatal(where: str):
    group = member("cooperative-sticky", T0, instance_id="i1")
    if where != "heartbeat":
        group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
        call = group.join()
        if where == "sync":
            group.joined(call, 2)
            call = group.sync()
        refuse(call, KafkaError.FENCED_INSTANCE_ID)
    else:
        group.heartbeat(KafkaError.FENCED_INSTANCE_ID)
    assert group.log == [("lose", [T0])]
    [error] = group.fatal
    assert error.fatal()
    assert error.code() == KafkaError.FENCED_INSTANCE_ID
    assert "group.instance.id=i1" in error.str()
    assert group.pool.heartbeating is None
    assert group.wait(100.0) == []
    assert group.leave() == ["left"]
    group.subscribe("t")
    assert group.wait(100.0) == []


def test_skipped_assignment_of_a_static_leader():
    group = Group(instance_id="i1", subscribed="t")
    group.joined(
        group.join(),
        leader="me",
        skip_assignment=True,
        members={"me": subscription(["t"]), "b": subscription(["u"])},
    )
    request: Any = group.sync().message
    assert request.assignments == []
    group.metadata.learn("u", 3)  # unknown so far: no change
    group.quiet()


# --- max.poll.interval.ms ---


def test_member_that_does_not_poll_leaves_until_it_polls():
    group = member("range", T0)
    group.rebalance.manual = True
    group.membership.on_poll_exceeded(group.clock.now)
    assert group.log == [("lose", [T0])]
    request: Any = group.goodbye().message
    assert request.members[0].member_id == "me"
    assert "max.poll.interval.ms" in request.members[0].reason
    assert group.pool.heartbeating is None
    assert group.wait(100.0) == []
    group.membership.rejoin("the application polls again", group.clock.now)
    group.quiet()
    group.rebalance.manual = False
    group.rebalance.finish()
    group.enter(T1)
    assert group.log == [("assign", [T1])]


def test_static_member_that_does_not_poll_only_stops():
    group = member("range", T0, instance_id="i1")
    group.membership.on_poll_exceeded(group.clock.now)
    assert group.wait(100.0) == []
    assert group.pool.heartbeating is None
    assert group.log == [("lose", [T0])]


def test_stale_member_that_unsubscribes_leaves():
    group = member("range", T0)
    group.membership.on_poll_exceeded(group.clock.now)
    group.goodbye()
    done = group.leave()
    group.wait(1.0)
    assert done == ["left"]
    assert group.state is State.OUT


# --- leaving ---


def test_leaving_revokes_then_sends_the_reason():
    group = member("cooperative-sticky", T0, T1)
    group.rebalance.manual = True
    done = group.leave()
    group.quiet()
    assert group.log == [("revoke", [T0, T1])]
    assert group.pool.heartbeating is not None
    group.rebalance.finish()
    call = group.goodbye()
    request: Any = call.message
    assert request.group_id == "g"
    [leaving] = request.members
    assert (leaving.member_id, leaving.reason) == ("me", "the consumer unsubscribed")
    assert request.member_id == "me"
    assert group.pool.heartbeating is None
    assert done == []
    refuse(call, 0)
    assert done == ["left"]
    assert (group.member.member_id, group.member.generation) == ("", -1)
    assert group.wait(100.0) == []


@pytest.mark.parametrize(
    "answer", [KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._DESTROY]
)
def test_leaving_ends_with_any_answer_of_the_coordinator(answer: int):
    group = member("range", T0)
    done = group.leave()
    group.goodbye().on_reply(KafkaError(answer))
    assert done == ["left"]


def test_leaving_without_a_coordinator_is_bounded():
    group = member("range", T0)
    group.coordinator.hidden = True
    group.coordinator.target = None
    done = group.leave()
    assert group.wait(4.0) == []
    assert done == []
    assert group.wait(2.0) == []
    assert done == ["left"]


def test_leaving_finds_the_coordinator_in_time():
    group = member("range", T0)
    group.coordinator.hidden = True
    group.coordinator.target = None
    done = group.leave()
    group.wait(1.0)
    group.coordinator.find(TARGET + 1)
    call = group.goodbye()
    assert call.target == TARGET + 1
    refuse(call, 0)
    assert done == ["left"]


def test_leaving_while_a_join_is_held_by_the_broker():
    group = member("cooperative-sticky", T0)
    group.heartbeat(KafkaError.REBALANCE_IN_PROGRESS)
    held = group.join()
    done = group.leave()
    call = group.goodbye()
    assert call.target == TARGET - COORDINATORS  # the broker reads nothing behind the JoinGroup
    refuse(call, 0)
    assert done == ["left"]
    refuse(held, KafkaError.UNKNOWN_MEMBER_ID)
    group.quiet()
    assert group.log == [("revoke", [T0])]


@pytest.mark.parametrize("code", [0, KafkaError.MEMBER_ID_REQUIRED])
def test_member_created_after_leaving_leaves_too(code: int):
    group = Group(subscribed="t")
    call = group.join()
    done = group.leave()
    group.quiet()
    assert done == ["left"]
    refuse(call, code, member_id="late")
    request: Any = group.goodbye().message
    assert request.members[0].member_id == "late"


def test_leaving_before_anything_was_sent():
    group = Group()
    assert group.leave() == ["left"]
    group.coordinator.hidden = True
    group.subscribe("t")
    group.quiet()
    done = group.leave()
    group.quiet()
    assert done == ["left"]


def test_subscribing_again_quickly():
    group = member("range", T0)
    group.rebalance.manual = True
    done = group.leave()
    group.subscribe("t")
    group.quiet()
    group.rebalance.manual = False
    group.rebalance.finish()
    refuse(group.goodbye(), 0)
    assert done == ["left"]
    group.enter(T1)
    assert group.log == [("revoke", [T0]), ("assign", [T1])]


def test_every_version_of_leaving_can_be_written():
    group = member("range", T0)
    group.leave()
    request: Any = group.goodbye().message
    for version in range(request.max_version + 1):
        written = type(request).decode(request.for_version(version).encode(version), version)
        assert [written.member_id, *(each.member_id for each in written.members)].count("me") == 1


def test_each_of_two_leaves_ends():
    group = member("range", T0)
    first, second = group.leave(), group.leave()
    refuse(group.goodbye(), 0)
    assert (first, second) == (["left"], ["left"])


def test_close_ends_waiting_calls():
    group = member("range", T0)
    group.rebalance.manual = True
    done = group.leave()
    group.membership.close()
    assert done == ["left"]
    assert group.pool.heartbeating is None
    assert group.wait(100.0) == []
    assert group.wake_up == NEVER
