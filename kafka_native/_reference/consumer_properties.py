"""The configuration properties of consumers."""

from __future__ import annotations

from typing import Final

from .property import CONSUMER, HIGH, LOW, MEDIUM, Property, State

PROPERTIES: Final[tuple[Property, ...]] = (
    Property(
        "group.id",
        "string",
        CONSUMER,
        HIGH,
        state=State.EFFECTIVE,
        note="needed to subscribe and to commit",
        doc="Name of the consumer group.",
    ),
    Property(
        "group.instance.id",
        "string",
        CONSUMER,
        MEDIUM,
        state=State.EFFECTIVE,
        note="a static member (KIP-345)",
        doc="Name of a static member of the group (KIP-345).",
    ),
    Property(
        "partition.assignment.strategy",
        "string",
        CONSUMER,
        MEDIUM,
        default="range,roundrobin",
        state=State.EFFECTIVE,
        note="subscribe()",
        doc=(
            "Assignors that the group may choose from, in order of preference: range, roundrobin,"
            " sticky, cooperative-sticky, Assignor objects, or a list of these."
        ),
    ),
    Property(
        "session.timeout.ms",
        "integer",
        CONSUMER,
        HIGH,
        default=45_000,
        minimum=1,
        maximum=3_600_000,
        state=State.EFFECTIVE,
        note=(
            "for the classic protocol; with the consumer protocol, the broker's group "
            "setting counts"
        ),
        doc=(
            "How long the coordinator waits for a heartbeat before it removes a member from "
            "the group."
        ),
    ),
    Property(
        "heartbeat.interval.ms",
        "integer",
        CONSUMER,
        LOW,
        default=3_000,
        minimum=1,
        maximum=3_600_000,
        state=State.EFFECTIVE,
        note="for the classic protocol; with the consumer protocol, the broker decides",
        doc="How often a member sends a heartbeat to the coordinator.",
    ),
    Property(
        "group.protocol.type",
        "string",
        CONSUMER,
        LOW,
        default="consumer",
        state=State.EFFECTIVE,
        note="sent with JoinGroup and SyncGroup",
        doc="Protocol type of classic groups.",
    ),
    Property(
        "group.protocol",
        "enum",
        CONSUMER,
        HIGH,
        default="classic",
        choices=("classic", "consumer"),
        state=State.EFFECTIVE,
        note="consumer needs Apache Kafka 4.0",
        doc="Group protocol: the classic one, or KIP-848's, in which the broker assigns.",
    ),
    Property(
        "group.remote.assignor",
        "string",
        CONSUMER,
        MEDIUM,
        state=State.EFFECTIVE,
        note="with group.protocol=consumer",
        doc="The broker's assignor for the group. By default, the broker chooses one.",
    ),
    Property(
        "coordinator.query.interval.ms",
        "integer",
        CONSUMER,
        LOW,
        default=600_000,
        minimum=1,
        maximum=3_600_000,
        state=State.EFFECTIVE,
        note="the interval of lookups while a coordinator is known",
        doc="How often the client looks up the group's coordinator.",
    ),
    Property(
        "max.poll.interval.ms",
        "integer",
        CONSUMER,
        HIGH,
        default=300_000,
        minimum=1,
        maximum=86_400_000,
        state=State.EFFECTIVE,
        note="also the rebalance timeout of the group",
        doc=(
            "How long the application may take between two calls of poll() before its "
            "partitions go to another member."
        ),
    ),
    Property(
        "enable.auto.commit",
        "boolean",
        CONSUMER,
        HIGH,
        default=True,
        state=State.EFFECTIVE,
        note="also before the consumer gives up partitions, and when it closes",
        doc="Commit stored offsets periodically.",
    ),
    Property(
        "auto.commit.interval.ms",
        "integer",
        CONSUMER,
        MEDIUM,
        default=5_000,
        minimum=0,
        maximum=86_400_000,
        state=State.EFFECTIVE,
        note="with enable.auto.commit",
        doc="How often the consumer commits stored offsets.",
    ),
    Property(
        "enable.auto.offset.store",
        "boolean",
        CONSUMER,
        HIGH,
        default=True,
        state=State.EFFECTIVE,
        note="the next poll() stores the offsets of returned messages",
        doc="Store the offset of each message that the application gets, for the next commit.",
    ),
    Property(
        "queued.min.messages",
        "integer",
        CONSUMER,
        MEDIUM,
        default=100_000,
        minimum=1,
        maximum=10_000_000,
        state=State.EFFECTIVE,
        doc=(
            "How many messages of a partition the consumer queues before it stops fetching "
            "from that partition."
        ),
    ),
    Property(
        "queued.max.messages.kbytes",
        "integer",
        CONSUMER,
        MEDIUM,
        default=65_536,
        minimum=1,
        maximum=2_097_151,
        state=State.EFFECTIVE,
        doc="How many kibibytes the whole client may fetch ahead of the application.",
    ),
    Property(
        "fetch.wait.max.ms",
        "integer",
        CONSUMER,
        LOW,
        default=500,
        minimum=0,
        maximum=300_000,
        state=State.EFFECTIVE,
        doc="How long a broker may wait for fetch.min.bytes of data before it answers.",
    ),
    Property(
        "fetch.queue.backoff.ms",
        "integer",
        CONSUMER,
        MEDIUM,
        default=1_000,
        minimum=0,
        maximum=300_000,
        state=State.INERT,
        note=(
            "the next Fetch leaves out a partition above its limit; fetching continues as soon as"
            " the application catches up"
        ),
        doc="How long the consumer doesn't fetch from a partition with a full queue.",
    ),
    Property(
        "fetch.message.max.bytes",
        "integer",
        CONSUMER,
        MEDIUM,
        default=1_048_576,
        minimum=1,
        maximum=1_000_000_000,
        state=State.EFFECTIVE,
        doc=(
            "How many bytes a Fetch requests from one partition. By default, fewer than four "
            "partitions of a broker share 4 MiB. The broker sends a larger batch, too, but alone."
        ),
    ),
    Property(
        "max.partition.fetch.bytes",
        "integer",
        CONSUMER,
        MEDIUM,
        default=1_048_576,
        minimum=1,
        maximum=1_000_000_000,
        alias_of="fetch.message.max.bytes",
        state=State.EFFECTIVE,
        doc="The Java client's name of fetch.message.max.bytes.",
    ),
    Property(
        "fetch.max.bytes",
        "integer",
        CONSUMER,
        MEDIUM,
        default=52_428_800,
        minimum=0,
        maximum=2_147_483_135,
        state=State.EFFECTIVE,
        doc=(
            "How many bytes a Fetch requests from all partitions together. It has to be at "
            "least message.max.bytes."
        ),
    ),
    Property(
        "fetch.min.bytes",
        "integer",
        CONSUMER,
        LOW,
        default=1,
        minimum=0,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc=(
            "How many bytes a broker collects before it answers a Fetch, unless "
            "fetch.wait.max.ms ends earlier."
        ),
    ),
    Property(
        "fetch.error.backoff.ms",
        "integer",
        CONSUMER,
        MEDIUM,
        default=500,
        minimum=0,
        maximum=300_000,
        state=State.EFFECTIVE,
        doc=(
            "How long the consumer doesn't fetch from a partition after an error. The time grows "
            "up to 10 s while the errors continue. If the topic may not be read "
            "(TOPIC_AUTHORIZATION_FAILED), the time is ten times as long, and at least 1 s."
        ),
    ),
    Property(
        "offset.store.method",
        "enum",
        CONSUMER,
        LOW,
        default="broker",
        choices=("none", "file", "broker"),
        deprecated=True,
        state=State.EFFECTIVE,
        doc=(
            "Where the consumer stores offsets: broker, local files, or none (no automatic "
            "commits)."
        ),
    ),
    Property(
        "isolation.level",
        "enum",
        CONSUMER,
        HIGH,
        default="read_committed",
        choices=("read_uncommitted", "read_committed"),
        state=State.EFFECTIVE,
        doc="Whether the consumer skips messages of aborted and open transactions.",
    ),
    Property(
        "consume_cb",
        "callable",
        CONSUMER,
        LOW,
        state=State.EFFECTIVE,
        note="poll() of Consumer and DeserializingConsumer",
        doc=(
            "Called with each message. poll() passes the messages to it until its time is up, and "
            "then returns None."
        ),
    ),
    Property(
        "rebalance_cb",
        "callable",
        CONSUMER,
        LOW,
        state=State.EFFECTIVE,
        note="Consumer and DeserializingConsumer",
        doc=(
            "Called with (consumer, error, partitions) in a rebalance: error.code() is "
            "_ASSIGN_PARTITIONS or _REVOKE_PARTITIONS. It may change the assignment, as on_assign "
            "and on_revoke may. Callbacks of subscribe() take its place."
        ),
    ),
    Property(
        "offset_commit_cb",
        "callable",
        CONSUMER,
        LOW,
        state=State.EFFECTIVE,
        doc="Another name of on_commit, which takes precedence.",
    ),
    Property(
        "enable.partition.eof",
        "boolean",
        CONSUMER,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        doc=(
            "Return a Message whose error() is _PARTITION_EOF each time the consumer reaches "
            "the end of a partition."
        ),
    ),
    Property(
        "check.crcs",
        "boolean",
        CONSUMER,
        MEDIUM,
        default=True,
        state=State.EFFECTIVE,
        doc=(
            "Verify the checksum of each batch, which takes little time. On by default, "
            "unlike in librdkafka."
        ),
    ),
    Property(
        "max.poll.records",
        "integer",
        CONSUMER,
        LOW,
        default=500,
        minimum=1,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        note="consume(None), ShareConsumer",
        doc=(
            "Maximum number of messages that consume() returns if its argument is None, and that "
            "a share consumer requests from each leader."
        ),
    ),
    Property(
        "share.acknowledgement.mode",
        "string",
        CONSUMER,
        MEDIUM,
        default="implicit",
        state=State.EFFECTIVE,
        note="ShareConsumer",
        doc=(
            "How a share consumer acknowledges records: implicit (the next poll() accepts them) "
            "or explicit (the application does)."
        ),
    ),
    Property(
        "auto.commit.enable",
        "boolean",
        CONSUMER,
        LOW,
        default=True,
        harmless=(False,),
        deprecated=True,
        state=State.INERT,
        note="an option of librdkafka's legacy consumer: use enable.auto.commit",
        doc="Old name of enable.auto.commit.",
    ),
    Property(
        "auto.offset.reset",
        "enum",
        CONSUMER,
        HIGH,
        default="latest",
        choices=("smallest", "earliest", "beginning", "largest", "latest", "end", "error"),
        synonyms=(
            ("smallest", "earliest"),
            ("beginning", "earliest"),
            ("largest", "latest"),
            ("end", "latest"),
        ),
        duration_prefix="by_duration:",
        state=State.EFFECTIVE,
        doc=(
            "Where to start if there is no committed offset or it is out of range: at the oldest "
            "message, at the end, at the first message younger than a duration (KIP-1106), or "
            "with an error."
        ),
    ),
    Property(
        "offset.store.path",
        "string",
        CONSUMER,
        LOW,
        default=".",
        deprecated=True,
        state=State.EFFECTIVE,
        note="commits, with offset.store.method=file",
        doc="The directory of local offset files, or the file of the single consumed partition.",
    ),
    Property(
        "offset.store.sync.interval.ms",
        "integer",
        CONSUMER,
        LOW,
        default=-1,
        minimum=-1,
        maximum=86_400_000,
        deprecated=True,
        state=State.EFFECTIVE,
        note="commits, with offset.store.method=file",
        doc="How often local offset files are synced to disk. 0: at each commit. -1: never.",
    ),
    Property(
        "consume.callback.max.messages",
        "integer",
        CONSUMER,
        LOW,
        default=0,
        minimum=0,
        maximum=1_000_000,
        state=State.EFFECTIVE,
        note="consume_callback()",
        doc=(
            "Maximum number of messages in one call of consume_callback() without an "
            "argument. 0 means no limit."
        ),
    ),
)
