"""Reads a client's statistics from the engine and the managers.

`statistics` imports it when the first document is due: most programs ask for none.

Thread: the control thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_native._native import snapshots
from kafka_native._native.enums import (
    BROKER_CONNECTING,
    BROKER_DOWN,
    BROKER_HANDSHAKE,
    BROKER_INIT,
    BROKER_STOPPED,
    BROKER_UP,
)
from kafka_native.control.group.rebalance import Kind
from kafka_native.control.metadata import NO_LEADER
from kafka_native.control.positions import NO_EPOCH
from kafka_native.control.states import JOIN_STATES, States
from kafka_native.protocol.api_keys import ApiKey
from kafka_native.statistics import (
    INTERNAL_PARTITION,
    BrokerMetrics,
    BrokerPartition,
    ClientMetrics,
    ConsumerMetrics,
    EosMetrics,
    FatalMetrics,
    GroupMetrics,
    PartitionMetrics,
    TopicMetrics,
    Window,
)
from kafka_native.types import OFFSET_INVALID

if TYPE_CHECKING:
    from kafka_native._native.engine import Topic
    from kafka_native.control.brokers.broker import Broker
    from kafka_native.control.consumer.fetches import Assigned
    from kafka_native.control.context import ManagerContext
    from kafka_native.control.main_thread import Managers
    from kafka_native.control.metadata import Topic as Known
    from kafka_native.errors import KafkaError

STATES = {
    BROKER_INIT: "INIT",
    BROKER_DOWN: "DOWN",
    BROKER_CONNECTING: "CONNECT",
    BROKER_HANDSHAKE: "APIVERSION_QUERY",
    BROKER_UP: "UP",
    BROKER_STOPPED: "DOWN",
}
AUTH_STATES = {ApiKey.SASL_HANDSHAKE: "AUTH_HANDSHAKE", ApiKey.SASL_AUTHENTICATE: "AUTH_REQ"}
"""The state by the request that authenticates the connection."""

COMMON = (
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
)
PRODUCING = (
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
)
CONSUMING = (
    ApiKey.FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
)
"""Requests that the statistics always list, even with a count of 0."""

COORDINATOR = "GroupCoordinator"


def api_name(key: int) -> str:
    """A request's name in librdkafka's statistics."""
    try:
        api = ApiKey(key)
    except ValueError:
        return f"Unknown-{key}?"
    return "ApiVersion" if api is ApiKey.API_VERSIONS else api.name.title().replace("_", "")


def _state(state: str, broker: Broker) -> str:
    """A broker's state with the stage of authentication, which the engine doesn't know."""
    under_way = broker.authentication
    if under_way is None:
        return state
    return "REAUTH" if under_way.again else AUTH_STATES[under_way.asked]


class Polls(NamedTuple):
    """The application's polls until the end of a window: sums since the start."""

    at: float
    sum_us: int = 0
    calls: int = 0
    idle_us: int = 0


