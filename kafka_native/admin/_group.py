"""Consumer groups as `list_consumer_groups()` and `describe_consumer_groups()` tell them."""

from __future__ import annotations

from kafka_native.admin._acl import AclOperation
from kafka_native.admin._convert import member_of, members_of
from kafka_native.types import ConsumerGroupState, ConsumerGroupType, Node, TopicPartition


class ConsumerGroupListing:
    """A group in a list. It has ``state`` and ``type`` only where the broker tells them.

    :param group_id: Its id.
    :param is_simple_consumer_group: It has offsets, but never had members that subscribe.
    :param state: What it is doing.
    :param type: By which protocol it shares its partitions.
    """

    def __init__(
        self,
        group_id: str,
        is_simple_consumer_group: bool,
        state: ConsumerGroupState | str | int | None = None,
        type: ConsumerGroupType | str | int | None = None,
    ) -> None:
        """Make one; see the class for the arguments."""
        self.group_id = group_id
        self.is_simple_consumer_group = is_simple_consumer_group
        if state is not None:
            self.state = member_of(state, ConsumerGroupState)
        if type is not None:
            self.type = member_of(type, ConsumerGroupType)


class ListConsumerGroupsResult:
    """The groups, and what went wrong with brokers that were asked for theirs.

    :param valid: The groups.
    :param errors: A KafkaException for each broker that didn't answer.
    """

    def __init__(self, valid: list[ConsumerGroupListing] | None = None, errors: list[Exception] | None = None) -> None:
        """Make one; see the class for the arguments."""
        self.valid = valid
        self.errors = errors


class MemberAssignment:
    """What a member reads.

    :param topic_partitions: The partitions; None is taken for none.
    """

    def __init__(self, topic_partitions: list[TopicPartition] | None) -> None:
        """Make one; see the class for the arguments."""
        self.topic_partitions = [] if topic_partitions is None else topic_partitions


class MemberDescription:
    """A member of a group.

    :param member_id: Its id.
    :param client_id: Its ``client.id``.
    :param host: Where it connects from.
    :param assignment: What it reads.
    :param group_instance_id: Its ``group.instance.id``, if it has one.
    :param target_assignment: What it is to read; of groups of the consumer protocol (KIP-848).
    """

    def __init__(
        self,
        member_id: str,
        client_id: str,
        host: str,
        assignment: MemberAssignment,
        group_instance_id: str | None = None,
        target_assignment: MemberAssignment | None = None,
    ) -> None:
        """Make one; see the class for the arguments."""
        self.member_id = member_id
        self.client_id = client_id
        self.host = host
        self.assignment = assignment
        self.target_assignment = target_assignment
        self.group_instance_id = group_instance_id


class ConsumerGroupDescription:
    """A group with its members.

    :param group_id: Its id.
    :param is_simple_consumer_group: It has offsets, but never had members that subscribe.
    :param members: Its members.
    :param partition_assignor: The assignor that it uses.
    :param state: What it is doing.
    :param coordinator: The broker that looks after it.
    :param authorized_operations: What this client may do to it; None if it wasn't asked for.
    :param type: By which protocol it shares its partitions.
    """

    def __init__(
        self,
        group_id: str,
        is_simple_consumer_group: bool,
        members: list[MemberDescription],
        partition_assignor: str,
        state: ConsumerGroupState | str | int | None,
        coordinator: Node,
        authorized_operations: list[AclOperation | str | int] | None = None,
        type: ConsumerGroupType | str | int = ConsumerGroupType.UNKNOWN,
    ) -> None:
        """Make one; see the class for the arguments."""
        self.group_id = group_id
        self.is_simple_consumer_group = is_simple_consumer_group
        self.members = members
        self.authorized_operations = members_of(authorized_operations, AclOperation)
        self.partition_assignor = partition_assignor
        if state is not None:
            self.state = member_of(state, ConsumerGroupState)
        self.type = member_of(type, ConsumerGroupType)
        self.coordinator = coordinator
