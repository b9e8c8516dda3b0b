"""The metadata cache: known topics, their ids, and the leaders of their partitions.

It refreshes on a schedule (topic.metadata.refresh.interval.ms). It refreshes quickly while a wanted
topic is missing or a leader has moved (topic.metadata.refresh.fast.interval.ms, growing). At most
one request is in flight. The metadata of a shared client ask for the topics of all its roles, too,
and pass each reply to them. A cache ignores a leader with a lower epoch than the known one
(KIP-320): the broker that sent it was behind.

A topic that no manager has used for topic.metadata.ttl is forgotten before the next request. Its
next use requests it again.

The pool returns to the bootstrap servers in three cases (KIP-899, KIP-1102): no broker can be
reached, no broker replies for too long, or a broker asks for it. After that, nothing is sent to the
leaders that were known before.

Thread: the control thread only.
"""

from __future__ import annotations

import time
import weakref
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence

from kafka_native.control.brokers.pool import BrokerPool
from kafka_native.control.errors import METADATA_RETRIABLE_ERRORS, UNKNOWN_TOPIC_ERRORS
from kafka_native.control.requests import (
    ANY_BROKER,
    FAILOVER_GROWTH,
    NEVER,
    Backoff,
    Call,
    Reply,
)
from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse

NO_ID = b"\0" * 16
NO_LEADER = -1
TOPIC_NAME_MAX = 249
"""The maximum length of a topic name, in characters, as brokers allow it."""


MISSING_CONFIRM_S = 0.25
"""How long a topic must be missing before the client reports it.

Some brokers learn of a new topic later.
"""
CREATED_CONFIRM_S = 0.75
"""The same for a topic that a broker may create on request (``allow.auto.create.topics``)."""
AHEAD_MAX_S = 30.0
"""After this time, a leader epoch that all metadata contradict counts as wrong.

No broker is behind the others for so long.
"""
VANISHED_CONFIRM_S = 5.0
"""The same for a topic that existed before: a broker that has just started may not know it yet."""


def is_topic_name(name: str) -> bool:
    """Whether a name from a broker is acceptable as a topic name.

    The client ignores other names, because they would appear in errors and logs. Brokers allow
    letters, digits, dots, dashes and underscores. This function allows all printable characters.
    """
    return 0 < len(name) <= TOPIC_NAME_MAX and name.isprintable()


class Partition:
    """A partition's leader and replicas. ``leader`` is -1 while there is none.

    ``replicas`` are the node ids of the replicas. ``ahead_since`` is the time since when all
    metadata have had a lower epoch; infinity: they haven't.
    """

    __slots__ = ("ahead_since", "epoch", "leader", "replicas")

    def __init__(self) -> None:
        """Creates a partition without a leader."""
        self.leader = NO_LEADER
        self.epoch = -1
        self.replicas: Sequence[int] = ()
        self.ahead_since = NEVER


class Topic:
    """A topic that a manager wants. It is ``known`` once a reply has named its partitions."""

    def __init__(self, name: str, create: bool, wanted_since: float) -> None:
        """Creates a topic that no reply has named yet."""
        self.name = name
        self.create = create
        self.wanted_since = wanted_since
        self.id = NO_ID
        self.partitions: list[Partition] = []
        self.known = False
        self.updated_at: float | None = None
        self.missing_since: float | None = None
        self.exists = True
        """False while the last reply had an error, and not this topic's id."""
        self.missing_logged = False
        self.used_at = 0.0
        """When a manager last wanted it."""
        self.failed: KafkaError | None = None
        self.wanted_partitions = 0
        """The number of partitions that a manager wants.

        The client checks for them until ``looked_for_until``.
        """
        self.looked_for_until = 0.0