class MetricsReader:
    """Makes a `ClientMetrics` of all current values."""

    def __init__(
        self,
        context: ManagerContext,
        managers: Managers,
        states: States,
        *,
        name: str,
        client_id: str,
        kind: str,
        fatal: Callable[[], KafkaError | None],
        clock: Callable[[], float],
    ) -> None:
        """The arguments are those of `Statistics`."""
        self._context = context
        self._managers = managers
        self._control = managers.consumer
        self._states = states
        self._name = name
        self._client_id = client_id
        self._type = "consumer" if kind == "consumer" else "producer"
        self._apis = sorted(COMMON + (CONSUMING if kind == "consumer" else PRODUCING))
        self._fatal = fatal
        self._clock = clock
        self._polls_since = Polls(states.made_at)

    def read(self, *, end: bool) -> ClientMetrics:
        """Returns all current values. ``end``: ends the windows."""
        # first, so that the document contains everything up to this time
        began_us = time.monotonic_ns() // 1000
        now = self._clock()
        self._states.record(now)
        engine = self._context.engine
        counted = snapshots.client_snapshot(engine)
        counted["replyq"] += len(engine.callbacks) + len(engine.notices)
        if self._type == "consumer":
            counted |= {"msg_max": 0, "msg_size_max": 0}
        topics = self._topics(now, end)
        return ClientMetrics(
            name=self._name,
            client_id=self._client_id,
            type=self._type,
            ts=began_us,
            time=int(time.time()),
            age=int((now - self._states.made_at) * 1_000_000),
            simple_cnt=0,
            metadata_cache_cnt=sum(topic.known for topic in self._context.metadata.topics.values()),
            brokers=self._brokers(topics, end),
            topics=topics,
            cgrp=self._group(now),
            eos=self._eos(now),
            fatal=self._fatal_metrics(),
            consumer=None if self._control is None else self._consumer(topics, now, end),
            **counted,
        )

    def _fatal_metrics(self) -> FatalMetrics | None:
        error = self._fatal()
        return None if error is None else FatalMetrics(error.name(), error.str(), 1)

    # --- brokers ---

    def _brokers(self, topics: dict[str, TopicMetrics], end: bool) -> dict[str, BrokerMetrics]:
        toppars: dict[int, dict[str, BrokerPartition]] = {}
        for topic in topics.values():
            for each in topic.partitions.values():
                of_broker = toppars.setdefault(each.broker, {})
                of_broker[f"{topic.topic}-{each.partition}"] = BrokerPartition(
                    topic.topic, each.partition
                )
        made = (self._broker(each, toppars, end) for each in self._context.pool.brokers())
        return {each.name: each for each in made}

    def _broker(
        self, broker: Broker, toppars: dict[int, dict[str, BrokerPartition]], end: bool
    ) -> BrokerMetrics:
        counted = snapshots.broker_snapshot(self._context.engine, broker.handle, end)
        requests: list[int] = counted.pop("requests")
        counted |= {
            name: Window(**counted[name])
            for name in ("int_latency", "outbuf_latency", "rtt", "throttle")
        }
        asked = {api_name(key): requests[key] for key in self._apis}
        asked |= {api_name(key): count for key, count in enumerate(requests) if count}
        source = (
            "logical" if broker.dedicated else "configured" if broker.node_id < 0 else "learned"
        )
        return BrokerMetrics(
            name=self._broker_name(broker),
            nodeid=-1 if broker.dedicated else broker.node_id,
            nodename=f"{broker.host}:{broker.port}",
            source=source,
            state=_state(STATES[counted.pop("state")], broker),
            zbuf_grow=0,
            buf_grow=0,
            req=asked,
            toppars=toppars.get(broker.node_id, {}) if source == "learned" else {},
            **counted,
        )

    def _broker_name(self, broker: Broker) -> str:
        """A broker's name. Only the connection to the current coordinator has no node id."""
        if broker.purpose != "coordinator":
            return broker.name
        target = None if self._control is None else self._control.coordinator.target
        current = target is not None and self._context.pool.where(target)[0] == broker.node_id
        return COORDINATOR if current else f"{COORDINATOR}/{broker.node_id}"

    # --- topics ---

    def _topics(self, now: float, end: bool) -> dict[str, TopicMetrics]:
        if self._managers.fetches is None:
            return {
                topic.name: self._produced(topic, now, end)
                for topic in list(self._context.engine.topics)
            }
        by_topic: dict[str, list[Assigned]] = {}
        for assigned in self._managers.fetches.assigned.values():
            by_topic.setdefault(assigned.topic, []).append(assigned)
        return {name: self._consumed(name, several, now) for name, several in by_topic.items()}

    def _metadata_age_ms(self, known: Known | None, now: float) -> int:
        return (
            -1
            if known is None or known.updated_at is None
            else int((now - known.updated_at) * 1000)
        )

    def _produced(self, topic: Topic, now: float, end: bool) -> TopicMetrics:
        counted = snapshots.topic_snapshot(topic, end)
        known = self._context.metadata.topics.get(topic.name)
        partitions = [*range(counted["partition_count"]), INTERNAL_PARTITION]
        return TopicMetrics(
            topic=topic.name,
            age=counted["age"],
            metadata_age=self._metadata_age_ms(known, now),
            batchsize=Window(**counted["batchsize"]),
            batchcnt=Window(**counted["batchcnt"]),
            partitions={each: self._produced_partition(topic, known, each) for each in partitions},
        )

    def _leader_fields(self, known: Known | None, partition: int) -> dict[str, Any]:
        """A partition's broker, leader and leader epoch, from the metadata."""
        if known is None or not 0 <= partition < len(known.partitions):
            return {"unknown": partition != INTERNAL_PARTITION}
        leader = known.partitions[partition]
        return {"broker": leader.leader, "leader": leader.leader, "leader_epoch": leader.epoch}

    def _produced_partition(
        self, topic: Topic, known: Known | None, partition: int
    ) -> PartitionMetrics:
        counted: dict[str, Any] = dict(snapshots.partition_snapshot(topic, partition))
        next_seq = counted.pop("next_seq")
        if self._managers.identity is not None or self._managers.transactions is not None:
            counted |= {
                "next_ack_seq": next_seq,
                "next_err_seq": next_seq,
                "acked_msgid": counted["txmsgs"],
            }
        return PartitionMetrics(
            partition=partition, **self._leader_fields(known, partition), **counted
        )

    def _consumed(self, name: str, several: list[Assigned], now: float) -> TopicMetrics:
        known = self._context.metadata.topics.get(name)
        partitions = {each.partition: self._consumed_partition(each, known) for each in several}
        partitions[INTERNAL_PARTITION] = PartitionMetrics(partition=INTERNAL_PARTITION)
        return TopicMetrics(
            topic=name,
            age=0 if known is None else int((now - known.wanted_since) * 1000),
            metadata_age=self._metadata_age_ms(known, now),
            batchsize=Window(),
            batchcnt=Window(),
            partitions=partitions,
        )

    def _consumed_partition(self, assigned: Assigned, known: Known | None) -> PartitionMetrics:
        assert self._managers.fetches is not None
        place = self._leader_fields(known, assigned.partition)
        counted: dict[str, Any] = (
            {} if assigned.cursor is None else dict(snapshots.cursor_snapshot(assigned.cursor))
        )
        if counted:
            counted["msgs"] = counted["rxmsgs"]
        if assigned.replica != NO_LEADER:
            place["broker"] = assigned.replica
        stored = None if self._control is None else self._control.commits.stored_position(assigned)
        committed = assigned.committed
        end = counted.get(
            "ls_offset" if self._managers.fetches.read_committed else "hi_offset", OFFSET_INVALID
        )
        offsets: dict[str, Any] = {
            "stored_offset": OFFSET_INVALID if stored is None else stored.offset,
            "stored_leader_epoch": NO_EPOCH if stored is None else stored.epoch,
            "committed_offset": OFFSET_INVALID if committed is None else committed.offset,
            "committed_leader_epoch": NO_EPOCH if committed is None else committed.epoch,
        }
        return PartitionMetrics(
            partition=assigned.partition,
            desired=True,
            fetch_state=_fetch_state(assigned),
            query_offset=assigned.offset if assigned.offset < 0 else OFFSET_INVALID,
            app_offset=assigned.position if assigned.position >= 0 else OFFSET_INVALID,
            consumer_lag=_lag(end, offsets["committed_offset"]),
            consumer_lag_stored=_lag(end, offsets["stored_offset"]),
            consumer_lead=_lead(assigned, counted.get("lo_offset", OFFSET_INVALID)),
            **place,
            **offsets,
            **counted,
        )

    # --- the consumer, its group, and a producer's identity ---

    def _consumer(
        self, topics: dict[str, TopicMetrics], now: float, end: bool
    ) -> ConsumerMetrics | None:
        control = self._control
        if control is None:
            return None
        leads = [
            each.consumer_lead
            for topic in topics.values()
            for each in topic.partitions.values()
            if each.consumer_lead >= 0
        ]
        lags = [control.fetches.lag(each) for each in control.fetches.assigned.values()]
        called_us, sum_us, calls, max_us = control.poll_times(end)
        idle_us = snapshots.idle_us(self._context.engine)
        since = self._polls_since
        if end:
            self._polls_since = Polls(now, sum_us, calls, idle_us)
        count = calls - since.calls
        waited_s, elapsed_s = (idle_us - since.idle_us) / 1_000_000, now - since.at
        return ConsumerMetrics(
            lead_min=min(leads, default=-1),
            lag_max=max((lag for lag in lags if lag is not None), default=-1),
            time_between_poll_avg=(sum_us - since.sum_us) // count if count else -1,
            time_between_poll_max=max_us if count else -1,
            poll_idle_ratio_avg=min(1.0, waited_s / elapsed_s) if elapsed_s > 0 else 0.0,
            last_poll_seconds_ago=self._states.last_poll_s(called_us, now),
        )

    def _group(self, now: float) -> GroupMetrics | None:
        state, control = self._states.group(), self._control
        if not state or control is None:
            return None
        rebalance = control.rebalance
        join_state = JOIN_STATES[control.membership.state.name]
        if join_state == "steady" and rebalance.kind is not None:
            join_state = (
                "wait-assign-call" if rebalance.kind is Kind.ASSIGN else "wait-unassign-call"
            )
        return GroupMetrics(
            state=state,
            stateage=self._states.age_ms("group", now),
            join_state=join_state,
            rebalance_age=0 if rebalance.last_at is None else int((now - rebalance.last_at) * 1000),
            rebalance_cnt=rebalance.count,
            rebalance_reason=control.membership.rebalance_reason,
            assignment_size=len(control.fetches.assigned),
        )

    def _eos(self, now: float) -> EosMetrics | None:
        transactions = self._managers.transactions
        numbering = transactions or self._managers.identity
        if numbering is None:
            return None
        return EosMetrics(
            idemp_state=self._states.identity(),
            idemp_stateage=self._states.age_ms("identity", now),
            txn_state=self._states.transaction(),
            txn_stateage=self._states.age_ms("transaction", now),
            txn_may_enq=transactions is not None and transactions.taking,
            producer_id=numbering.producer_id,
            producer_epoch=numbering.epoch,
            epoch_cnt=numbering.granted,
        )


def _fetch_state(assigned: Assigned) -> str:
    if assigned.paused or assigned.failed:
        return "stopped"
    if assigned.fetching:
        return "active"
    if assigned.waiting:
        return "offset-query" if assigned.offset < 0 else "validate-epoch-wait"
    return "offset-wait" if assigned.due > 0 else "none"


def _lead(assigned: Assigned, start: int) -> int:
    """The distance from the log's start to the application's position; -1: unknown."""
    position = assigned.position if assigned.position >= 0 else assigned.base.offset
    return max(0, position - start) if start >= 0 and position >= 0 else -1


def _lag(end: int, offset: int) -> int:
    """The difference; -1: one of the two isn't known."""
    return end - offset if 0 <= offset <= end else -1
