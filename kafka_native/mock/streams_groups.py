"""Streams groups (KIP-1071) that tests describe. Kafka Streams can't join them.

Their offsets follow the same rules as those of consumer groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native.mock.consumer_groups import ConsumerGroup, ConsumerMember, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_native.mock.clock import Clock
    from kafka_native.mock.membership import GroupSettings
    from kafka_native.mock.topics import Topic
    from kafka_native.protocol.streams import StreamsGroupDescribeResponse


class StreamsGroup(ConsumerGroup):
    """A streams group, whose members stay until the test changes them."""

    type = "streams"
    protocol_type = "streams"

    def __init__(
        self,
        description: StreamsGroupDescribeResponse.Group,
        settings: GroupSettings,
        topics: Mapping[str, Topic],
        clock: Clock,
    ) -> None:
        """Make the group that StreamsGroupDescribe returns.

        Its members read the source topics of its topology.
        """
        super().__init__(description.group_id, settings, topics, clock)
        self.description = description
        parts = [] if description.topology is None else description.topology.subtopologies or []
        for each in description.members:
            member = ConsumerMember(
                each.member_id, each.instance_id, each.client_id, each.client_host, clock
            )
            member.topics = [name for part in parts for name in part.source_topics]
            self.members[member.id] = member
        self.epoch = self.target_epoch = description.group_epoch

    @property
    def state(self) -> State:
        """The state that the test has set."""
        return State(self.description.group_state)

    def tick(self) -> None:
        """Do nothing: the members' sessions never expire."""
