"""A group's committed offsets: writes them (OffsetCommit) and reads them (OffsetFetch).

One client's commits stay in order. Only one request is in flight. Commits that are made meanwhile,
or during a retry, go into the next request. If several commits contain the same partition, the last
one counts.

A commit belongs to the membership under which it was made. If the member has a newer generation or
epoch when the commit is sent (again), its partitions are split. Those that this member still owns
are committed. The others fail: they may have another owner, whose committed offset would move back.

With offset.store.method=file, `OffsetFiles` keeps each partition's offset in its own file, as
librdkafka's old consumer did. A file holds the offset as decimal text. The client writes a second
file and renames it over the first. So a reader, or this client after a crash, finds either the old
or the new offset. offset.store.sync.interval.ms says how often the files are synced to disk. No
other manager writes to the file system.

Thread: the control thread only; the public API gets here through `MainThread.gather()`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kafka_native.control.errors import (
    COMMIT_FENCED_ERRORS,
    COMMIT_RETRIABLE_ERRORS,
    COORDINATOR_MOVED_ERRORS,
    UNKNOWN_TOPIC_ERRORS,
)
from kafka_native.control.mean import Mean
from kafka_native.control.metadata import NO_ID
from kafka_native.control.positions import NO_POSITION, Key, OffsetPosition, position_of
from kafka_native.control.requests import NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.logs import QUIET, Log
from kafka_native.protocol.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_native.protocol.schema import ZERO_UUID
from kafka_native.types import OFFSET_INVALID, TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.consumer.fetches import Assigned, FetchManager
    from kafka_native.control.group.membership import Member

NameOf = Callable[[bytes], "str | None"]


def commit_message(
    member: Member, positions: Mapping[Key, OffsetPosition], topic_ids: Mapping[str, bytes]
) -> OffsetCommitRequest:
    """A request that fits every version: it has the topics' names, and their ids where known."""
    topics: dict[str, OffsetCommitRequest.Topic] = {}
    for (name, number), position in positions.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetCommitRequest.Topic(
                name=name, topic_id=topic_ids.get(name, ZERO_UUID)
            )
        topic.partitions.append(
            OffsetCommitRequest.Topic.Partition(
                partition_index=number,
                committed_offset=position.offset,
                committed_leader_epoch=position.epoch,
                committed_metadata="\0" if position.metadata == "" else position.metadata or "",
            )
        )
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=list(topics.values()),
    )


def commit_results(reply: OffsetCommitResponse, name_of: NameOf) -> dict[Key, int]:
    """The error code of each partition; 0: committed."""
    results = {}
    for topic in reply.topics:
        name = topic.name if topic.topic_id == NO_ID else name_of(topic.topic_id)
        if name is not None:
            results.update(
                {(name, each.partition_index): each.error_code for each in topic.partitions}
            )
    return results


def fetch_message(
    member: Member, keys: Iterable[Key], topic_ids: Mapping[str, bytes], *, stable: bool
) -> OffsetFetchRequest:
    """An OffsetFetch request that fits every version, see `versions.adapted`.

    ``stable``: the broker holds its reply back while a transaction has pending offsets (KIP-447).
    """
    indexes: dict[str, list[int]] = {}
    for name, number in keys:
        indexes.setdefault(name, []).append(number)
    wanted: list[OffsetFetchRequest.Group.Topic] = []
    group = OffsetFetchRequest.Group(group_id=member.group_id, topics=wanted)
    if member.joined and member.protocol == "consumer":
        group.member_id, group.member_epoch = member.member_id, member.generation
    topics = []
    for name, numbers in indexes.items():
        topic_id = topic_ids.get(name, ZERO_UUID)
        wanted.append(
            OffsetFetchRequest.Group.Topic(name=name, topic_id=topic_id, partition_indexes=numbers)
        )
        topics.append(OffsetFetchRequest.Topic(name=name, partition_indexes=numbers))
    return OffsetFetchRequest(
        group_id=member.group_id, topics=topics, groups=[group], require_stable=stable
    )


def fetched_offsets(
    reply: OffsetFetchResponse, group_id: str, name_of: NameOf
) -> dict[Key, OffsetPosition | int] | KafkaError:
    """The committed position or the error code of each partition, or one error for all.

    The position is `NO_POSITION` if the group has no offset.
    """
    found: dict[Key, OffsetPosition | int] = {}
    error_code = reply.error_code
    if reply.groups:
        group = next((each for each in reply.groups if each.group_id == group_id), None)
        if group is None:
            return KafkaError(
                KafkaError._BAD_MSG, f"the reply to OffsetFetch leaves out group {group_id!r}"
            )
        error_code = group.error_code
        for answer in group.topics:
            by_name = answer.topic_id == NO_ID
            name = answer.name if by_name else name_of(answer.topic_id)
            _take(found, name, answer.partitions)
    else:
        for topic in reply.topics:
            _take(found, topic.name, topic.partitions)
    if error_code:
        return KafkaError(
            error_code, f"offsets of group {group_id!r}: {KafkaError(error_code).str()}"
        )
    return found