class Metadata:
    """Keeps the topics up to date that the managers want."""

    def __init__(
        self,
        pool: BrokerPool,
        *,
        refresh_s: float,
        fast_s: float,
        fast_max_s: float,
        propagation_s: float,
        timeout_s: float,
        trigger_s: float = NEVER,
        age_max_s: float = NEVER,
        ttl_s: float = NEVER,
        clock: Callable[[], float] = time.monotonic,
        host: Metadata | None = None,
    ) -> None:
        """Times are in seconds and come from the properties named above.

        With ``refresh_s`` <= 0 there is no periodic refresh. ``trigger_s``: how long requests may
        fail before the client asks the bootstrap servers (metadata.recovery.rebootstrap.trigger.ms,
        KIP-1102). ``age_max_s``: metadata.max.age.ms. ``ttl_s``: topic.metadata.ttl. ``host``: the
        metadata that ask for these topics, too, from `attach()` on.
        """
        self._host = host
        self._attached = False
        # of a shared client: the metadata of its roles. The garbage collector may free a role.
        self._roles: list[weakref.ref[Metadata]] = []
        self._pool = pool
        self._log = pool.logs["metadata"]
        self._topic_log = pool.logs["topic"]
        self._refresh_s = min(refresh_s if refresh_s > 0 else NEVER, max(age_max_s, fast_s))
        self._ttl_s = ttl_s
        self.propagation_s = propagation_s
        """How long a missing topic or partition may still reach every broker."""
        self._timeout_s = timeout_s
        self._backoff = Backoff(fast_s, fast_max_s, growth=FAILOVER_GROWTH)
        self._trigger_s = max(trigger_s, fast_s)
        self._trying_since: float | None = None
        self._in_flight = 0  # the number of requests
        self._refused = False  # one of them has failed
        self._again = False
        self._unasked = False  # a topic is wanted that no request has contained yet
        self._next_at = NEVER
        self._confirm_at = NEVER  # a topic is missing: the time of the next check
        self._clock = clock
        self.cluster_id: str | None = None
        """From the last reply (KIP-78). It may change after a rebootstrap."""
        self.topics: dict[str, Topic] = {}
        self.on_topic: list[Callable[[Topic], None]] = []
        """Called with a topic whose partitions or leaders have changed."""
        self.on_failure: list[Callable[[Topic, KafkaError], None]] = []
        """Called with a topic that the client gives up, and the error."""
        self.on_missing: list[Callable[[Topic, KafkaError], None]] = []
        """Called with a missing topic, for each reply that reports it missing.

        The client keeps waiting for it.
        """
        self.uses: list[Callable[[float], Collection[str]]] = []
        """Each returns the topics of a manager that are in use, or were since a time."""
        self.on_forgotten: list[Callable[[str, float], None]] = []
        """Called with a topic that nobody has used for its time to live, and the time."""
        self.on_names: list[Callable[[], None]] = []
        """Called when the name of a topic id becomes known."""
        self._names: dict[bytes, str] = {}
        self._unnamed: set[bytes] = set()
        self._names_at = NEVER
        self._names_backoff = Backoff(fast_s, fast_max_s)
        pool.on_rebootstrap.append(self._forget_leaders)

    def attach(self) -> None:
        """Lets the host ask for these topics from now on."""
        if self._host is not None:
            self._host._roles.append(weakref.ref(self))
            self._attached = True
            self.cluster_id = self._host.cluster_id
            if self.topics:
                self._ask_first_time(self._clock())

    def detach(self) -> None:
        """The end of `attach()`."""
        if self._host is not None:
            self._attached = False
            self._host._roles = [each for each in self._host._roles if each() not in (self, None)]

    @property
    def _sharing(self) -> list[Metadata]:
        """The caches that share the requests of this one, and their replies: itself first."""
        return [self, *(role for each in self._roles if (role := each()) is not None)]

    def _is_used(self) -> bool:
        """Whether this cache, or one that shares its requests, has a topic."""
        return bool(self.topics) or any(each.topics for each in self._sharing)

    def want(self, name: str, now: float, *, create: bool = False) -> Topic:
        """Keeps this topic up to date from now on. ``create``: the broker may create it."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name, create, now)
            self._ask_first_time(now)
        elif topic.failed is not None:
            topic.failed = None
            topic.wanted_since = now
            topic.missing_since = None
            self.refresh(now)
        topic.create = topic.create or create
        topic.used_at = now
        return topic

    def want_partition(self, name: str, number: int, now: float) -> None:
        """Requests a partition that isn't in the metadata: it may be newer than they are.

        The client asks again, with back-off, for ``propagation_s``. `is_absent()` says when the
        partition doesn't exist.
        """
        topic = self.topics.get(name)
        if topic is None or number < len(topic.partitions):
            return
        topic.wanted_partitions = max(topic.wanted_partitions, number + 1)
        topic.looked_for_until = now + self.propagation_s
        self.refresh(now)

    def is_absent(self, name: str, number: int, since: float) -> bool:
        """Whether new enough metadata lack a partition that was wanted at ``since``."""
        topic = self.topics.get(name)
        if (
            topic is None
            or not topic.known
            or topic.updated_at is None
            or number < len(topic.partitions)
        ):
            return False
        return topic.updated_at >= since + self.propagation_s

    def forget(self, names: Iterable[str]) -> None:
        """Drops topics, except those that a manager still uses.

        A partition that is being revoked, for example, needs the topic's id for its last commit.
        """
        for name in self._unused(names, self._clock()):
            self.topics.pop(name, None)

    def _unused(self, names: Iterable[str], since: float) -> set[str]:
        """The topics that no manager has used since a time. Each manager is asked once."""
        found = set(names)
        for uses in self.uses:
            if found:
                found.difference_update(uses(since))
        return found

    def _forget_unused(self, now: float) -> None:
        """Forgets topics that no manager uses, unless the client still looks for them."""
        since = now - self._ttl_s
        old = [
            topic.name
            for topic in self.topics.values()
            if topic.used_at < since and (topic.known or topic.failed is not None)
        ]
        for name in self._unused(old, since):
            self._topic_log.debug("%s: not used for %.0f s, forgotten", name, self._ttl_s)
            self.topics.pop(name, None)
            for listener in self.on_forgotten:
                listener(name, now)

    def resolve(self, topic_ids: Iterable[bytes], now: float) -> None:
        """Looks up the names of these topics (for `name_of()`).

        Calls ``on_names`` when names become known.
        """
        unknown = set(topic_ids) - self._names.keys()
        if unknown - self._unnamed:
            self._names_at = min(self._names_at, now)
        self._unnamed |= unknown

    def ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """The ids of those topics whose id is known."""
        known = {name: self.topics.get(name) for name in names}
        return {
            name: topic.id
            for name, topic in known.items()
            if topic is not None and topic.id != NO_ID
        }

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of a topic id, from a reply or from `resolve()`; None: unknown."""
        return self._names.get(topic_id)

    def refresh(self, now: float) -> None:
        """Requests metadata soon because something seems out of date; repeats have a back-off."""
        if self._host is not None:
            if self._attached:
                self._host.refresh(now)
        elif self._in_flight:
            self._again = True
        else:
            self._next_at = min(
                self._next_at, now if self._backoff.failures == 0 else now + self._backoff.next_s()
            )

    def _ask_first_time(self, now: float) -> None:
        """Requests a new topic at once, without the back-off of other missing topics."""
        if self._host is not None:
            if self._attached:
                self._host._ask_first_time(now)
            return
        self._unasked = True
        if self._in_flight or self._trying_since is not None:  # the last request failed
            self.refresh(now)
        else:
            self._next_at = min(self._next_at, now)

    def on_broker_down(self, now: float) -> None:
        """A broker can't be reached: refreshes until its partitions have other leaders."""
        self.refresh(now)

    def _waits_for_leaders(self) -> bool:
        """Whether partitions still have leaders that can't be reached."""
        down = {node_id for node_id, broker in self._pool.nodes.items() if broker.failing}
        return bool(down) and any(
            partition.leader in down
            for topic in self.topics.values()
            for partition in topic.partitions
        )

    def leader(self, name: str, partition: int) -> Partition | None:
        """The partition and its leader; None: the topic or the partition isn't known."""
        topic = self.topics.get(name)
        if topic is None or partition >= len(topic.partitions):
            return None
        return topic.partitions[partition]

    def obstacle(self, name: str, number: int) -> str:
        """Why the messages of a partition aren't delivered, as part of an error text.

        Thread: any. The answer may be a moment old.
        """
        topic, failure = self.topics.get(name), self._pool.failure_text()
        if topic is None or not topic.known:
            return f"the partitions of {name} aren't known{failure}"
        partitions = topic.partitions
        if not 0 <= number < len(partitions):  # the client keeps such messages without a partition
            return f"{name} has {len(partitions)} partition(s), and not the one of the message"
        leader = partitions[number].leader
        if leader == NO_LEADER:
            return f"{name} [{number}] has no leader{failure}"
        broker = self._pool.nodes.get(leader)
        if broker is None or broker.failing:
            return f"broker {leader}, the leader of {name} [{number}], can't be reached{failure}"
        return f"broker {leader}, the leader of {name} [{number}], hasn't acknowledged it"

    def on_hint(self, name: str, partition: int, leader: int, epoch: int, now: float) -> None:
        """Handles a new leader from a broker's reply (KIP-951).

        If it is newer and its node is known, it becomes the leader. Otherwise the client refreshes
        the metadata.
        """
        known = self.leader(name, partition)
        if known is not None and leader >= 0 and epoch > known.epoch and leader in self._pool.nodes:
            self._lead(self.topics[name], partition, leader, epoch)
            self._report(self.topics[name])
        else:
            self.refresh(now)

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        naming = self._ask_names(now)
        calls, wake_up = self._ask_topics(now)
        return [*naming, *calls], min(wake_up, self._names_at)

    def _ask_names(self, now: float) -> list[Call]:
        if not self._unnamed or now < self._names_at:
            return []
        self._names_at = now + self._timeout_s  # in case no reply comes
        # A separate request: a broker reads topic ids only in a request without names.
        topics = [MetadataRequest.Topic(topic_id=each, name=None) for each in self._unnamed]
        message = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        return [Call(message, ANY_BROKER, now + self._timeout_s, self._on_names)]

    def _on_names(self, reply: Reply) -> None:
        if not isinstance(reply, KafkaError):
            for topic in reply.topics:
                named = is_topic_name(topic.name or "") and not topic.error_code
                if named and topic.topic_id in self._unnamed:
                    self._names[topic.topic_id] = topic.name or ""
        found = self._unnamed & self._names.keys()
        self._unnamed -= found
        if self._unnamed:
            self._names_at = self._clock() + self._names_backoff.next_s()
        else:
            self._names_backoff.reset()
            self._names_at = NEVER
        if found:
            for listener in self.on_names:
                listener()

    def unresolve(self, topic_ids: Iterable[bytes]) -> None:
        """Stops looking up these names: their topics are deleted or not wanted any more."""
        self._unnamed.difference_update(topic_ids)

    def _requests(self) -> list[MetadataRequest]:
        """The requests for the topics of this cache and those that share it.

        Roles whose topics brokers may create have a request of their own, so that no topic of
        another role is created.
        """
        names: dict[str, bool] = {}  # and whether brokers may create the topic
        for each in self._sharing:
            creates = any(topic.create for topic in each.topics.values())
            for name in each.topics:
                names[name] = names.get(name, False) or creates
        return [
            MetadataRequest(
                topics=[
                    MetadataRequest.Topic(name=name)
                    for name, may in names.items()
                    if may is creates
                ],
                allow_auto_topic_creation=creates,
            )
            for creates in dict.fromkeys(names.values())
        ]

    def _ask_topics(self, now: float) -> tuple[list[Call], float]:
        if self._host is not None or not self._is_used():
            return [], NEVER
        trigger_at = NEVER if self._trying_since is None else self._trying_since + self._trigger_s
        if now >= trigger_at:
            self._trying_since = now
            trigger_at = now + self._trigger_s
            self._pool.rebootstrap()
        if self._in_flight or now < self._next_at:
            return [], trigger_at if self._in_flight else min(self._next_at, trigger_at)
        self._for_each(lambda each: each._forget_unused(now))
        if not self._is_used():
            self._next_at = NEVER
            return [], NEVER
        if self._trying_since is None:
            self._trying_since = now
            trigger_at = now + self._trigger_s
        self._unasked = self._refused = False
        for each in self._sharing:
            each._again = False
            each._confirm_at = NEVER
        messages = self._requests()
        self._in_flight = len(messages)
        self._log.debug("asking for %d topic(s)", sum(len(each.topics or ()) for each in messages))
        deadline = now + self._timeout_s
        return [Call(each, ANY_BROKER, deadline, self._on_reply) for each in messages], trigger_at

    def _on_reply(self, reply: Reply) -> None:
        self._in_flight -= 1
        now = self._clock()
        if isinstance(reply, KafkaError) or reply.error_code:
            self._refused = True
            self._next_at = now + self._backoff.next_s()
            if self._log.on:
                error = reply if isinstance(reply, KafkaError) else KafkaError(reply.error_code)
                self._log.debug(
                    "no metadata: %s; next request in %.3f s", error.str(), self._next_at - now
                )
            if (
                not isinstance(reply, KafkaError)
                and reply.error_code == KafkaError.REBOOTSTRAP_REQUIRED
            ):
                self._pool.rebootstrap()
            return
        self._trying_since = None
        self.take(reply)
        missing = self._for_each(lambda each: each._is_incomplete(now))
        if self._unasked:
            self._next_at = now
        elif missing or self._refused:
            self._next_at = now + self._backoff.next_s()
        else:
            self._backoff.reset()
            self._next_at = now + self._refresh_s
        self._next_at = min(self._next_at, *(each._confirm_at for each in self._sharing))

    def _is_incomplete(self, now: float) -> bool:
        """Whether topics, partitions or leaders are missing after a reply.

        Gives up topics that are missing for too long.
        """
        return self._fail_missing(now) | self._again or self._waits_for_leaders()

    def _forget_leaders(self) -> None:
        """After a rebootstrap, forgets all leaders until new metadata name them, with any epoch."""
        for topic in self.topics.values():
            for partition in topic.partitions:
                partition.leader, partition.epoch = NO_LEADER, -1
            if topic.known:
                self._report(topic)
        if not self._in_flight:
            self._next_at = min(self._next_at, self._clock() + self._backoff.next_s())

    def take(self, reply: MetadataResponse) -> None:
        """Stores the brokers and topics of a reply to this cache or to another caller."""
        if self._host is None:
            self._for_each(lambda each: each._take(reply))
        elif self._attached:
            self._host.take(reply)

    def _for_each(self, use: Callable[[Metadata], bool | None]) -> bool:
        """Passes each cache that shares the replies to ``use``. Whether it returned True once."""
        found = False
        for each in self._sharing:
            try:
                found |= bool(use(each))
            except Exception:
                if each is self:
                    raise
                # a defect of one role must not keep the reply from the others
                each._log.exception("the metadata could not be used")
        return found

    def _take(self, reply: MetadataResponse) -> None:
        if self._log.on:
            ids = ", ".join(str(broker.node_id) for broker in reply.brokers)
            self._log.debug(
                "brokers %s, controller %d, %d topic(s)",
                ids,
                reply.controller_id,
                len(reply.topics),
            )
        self.cluster_id = reply.cluster_id or self.cluster_id
        if reply.cluster_id is not None:
            self._pool.set_cluster_id(reply.cluster_id)
        moved = {
            broker.node_id
            for broker in reply.brokers
            if self._pool.update(broker.node_id, broker.host, broker.port, broker.rack)
        }
        if reply.brokers:
            self._pool.remove_missing({broker.node_id for broker in reply.brokers})
        if moved:
            self._report_led_by(moved)
        for source in reply.topics:
            topic = self.topics.get(source.name or "")
            if topic is not None:
                self._take_topic(topic, source)

    def _take_topic(self, topic: Topic, source: MetadataResponse.Topic) -> None:
        if source.error_code and source.error_code not in METADATA_RETRIABLE_ERRORS:
            self._fail(
                topic,
                KafkaError(
                    source.error_code, f"topic {topic.name}: {KafkaError(source.error_code).str()}"
                ),
            )
            return
        if source.error_code:
            self._topic_log.debug("%s: %s", topic.name, KafkaError(source.error_code).name())
            if topic.missing_since is None:
                topic.missing_since = self._clock()
            topic.exists = (
                source.error_code not in UNKNOWN_TOPIC_ERRORS
                and topic.id != NO_ID
                and source.topic_id == topic.id
            )
            if source.error_code in UNKNOWN_TOPIC_ERRORS:
                self._on_missing(topic, topic.missing_since)
            return
        topic.missing_since = None
        topic.exists = True
        topic.missing_logged = False
        topic.failed = None
        changed = self._is_another(topic, source) or not topic.known
        topic.known = True
        topic.updated_at = self._clock()
        while len(topic.partitions) < len(source.partitions):
            topic.partitions.append(Partition())
            changed = True
        for partition in source.partitions:
            changed |= self._take_partition(topic, partition)
        if changed:
            self._topic_log.debug(
                "%s: %d partition(s), id %s", topic.name, len(topic.partitions), topic.id.hex()
            )
            self._report(topic)

    def _is_another(self, topic: Topic, source: MetadataResponse.Topic) -> bool:
        """True if the topic has a new id.

        If it was deleted and recreated, forgets the old partitions.
        """
        if source.topic_id == topic.id:
            return False
        if source.topic_id != NO_ID:
            self._names[source.topic_id] = topic.name
        if topic.id != NO_ID:
            topic.partitions = []
        topic.id = source.topic_id
        return True

    def _take_partition(self, topic: Topic, source: MetadataResponse.Topic.Partition) -> bool:
        if not 0 <= source.partition_index < len(topic.partitions):
            return False
        known = topic.partitions[source.partition_index]
        if 0 <= source.leader_epoch < known.epoch:
            now = self._clock()
            known.ahead_since = min(known.ahead_since, now)
            if now < known.ahead_since + AHEAD_MAX_S:
                self._again = True
                return False
            text = "%s [%d]: epoch %d was wrong: for %.0f s, brokers have named %d"
            self._topic_log.warning(
                text,
                topic.name,
                source.partition_index,
                known.epoch,
                AHEAD_MAX_S,
                source.leader_epoch,
            )
        known.ahead_since = NEVER
        if source.leader_id not in self._pool.nodes:
            self._again = True
            leader = NO_LEADER
        else:
            leader = source.leader_id
        changed = self._lead(topic, source.partition_index, leader, source.leader_epoch)
        # a copy: the decoded list may keep the whole response in memory
        known.replicas = array("i", source.replica_nodes)
        return changed

    def _lead(self, topic: Topic, number: int, leader: int, epoch: int) -> bool:
        """Stores a partition's leader and epoch. Returns whether they have changed."""
        known = topic.partitions[number]
        if (known.leader, known.epoch) == (leader, epoch):
            return False
        news = (topic.name, number, leader, epoch, known.leader, known.epoch)
        self._topic_log.debug("%s [%d]: leader %d (epoch %d), was %d (epoch %d)", *news)
        known.leader, known.epoch = leader, epoch
        return True

    def _report(self, topic: Topic) -> None:
        for listener in self.on_topic:
            listener(topic)

    def _report_led_by(self, node_ids: set[int]) -> None:
        """Reports the topics of brokers that have new connections: their leaders may be the same.

        Listeners know brokers by the handles of their connections.
        """
        for topic in list(self.topics.values()):
            if any(partition.leader in node_ids for partition in topic.partitions):
                self._report(topic)

    def _fail(self, topic: Topic, error: KafkaError) -> None:
        topic.failed = error
        self._topic_log.debug("%s", error.str())
        for listener in self.on_failure:
            listener(topic, error)

    def _on_missing(self, topic: Topic, since: float) -> None:
        """Handles a reply without the topic.

        Reports the topic as missing once that is confirmed.
        """
        patience_s = CREATED_CONFIRM_S if topic.create else MISSING_CONFIRM_S
        confirmed_at = since + (VANISHED_CONFIRM_S if topic.known else patience_s)
        if self._clock() < confirmed_at:
            # a producer has no such listener, only the log, so it needs no extra request
            if self.on_missing:
                self._confirm_at = min(self._confirm_at, confirmed_at)
            return
        error = KafkaError(
            KafkaError.UNKNOWN_TOPIC_OR_PART, f"topic {topic.name} doesn't exist on this cluster"
        )
        if not topic.missing_logged:
            topic.missing_logged = True
            self._topic_log.warning("%s; it is asked for again", error.str())
        for listener in self.on_missing:
            listener(topic, error)

    def _fail_missing(self, now: float) -> bool:
        """Gives up topics that are missing for topic.metadata.propagation.max.ms.

        True while the client waits for some topics or partitions.
        """
        waiting = False
        for topic in list(self.topics.values()):
            if topic.failed is not None:
                continue
            if topic.known and topic.missing_since is None:
                waiting |= (
                    len(topic.partitions) < topic.wanted_partitions and now < topic.looked_for_until
                )
                continue
            since = topic.missing_since if topic.missing_since is not None else topic.wanted_since
            if now - since < self.propagation_s:
                waiting = True
            else:
                topic.known = False
                topic.partitions = []
                self._fail(
                    topic,
                    KafkaError(
                        KafkaError._UNKNOWN_TOPIC,
                        f"topic {topic.name} doesn't exist on this cluster",
                    ),
                )
        return waiting
