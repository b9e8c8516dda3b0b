"""The judge.

Each rule takes a history and yields what breaks it; nothing yielded means that it holds.

When may two members' assignments of a partition overlap? When the group has expelled the earlier
one and it can't know: it was stopped, or its application didn't poll, for as long as the group
waits; or its coordinator was away. It may then still hand out what it had fetched, for the moment
that it takes to notice, but nothing it commits may be accepted.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.broker.chaos.history import Assignment, Commit, History, Key, Life, in_force, overlap
from tests.harness.runs import Rule, broken

EXAMPLES = 5
CLOCK_S = 0.005  # the brokers' time stamps are whole milliseconds
EXPEL_SHARE = 0.8  # a broker counts a session from the last heartbeat, which was before the stop
NOTICE_S = 10.0  # from being able to notice an expulsion to having given up what was lost
CLOSE_S = 30.0


def place(key: Key, offset: int | None = None) -> str:
    """A partition, or an offset of it."""
    return f"{key[0]} [{key[1]}]" + ("" if offset is None else f" @{offset}")


def handed_out(history: History) -> dict[Key, dict[int, list[tuple[float, int, str]]]]:
    """Time, number and member of every time that an offset was handed out, in assignments or
    outside of any.
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
    """Every acked message was handed out, as what it is."""
    seen = handed_out(history)
    for key, acked in history.acked.items():
        for offset, number in sorted(acked.items()):
            times = seen[key].get(offset, [])
            if not times:
                yield f"{place(key, offset)} (message {number}) was handed out to nobody"
            for at, found, member in times:
                if found != number:
                    yield f"{place(key, offset)} was message {found} to {member} at {at:.3f}, not {number}"


def in_order(history: History) -> Iterator[str]:
    """Offsets go up by one within an assignment: no transactions and no compaction here, so there
    are no gaps.
    """
    for each in history.assignments():
        for (_, before, _), (at, offset, _) in pairwise(each.got):
            if offset != before + 1:
                yield f"{each}: @{offset} came after @{before} at {at:.3f}"


def from_the_committed(history: History) -> Iterator[str]:
    """An assignment begins where the group had committed, or at the beginning."""
    commits = history.commits_of()
    for each in history.assignments():
        if each.got:
            at, first, _ = each.got[0]
            right = in_force(commits.get(each.key, []), each.start - CLOCK_S, at + CLOCK_S)
            if first not in right:
                yield f"{each} began at @{first}, committed was {sorted(right)}"


def only_what_is_owned(history: History) -> Iterator[str]:
    """Nothing is handed out of, assigned twice, or revoked from a partition that a member hasn't
    got.
    """
    for life in history.lives:
        for at, key, offset, _ in life.strays:
            yield f"{life.name} was handed out {place(key, offset)} at {at:.3f} without owning it"
        for at, key in life.doubled:
            yield f"{life.name} was assigned {place(key)} at {at:.3f}, which it had"
        for at, key in life.foreign:
            yield f"{life.name} had {place(key)} revoked at {at:.3f}, which it hadn't"


def expelled_before(history: History, life: Life, at: float) -> float | None:
    """When a member could notice that it had been expelled by some time; None if there was no
    reason to expel it.
    """
    able = []
    for spans, wait in ((life.pauses, history.session_s), (life.stalls, history.max_poll_s)):
        for start, end in spans:
            if start + wait * EXPEL_SHARE <= at and end >= start + wait * EXPEL_SHARE:
                able.append(max(end, at))
    for start, end in history.outages:
        if start <= at <= end + history.session_s + NOTICE_S:
            able.append(max(end, at))
    return max(able, default=None)


def peers(history: History) -> set[str]:
    """The members that are librdkafka's."""
    return {life.name for life in history.lives if life.client == "confluent"}


def overtaken(history: History) -> set[str]:
    """The members whose commits a broker may carry out in another order than they mean.

    A commit without an answer is sent again, with what has come to be committed meanwhile, on
    another connection, and a broker that is slow enough may get round to the first one last.
    librdkafka may do so at any time.
    """
    return peers(history) | {life.name for life in history.lives if life.unanswered}


def one_owner(history: History) -> Iterator[str]:
    """No partition has two owners at once; see above.

    librdkafka joins again without the partitions that it has to give up before its application's
    on_revoke has run (the owned partitions in the broker's log of a group show it), so another may
    have them first; that is forgiven to it alone.
    """
    theirs = peers(history)
    for key, assignments in history.by_partition().items():
        for index, earlier in enumerate(assignments):
            if earlier.member in theirs:
                continue
            for later in assignments[index + 1 :]:
                if later.start >= earlier.end:
                    break
                yield from judged(history, key, earlier, later)


