"""The rules of a run.

Each rule takes a history and yields its violations.

Two members' assignments of a partition may overlap in one case: the group has expelled the earlier
member, and it can't know. It was stopped, or its application didn't poll, for longer than the group
waits; or its coordinator was away. It may then deliver messages that it had fetched, until it
notices. But no commit of it may be accepted.

A migration to the consumer protocol is another case, for members with the classic protocol. If a
new rebalance interrupts one, the broker forgets the assignments of all members (prepareRebalance()
in its GroupMetadataManager). If a member with the consumer protocol joins at this time, the broker
gives it partitions that others have. They are still in the group, so their commits are accepted.
No client can know that before its next answer.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.broker.chaos.history import (
    Assignment,
    Commit,
    History,
    Key,
    Life,
    in_force,
    overlap,
    overlapping,
)
from tests.harness.runs import Rule, broken

EXAMPLES = 5
CLOCK_S = 0.005  # brokers' timestamps are whole milliseconds
EXPEL_SHARE = 0.8  # a broker counts a session from the last heartbeat, which was before the stop
NOTICE_S = 10.0  # from the first chance to notice an expulsion to the loss of all partitions
CLOSE_S = 30.0
STALE_S = 2.0  # from the end of a freeze to the answer of the first heartbeat


def place(key: Key, offset: int | None = None) -> str:
    """Return a partition, or an offset of it, as text."""
    return f"{key[0]} [{key[1]}]" + ("" if offset is None else f" @{offset}")


def deliveries(history: History) -> dict[Key, dict[int, list[tuple[float, int, str]]]]:
    """Return time, number and member of every delivery of an offset, inside and outside of
    assignments.
    """
    found: dict[Key, dict[int, list[tuple[float, int, str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in history.assignments():
        for at, offset, number in each.got:
            found[each.key][offset].append((at, number, each.member))
    for life in history.lives:
        for at, key, offset, number in life.strays:
            found[key][offset].append((at, number, life.name))
    return found


def nothing_lost(history: History) -> Iterator[str]:
    """Every acked message was delivered with its value."""
    seen = deliveries(history)
    for key, acked in history.acked.items():
        for offset, number in sorted(acked.items()):
            times = seen[key].get(offset, [])
            if not times:
                yield f"{place(key, offset)} (message {number}) was never delivered"
            for at, found, member in times:
                if found != number:
                    yield f"{place(key, offset)} was message {found} to {member} at {at:.3f}, not {number}"


def in_order(history: History) -> Iterator[str]:
    """Offsets rise by one within an assignment. Without transactions and compaction there are no
    gaps.
    """
    for each in history.assignments():
        for (_, before, _), (at, offset, _) in pairwise(each.got):
            if offset != before + 1:
                yield f"{each}: @{offset} came after @{before} at {at:.3f}"


def from_the_committed(history: History) -> Iterator[str]:
    """An assignment begins at the committed offset, or at the start."""
    commits = history.commits_of()
    for each in history.assignments():
        if each.got:
            at, first, _ = each.got[0]
            right = in_force(commits.get(each.key, []), each.start - CLOCK_S, at + CLOCK_S)
            if first not in right:
                yield f"{each} began at @{first}, committed was {sorted(right)}"


def only_what_is_owned(history: History) -> Iterator[str]:
    """No message is delivered, and no partition revoked, without ownership. No partition is
    assigned twice.
    """
    for life in history.lives:
        for at, key, offset, _ in life.strays:
            yield f"{life.name} got {place(key, offset)} at {at:.3f} without owning it"
        for at, key in life.doubled:
            yield f"{life.name} was assigned {place(key)} at {at:.3f}, which it had"
        for at, key in life.foreign:
            yield f"{life.name} had {place(key)} revoked at {at:.3f}, which it hadn't"


def forgotten(history: History, life: Life, since: float, at: float) -> float | None:
    """Return the migration in which the broker may have forgotten what a member owned ``since``."""
    if life.protocol != "classic":
        return None
    return history.upgrade(max(since, at - history.session_s - NOTICE_S), at + CLOCK_S)


def expelled_before(history: History, life: Life, since: float, at: float) -> float | None:
    """Return the time at which a member could notice that it lost a partition before ``at``.

    It has owned it ``since``. None: there was no reason to expel it.
    """
    upgrade = forgotten(history, life, since, at)
    able = [] if upgrade is None else [max(upgrade, at)]
    for spans, wait in ((life.pauses, history.session_s), (life.stalls, history.max_poll_s)):
        for start, end in spans:
            if start + wait * EXPEL_SHARE <= at and end >= start + wait * EXPEL_SHARE:
                able.append(max(end, at))
    for start, end in history.outages:
        if start <= at <= end + history.session_s + NOTICE_S:
            able.append(max(end, at))
    return max(able, default=None)


def peers(history: History) -> set[str]:
    """Return the members that use librdkafka."""
    return {life.name for life in history.lives if life.client == "confluent"}


def overtaken(history: History) -> set[str]:
    """Return the members whose commits a broker may carry out in another order than they mean.

    An unanswered commit is sent again on another connection, with newer offsets. A slow broker may
    carry out the first one last. With librdkafka this may happen at any time.
    """
    return peers(history) | {life.name for life in history.lives if life.unanswered}


def one_owner(history: History) -> Iterator[str]:
    """No partition has two owners at once, except as the module's docstring says.

    librdkafka rejoins without the partitions that it has to revoke, before its application's
    on_revoke has run. The broker's log of the group shows this. So another member may own them
    first, and the rule exempts librdkafka.
    """
    theirs = peers(history)
    for key, assignments in history.by_partition().items():
        for index, earlier in enumerate(assignments):
            if earlier.member in theirs:
                continue
            for later in overlapping(assignments, index):
                if not is_stale(history, later):
                    yield from judged(history, key, earlier, later)


def is_stale(history: History, each: Assignment) -> bool:
    """Return whether a frozen member got an assignment that the group had taken back by then.

    The answer was on its way when the member froze. Afterwards the member takes it, learns that it
    was expelled, and loses everything.
    """
    return each.how == "lost" and any(
        end - start >= history.session_s * EXPEL_SHARE
        and end <= each.start
        and each.end <= end + STALE_S
        for start, end in history.life(each.member).pauses
    )


def judged(history: History, key: Key, earlier: Assignment, later: Assignment) -> Iterator[str]:
    """Yield the problem of two assignments that overlap."""
    life = history.life(earlier.member)
    able = expelled_before(history, life, earlier.start, later.start)
    if able is None:
        yield f"two owners of {place(key)}: {earlier} and {later}"
        return
    # Pauses during this time don't count against it.
    waited = overlap([*life.pauses, *life.stalls], able, earlier.end)
    if earlier.end - able - waited > NOTICE_S:
        yield f"{earlier} was expelled, could notice at {able:.3f}, and went on beside {later}"


def fenced(history: History) -> Iterator[str]:
    """A member that has lost a partition commits nothing for it: the log has no commit of an
    earlier owner.

    librdkafka is still in the group when its on_revoke commits too late (see `one_owner`), so the
    rule exempts it.
    """
    by_partition, theirs = history.by_partition(), peers(history)
    for key, commits in history.commits_of().items():
        known = [each for each in by_partition.get(key, []) if not is_stale(history, each)]
        of_member: dict[str, list[Assignment]] = defaultdict(list)
        for each in by_partition.get(key, []):
            of_member[each.member].append(each)
        for commit in commits:
            if not commit.by:
                continue
            # Times that are too close to compare count in favor of the member that committed.
            started = begun(known, commit.at - CLOCK_S)
            own = begun(of_member[commit.by], commit.at + CLOCK_S)
            if own is None:
                yield f"{commit.by} committed {place(key, commit.offset)} at {commit.at:.3f} without ever owning it"
            elif commit.by in theirs or is_forgotten(history, own, commit.at):
                continue
            elif (
                started
                and started.member != commit.by
                and (
                    own.start < started.start
                    or (is_stale(history, own) and commit.at <= started.end)
                )
            ):
                yield f"{commit.by} committed {place(key, commit.offset)} at {commit.at:.3f}, owned by {started}"


def is_forgotten(history: History, own: Assignment | None, at: float) -> bool:
    """Return whether the broker may have forgotten by a time that a member owns a partition."""
    return (
        own is not None and forgotten(history, history.life(own.member), own.start, at) is not None
    )


def begun(assignments: list[Assignment], by: float) -> Assignment | None:
    """Return the last one that has begun by a time. They are in the order of their starts."""
    index = bisect_right(assignments, by, key=lambda each: each.start)
    return assignments[index - 1] if index else None


def nothing_ahead(history: History) -> Iterator[str]:
    """A committed offset follows the deliveries of everything before it, and commits never go back."""
    seen = deliveries(history)
    for key, commits in history.commits_of().items():
        first_times = {offset: min(at for at, _, _ in times) for offset, times in seen[key].items()}
        done = 0
        for commit in commits:
            while (
                done < commit.offset and first_times.get(done, commit.at + 1) <= commit.at + CLOCK_S
            ):
                done += 1
            if done < commit.offset:
                yield f"{named(commit)} at {commit.at:.3f}, but {place(key, done)} wasn't delivered by then"
    yield from never_back(history)


def never_back(history: History) -> Iterator[str]:
    """Each commit of a partition is at least as high as the one before.

    Except for `overtaken`, and for two owners after a migration.
    """
    forgiven, by_partition = overtaken(history), history.by_partition()
    for key, commits in history.commits_of().items():
        for before, commit in pairwise(commits):
            if commit.offset >= before.offset or (commit.by == before.by and commit.by in forgiven):
                continue
            owners = by_partition.get(key, [])
            if not any(
                is_forgotten(
                    history,
                    begun([own for own in owners if own.member == each.by], each.at + CLOCK_S),
                    each.at,
                )
                for each in (before, commit)
            ):
                yield f"{named(commit)} at {commit.at:.3f}, after {before.offset} by {before.by}"


def named(commit: Commit) -> str:
    return f"{commit.by or 'unknown'} committed {place(commit.key, commit.offset)}"


def commits_are_true(history: History) -> Iterator[str]:
    """When a client reports a commit, the broker's log has it, or a later one."""
    highest: dict[tuple[Key, str], list[tuple[float, int]]] = defaultdict(list)
    for commit in history.commits:
        before = highest[commit.key, commit.by]
        before.append((commit.at, max(commit.offset, before[-1][1] if before else 0)))
    for life in history.lives:
        for at, key, offset in life.reported:
            there = highest.get((key, life.name), [])
            index = bisect_right(there, (at + CLOCK_S, sys.maxsize))
            if not index or there[index - 1][1] < offset:
                yield f"{life.name} reported at {at:.3f} that {place(key, offset)} is committed; the broker had no such"


