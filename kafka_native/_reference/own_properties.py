"""The configuration properties beyond librdkafka's: confluent_kafka's Python-only keys and this package's own."""

from __future__ import annotations

from typing import Final

from .property import BOTH, CONSUMER, HIGH, LOW, MEDIUM, PRODUCER, Property, State

PROPERTIES: Final[tuple[Property, ...]] = (
    Property(
        "on_delivery",
        "callable",
        PRODUCER,
        HIGH,
        state=State.EFFECTIVE,
        python_only=True,
        doc="Called with (error, message) for each message delivered or failed that has no callback of its own.",
    ),
    Property(
        "on_commit",
        "callable",
        CONSUMER,
        HIGH,
        state=State.EFFECTIVE,
        python_only=True,
        doc="Called with (error, partitions) when a commit is through.",
    ),
    Property(
        "oauth_cb",
        "callable",
        BOTH,
        HIGH,
        state=State.EFFECTIVE,
        python_only=True,
        doc="Called with sasl.oauthbearer.config when a token is needed; returns (token, expiry time in seconds since "
        "the epoch), and, if need be, the principal and a dict of SASL extensions. A thread of the client's calls it, "
        "at the beginning and after 80 % of each token's lifetime, whether or not poll() is called.",
    ),
    Property(
        "proxy.url",
        "string",
        BOTH,
        MEDIUM,
        state=State.EFFECTIVE,
        sensitive=True,
        python_only=True,
        doc="The proxy that every connection to a broker goes through: socks5://host:port (brokers' names are looked "
        "up here), socks5h://host:port (by the proxy) or http://host:port (CONNECT; by the proxy), with user:password@ "
        "before the host if it wants a login. TLS goes through it to the broker: docs/guide/proxies.md.",
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
        doc="Which certificates are looked up in the lists of ssl.crl.location. leaf: the broker's own, as librdkafka "
        "does. chain: also those of the CAs above it; the file then needs a list of each CA up to the root, and "
        "ssl.ca.location the root.",
    ),
    Property(
        "sasl.aws.region",
        "string",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        python_only=True,
        doc="The region that AWS_MSK_IAM signs for. Empty: the one in the broker's name, else AWS_REGION's.",
    ),
    Property(
        "sasl.scram.tokenauth",
        "boolean",
        BOTH,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        python_only=True,
        doc="sasl.username and sasl.password are the id and the HMAC of a delegation token (KIP-48), for SCRAM. The "
        "Java client has this as tokenauth in sasl.jaas.config.",
    ),
    Property(
        "logger",
        "object",
        BOTH,
        MEDIUM,
        state=State.EFFECTIVE,
        note="everywhere",
        python_only=True,
        doc="A logging.Logger, or anything with its log(), that takes the client's messages; "
        '"kafka_native.<client.id>" and a child a context if none is given.',
    ),
    Property(
        "default.topic.config",
        "object",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        deprecated=True,
        python_only=True,
        doc="A mapping of topic properties, which can just as well be set directly.",
    ),
    Property(
        "interceptors",
        "object",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        note="produce(), delivery reports, poll(), consume(), commits",
        python_only=True,
        doc="A list of ProducerInterceptor or ConsumerInterceptor objects (KIP-42), called in this order.",
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
        doc="Start a mock cluster (`kafka_native.mock`) of so many brokers and use it instead of bootstrap.servers. It "
        "ends with the client; other clients find it through list_topics(). librdkafka has this, too, undocumented.",
    ),
    Property(
        "transaction.two.phase.commit.enable",
        "boolean",
        PRODUCER,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        python_only=True,
        doc="Two-phase commit (KIP-939): prepare_transaction() and complete_transaction(), for transactions on whose "
        "end somebody else decides. No timeout ends them. Wants brokers with unstable.api.versions.enable=true and "
        "transaction.two.phase.commit.enable=true.",
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
        doc="How long a call that finds the queue full waits for room before it gives up with BufferError; 0: not at "
        "all. Other threads run meanwhile, and what is queued doesn't linger.",
    ),
    Property(
        "partitioner.adaptive.partitioning.enable",
        "boolean",
        PRODUCER,
        LOW,
        default=True,
        state=State.EFFECTIVE,
        python_only=True,
        doc="Keyless messages prefer partitions with short queues, so that slow brokers get fewer of them (KIP-794). "
        "The Java client's property.",
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
        doc="Keyless messages avoid a broker that could not be sent anything for this long although something was due "
        "(KIP-794); 0: they don't. The Java client's property; partitioner.adaptive.partitioning.enable must be on.",
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
        doc="How large a batch may become when it is decompressed; a larger one is an error of its partition, not of "
        "the client's memory.",
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
        doc="How much memory of responses and delivered batches the Messages that the application keeps may hold, in "
        "kibibytes. Above it, those that are few in what they hold are copied out, which can't be seen. Arrow batches "
        "with views are counted by themselves; above it, small new ones have bytes of their own.",
    ),
)
