"""The configuration properties of producers."""

from __future__ import annotations

from typing import Final

from kafka_native._native.enums import CODEC_NAMES

from .property import HIGH, LOW, MEDIUM, PRODUCER, Property, State

PROPERTIES: Final[tuple[Property, ...]] = (
    Property(
        "transactional.id",
        "string",
        PRODUCER,
        HIGH,
        state=State.EFFECTIVE,
        doc=(
            "Makes the producer transactional, with this id. Each instance of a producer needs "
            "its own id. At most 511 bytes."
        ),
    ),
    Property(
        "transaction.timeout.ms",
        "integer",
        PRODUCER,
        MEDIUM,
        default=60_000,
        minimum=1_000,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc="How long a transaction may stay open before the coordinator aborts it.",
    ),
    Property(
        "enable.idempotence",
        "boolean",
        PRODUCER,
        HIGH,
        default=True,
        state=State.EFFECTIVE,
        doc=(
            "The broker writes each message exactly once and in order in its partition, in spite "
            "of retries. It needs acks=all, retries, and at most five requests in flight, and "
            "sets them if you don't. If you set it to true, conflicting settings and brokers that"
            " don't support or allow it are errors. If it is only on by default, these conflicts "
            "turn it off and the client logs this. librdkafka's default is false."
        ),
    ),
    Property(
        "enable.gapless.guarantee",
        "boolean",
        PRODUCER,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        doc=(
            "Treat a message that could not be delivered as a fatal error, so that the sequence "
            "has no gap. A message that exceeds message.timeout.ms is no fatal error. It needs "
            "enable.idempotence."
        ),
    ),
    Property(
        "queue.buffering.max.messages",
        "integer",
        PRODUCER,
        HIGH,
        default=100_000,
        minimum=0,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc=(
            "How many messages of the producer may wait for delivery. Above it, produce() raises "
            "BufferError. 0 means no limit."
        ),
    ),
    Property(
        "queue.buffering.max.kbytes",
        "integer",
        PRODUCER,
        HIGH,
        default=1_048_576,
        minimum=1,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc=(
            "How many kibibytes of messages may wait for delivery. Above it, produce() "
            "raises BufferError."
        ),
    ),
    Property(
        "queue.buffering.max.ms",
        "float",
        PRODUCER,
        HIGH,
        default=5.0,
        minimum=0,
        maximum=900_000,
        state=State.EFFECTIVE,
        doc="How long a batch waits for more messages before it is sent, unless it is full.",
    ),
    Property(
        "linger.ms",
        "float",
        PRODUCER,
        HIGH,
        default=5.0,
        minimum=0,
        maximum=900_000,
        alias_of="queue.buffering.max.ms",
        state=State.EFFECTIVE,
        doc="The Java client's name of queue.buffering.max.ms.",
    ),
    Property(
        "message.send.max.retries",
        "integer",
        PRODUCER,
        HIGH,
        default=2_147_483_647,
        minimum=0,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc=(
            "How often the producer sends a batch again after a temporary error. Without "
            "idempotence, a retry may write messages twice or out of order."
        ),
    ),
    Property(
        "retries",
        "integer",
        PRODUCER,
        HIGH,
        default=2_147_483_647,
        minimum=0,
        maximum=2_147_483_647,
        alias_of="message.send.max.retries",
        state=State.EFFECTIVE,
        doc="The Java client's name of message.send.max.retries.",
    ),
    Property(
        "queue.buffering.backpressure.threshold",
        "integer",
        PRODUCER,
        LOW,
        default=1,
        minimum=1,
        maximum=1_000_000,
        state=State.EFFECTIVE,
        doc=(
            "How many requests may wait for a connection's socket, including the one that is "
            "being written. Above it, the producer collects messages into larger batches. The "
            "default is 2 MB of requests, regardless of their number."
        ),
    ),
    Property(
        "compression.codec",
        "enum",
        PRODUCER,
        MEDIUM,
        default="none",
        choices=CODEC_NAMES,
        state=State.EFFECTIVE,
        doc="Compression of batches, for all topics.",
    ),
    Property(
        "compression.type",
        "enum",
        PRODUCER,
        MEDIUM,
        default="none",
        choices=CODEC_NAMES,
        alias_of="compression.codec",
        state=State.EFFECTIVE,
        doc="The Java client's name of compression.codec.",
    ),
    Property(
        "batch.num.messages",
        "integer",
        PRODUCER,
        MEDIUM,
        default=10_000,
        minimum=1,
        maximum=1_000_000,
        state=State.EFFECTIVE,
        doc="Maximum number of messages in a batch.",
    ),
    Property(
        "batch.size",
        "integer",
        PRODUCER,
        MEDIUM,
        default=1_000_000,
        minimum=1,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc=(
            "Maximum size of a batch in bytes, with headers, before compression. A single larger "
            "message forms its own batch."
        ),
    ),
    Property(
        "delivery.report.only.error",
        "boolean",
        PRODUCER,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        doc="Call delivery callbacks only for messages that could not be delivered.",
    ),
    Property(
        "dr_cb",
        "callable",
        PRODUCER,
        LOW,
        state=State.EFFECTIVE,
        alias_of="on_delivery",
        doc="Called with (error, message), as on_delivery.",
    ),
    Property(
        "dr_msg_cb",
        "callable",
        PRODUCER,
        LOW,
        state=State.EFFECTIVE,
        alias_of="on_delivery",
        doc="Called with (error, message), as on_delivery.",
    ),
    Property(
        "sticky.partitioning.linger.ms",
        "integer",
        PRODUCER,
        LOW,
        default=10,
        minimum=0,
        maximum=900_000,
        state=State.EFFECTIVE,
        doc=(
            "How long messages without a key go to the same partition, unless they fill "
            "batch.size bytes earlier. With 0, each goes to a random partition."
        ),
    ),
    Property(
        "request.required.acks",
        "integer",
        PRODUCER,
        HIGH,
        default=-1,
        minimum=-1,
        maximum=1_000,
        synonyms=(("all", -1),),
        state=State.EFFECTIVE,
        doc=(
            "Which replicas have to write a batch before the broker answers: 0 none (and no "
            "answer), 1 the leader, -1 or all: all in-sync replicas."
        ),
    ),
    Property(
        "acks",
        "integer",
        PRODUCER,
        HIGH,
        default=-1,
        minimum=-1,
        maximum=1_000,
        synonyms=(("all", -1),),
        alias_of="request.required.acks",
        state=State.EFFECTIVE,
        doc="The usual name of request.required.acks.",
    ),
    Property(
        "request.timeout.ms",
        "integer",
        PRODUCER,
        MEDIUM,
        default=30_000,
        minimum=1,
        maximum=900_000,
        state=State.EFFECTIVE,
        doc="How long a broker may wait for the replicas before it answers a Produce request.",
    ),
    Property(
        "message.timeout.ms",
        "integer",
        PRODUCER,
        HIGH,
        default=300_000,
        minimum=0,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc=(
            "How long the delivery of a message may take, including retries, before it "
            "fails. 0 means no limit."
        ),
    ),
    Property(
        "delivery.timeout.ms",
        "integer",
        PRODUCER,
        HIGH,
        default=300_000,
        minimum=0,
        maximum=2_147_483_647,
        alias_of="message.timeout.ms",
        state=State.EFFECTIVE,
        doc="The Java client's name of message.timeout.ms.",
    ),
    Property(
        "queuing.strategy",
        "enum",
        PRODUCER,
        LOW,
        default="fifo",
        choices=("fifo", "lifo"),
        deprecated=True,
        state=State.INERT,
        note=(
            "the producer sends the messages of a partition in the order in which they were "
            "produced"
        ),
        doc="Order in which the producer sends queued messages.",
    ),
    Property(
        "produce.offset.report",
        "boolean",
        PRODUCER,
        LOW,
        default=False,
        deprecated=True,
        state=State.INERT,
        note="no longer used, in librdkafka either; offsets are always reported",
        doc="Was: report the offset of delivered messages.",
    ),
    Property(
        "partitioner",
        "string",
        PRODUCER,
        HIGH,
        default="consistent_random",
        state=State.EFFECTIVE,
        doc=(
            "How the producer chooses a partition for a message that names none. round_robin is "
            "this package's: it takes the partitions in turn, except those without a leader, and "
            "ignores keys."
        ),
    ),
    Property(
        "partitioner_cb",
        "callable",
        PRODUCER,
        LOW,
        state=State.EFFECTIVE,
        note="in produce(), on the thread that calls it",
        doc=(
            "Called as partitioner_cb(topic, key, partition_count) for each message that names no"
            " partition. It returns a number from 0 to partition_count - 1, or -1 (PARTITION_UA): "
            "then the client chooses as for a message without a key. key is bytes or None. It "
            "replaces partitioner."
        ),
    ),
    Property(
        "msg_order_cmp",
        "internal",
        PRODUCER,
        LOW,
        deprecated=True,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface.",
    ),
    Property(
        "compression.level",
        "integer",
        PRODUCER,
        MEDIUM,
        default=-1,
        minimum=-1,
        maximum=12,
        state=State.EFFECTIVE,
        doc=(
            "Compression level. -1 is the codec's default (zstd: level 3, with smaller tables for"
            " topics where they cost at most 2.5 % more bytes). A level above the codec's highest"
            " means the highest. snappy has no levels."
        ),
    ),
)
