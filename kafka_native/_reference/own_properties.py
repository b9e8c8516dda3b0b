"""The configuration properties that librdkafka doesn't have.

They are confluent_kafka's Python-only keys and this package's own properties.
"""

from __future__ import annotations

from typing import Final

from .property import BOTH, CONSUMER, HIGH, LOW, MEDIUM, PRODUCER, Property, State

SOFTWARE_NAME: Final = "kafka-native"
"""The name of this client library for brokers."""

PROPERTIES: Final[tuple[Property, ...]] = (
    Property(
        "on_delivery",
        "callable",
        PRODUCER,
        HIGH,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Called with (error, message) for each delivered or failed message that has no "
            "callback of its own."
        ),
    ),
    Property(
        "on_commit",
        "callable",
        CONSUMER,
        HIGH,
        state=State.EFFECTIVE,
        python_only=True,
        doc="Called with (error, partitions) when a commit has succeeded or failed.",
    ),
    Property(
        "oauth_cb",
        "callable",
        BOTH,
        HIGH,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Called with sasl.oauthbearer.config when the client needs a token. It returns "
            "(token, expiry time in seconds since the epoch), optionally followed by the "
            "principal and a dict of SASL extensions. The client's security thread calls it at "
            "the start and after 80 % of each token's lifetime, even if the application doesn't "
            "call poll()."
        ),
    ),
    Property(
        "topics",
        "object",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Properties of single topics: a dict of a dict for each topic. They win over the "
            "client's. A producer's topic may have acks, request.timeout.ms, message.timeout.ms, "
            "compression.type, compression.level and partitioner; a consumer's may have "
            "auto.offset.reset. Their other names are accepted, too."
        ),
    ),
    Property(
        "client.software.name",
        "string",
        BOTH,
        LOW,
        default=SOFTWARE_NAME,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "The client library's name for the brokers' metrics and logs (KIP-511). A library "
            "that is built on this one sets its own name. Characters other than a-z, A-Z, 0-9, . "
            "and - become -; . and - at both ends are removed."
        ),
    ),
    Property(
        "client.software.version",
        "string",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "The client library's version, beside client.software.name and with the same "
            "characters. Not set: the version of kafka_native."
        ),
    ),
    Property(
        "metadata.cluster.check.enable",
        "boolean",
        BOTH,
        LOW,
        default=True,
        python_only=True,
        state=State.EFFECTIVE,
        doc=(
            "Send the expected cluster and node id with each connection. If a broker has others, "
            "the client starts again from bootstrap.servers (KIP-1242). It needs Apache Kafka 4.4 "
            "and metadata.recovery.strategy=rebootstrap."
        ),
    ),
    Property(
        "topic.metadata.ttl",
        "integer",
        BOTH,
        LOW,
        default=300_000,
        minimum=1_000,
        maximum=86_400_000,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "How long, in milliseconds, the client refreshes the metadata of a topic after its "
            "last use. Topics with queued messages, and assigned or subscribed topics, are in "
            "use. The next use after that requests the metadata again, at once. Java's "
            "metadata.max.idle.ms."
        ),
    ),
    Property(
        "connections.per.broker",
        "integer",
        BOTH,
        LOW,
        default=1,
        minimum=1,
        maximum=16,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "How many connections to each broker carry messages. The partitions are spread over "
            "them, each on one, so that their order holds. Each connection has a thread of its "
            "own. More than one helps where one core is the limit: with TLS, or decompression of "
            "what is fetched. A share consumer uses one."
        ),
    ),
    Property(
        "proxy.url",
        "string",
        BOTH,
        MEDIUM,
        state=State.EFFECTIVE,
        sensitive=True,
        python_only=True,
        doc=(
            "The proxy for every connection to a broker: socks5://host:port (the client resolves "
            "the brokers' names), socks5h://host:port (the proxy resolves them) or "
            "http://host:port (CONNECT; the proxy resolves them). Write user:password@ before the"
            " host if the proxy needs a login. TLS goes through the proxy to the broker: "
            "docs/guide/proxies.md."
        ),
    ),
    Property(
        "ssl.crl.check",
        "enum",
        BOTH,
        LOW,
        default="leaf",
        choices=("leaf", "chain"),
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Which certificates the client checks against the lists of ssl.crl.location. leaf: "
            "the broker's own, as in librdkafka. chain: also the CAs above it. chain needs a list"
            " of each CA up to the root in that file, and the root in ssl.ca.location."
        ),
    ),
    Property(
        "sasl.aws.region",
        "string",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "The region in AWS_MSK_IAM's signature. If empty, the region in the broker's "
            "name, or else AWS_REGION."
        ),
    ),
    Property(
        "sasl.scram.tokenauth",
        "boolean",
        BOTH,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "For SCRAM: sasl.username and sasl.password are the id and the HMAC of a delegation "
            "token (KIP-48). In the Java client, this is tokenauth in sasl.jaas.config."
        ),
    ),
    Property(
        "logger",
        "object",
        BOTH,
        MEDIUM,
        state=State.EFFECTIVE,
        note="everywhere",
        python_only=True,
        doc=(
            "A logging.Logger, or any object with the same log(), that gets the client's log "
            'lines. The default is "kafka_native.<client.id>", with a child for each context.'
        ),
    ),
    Property(
        "default.topic.config",
        "object",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        deprecated=True,
        python_only=True,
        doc="A mapping of topic properties. You can also set them directly.",
    ),
    Property(
        "interceptors",
        "object",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        note="produce(), delivery reports, poll(), consume(), commits",
        python_only=True,
        doc=(
            "A list of ProducerInterceptor or ConsumerInterceptor objects (KIP-42), called "
            "in this order."
        ),
    ),
    Property(
        "test.mock.num.brokers",
        "integer",
        BOTH,
        LOW,
        default=0,
        minimum=0,
        maximum=10_000,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Start a mock cluster (`kafka_native.mock`) with this number of brokers and use it "
            "instead of bootstrap.servers. The cluster ends with the client. Other clients find "
            "it through list_topics(). librdkafka has this property, too, but doesn't document "
            "it."
        ),
    ),
    Property(
        "test.mock.broker.rtt",
        "integer",
        BOTH,
        LOW,
        default=0,
        minimum=0,
        maximum=3_600_000,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "How many milliseconds the brokers of `test.mock.num.brokers` wait before each "
            "response. librdkafka has this property, too, but doesn't document it."
        ),
    ),
    Property(
        "transaction.two.phase.commit.enable",
        "boolean",
        PRODUCER,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Two-phase commit (KIP-939): prepare_transaction() and complete_transaction(), for "
            "transactions that an external coordinator ends. No timeout ends them. The brokers "
            "need unstable.api.versions.enable=true and transaction.two.phase.commit.enable=true."
        ),
    ),
    Property(
        "max.block.ms",
        "integer",
        PRODUCER,
        MEDIUM,
        default=0,
        minimum=0,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "How long a call waits for room in a full queue before it raises BufferError. With 0 "
            "it doesn't wait. During the wait, other threads run and queued batches are sent "
            "without lingering."
        ),
    ),
    Property(
        "partitioner.adaptive.partitioning.enable",
        "boolean",
        PRODUCER,
        LOW,
        default=True,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Messages without a key prefer partitions with short queues, so that slow brokers get"
            " fewer of them (KIP-794). It is the Java client's property."
        ),
    ),
    Property(
        "partitioner.availability.timeout.ms",
        "integer",
        PRODUCER,
        LOW,
        default=0,
        minimum=0,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Messages without a key avoid a broker to which the client couldn't send due requests"
            " for this time (KIP-794). 0 turns this off. It is the Java client's property and "
            "needs partitioner.adaptive.partitioning.enable."
        ),
    ),
    Property(
        "partitioner.rack.aware",
        "boolean",
        PRODUCER,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Messages without a key go to partitions whose leader is in the rack of client.rack, "
            "and to all partitions while no leader there takes messages (KIP-1123). It is the Java "
            "client's property and needs client.rack."
        ),
    ),
    Property(
        "decompressed.batch.max.bytes",
        "integer",
        CONSUMER,
        MEDIUM,
        default=134_217_728,
        minimum=1,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "Largest size of a decompressed batch. A larger batch is an error of its partition "
            "and doesn't exhaust the client's memory."
        ),
    ),
    Property(
        "share.acquire.mode",
        "enum",
        CONSUMER,
        LOW,
        default="batch_optimized",
        choices=("batch_optimized", "record_limit"),
        state=State.EFFECTIVE,
        note="ShareConsumer",
        python_only=True,
        doc=(
            "How many records a share consumer takes from a leader (KIP-1206). batch_optimized: "
            "whole batches, so there may be more than max.poll.records. record_limit: at most "
            "max.poll.records. It is the Java client's property. Brokers before Apache Kafka 4.2 "
            "ignore it."
        ),
    ),
    Property(
        "message.pinned.max.kbytes",
        "integer",
        BOTH,
        LOW,
        default=65_536,
        minimum=1,
        maximum=2_097_151,
        state=State.EFFECTIVE,
        python_only=True,
        doc=(
            "How much memory of responses and delivered batches the application's Messages may "
            "keep alive, in kibibytes. Above it, the client copies the records of Messages that "
            "keep much more memory alive than they use. The application doesn't notice. Arrow "
            "batches with views are counted separately; above the limit, small new ones get "
            "copies of their bytes."
        ),
    ),
)
