"""A run: records, members and faults on a cluster whose clients go through proxies."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_native import KafkaException, TopicPartition
from kafka_native.admin import AdminClient
from tests.broker.cluster import quiet
from tests.broker.share.member import DONE, GONE, REFUSED, UNREPORTED, UNSURE, Settings
from tests.broker.share.verify import Answer, Delivery, Result
from tests.broker.support import change_group, create, delete
from tests.harness.cluster_run import (
    CLIENT_FAULTS,
    NETWORK_FAULTS,
    PROXIES,
    CheckedRun,
    FaultOptions,
    Rig,
    rig,
)
from tests.harness.load import NumberedLoad
from tests.harness.runs import counted
from tests.waiting import wait_for

PARTITIONS = 4
LOCK_S = 3.0
LIMIT = 25
"""The most deliveries that a broker allows. Faults must not use them up."""
CHANGES = {"group.share.max.delivery.count.limit": str(LIMIT)}
BYTES_MAX = 300_000
"""A response with records is larger than those of other runs."""
FINISH_S = 120.0
LEAST_RATE = 50
"""Records a second of a partition that the group finishes at least, for what is left at the end.

A member keeps some records for longer than their lock lasts, so it finishes about 150 a second.
"""
END_S = 60.0
CHECK_INTERVAL_S = 0.5
ADMIN_S = 10.0
# Each is drawn once before any comes again.
DECK = (
    *("kill", "freeze", "cut", "refuse", "kill", "pause", "broker", "cut", "stall", "roll"),
    *(*NETWORK_FAULTS, *CLIENT_FAULTS),
)


def share_rig(seed: int, network: str = PROXIES) -> AbstractContextManager[Rig]:
    """Return the cluster of a run, as a context manager."""
    return rig(seed, CHANGES, BYTES_MAX, network)


@dataclass
class Options(FaultOptions):
    rate: int = 500
    poll_max: int = 200
    bug: str = ""
    faults: tuple[str, ...] = field(default=DECK)

    def __str__(self) -> str:
        return f"{self.processes} members, {self.rate} records a second, --seed {self.seed}"


class Run(CheckedRun):
    """Use `Run(rig, options).run()`."""

    def __init__(self, rig: Rig, options: Options) -> None:
        self._options = options
        mark = uuid.uuid4().hex[:8]
        self._topic, self._group = f"share-{mark}", f"share-{mark}-g"
        internal = ("__share_group_state", "__consumer_offsets")
        super().__init__("share", rig, options, (self._topic, *internal))
        self.result = Result(LIMIT)
        self._acked: dict[tuple[str, int], dict[int, int]] = {}
        self._load = NumberedLoad(self._cluster, options.rate, self._acked)

    def run(self) -> Result:
        """Run everything. The processes have ended at the end, however it ends."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(delete, self._cluster, self._topic)
            stack.callback(self._clean_up)
            create(self._cluster, self._topic, PARTITIONS)
            change_group(
                self._cluster,
                self._group,
                share_auto_offset_reset="earliest",
                share_record_lock_duration_ms=str(int(LOCK_S * 1000)),
                share_delivery_count_limit=str(LIMIT),
            )
            self._load.widen(self._topic, PARTITIONS)
            self._load.start()
            self._make_faults()
            self._load.end()
            self._finish()
            for process in self._slots.values():
                process.leave()
            wait_for(self._all_gone, "members that leave", END_S)
            self._read()
        self.seconds = time.monotonic() - began
        return self.result

    def _finish(self) -> None:
        """Wait until the group has finished all records."""
        with AdminClient(quiet(self._cluster.conf())) as admin:
            began, backlog_max = time.monotonic(), 0
            while True:
                why, backlog = self._unfinished(admin)
                if not why:
                    return
                backlog_max = max(backlog_max, backlog)  # brokers without an answer may have more
                limit_s = FINISH_S + backlog_max / LEAST_RATE
                self._all_alive()
                if time.monotonic() > began + limit_s:
                    self.result.unfinished = f"not in {limit_s:.0f} s: {why}"
                    return
                self._watch(time.monotonic() + CHECK_INTERVAL_S)

    def _unfinished(self, admin: AdminClient) -> tuple[str, int]:
        """Return what the broker says about records that the group hasn't finished.

        The second value is the backlog: the largest number of such records in a partition, as far
        as the broker says it.
        """
        offsets = admin.list_share_group_offsets({self._group: None})[self._group]
        try:
            found = offsets.result(ADMIN_S)
        except KafkaException as error:
            return str(error), 0
        backlog = max((getattr(info, "lag", None) or 0 for info in found.values()), default=0)
        for (topic, partition), end in self._load.ends.items():
            info = found.get(TopicPartition(topic, partition))
            if getattr(info, "lag", None) != 0:
                return f"[{partition}] ends at {end}, the group has {info}", backlog
        return "", backlog

    def _fault(self) -> None:
        at = time.monotonic()
        super()._fault()
        if self._is_away() and not self._in_outage():
            self.result.outages.append((at, float("inf")))

    def _watch(self, until: float) -> None:
        super()._watch(until)
        if self._in_outage() and not self._is_away():
            self.result.outages[-1] = (self.result.outages[-1][0], time.monotonic())

    def _is_away(self) -> bool:
        return bool(self._away or self._frozen or self._roll)

    def _in_outage(self) -> bool:
        return bool(self.result.outages) and self.result.outages[-1][1] == float("inf")

    # --- processes ---

    def _start(self, slot: int) -> None:
        conf = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self._group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": self._options.poll_max,
            "reconnect.backoff.max.ms": 500,
        }
        settings = Settings(conf, self._topic, LOCK_S, self._options.bug)
        output = self.directory / f"m{slot}.{self._lives}.out"
        self._slots[slot] = self._child(slot, "tests.broker.share.member", settings, output)
        self._lives += 1

    # --- the result ---

    def _read(self) -> None:
        for (_, partition), numbers in self._acked.items():
            for offset, number in numbers.items():
                self.result.acked[partition, offset] = number
        for output in sorted(self.directory.glob("*.out")):
            for event in _events(output):
                self._take(output.stem, event)

    def _take(self, member: str, event: dict[str, Any]) -> None:
        name = event["e"]
        if name == "got":
            for partition, offset, deliveries, number in event["r"]:
                delivery = Delivery(event["at"], member, number, deliveries)
                self.result.got[partition, offset].append(delivery)
        elif name in (DONE, REFUSED, UNSURE, UNREPORTED, GONE):
            for partition, offset, deliveries in event["r"]:
                answer = Answer(event["at"], member, event["kind"], deliveries, name)
                self.result.answers[partition, offset].append(answer)
        elif name == "closed":
            self.result.closed.add(member)

    def records(self) -> int:
        """Return the number of records that were acknowledged."""
        return len(self.result.acked)

    def figures(self) -> dict[str, Any]:
        """Return the figures of the published record."""
        answers: Counter[str] = Counter()
        for found in self.result.answers.values():
            answers.update(f"{each.kind.lower()} {each.answer}" for each in found)
        seen = [len(found) for found in self.result.got.values()]
        counts = [each.deliveries for found in self.result.got.values() for each in found]
        return {
            "deliveries": sum(seen),
            "records_delivered_again": sum(times > 1 for times in seen),
            "highest_delivery_count": max(counts, default=0),
            "answers": dict(sorted(answers.items())),
            "connections_cut": self._cuts(),
            "members": self._lives,
        }

    def lines(self) -> list[str]:
        """Return the figures of the run."""
        figures = self.figures()
        return [
            self._fault_line(),
            (
                f"records: {len(self.result.acked)}; deliveries: {figures['deliveries']}, records "
                f"delivered again: {figures['records_delivered_again']}, highest count: "
                f"{figures['highest_delivery_count']}; members: {self._lives}"
            ),
            f"answers: {counted(figures['answers'])}",
        ]


def _events(output: Path) -> Iterator[dict[str, Any]]:
    """Yield a member's log. A kill may have cut off its last line."""
    for line in output.read_text(errors="replace").splitlines():
        if line.startswith('{"e"'):
            with suppress(json.JSONDecodeError):
                yield json.loads(line)