def settles(history: History) -> Iterator[str]:
    """After each round of faults the group becomes stable and reads on in time. At the end it has
    read everything.
    """
    for number, each in enumerate(history.rounds, 1):
        if each.settled is None:
            yield f"round {number}: not settled {history.settle_s:g} s after the last fault: {each.why}"
    if not history.rounds:
        yield "the run never settled"


def good_ends(history: History) -> Iterator[str]:
    """No member ends by itself or has a fatal error, and close() returns in time."""
    for life in history.lives:
        if life.how == "died":
            yield f"{life.name} ended by itself at {life.ended:.3f}: {life.errors[-1:]}"
        for at, text, fatal in life.errors:
            if fatal:
                yield f"{life.name} at {at:.3f}: {text}"
        if life.closing is not None:
            start, end = life.closing
            end = min(end, life.ended)
            if end - start - overlap(life.pauses, start, end) > CLOSE_S:
                yield f"{life.name}: close() took {end - start:.1f} s"


def all_was_committed(history: History) -> Iterator[str]:
    """The group's last offsets are the ends of the partitions, except for `overtaken`."""
    commits = history.commits_of()
    forgiven = overtaken(history)
    for key, acked in history.acked.items():
        last = commits[key][-1].offset if key in commits else 0
        if key in commits and commits[key][-1].by in forgiven:
            last = max(commit.offset for commit in commits[key] if commit.by == commits[key][-1].by)
        if acked and last != max(acked) + 1:
            yield f"{place(key)} ends at {max(acked) + 1}, committed is {last}"


RULES: tuple[Rule[History], ...] = (
    *(
        nothing_lost,
        in_order,
        from_the_committed,
        only_what_is_owned,
        one_owner,
        fenced,
        nothing_ahead,
    ),
    *(commits_are_true, settles, good_ends, all_was_committed),
)


def violations(history: History) -> list[str]:
    """Return the violations, a few examples for each rule."""
    return broken(RULES, history, EXAMPLES)
