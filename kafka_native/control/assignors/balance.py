"""The balanced assignment if the members subscribe to different topics.

Members and topics form a graph. A member can pass a partition of a topic to any other subscriber of
the topic. So a member with many partitions can give some away along a path, on which each member
passes one partition to the next. An assignment is balanced when no path leads from a member to one
with at least two partitions less. The search prefers paths that take the fewest partitions from
their previous owners.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from kafka_native.control.assignors.base import MemberSubscription, PartitionInfo
from kafka_native.control.positions import Key

NOBODY: Final = -1
GIVE_BACK_MAX: Final = 3000
"""The maximum number of searches for returning partitions to their previous owners.

Some hundred members with some thousand partitions need fewer. Larger groups become slightly less
sticky instead of slow.
"""


class Balance:
    """Assigns the partitions of these topics. Members and topics are numbers here."""

    def __init__(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        readers: Mapping[str, list[MemberSubscription]],
        holder: Mapping[Key, str],
    ) -> None:
        """``readers``: the subscribers of each topic, in order.

        ``holder``: each partition's previous owner.
        """
        order = {member.member_id: member for each in readers.values() for member in each}
        ids = [member.member_id for member in sorted(order.values(), key=lambda each: each.order)]
        number_of = {member_id: number for number, member_id in enumerate(ids)}
        self._ids = ids
        self._topics = list(readers)
        self._readers = [
            [number_of[member.member_id] for member in readers[topic]] for topic in self._topics
        ]
        self._load = [0] * len(ids)
        self._mean = sum(len(partitions[topic]) for topic in readers) // len(ids)
        # For each topic, by member: its partitions, grouped by their previous owner
        self._held: list[dict[int, dict[int, list[int]]]] = [{} for _ in self._topics]
        # For each member, by topic: the number of partitions that it owned before, and of the
        # others
        self._own: list[dict[int, int]] = [{} for _ in ids]
        self._away: list[dict[int, int]] = [{} for _ in ids]
        self._racks = [
            {each.number: each.racks for each in partitions[topic]} for topic in self._topics
        ]
        self._rack_of = [order[member_id].rack or None for member_id in ids]
        self._place(number_of, holder)

    def assignment(self) -> dict[str, list[Key]]:
        """The balanced assignment."""
        self._relieve()
        self._give_back()
        found: dict[str, list[Key]] = {member_id: [] for member_id in self._ids}
        for topic, held in enumerate(self._held):
            for member, by_home in held.items():
                name = self._topics[topic]
                found[self._ids[member]] += [
                    (name, number) for numbers in by_home.values() for number in numbers
                ]
        return found

    # --- a first assignment ---

    def _place(self, number_of: Mapping[str, int], holder: Mapping[Key, str]) -> None:
        """Members keep their partitions. The others go to the members with the fewest.

        Topics with few readers come first.
        """
        free: list[list[int]] = [[] for _ in self._topics]
        for topic, racks in enumerate(self._racks):
            for number in racks:
                home = number_of.get(holder.get((self._topics[topic], number), ""), NOBODY)
                if home == NOBODY:
                    free[topic].append(number)
                else:
                    self._put(home, topic, home, number)
        for topic in sorted(range(len(free)), key=lambda each: (len(self._readers[each]), each)):
            heap = [(self._load[member], member) for member in self._readers[topic]]
            heapq.heapify(heap)
            for number in free[topic]:
                member = self._least(heap, self._racks[topic][number])
                self._put(member, topic, NOBODY, number)
                heapq.heappush(heap, (self._load[member], member))

    def _least(self, heap: list[tuple[int, int]], racks: frozenset[str]) -> int:
        """Takes the member with the smallest load off the heap; prefers the same rack (KIP-881)."""
        least = heap[0][0]
        if not racks or self._rack_of[heap[0][1]] in racks:
            return heapq.heappop(heap)[1]
        popped = []
        found = None
        while heap and heap[0][0] == least and found is None:
            entry = heapq.heappop(heap)
            if self._rack_of[entry[1]] in racks:
                found = entry
            else:
                popped.append(entry)
        if found is None:
            found = popped.pop(0)
        for entry in popped:
            heapq.heappush(heap, entry)
        return found[1]

    def _put(self, member: int, topic: int, home: int, number: int) -> None:
        self._held[topic].setdefault(member, {}).setdefault(home, []).append(number)
        self._load[member] += 1
        counts = (self._own if member == home else self._away)[member]
        counts[topic] = counts.get(topic, 0) + 1

    def _take(self, member: int, topic: int, home: int) -> int:
        by_home = self._held[topic][member]
        number = by_home[home].pop()
        if not by_home[home]:
            del by_home[home]
            if not by_home:
                del self._held[topic][member]
        self._load[member] -= 1
        counts = (self._own if member == home else self._away)[member]
        counts[topic] -= 1
        if not counts[topic]:
            del counts[topic]
        return number

    # --- balance ---

    def _relieve(self) -> None:
        """Moves partitions away from members with the most, until no move improves the balance."""
        closed = [False] * len(self._ids)
        for load_max in range(max(self._load), 1, -1):
            # No member's load grows to this any more: a receiver still has fewer than the giver
            while starts := [
                member
                for member, load in enumerate(self._load)
                if load == load_max and not closed[member]
            ]:
                path = self._path(starts, closed)
                if not path:
                    break
                self._move(path)

    def _path(self, starts: list[int], closed: list[bool]) -> list[tuple[int, int, int]]:
        """The cheapest path from one of ``starts`` to a member with at least two partitions less.

        All of ``starts`` have the same load. The path is a list of (from, topic, to). Without a
        path, every reached member has at most one partition less than they. None of them can reach
        a member with less, either. So nothing can improve for them, and they are closed.
        """
        load_max = self._load[starts[0]] - 2
        parents, costs = self._search(starts, closed, load_max)
        best = min(
            (
                (costs[each], self._load[each], each)
                for each in parents
                if self._load[each] <= load_max
            ),
            default=None,
        )
        if best is None:
            for member in (*parents, *starts):
                closed[member] = True
            return []
        return self._trace(parents, best[2])

    def _search(
        self, starts: list[int], closed: list[bool] | None, load_max: int | None = None
    ) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
        """The members that can be reached, with (previous member, topic), and the cost of each.

        The cost is the number of partitions that leave their previous owner.

        :param closed: Members to skip.
        :param load_max: Search until a member with at most this load is found. Stop at once at a
            load below the mean. None: only paths of cost 0.
        """
        costs = dict.fromkeys(starts, 0)
        few = NOBODY if load_max is None else min(self._mean, load_max + 1)
        parents: dict[int, tuple[int, int]] = {}
        opened: set[int] = set()
        queue = deque(starts)
        cost = 0
        while queue:
            level = []
            while queue:
                member = queue.popleft()
                level.append(member)
                for topic in self._away[member]:
                    if topic not in opened and self._open(
                        topic, member, closed, opened, (cost, few, costs, parents, queue)
                    ):
                        return parents, costs
            if load_max is None or any(self._load[each] <= load_max for each in parents):
                break
            cost += 1
            for member in level:
                for topic in self._own[member]:
                    if topic not in opened and self._open(
                        topic, member, closed, opened, (cost, few, costs, parents, queue)
                    ):
                        return parents, costs
        return parents, costs

    def _open(
        self,
        topic: int,
        member: int,
        closed: list[bool] | None,
        opened: set[int],
        search: tuple[int, int, dict[int, int], dict[int, tuple[int, int]], deque[int]],
    ) -> bool:
        """Adds all other readers of the topic to the search. A later path to them is never cheaper.

        :return: Whether one of them has so few partitions that the search can stop.
        """
        cost, few, costs, parents, queue = search
        opened.add(topic)
        found = False
        for other in self._readers[topic]:
            if other not in costs and not (closed is not None and closed[other]):
                costs[other] = cost
                parents[other] = (member, topic)
                queue.append(other)
                found = found or self._load[other] < few
        return found

    @staticmethod
    def _trace(parents: Mapping[int, tuple[int, int]], end: int) -> list[tuple[int, int, int]]:
        """The path from the start to ``end``."""
        path = []
        while end in parents:
            before, topic = parents[end]
            path.append((before, topic, end))
            end = before
        return path[::-1]

    def _move(self, path: list[tuple[int, int, int]]) -> None:
        """Moves partitions along the path: several at once, up to the mean of the loads."""
        start, end = path[0][0], path[-1][2]
        gap = self._load[start] - self._load[end]
        count = min(gap // 2, self._load[start] - self._mean, self._mean - self._load[end])
        if count <= 0:
            count = max(1, gap // 4)
        for before, topic, _after in path:
            count = min(count, self._away[before].get(topic, 0) or self._own[before][topic])
        for _ in range(count):
            for before, topic, after in reversed(path):
                self._hand_on(before, topic, after)

    def _hand_on(self, before: int, topic: int, after: int) -> None:
        """Moves one partition, preferably one that the new owner had before.

        A partition that the old owner had before is the last choice.
        """
        held = self._held[topic][before]
        home = after if after in held else next((each for each in held if each != before), before)
        self._put(after, topic, home, self._take(before, topic, home))

    # --- stickiness ---

    def _displaced(self) -> Iterator[tuple[int, int, int]]:
        """(previous owner, topic, owner) of partitions that have left their previous owner."""
        for topic, held in enumerate(self._held):
            for member, by_home in list(held.items()):
                for home in list(by_home):
                    if home not in (NOBODY, member):
                        yield home, topic, member

    def _give_back(self) -> None:
        """Returns partitions to their previous owners.

        It does so only if the balance stays, and no other partition leaves its previous owner.
        """
        left = GIVE_BACK_MAX
        improved = True
        while improved and left > 0:
            improved = False
            reached: dict[int, tuple[dict[int, tuple[int, int]], dict[int, int]]] = {}
            for home, topic, holder in list(self._displaced()):
                while home in self._held[topic].get(holder, ()) and left > 0:
                    if self._load[home] >= self._load[holder] and home not in reached:
                        reached[home] = self._search([home], None)
                        left -= 1
                    if not self._return(home, topic, holder, reached):
                        break
                    improved = True
                    reached.clear()

    def _return(
        self,
        home: int,
        topic: int,
        holder: int,
        reached: Mapping[int, tuple[dict[int, tuple[int, int]], dict[int, int]]],
    ) -> bool:
        """Returns one partition, if another member can take one in exchange."""
        path: list[tuple[int, int, int]] = []
        if self._load[home] >= self._load[holder]:
            parents, _costs = reached[home]
            light = self._load[holder] - 1
            ends = [each for each in parents if each == holder or self._load[each] == light]
            if not ends or home == holder:
                return False
            path = self._trace(parents, min(ends, key=lambda each: (each != holder, each)))
        self._put(home, topic, home, self._take(holder, topic, home))
        for before, each, after in reversed(path):
            self._hand_on(before, each, after)
        return True