def judged(history: History, key: Key, earlier: Assignment, later: Assignment) -> Iterator[str]:
    """What is wrong with two assignments that overlap."""
    life = history.life(earlier.member)
    able = expelled_before(history, life, later.start)
    if able is None:
        yield f"two owners of {place(key)}: {earlier} and {later}"
        return
    # A pause that begins before it could notice doesn't count against it.
    waited = overlap([*life.pauses, *life.stalls], able, earlier.end)
    if earlier.end - able - waited > NOTICE_S:
        yield f"{earlier} was expelled, could notice at {able:.3f}, and went on beside {later}"


def fenced(history: History) -> Iterator[str]:
    """Whoever has lost a partition commits nothing of it: the broker's log has no commit of an
    earlier owner.

    librdkafka is in the group when its on_revoke commits too late (see `one_owner`); that is
    forgiven to it alone.
    """
    by_partition, theirs = history.by_partition(), peers(history)
    for key, commits in history.commits_of().items():
        for commit in commits:
            if not commit.by:
                continue
            # What the clocks can't tell apart counts for whoever committed.
            known = by_partition.get(key, [])
            started = [each for each in known if each.start <= commit.at - CLOCK_S]
            own = [
                each
                for each in known
                if each.member == commit.by and each.start <= commit.at + CLOCK_S
            ]
            if not own:
                yield f"{commit.by} committed {place(key, commit.offset)} at {commit.at:.3f} without ever owning it"
            elif commit.by in theirs:
                continue
            elif started and started[-1].member != commit.by and own[-1].start < started[-1].start:
                yield f"{commit.by} committed {place(key, commit.offset)} at {commit.at:.3f}, owned by {started[-1]}"


def nothing_ahead(history: History) -> Iterator[str]:
    """When an offset is committed, everything before it has been handed out; and commits never go
    back.
    """
    seen = handed_out(history)
    for key, commits in history.commits_of().items():
        first_times = {offset: min(at for at, _, _ in times) for offset, times in seen[key].items()}
        done = 0
        for commit in commits:
            while (
                done < commit.offset and first_times.get(done, commit.at + 1) <= commit.at + CLOCK_S
            ):
                done += 1
            if done < commit.offset:
                yield f"{named(commit)} at {commit.at:.3f}, but {place(key, done)} wasn't handed out by then"
    yield from never_back(history)


def never_back(history: History) -> Iterator[str]:
    """Each commit of a partition is as high as the one before; see `overtaken`."""
    forgiven = overtaken(history)
    for commits in history.commits_of().values():
        for before, commit in pairwise(commits):
            if commit.offset < before.offset and not (
                commit.by == before.by and commit.by in forgiven
            ):
                yield f"{named(commit)} at {commit.at:.3f}, after {before.offset} by {before.by}"


def named(commit: Commit) -> str:
    return f"{commit.by or 'somebody'} committed {place(commit.key, commit.offset)}"


def commits_are_true(history: History) -> Iterator[str]:
    """A commit that a client reported as done is in the broker's log by then: it, or one that took
    its place.
    """
    highest: dict[tuple[Key, str], list[tuple[float, int]]] = defaultdict(list)
    for commit in history.commits:
        before = highest[commit.key, commit.by]
        before.append((commit.at, max(commit.offset, before[-1][1] if before else 0)))
    for life in history.lives:
        for at, key, offset in life.reported:
            there = highest.get((key, life.name), [])
            index = bisect_right(there, (at + CLOCK_S, sys.maxsize))
            if not index or there[index - 1][1] < offset:
                yield f"{life.name} was told at {at:.3f} that {place(key, offset)} is committed; the broker had no such"


def settles(history: History) -> Iterator[str]:
    """After each round of faults the group becomes stable and reads on, in time; and in the end it
    has read it all.
    """
    for number, each in enumerate(history.settlings, 1):
        if each.settled is None:
            yield f"round {number}: not settled {history.settle_s:g} s after the last fault: {each.why}"
    if not history.settlings:
        yield "the run never settled"


def good_ends(history: History) -> Iterator[str]:
    """Nobody dies by itself, no consumer has a fatal error, close() returns in time."""
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
    """At the end the group's offsets are those of the ends; see `overtaken`."""
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
    """Everything that breaks a rule, each rule with its first few."""
    return broken(RULES, history, EXAMPLES)