def _take(
    found: dict[Key, OffsetPosition | int],
    name: str | None,
    partitions: Iterable[
        OffsetFetchResponse.Topic.Partition | OffsetFetchResponse.Group.Topic.Partition
    ],
) -> None:
    if name is None:
        return  # the reply names a topic that wasn't requested
    for each in partitions:
        # librdkafka commits the terminator, too, so that an empty text differs from no text
        text = each.metadata.removesuffix("\0") if each.metadata else None
        position = OffsetPosition(each.committed_offset, each.committed_leader_epoch, text)
        found[name, each.partition_index] = each.error_code or (
            NO_POSITION if each.committed_offset < 0 else position
        )


OnCommit: TypeAlias = Callable[["KafkaError | None", "list[TopicPartition]"], None]
Outcome: TypeAlias = "list[TopicPartition] | KafkaError"
"""Each partition with its own error or None, or one error that all partitions share."""

NO_GROUP = "offsets are kept for a group: set group.id"

AUTO_COMMIT_CHECKS = 10
"""How many times per auto.commit.interval.ms the client checks whether messages are processed."""


class Commit:
    """One call of `commit()`, until each of its partitions has an outcome."""

    def __init__(
        self,
        wanted: dict[Key, OffsetPosition],
        done: Callable[[Outcome], None],
        deadline: float,
        member: tuple[str, int],
        held: bool,
        owned: dict[Key, Assigned],
        silent: bool,
        listed: list[Key],
        bound: dict[Key, bytes],
        left: dict[Key, OffsetPosition],
    ) -> None:
        """Nothing is sent yet."""
        self.wanted = wanted
        self.done = done
        self.deadline = deadline
        self.member = member
        """The member id and the generation at the time of the call."""
        self.held = held
        """True: the client gives the partitions up only after this commit.

        This is so in a rebalance and in a close.
        """
        self.owned = owned
        """The partitions that were assigned at the time of the call.

        A partition that was revoked and assigned again is another object.
        """
        self.silent = silent
        """The caller gets the outcome, so ``on_commit`` doesn't."""
        self.listed = listed
        """The partitions of the outcome, including those without an offset to commit."""
        self.bound = bound
        """The topic ids that the offsets belong to, where known."""
        self.left = left
        self.errors: dict[Key, KafkaError] = {}
        self.last: KafkaError | None = None
        self.before: list[Ask] = []
        """Later OffsetFetch calls that wait for the end of this commit."""


def _settled(commits: Iterable[Commit]) -> list[Commit]:
    """The commits that are finished, in their order.

    One for which the client holds its partitions also waits for all earlier ones: afterwards the
    client is no member any more that may commit them.
    """
    settled = []
    is_open = False
    for commit in commits:
        if commit.left:
            is_open = True
        elif not (commit.held and is_open):
            settled.append(commit)
    return settled


class Ask:
    """One call of `fetch_committed()`."""

    def __init__(
        self,
        keys: list[Key],
        done: Callable[[Outcome], None],
        deadline: float,
        left: set[Key],
    ) -> None:
        """Nothing is sent yet."""
        self.keys = keys
        self.done = done
        self.deadline = deadline
        self.left = left
        self.found: dict[Key, OffsetPosition] = {}
        self.errors: dict[Key, KafkaError] = {}
        self.last: KafkaError | None = None
        self.in_flight = False
        self.behind = 0
        """The number of unfinished earlier commits of the same partitions.

        The reply has to include them.
        """


