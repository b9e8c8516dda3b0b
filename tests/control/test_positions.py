"""A model of a log, an engine and an application: each offset is delivered once and in order."""

from __future__ import annotations

import random

import pytest

from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import (
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

from .fakes import FakeCursor, event, registry
from .test_fetches import ConsumerCluster

CODES = (
    0,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


class Engine:
    """The engine's fetched data of one partition, as its cursor's calls determine it."""

    def __init__(self, cursor: FakeCursor) -> None:
        self.cursor = cursor
        self.seen = 0
        self.fetched = 0  # the next offset to fetch
        self.queue: list[int] = []
        self.running = False

    def catch_up(self) -> None:
        for what, *rest in self.cursor.log[self.seen :]:
            if what == "stop":
                self.queue, self.running = [], False
                continue
            if what == "start":
                self.queue = []
            self.fetched, self.running = rest[1], True
        self.seen = len(self.cursor.log)


class World(ConsumerCluster):
    """One partition, and two brokers that lead it in turn."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.epoch = 5
        self.leader = 1
        self.expected = 0
        self.assign(("t", 0, 0))
        self.world = Engine(self.engine.cursors[0])

    def turn_over(self) -> None:
        """Run the control thread until nothing is due. Brokers answer."""
        for _ in range(20):
            self.go()
            if not self.engine.submitted:
                break
            self.respond()
        self.world.catch_up()

    def respond(self) -> None:
        sent = self.engine.submitted[0]
        request = registry.request(sent.api_key).decode(sent.body, sent.version)
        if isinstance(request, ListOffsetsRequest):
            raise AssertionError("nothing is ever out of range here")
        if not isinstance(request, OffsetForLeaderEpochRequest):
            self.answer(self.metadata_reply("t", [(self.leader, self.epoch), (2, 5)]))
            return
        [asked] = request.topics[0].partitions
        right = self.node_of(sent) == self.leader and asked.current_leader_epoch == self.epoch
        answer = OffsetForLeaderEpochResponse.Topic.Partition(
            partition=0,
            error_code=0 if right else KafkaError.FENCED_LEADER_EPOCH,
            leader_epoch=asked.leader_epoch,
            end_offset=1 << 40,
        )
        topic = OffsetForLeaderEpochResponse.Topic(topic="t", partitions=[answer])
        self.answer(OffsetForLeaderEpochResponse(topics=[topic]))

    # --- possible events ---

    def fetch(self) -> None:
        world = self.world
        if world.running:
            count = self.random.randrange(1, 9)
            world.queue += range(world.fetched, world.fetched + count)
            world.fetched += count

    def hand_out(self) -> None:
        for _ in range(self.random.randrange(1, 9)):
            if not self.world.queue:
                return
            offset = self.world.queue.pop(0)
            assert offset == self.expected
            self.expected += 1
            self.world.cursor.position = self.expected
            self.world.cursor.position_epoch = self.random.choice((-1, self.epoch))

    def pause(self) -> None:
        self.fetches.pause([("t", 0)])

    def resume(self) -> None:
        self.fetches.resume([("t", 0)])

    def stop_fetching(self) -> None:
        if self.world.running:
            self.world.running = False
            what = {"error_code": self.random.choice(CODES), "offset": self.world.fetched}
            self.fetches.on_cursor_error(
                event(token=1, epoch=self.world.cursor.epoch, **what), self.clock.now
            )

    def prefer(self) -> None:
        if self.world.running:
            self.world.running = False
            what = {"leader_id": self.random.choice((1, 2, 9)), "offset": self.world.fetched}
            self.fetches.on_replica(
                event(token=1, epoch=self.world.cursor.epoch, **what), self.clock.now
            )

    def follower_out_of_range(self) -> None:
        if self.world.running and self.fetches.assigned["t", 0].replica >= 0:
            self.world.running = False
            what = {"error_code": KafkaError.OFFSET_OUT_OF_RANGE, "offset": self.world.fetched}
            self.fetches.on_cursor_error(
                event(token=1, epoch=self.world.cursor.epoch, **what), self.clock.now
            )

    def elect(self) -> None:
        self.leader = self.random.choice((1, 2))
        self.epoch += 1

    def refresh(self) -> None:
        self.metadata.refresh(self.clock.now)

    def break_down(self) -> None:
        self.fetches.on_broker_down(self.handle_of(self.random.choice((1, 2))))

    def pass_time(self) -> None:
        self.clock.now += self.random.choice((0.05, 1.0, 20.0, 301.0))

    def seek(self) -> None:
        self.expected = self.random.randrange(self.expected + 10)
        epoch = self.random.choice((None, 1, self.epoch))
        assert self.fetches.seek("t", 0, self.expected, epoch) is None
        self.world.catch_up()


@pytest.mark.parametrize("seed", range(20))
def test_each_offset_is_delivered_once_and_in_order(seed):
    world = World(seed)
    often = [world.fetch, world.hand_out, world.pass_time, world.resume]
    seldom = [world.pause, world.stop_fetching, world.prefer, world.follower_out_of_range]
    seldom += [world.elect, world.refresh, world.break_down, world.seek]
    for _ in range(400):
        world.random.choice(often if world.random.random() < 0.7 else seldom)()
        if world.random.random() < 0.8:
            world.turn_over()
        world.world.catch_up()
    # From any state it continues.
    world.resume()
    before = world.expected
    for _ in range(10):
        world.clock.now += 400
        world.turn_over()
        world.fetch()
        world.hand_out()
    assert world.expected > before
    assert len(world.engine.cursors) == 1
