"""What a consumer reads and where: assignment, positions, seeking, pausing, offsets of the log, lag.

Layer: public API. It checks arguments and asks the managers on the control thread (`ConsumerControl`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kafka_native._native.consuming import ConsumerCore
from kafka_native.client import UninitializedClient
from kafka_native.control.consumer.consumer_control import ConsumerControl
from kafka_native.control.consumer.fetches import Assigned
from kafka_native.control.group.rebalance import Kind
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.types import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, TopicPartition

T = TypeVar("T")

CLOSED_TEXT = "Consumer closed"


class Assigning(ConsumerCore):
    """The half of `Consumer` that is about partitions and places in them."""

    _client = UninitializedClient()
    _control: ConsumerControl
    _rebalancing: Kind | None
    """The step whose callback runs now, on the application's thread."""
    _handled: bool
    """Whether that callback has changed the assignment itself."""

    # --- the way to the control thread ---

    def _check_open(self) -> None:
        self._client.check_open(CLOSED_TEXT)

    def _check_usable(self) -> None:
        """For calls that change something: RuntimeError when closed, KafkaException (_FATAL) after a fatal error."""
        self._client.check_open(CLOSED_TEXT)
        if self._client.fatal is not None:
            raise KafkaException(self._client.fatal_error(), hint="close() this consumer and make another one")

    def _run(self, work: Callable[[], T]) -> T:
        return self._client.main.run(work)

    def _do(self, work: Callable[[], KafkaError | None]) -> None:
        """Runs work that returns an error, which is raised."""
        error = self._run(work)
        if error is not None:
            raise KafkaException(error)

    def _ask(self, ask: Callable[[Callable[[Any], None], float], None], timeout: float) -> Any:
        """Has the control thread ask something, as ``ask(done, deadline)``; what ``done`` gets, a KafkaError raised."""

        def make(deadline: float, done: Callable[[Any], None]) -> list[Any]:
            ask(done, deadline)
            return []

        return self._client.main.gather(make, timeout)

    # --- assignment ---

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others.

        Without a subscription, or in an ``on_assign`` or ``on_revoke`` callback of a group that rebalances eagerly.

        :param partitions: Each with the offset to start from, or OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, or (the
        default) where the group has committed, or else where ``auto.offset.reset`` says.
        :raises KafkaException: _STATE when the group decides; _FATAL after a fatal error.
        """
        wanted = [_place(each) for each in checked(partitions)]

        def work() -> None:
            self._remove(list(self._control.fetches.assigned))
            self._control.fetches.add(wanted, time.monotonic())

        self._change_assignment(work, incremental=False)

    def unassign(self) -> None:
        """Reads nothing any more. What is stored is committed (``enable.auto.commit``)."""
        self._change_assignment(lambda: self._remove(list(self._control.fetches.assigned)), incremental=False)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions, too.

        Without a subscription, or in an ``on_assign`` callback of a group that rebalances cooperatively.

        :param partitions: As for `assign()`.
        :raises KafkaException: _CONFLICT for a partition that is assigned, _STATE when the group decides; then nothing
        is changed.
        """
        wanted = [_place(each) for each in checked(partitions)]

        def work() -> KafkaError | None:
            fetches = self._control.fetches
            for topic, partition, _, _ in wanted:
                if (topic, partition) in fetches.assigned:
                    text = f"{topic} [{partition}] is already part of the current assignment"
                    return KafkaError(KafkaError._CONFLICT, text)
            fetches.add(wanted, time.monotonic())
            return None

        self._change_assignment(work, incremental=True)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions no more. What is stored of them is committed (``enable.auto.commit``).

        :raises KafkaException: _INVALID_ARG for a partition that isn't assigned, _STATE when the group decides; then
        nothing is changed.
        """
        keys = keys_of(partitions)

        def work() -> KafkaError | None:
            for topic, partition in keys:
                if (topic, partition) not in self._control.fetches.assigned:
                    text = f"{topic} [{partition}] can't be unassigned since it is not in the current assignment"
                    return KafkaError(KafkaError._INVALID_ARG, text)
            self._remove(keys)
            return None

        self._change_assignment(work, incremental=True)

    def _remove(self, keys: list[Key]) -> None:
        """Control thread."""
        if self._rebalancing is Kind.LOSE:
            self._control.fetches.remove(keys)  # another member's by now: nothing to be committed
        else:
            self._control.unassign(keys, lambda: None)

    def _change_assignment(self, work: Callable[[], KafkaError | None], *, incremental: bool) -> None:
        self._check_usable()
        inside = self._in_callback() and self._rebalancing is not None

        def guarded() -> KafkaError | None:
            return _refusal(self._control, inside, incremental) or work()

        self._do(guarded)
        if inside:
            self._handled = True

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read, each with the offset that it was assigned with.

        OFFSET_STORED where none was given: it started where the group had committed, or else where
        ``auto.offset.reset`` says. `position()` has where it is by now.
        """
        self._check_open()
        assigned = self._control.fetches.assigned
        return self._run(lambda: [TopicPartition(*key, state.given) for key, state in assigned.items()])

    # --- positions ---

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The next offset to be handed out of each partition, with the leader epoch of the message before it.

        OFFSET_INVALID before its first message, after a seek, and where a partition isn't assigned.
        """
        self._check_open()
        found = [(key, self._control.fetches.assigned.get(key)) for key in keys_of(partitions)]
        return [
            TopicPartition(*key) if state is None else TopicPartition(*key, state.position, None, state.position_epoch)
            for key, state in found
        ]

    def seek(self, partition: TopicPartition | list[TopicPartition]) -> None:
        """Goes on at ``partition.offset``: absolute, OFFSET_BEGINNING, OFFSET_END or OFFSET_STORED.

        What was fetched and not handed out is dropped. An offset that isn't in the log is for ``auto.offset.reset``.

        :param partition: One, or several: then all of them are moved, or none.
        :raises KafkaException: A partition isn't assigned: _STATE, or _UNKNOWN_PARTITION when its topic isn't known
        either.
        :raises ValueError: No offset is given.
        """
        wanted = checked([partition] if isinstance(partition, TopicPartition) else partition)
        for each in wanted:
            if each.offset == OFFSET_INVALID:
                raise ValueError("seek() needs an offset: set TopicPartition(..., offset=...)")
        self._check_usable()
        places = [_place(each) for each in wanted]
        self._do(lambda: self._control.fetches.seek_many(places))

    def seek_to_beginning(self, partitions: list[TopicPartition] | None = None) -> None:
        """Goes on at the first message of each of these partitions; None: of all that are assigned."""
        self._seek_all(partitions, OFFSET_BEGINNING)

    def seek_to_end(self, partitions: list[TopicPartition] | None = None) -> None:
        """Goes on behind the last message of each of these partitions; None: of all that are assigned."""
        self._seek_all(partitions, OFFSET_END)

    def _seek_all(self, partitions: list[TopicPartition] | None, offset: int) -> None:
        keys = None if partitions is None else keys_of(partitions)
        self._check_usable()
        fetches = self._control.fetches
        self._do(
            lambda: fetches.seek_many(
                [(topic, number, offset, None) for topic, number in (fetches.assigned if keys is None else keys)]
            )
        )

    def seek_to_time(
        self, timestamp_ms: int, partitions: list[TopicPartition] | None = None, timeout: float = -1
    ) -> None:
        """Goes on at the first message of each partition that isn't older; at the end where there is none.

        :param timestamp_ms: Milliseconds since 1970.
        :param partitions: None: all that are assigned.
        :param timeout: Seconds to wait for the brokers' answers; negative waits for ever.
        :raises KafkaException: No answer in time, or a partition isn't assigned: then none is moved.
        :raises ValueError: The time is negative.
        """
        if timestamp_ms < 0:
            raise ValueError(f"a time is 0 or more milliseconds, not {timestamp_ms}")
        keys = None if partitions is None else keys_of(partitions)
        self._check_usable()
        fetches = self._control.fetches

        def ask(done: Callable[[Any], None], deadline: float) -> None:
            wanted = list(fetches.assigned) if keys is None else keys
            fetches.seek_to_times([(*key, timestamp_ms) for key in wanted], done, deadline)

        self._ask(ask, timeout)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Hands out no messages of these partitions until `resume()`; their positions stay.

        A rebalance keeps it; a partition that isn't assigned yet will be paused when it is. `unsubscribe()` forgets it.
        """
        keys = keys_of(partitions)
        self._check_usable()
        self._run(lambda: self._control.fetches.pause(keys))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Undoes `pause()`, of partitions that aren't assigned any more, too."""
        keys = keys_of(partitions)
        self._check_usable()
        self._run(lambda: self._control.fetches.resume(keys))

    def paused(self) -> list[TopicPartition]:
        """Those of the assigned partitions that are paused."""
        self._check_open()
        assigned = self._control.fetches.assigned
        return self._run(lambda: [TopicPartition(*key) for key, state in assigned.items() if state.paused])

    # --- offsets of the log ---

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """The offset of the first message that isn't older than a time, for each partition; assigned or not.

        :param partitions: Each with the time as its ``offset``, in milliseconds since 1970.
        :param timeout: Seconds to wait; negative waits for ever.
        :return: The same partitions with offsets and leader epochs, OFFSET_END where no message is as young; a
        partition's ``error`` says why it has none.
        :raises KafkaException: Not one has an answer.
        """
        wanted = [(each.topic, each.partition, each.offset) for each in checked(partitions)]
        self._check_open()
        fetches = self._control.fetches
        found = self._ask(lambda done, deadline: fetches.lookup_times(wanted, done, deadline), timeout)
        errors = [each for each in found if isinstance(each, KafkaError)]
        if errors and len(errors) == len(found):
            raise KafkaException(errors[0])
        outcome = []
        for (topic, number, _), each in zip(wanted, found, strict=True):
            if isinstance(each, KafkaError):
                outcome.append(TopicPartition(topic, number).with_error(each))
            else:
                outcome.append(TopicPartition(topic, number, each[0], None, each[1]))
        return outcome

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """The partition's first offset, and the one after its last message (read_committed: after the last stable one).

        :param timeout: Seconds to wait; negative waits for ever.
        :param cached: Only what the last fetch told, without asking: OFFSET_INVALID where nothing is known.
        :raises KafkaException: No answer in time, or the leader's error.
        """
        [key] = keys_of([partition])
        self._check_open()
        fetches = self._control.fetches
        if cached:
            state = fetches.assigned.get(key)
            if state is None or state.cursor is None:
                return OFFSET_INVALID, OFFSET_INVALID
            return state.cursor.log_start_offset, state.cursor.high_watermark
        [found] = self._ask(lambda done, deadline: fetches.watermarks([key], done, deadline), timeout)
        if isinstance(found, KafkaError):
            raise KafkaException(found)
        first, end = found
        return first, end

    # --- lag ---

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the application is behind the end of the partition, as far as the last fetch told.

        No request is made. The end is the last stable offset with ``isolation.level=read_committed``. Offsets without
        a message (compaction, transactions) count. None where something isn't known (yet), or it isn't assigned.
        """
        [key] = keys_of([partition])
        self._check_open()
        state = self._control.fetches.assigned.get(key)
        return None if state is None else self._lag(state)

    def lag(self) -> dict[TopicPartition, int | None]:
        """`current_lag()` of each assigned partition."""
        self._check_open()
        states = self._run(lambda: list(self._control.fetches.assigned.values()))
        return {TopicPartition(*state.key): self._lag(state) for state in states}

    def _lag(self, state: Assigned) -> int | None:
        cursor = state.cursor
        at = state.position if state.position >= 0 else state.base.offset
        if cursor is None or at < 0:
            return None
        end = cursor.last_stable_offset if self._control.fetches.read_committed else cursor.high_watermark
        return None if end < 0 else max(0, end - at)


def _refusal(control: ConsumerControl, inside: bool, incremental: bool) -> KafkaError | None:
    """Control thread: why the assignment can't be changed so, if it can't. ``inside``: in a rebalance callback."""
    if not control.subscription.wanted:
        return None
    if not inside:
        text = (
            "the group assigns what is subscribed to: unsubscribe() before assigning partitions by hand, "
            "or do it in the callbacks of subscribe()"
        )
        return KafkaError(KafkaError._STATE, text)
    protocol = control.membership.assignor_protocol
    if protocol == "NONE" or incremental == (protocol == "COOPERATIVE"):
        return None
    means = "incremental_assign() and incremental_unassign()" if not incremental else "assign() and unassign()"
    return KafkaError(
        KafkaError._STATE, f"Changes to the current assignment must be made using {means}: the group is {protocol}"
    )


def checked(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The list, after making sure that it is one of TopicPartitions with numbers that can be."""
    if isinstance(partitions, (str, TopicPartition)):
        raise TypeError("a list of TopicPartition is expected")
    wanted = list(partitions)
    for each in wanted:
        if not isinstance(each, TopicPartition):
            raise TypeError(f"a TopicPartition is expected, not {type(each).__name__}")
        if each.partition < 0:
            raise ValueError(f"{each.topic}: a partition's number is 0 or more, not {each.partition}")
    return wanted


def keys_of(partitions: Iterable[TopicPartition]) -> list[Key]:
    """Topics and numbers of a checked list."""
    return [(each.topic, each.partition) for each in checked(partitions)]


def _place(partition: TopicPartition) -> tuple[str, int, int, int | None]:
    return partition.topic, partition.partition, partition.offset, partition.leader_epoch