class CommitManager:
    """Commits and reads offsets; with enable.auto.commit it also commits periodically."""

    def __init__(
        self,
        member: Member,
        coordinator: Coordinator | None,
        fetches: FetchManager,
        *,
        auto_commit: bool,
        interval_s: float,
        timeout_s: float,
        on_commit: OnCommit = lambda error, partitions: None,
        on_silent_commit: OnCommit = lambda error, partitions: None,
        auto_store: bool = True,
        polls: Callable[[], tuple[int, bool]] | None = None,
        commits_any_partition: bool = False,
        files: OffsetFiles | None = None,
        log: Log = QUIET["consumer"],
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``on_commit(error, partitions)`` gets every commit's outcome, except of silent commits.

        ``on_silent_commit`` gets the outcome of commits whose caller waits for it.

        ``timeout_s`` is for one request. ``polls`` returns how many polls the application has
        begun, and whether it is inside one. With enable.auto.commit, messages of a poll are
        committed only after the next poll has begun. Until then, the application may still be
        processing them. Without ``polls``, all delivered messages are committed at once.

        ``files`` is for offset.store.method=file. Then no coordinator is needed, and it may be
        None. Without files and without a group (group.id), commits fail with _UNKNOWN_GROUP.
        """
        if coordinator is None and files is None:
            raise ValueError("without a coordinator there have to be files")
        self._member = member
        self._coordinator = coordinator
        self._fetches = fetches
        self._can_commit = files is not None or bool(member.group_id)
        self._auto_commit = auto_commit and self._can_commit
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._on_commit = on_commit
        self._on_silent_commit = on_silent_commit
        self._auto_store = auto_store
        self._polls = polls
        self._commits_any_partition = commits_any_partition
        self._files = files
        self._log = log
        self._backoff = backoff or Backoff(0.1, 1.0)
        self._ask_backoff = Backoff(0.1, 1.0)
        self._clock = clock
        self._commits: list[Commit] = []
        self._sent: list[Commit] | None = None  # the commits of the request in flight
        self._not_before = 0.0
        self._asks: list[Ask] = []
        self._ask_at = 0.0
        self._deadline = NEVER  # the earliest deadline of all commits and calls
        self._reported = False  # this poll() has reported an outcome
        self._auto_at = clock() + interval_s if self._auto_commit else NEVER
        self._snapshot: dict[Key, tuple[Assigned, OffsetPosition]] = {}
        self._snapshot_polls = 0
        self.subscribed: Callable[[], bool] = lambda: False
        """Whether the consumer is subscribed.

        A subscribed consumer commits only while it is a member.
        """
        self.latency = Mean()
        """The round trip of answered commit requests, in milliseconds."""
        fetches.ask_committed = self.fetch_committed if self._can_commit else None
        self._held_back: Mapping[Key, int] = {}
        self._left_out: Mapping[Key, int] = {}
        self._asks_by_id = False  # whether the last OffsetFetch used topic ids
        fetches.offsets_by_id = lambda: self._asks_by_id

    # --- stored offsets ---

    def store(self, offsets: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Stores offsets for the next commit.

        Partitions that aren't assigned get the error _STATE.
        """
        outcome = []
        for each in offsets:
            assigned = self._fetches.assigned.get((each.topic, each.partition))
            if assigned is None:
                text = f"{each.topic} [{each.partition}] isn't assigned: its offset can't be stored"
                code = (
                    KafkaError._STATE
                    if self._fetches.was_assigned(each.topic)
                    else KafkaError._UNKNOWN_PARTITION
                )
                outcome.append(each.with_error(KafkaError(code, text)))
            elif assigned.ended:
                text = f"{each.topic} [{each.partition}]: the topic has been deleted and recreated"
                outcome.append(each.with_error(KafkaError(KafkaError._STATE, text)))
            elif each.offset < 0 and not self._commits_any_partition:
                where = f"{each.topic} [{each.partition}]"
                text = f"{where}: an offset to store is 0 or more, not {each.offset}"
                outcome.append(each.with_error(KafkaError(KafkaError._INVALID_ARG, text)))
            else:
                assigned.stored = position_of(each) if each.offset >= 0 else None
                assigned.stored_at = assigned.position
                outcome.append(each.with_error(None))
        return outcome

    def stored(self, keys: Iterable[Key]) -> list[TopicPartition]:
        """The offsets that the next commit would contain; OFFSET_INVALID: none."""
        assigned = self._fetches.assigned
        return [
            _partition_of(key, self.stored_position(assigned[key]) if key in assigned else None)
            for key in keys
        ]

    def stored_position(self, assigned: Assigned) -> OffsetPosition | None:
        """The position that the next commit would contain.

        With enable.auto.offset.store it is the position after the last delivered message, unless
        the application has stored an offset since.
        """
        if assigned.stored is not None and (
            not self._auto_store or assigned.stored_at == assigned.position
        ):
            return assigned.stored
        if not self._auto_store or assigned.position < 0:
            return None
        return OffsetPosition(assigned.processed, assigned.position_epoch)

    def _stored_positions(
        self, keys: Iterable[Key], *first: Mapping[Key, int]
    ) -> dict[Key, tuple[Assigned, OffsetPosition]]:
        """The stored positions of those partitions that are assigned.

        Messages from the offsets ``first`` on count only if the application has stored an offset.
        """
        found = {}
        for key in keys:
            assigned = self._fetches.assigned.get(key)
            position = None if assigned is None else self.stored_position(assigned)
            if assigned is None or position is None:
                continue
            if position is not assigned.stored:
                end = min(each.get(key, position.offset) for each in (*first, {}))
                if end < position.offset:
                    position = position._replace(offset=end)
                    if end < 0 or not _is_ahead(assigned, position):
                        continue
            found[key] = (assigned, position)
        return found

    def _ahead(self, keys: Iterable[Key]) -> dict[Key, OffsetPosition]:
        """What enable.auto.commit has to commit of these partitions.

        A committed offset never moves back.
        """
        stored = self._stored_positions(keys, self._held_back, self._left_out)
        return {
            key: position
            for key, (assigned, position) in stored.items()
            if _is_ahead(assigned, position)
        }

    def hold_back(self, first: Mapping[Key, int]) -> None:
        """Commits nothing by itself from these offsets on, unless the application stores them."""
        self._held_back = first

    def leave_out(self, first: Mapping[Key, int]) -> None:
        """Like `hold_back()`, until the next call: messages that a call may yet give back.

        A partition with an offset below 0 is left out whole.
        """
        self._left_out = first

    # --- committing ---

    def commit(
        self,
        offsets: Iterable[TopicPartition],
        done: Callable[[Outcome], None],
        deadline: float,
        *,
        held: bool = False,
        silent: bool = False,
    ) -> None:
        """Commits these offsets, with retries until ``deadline`` (monotonic seconds).

        ``silent``: only ``done`` gets the outcome, and interceptors, but not ``on_commit``.

        A member can commit only its assigned partitions. Other partitions fail with _STATE, because
        another member may own them. Without a subscription, any partition can be committed. A
        partition without an offset is returned unchanged. _NO_OFFSET: no partition has an offset.
        """
        positions = {(each.topic, each.partition): position_of(each) for each in offsets}
        wanted = {key: position for key, position in positions.items() if position.offset >= 0}
        self._commit(wanted, list(positions), done, deadline, held, silent)

    def commit_stored(
        self, done: Callable[[Outcome], None], deadline: float, *, silent: bool = False
    ) -> None:
        """Commits all stored offsets that aren't committed yet; _NO_OFFSET: there are none."""
        assigned = self._fetches.assigned
        stored = self._stored_positions(assigned, self._left_out)
        changed = {
            key: position
            for key, (state, position) in stored.items()
            if position != state.committed
        }
        self._commit(changed, list(assigned), done, deadline, False, silent)

    def _commit(
        self,
        wanted: dict[Key, OffsetPosition],
        listed: list[Key],
        done: Callable[[Outcome], None],
        deadline: float,
        held: bool,
        silent: bool = False,
    ) -> None:
        if not self._can_commit:
            done(KafkaError(KafkaError._UNKNOWN_GROUP, NO_GROUP))
        elif wanted:
            self._enqueue(wanted, listed, done, deadline, held, silent)
        else:
            done(KafkaError(KafkaError._NO_OFFSET))

    def flush(
        self, keys: Iterable[Key], done: Callable[[], None], deadline: float | None = None
    ) -> None:
        """Commits the stored offsets before partitions are revoked (with enable.auto.commit).

        It also waits for earlier commits. ``done`` is called by ``deadline``; without one, after
        one request timeout.
        """
        wanted = self._ahead(keys) if self._auto_commit else {}
        if not wanted and not self._commits and self._sent is None:
            done()
            return
        until = self._clock() + self._timeout_s if deadline is None else deadline
        self._enqueue(wanted, list(wanted), lambda outcome: done(), until, True)

    def _enqueue(
        self,
        wanted: dict[Key, OffsetPosition],
        listed: list[Key],
        done: Callable[[Outcome], None],
        deadline: float,
        held: bool,
        silent: bool = False,
    ) -> None:
        identity = (self._member.member_id, self._member.generation)
        assigned = self._fetches.assigned
        owned = {key: assigned[key] for key in wanted if key in assigned}
        bound = {
            key: topic_id for key in owned if (topic_id := self._fetches.bound_id(key)) != NO_ID
        }
        commit = Commit(
            wanted, done, deadline, identity, held, owned, silent, listed, bound, dict(wanted)
        )
        if self.subscribed() and not self._commits_any_partition:
            strange = [key for key in wanted if key not in owned]
            self._refuse(
                commit, strange, KafkaError._STATE, "the partition isn't assigned to this member"
            )
        for key, each in owned.items():
            each.sent = wanted[key]
        self._commits.append(commit)
        self._deadline = min(self._deadline, deadline)
        if self._files is not None:
            self._write(self._files)

    def _write(self, files: OffsetFiles) -> None:
        """Writes the offsets at once and in order (offset.store.method=file)."""
        commits, self._commits = self._commits, []
        for commit in commits:
            for key, position in commit.left.items():
                error = files.write(key, position)
                if error is not None:
                    commit.errors[key] = error
            commit.left.clear()
            self._finish(commit)

    def _finish(self, commit: Commit) -> None:
        """Ends a commit. Partitions without an outcome get the last error or a timeout."""
        for ask in commit.before:
            ask.behind -= 1
        for key in commit.left:
            commit.errors[key] = commit.last or KafkaError(
                KafkaError._TIMED_OUT, f"the commit took too long{self._coordinator_failure()}"
            )
        commit.left.clear()
        partitions = [
            _partition_of(key, commit.wanted.get(key)).with_error(commit.errors.get(key))
            for key in commit.listed
        ]
        for key, position in commit.wanted.items():
            error = commit.errors.get(key)
            if self._log.on:
                outcome = "is committed" if error is None else f"isn't committed: {error.str()}"
                self._log.debug("%s [%d]: offset %d %s", *key, position.offset, outcome)
            assigned = commit.owned.get(key)
            if assigned is None:
                continue
            if error is None:
                assigned.committed = position
            elif assigned.sent == position:
                assigned.sent = None  # the next commit has to contain it again
        commit.done(_outcome_of(partitions, [commit.errors.get(key) for key in commit.wanted]))
        if partitions:
            report = self._on_silent_commit if commit.silent else self._on_commit
            report(
                next((each.error for each in partitions if each.error is not None), None),
                partitions,
            )

    # --- sending commits ---

    def _send(self, now: float) -> list[Call]:
        if (
            self._sent is not None
            or not self._commits
            or now < self._not_before
            or self._coordinator is None
        ):
            return []
        for commit in self._commits:
            self._fail_strangers(commit)
            self._fail_ended(commit)
        self._end(_settled(self._commits))
        if not self._commits:
            return []
        target = self._coordinator.want(now)
        if target is None:
            if self._coordinator.refused is not None:
                self._fail(self._commits, self._coordinator.refused)
            return []
        batch, self._commits = self._commits, []
        self._sent = batch
        merged: dict[Key, OffsetPosition] = {}
        for commit in batch:
            merged.update(commit.left)
        identity = (self._member.member_id, self._member.generation)
        for commit in batch:
            commit.member = identity
        message = commit_message(
            self._member, merged, self._fetches.topic_ids({topic for topic, _ in merged})
        )
        # The request's own timeout, not the commit's deadline. After a short deadline, the
        # coordinator may still be up.
        return [
            Call(
                message,
                target,
                now + self._timeout_s,
                lambda reply: self._on_reply(reply, identity, now),
            )
        ]

    def _fail_strangers(self, commit: Commit) -> None:
        """Fails the partitions that another member may own by now."""
        member_id, generation = self._member.member_id, self._member.generation
        may_join = self.subscribed() and not self._commits_any_partition
        if not self._member.joined and (commit.member[1] > 0 or may_join):
            self._refuse(
                commit,
                list(commit.left),
                KafkaError.UNKNOWN_MEMBER_ID,
                "this client isn't a member now",
            )
        elif commit.member != (member_id, generation) and commit.member[1] > 0:
            if commit.held and commit.member[0] == member_id and generation > commit.member[1]:
                return
            now_assigned, before = self._fetches.assigned, commit.owned
            gone = [
                key
                for key in commit.left
                if commit.held or key not in before or now_assigned.get(key) is not before[key]
            ]
            text = "the partition was given up in a rebalance"
            self._refuse(commit, gone, KafkaError.ILLEGAL_GENERATION, text)

    def _fail_ended(self, commit: Commit) -> None:
        """Fails offsets of a deleted topic.

        The broker takes offsets by topic name before Apache Kafka 4.1. If a new topic had the same
        name by then, it would get the old topic's offset and its first records would be skipped.
        """
        ids = self._fetches.topic_ids({topic for topic, _ in commit.left})
        bound = [key for key in commit.left if key in commit.bound]
        missing = [key for key in bound if self._fetches.is_missing(key[0])]
        self._refuse(
            commit,
            missing,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            "the topic is missing, so it has probably been deleted",
        )
        gone = [
            key
            for key in bound
            if key in commit.left and ids.get(key[0], NO_ID) not in (NO_ID, commit.bound[key])
        ]
        self._refuse(
            commit,
            gone,
            KafkaError.UNKNOWN_TOPIC_ID,
            "the topic has been deleted and recreated",
        )

    @staticmethod
    def _refuse(commit: Commit, keys: list[Key], code: int, text: str) -> None:
        for key in keys:
            del commit.left[key]
            commit.errors[key] = KafkaError(
                code, f"offset of {key[0]} [{key[1]}] not committed: {text}"
            )

    def _end(self, commits: list[Commit]) -> None:
        """Removes finished commits from the queue and reports their outcomes."""
        ended = {id(commit) for commit in commits}
        if ended:
            self._commits = [commit for commit in self._commits if id(commit) not in ended]
        for commit in commits:
            self._reported = True
            self._finish(commit)

    def _fail(self, commits: list[Commit], error: KafkaError) -> None:
        for commit in commits:
            commit.errors.update(dict.fromkeys(commit.left, error))
            commit.left.clear()
        self._end(list(commits))

    def _on_reply(self, reply: Reply, identity: tuple[str, int], sent_at: float) -> None:
        batch, self._sent = self._sent or [], None
        coordinator = self._coordinator
        assert coordinator is not None
        results: dict[Key, int] = {}
        if isinstance(reply, KafkaError):
            if not coordinator.note(reply):
                self._fail(batch, reply)
                return
            for commit in batch:
                commit.last = reply
        else:
            self.latency.record((self._clock() - sent_at) * 1000)
            results = commit_results(reply, self._fetches.topic_name)
            if not any(results.values()):
                coordinator.answered()
                self._backoff.reset()
            self._take_group_errors(set(results.values()))
            for commit in batch:
                self._take_results(commit, results, identity)
        settled = _settled(batch)
        again = [commit for commit in batch if commit not in settled]
        if again:
            self._not_before = self._clock() + coordinator.pause_s(self._backoff)
            self._commits[:0] = again
        self._end(settled)

    def _take_group_errors(self, codes: set[int]) -> None:
        """Handles errors that concern the coordinator or the metadata.

        Heartbeats, not commits, notice that the group has removed this member.
        """
        assert self._coordinator is not None
        if codes & COORDINATOR_MOVED_ERRORS:
            self._coordinator.lost()
        if codes & UNKNOWN_TOPIC_ERRORS:
            self._fetches.refresh_metadata()

    def _take_results(
        self, commit: Commit, results: dict[Key, int], identity: tuple[str, int]
    ) -> None:
        stale = identity != (self._member.member_id, self._member.generation)
        for key in list(commit.left):
            code = results.get(key)
            if code is None:
                code = KafkaError._BAD_MSG
            gone = code == KafkaError.UNKNOWN_TOPIC_ID and self._fetches.is_missing(key[0])
            if (code in COMMIT_RETRIABLE_ERRORS and not gone) or (
                code in COMMIT_FENCED_ERRORS and stale
            ):
                commit.last = KafkaError(code)
                continue
            del commit.left[key]
            if code:
                text = f"offset of {key[0]} [{key[1]}] not committed: {KafkaError(code).str()}"
                commit.errors[key] = KafkaError(code, text)

    # --- reading what is committed ---

    def fetch_committed(
        self, keys: Iterable[Key], done: Callable[[Outcome], None], deadline: float
    ) -> None:
        """Requests the group's offsets, with retries until ``deadline``; OFFSET_INVALID: none."""
        wanted = list(keys)
        if self._files is not None:
            done([self._read(self._files, key) for key in wanted])
        elif not self._can_commit:
            done(KafkaError(KafkaError._UNKNOWN_GROUP, NO_GROUP))
        elif wanted:
            ask = Ask(wanted, done, deadline, set(wanted))
            for commit in (*(self._sent or ()), *self._commits):
                if not ask.left.isdisjoint(commit.left):
                    commit.before.append(ask)
                    ask.behind += 1
            self._asks.append(ask)
            self._deadline = min(self._deadline, deadline)
        else:
            done([])

    @staticmethod
    def _read(files: OffsetFiles, key: Key) -> TopicPartition:
        found = files.read(key)
        if isinstance(found, KafkaError):
            return _partition_of(key, None).with_error(found)
        return _partition_of(key, found)

    def _ask(self, now: float) -> list[Call]:
        waiting = [ask for ask in self._asks if not ask.in_flight and not ask.behind]
        if not waiting or now < self._ask_at or self._coordinator is None:
            return []
        target = self._coordinator.want(now)
        if target is None:
            if self._coordinator.refused is not None:
                for ask in waiting:
                    ask.errors.update(dict.fromkeys(ask.left, self._coordinator.refused))
                    self._answer(ask)
            return []
        keys: dict[Key, None] = {}
        for ask in waiting:
            ask.in_flight = True
            keys.update(dict.fromkeys(key for key in ask.keys if key in ask.left))
        topic_ids = self._fetches.topic_ids({topic for topic, _ in keys})
        message = fetch_message(self._member, keys, topic_ids, stable=self._fetches.read_committed)
        return [
            Call(
                message, target, now + self._timeout_s, lambda reply: self._on_asked(reply, waiting)
            )
        ]

    def _on_asked(self, reply: Reply, asks: list[Ask]) -> None:
        coordinator = self._coordinator
        assert coordinator is not None
        found: dict[Key, OffsetPosition | int] | KafkaError = reply
        if not isinstance(reply, KafkaError):
            found = fetched_offsets(reply, self._member.group_id, self._fetches.topic_name)
            self._asks_by_id = any(
                topic.topic_id != NO_ID for group in reply.groups for topic in group.topics
            )
        if isinstance(found, KafkaError):
            passes = (
                coordinator.note(found)
                or found.code() in COMMIT_RETRIABLE_ERRORS
                or found.code() in COMMIT_FENCED_ERRORS
            )
        else:
            passes = True
            codes = {each for each in found.values() if isinstance(each, int)}
            self._take_group_errors(codes)
            if not codes:
                coordinator.answered()
                self._ask_backoff.reset()
        for ask in asks:
            ask.in_flight = False
            if ask not in self._asks:
                continue  # its time was up before the reply
            if isinstance(found, KafkaError):
                ask.last = found
                if not passes:
                    ask.errors.update(dict.fromkeys(ask.left, found))
                    ask.left.clear()
            else:
                self._take_found(ask, found)
            if not ask.left:
                self._answer(ask)
            else:
                pause_s = coordinator.pause_s(self._ask_backoff)
                self._ask_at = max(self._ask_at, self._clock() + pause_s)

    @staticmethod
    def _take_found(ask: Ask, found: dict[Key, OffsetPosition | int]) -> None:
        for key in list(ask.left):
            position = found.get(key, KafkaError._BAD_MSG)
            if isinstance(position, int) and position in COMMIT_RETRIABLE_ERRORS:
                ask.last = KafkaError(position)
                continue
            ask.left.discard(key)
            if isinstance(position, int):
                text = f"committed offset of {key[0]} [{key[1]}]: {KafkaError(position).str()}"
                ask.errors[key] = KafkaError(position, text)
            else:
                ask.found[key] = position

    def _answer(self, ask: Ask) -> None:
        self._reported = True
        self._asks.remove(ask)
        for key in ask.left:
            if key not in ask.errors:
                ask.errors[key] = ask.last or KafkaError(
                    KafkaError._TIMED_OUT,
                    f"committed offsets not received in time{self._coordinator_failure()}",
                )
        partitions = [
            _partition_of(key, ask.found.get(key)).with_error(ask.errors.get(key))
            for key in ask.keys
        ]
        ask.done(_outcome_of(partitions, [each.error for each in partitions]))

    def _coordinator_failure(self) -> str:
        return "" if self._coordinator is None else self._coordinator.failure_text()

    # --- time ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        if self._files is not None:
            self._auto(now)
            return [], min(self._auto_at, self._files.poll(now))
        self._reported = False
        self._auto(now)
        self._expire(now)
        calls = [*self._send(now), *self._ask(now)]
        wake_up = min(self._auto_at, self._deadline)
        if self._commits and self._sent is None and self._not_before > now:
            wake_up = min(wake_up, self._not_before)
        if self._ask_at > now and any(not ask.in_flight and not ask.behind for ask in self._asks):
            wake_up = min(wake_up, self._ask_at)
        # A listener may have been polled earlier in this iteration and have a request now.
        return calls, now if self._reported else wake_up

    def _expire(self, now: float) -> None:
        if now < self._deadline:
            return
        late = [commit for commit in self._commits if commit.deadline <= now]
        late += [commit for commit in self._sent or () if commit.deadline <= now]
        if self._sent is not None:
            self._sent = [commit for commit in self._sent if commit.deadline > now]
        self._end(late)
        for ask in [ask for ask in self._asks if ask.deadline <= now]:
            self._answer(ask)
        open_deadlines = [
            each.deadline for each in (*self._commits, *(self._sent or ()), *self._asks)
        ]
        self._deadline = min(open_deadlines, default=NEVER)

    def _auto(self, now: float) -> None:
        """Commits by enable.auto.commit. It scans all partitions, but only once per interval."""
        if now < self._auto_at:
            return
        if not self._snapshot:
            self._take_snapshot()
        if self._snapshot and not self._dealt_with():
            self._auto_at = now + max(self._interval_s / AUTO_COMMIT_CHECKS, 0.01)
            return
        wanted = {
            key: position
            for key, (assigned, position) in self._snapshot.items()
            if self._fetches.assigned.get(key) is assigned
            and _is_ahead(assigned, position)
            # messages of a cancelled call may have been given back since
            and (position is assigned.stored or not 0 <= assigned.position < position.offset)
        }
        self._snapshot = {}
        self._auto_at = now + max(self._interval_s, 0.01)
        if wanted:
            until = now + max(self._timeout_s, self._interval_s)
            self._enqueue(wanted, list(wanted), lambda outcome: None, until, False)

    def _take_snapshot(self) -> None:
        """Takes the stored positions, and the number of polls that delivered their messages."""
        before = self._polls() if self._polls is not None else (0, True)
        ahead = self._ahead(self._fetches.assigned)
        self._snapshot = {
            key: (self._fetches.assigned[key], position) for key, position in ahead.items()
        }
        after = self._polls() if self._polls is not None else (0, True)
        # During the whole snapshot, the application waited in a poll: it has processed all earlier
        # messages.
        self._snapshot_polls = after[0] - 1 if before == after and after[1] else after[0]

    def _dealt_with(self) -> bool:
        """Whether the messages of the snapshot are processed.

        They are if the application has begun another poll, or if it stores offsets itself.
        """
        return (
            self._polls is None or not self._auto_store or self._polls()[0] > self._snapshot_polls
        )

    def close(self, error: KafkaError) -> None:
        """Fails all unfinished calls with this error: the client is closing."""
        commits = [*(self._sent or ()), *self._commits]
        self._commits, self._sent = [], None
        for commit in commits:
            commit.errors.update(dict.fromkeys(commit.left, error))
            commit.left.clear()
            self._finish(commit)
        for ask in list(self._asks):
            ask.last = error
            self._answer(ask)
        if self._files is not None:
            self._files.close()


def _is_ahead(assigned: Assigned, position: OffsetPosition) -> bool:
    """Whether ``position`` is after the last offset that was committed or sent.

    After a newer leader has truncated the log, a position with a smaller offset can be ahead. Its
    leader epoch is greater then.
    """
    before = assigned.committed if assigned.sent is None else assigned.sent
    if before is None or (position.epoch > before.epoch >= 0):
        return True
    return position.offset > before.offset


def _outcome_of(partitions: list[TopicPartition], errors: list[KafkaError | None]) -> Outcome:
    """The partitions, or one error if all requested partitions have that error."""
    first = errors[0] if errors else None
    if first is not None and all(
        error is not None and error.code() == first.code() for error in errors
    ):
        return first
    return partitions


def _partition_of(key: Key, position: OffsetPosition | None) -> TopicPartition:
    if position is None or position == NO_POSITION:
        return TopicPartition(key[0], key[1], OFFSET_INVALID)
    return TopicPartition(key[0], key[1], position.offset, position.metadata, position.epoch)


ESCAPED = str.maketrans({"/": "%2F", ":": "%3A", "\\": "%5C", "\0": "%00"})
"""librdkafka's escapes for characters that file names can't have on every system."""

FILE_MAX_BYTES = 64
"""A longer file isn't an offset file."""


class OffsetFiles:
    """The offset files of one client."""

    def __init__(
        self,
        path: str,
        group_id: str,
        *,
        sync_interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``path``: offset.store.path, a directory, or a file for the only consumed partition.

        ``sync_interval_s``: how often written files are synced to disk; 0: at each write, negative:
        never.
        """
        from pathlib import Path  # here, because few consumers store offsets in files

        self._path = Path(path)
        self._group_id = group_id
        self._interval_s = sync_interval_s
        self._clock = clock
        self._unsynced: set[Path] = set()
        self._sync_at = NEVER
        self._owner: Key | None = None

    def path_of(self, key: Key) -> Path | KafkaError:
        """A partition's file: TOPIC-PARTITION.offset, or TOPIC-PARTITION-GROUP.offset."""
        if not self._path.is_dir():
            if self._owner not in (None, key):
                text = f"offset.store.path {self._path} is a file: "
                text += "it can't hold a second partition's offset"
                return KafkaError(KafkaError._FS, text)
            self._owner = key
            return self._path
        parts = [key[0], str(key[1]), *([self._group_id] if self._group_id else [])]
        return self._path / ("-".join(parts).translate(ESCAPED) + ".offset")

    def read(self, key: Key) -> OffsetPosition | KafkaError:
        """The offset in the file; `NO_POSITION` if there is no file."""
        path = self.path_of(key)
        if isinstance(path, KafkaError):
            return path
        try:
            with path.open("rb") as file:
                text = file.read(FILE_MAX_BYTES + 1)
        except FileNotFoundError:
            return NO_POSITION
        except OSError as error:
            return _failure("read", path, error)
        digits = text.strip()
        if len(text) > FILE_MAX_BYTES or not digits.isdigit() or int(digits) >= 1 << 63:
            return KafkaError(
                KafkaError._FS,
                f"{path} holds no offset: remove it to start where auto.offset.reset says",
            )
        return OffsetPosition(int(digits))

    def write(self, key: Key, position: OffsetPosition) -> KafkaError | None:
        """Replaces the offset in the file. After an error, the file still has the old one."""
        path = self.path_of(key)
        if isinstance(path, KafkaError):
            return path
        beside = path.with_name(path.name + ".new")
        try:
            with beside.open("wb") as file:
                file.write(b"%d\n" % position.offset)
                file.flush()
                if self._interval_s == 0:
                    os.fsync(file.fileno())
            beside.replace(path)
            if self._interval_s == 0:
                _sync_directory(path.parent)
        except OSError as error:
            beside.unlink(missing_ok=True)
            return _failure("write", path, error)
        if self._interval_s > 0:
            self._unsynced.add(path)
            self._sync_at = min(self._sync_at, self._clock() + self._interval_s)
        return None

    def poll(self, now: float) -> float:
        """Syncs files when that is due. Returns the time of the next poll."""
        if now >= self._sync_at:
            self._sync()
        return self._sync_at

    def _sync(self) -> None:
        self._sync_at = NEVER
        paths, self._unsynced = self._unsynced, set()
        for path in sorted(paths):
            try:
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            except OSError:
                # The next write to this file reports the problem. The sync is repeated after the
                # interval.
                self._unsynced.add(path)
        for directory in {path.parent for path in paths}:
            try:
                _sync_directory(directory)
            except OSError:
                self._unsynced.update(path for path in paths if path.parent == directory)
        if self._unsynced:
            self._sync_at = self._clock() + self._interval_s

    def close(self) -> None:
        """Syncs unsynced files, once."""
        if self._unsynced:
            self._sync()
            self._sync_at = NEVER


def _sync_directory(directory: Path) -> None:
    """Syncs a directory, so that its renames are on disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _failure(what: str, path: Path, error: OSError) -> KafkaError:
    return KafkaError(KafkaError._FS, f"can't {what} offset file {path}: {error.strerror or error}")
