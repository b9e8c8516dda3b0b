"""The configuration properties that producers and consumers share.

They concern names, metadata, sockets, retries and logging.
"""

from __future__ import annotations

from typing import Final

from kafka_native._native.enums import LOG_CONTEXTS

from .property import BOTH, HIGH, LOW, MEDIUM, Property, State

PROPERTIES: Final[tuple[Property, ...]] = (
    Property(
        "builtin.features",
        "flags",
        BOTH,
        LOW,
        state=State.INERT,
        note="informational, in librdkafka too",
        doc="The features that librdkafka was built with. Setting it changes nothing.",
    ),
    Property(
        "client.id",
        "string",
        BOTH,
        LOW,
        default="rdkafka",
        maximum=255,
        state=State.EFFECTIVE,
        doc="The client's name for the brokers' logs, metrics and quotas. At most 255 bytes.",
    ),
    Property(
        "metadata.broker.list",
        "string",
        BOTH,
        HIGH,
        state=State.EFFECTIVE,
        doc=(
            "Comma-separated list of the first brokers to connect to: host, host:port or "
            "[ipv6]:port, each optionally after protocol://. The default port is 9092. The client"
            " tries them in random order, and learns the other brokers from the first one that "
            "answers."
        ),
    ),
    Property(
        "bootstrap.servers",
        "string",
        BOTH,
        HIGH,
        alias_of="metadata.broker.list",
        state=State.EFFECTIVE,
        doc="The usual name of metadata.broker.list.",
    ),
    Property(
        "message.max.bytes",
        "integer",
        BOTH,
        MEDIUM,
        default=1_000_000,
        minimum=1_000,
        maximum=1_000_000_000,
        state=State.EFFECTIVE,
        doc=(
            "Largest body of a Produce request, and so the largest message, before compression. "
            "The broker and the topic have their own limits."
        ),
    ),
    Property(
        "message.copy.max.bytes",
        "integer",
        BOTH,
        LOW,
        default=65_535,
        minimum=0,
        maximum=1_000_000_000,
        state=State.INERT,
        note="every payload is copied exactly once, into the batch",
        doc="librdkafka copies payloads up to this size and keeps references to larger ones.",
    ),
    Property(
        "receive.message.max.bytes",
        "integer",
        BOTH,
        MEDIUM,
        default=100_000_000,
        minimum=1_000,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc=(
            "Largest response that the client reads from a broker. A larger one closes the "
            "connection. It has to be at least fetch.max.bytes + 512."
        ),
    ),
    Property(
        "max.in.flight.requests.per.connection",
        "integer",
        BOTH,
        LOW,
        default=1_000_000,
        minimum=1,
        maximum=1_000_000,
        state=State.EFFECTIVE,
        doc=(
            "How many Produce requests may wait for their response on one connection. The client "
            "uses at most five. Without idempotence, a retry may reorder messages unless this is "
            "1."
        ),
    ),
    Property(
        "max.in.flight",
        "integer",
        BOTH,
        LOW,
        default=1_000_000,
        minimum=1,
        maximum=1_000_000,
        alias_of="max.in.flight.requests.per.connection",
        state=State.EFFECTIVE,
        doc="Short name of max.in.flight.requests.per.connection.",
    ),
    Property(
        "metadata.recovery.strategy",
        "enum",
        BOTH,
        LOW,
        default="rebootstrap",
        choices=("none", "rebootstrap"),
        state=State.EFFECTIVE,
        doc=(
            "What the client does when it can reach no known broker: keep trying them (none), or "
            "start again from bootstrap.servers (rebootstrap, KIP-899)."
        ),
    ),
    Property(
        "metadata.recovery.rebootstrap.trigger.ms",
        "integer",
        BOTH,
        LOW,
        default=300_000,
        minimum=0,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc=(
            "How long metadata requests may fail before the client starts again from "
            "bootstrap.servers (KIP-1102). It needs metadata.recovery.strategy=rebootstrap."
        ),
    ),
    Property(
        "topic.metadata.refresh.interval.ms",
        "integer",
        BOTH,
        LOW,
        default=300_000,
        minimum=-1,
        maximum=3_600_000,
        state=State.EFFECTIVE,
        doc=(
            "How often the client refreshes the metadata of the topics in use, to find new "
            "brokers and partitions. -1 turns the periodic refresh off."
        ),
    ),
    Property(
        "metadata.max.age.ms",
        "integer",
        BOTH,
        LOW,
        default=900_000,
        minimum=1,
        maximum=86_400_000,
        state=State.EFFECTIVE,
        note=(
            "also how long the consumer reads from a closer replica before it asks the leader "
            "again (KIP-392)"
        ),
        doc=(
            "How old cached metadata may become before the client fetches it again, whatever "
            "topic.metadata.refresh.interval.ms is. If you set only that, this is three times as "
            "long."
        ),
    ),
    Property(
        "topic.metadata.refresh.fast.interval.ms",
        "integer",
        BOTH,
        LOW,
        default=100,
        minimum=1,
        maximum=60_000,
        state=State.EFFECTIVE,
        doc=(
            "First interval between refreshes while a partition has no leader or its leader has "
            "moved. Each one is a tenth longer, up to retry.backoff.max.ms."
        ),
    ),
    Property(
        "topic.metadata.refresh.fast.cnt",
        "integer",
        BOTH,
        LOW,
        default=10,
        minimum=0,
        maximum=1_000,
        deprecated=True,
        state=State.INERT,
        note="no longer used, in librdkafka either",
        doc="Was the number of fast refreshes.",
    ),
    Property(
        "topic.metadata.refresh.sparse",
        "boolean",
        BOTH,
        LOW,
        default=True,
        state=State.INERT,
        note=(
            "always sparse: the client doesn't need the metadata of other topics; "
            "list_topics() requests all"
        ),
        doc="Request the metadata of the topics in use instead of all topics.",
    ),
    Property(
        "topic.metadata.propagation.max.ms",
        "integer",
        BOTH,
        LOW,
        default=30_000,
        minimum=0,
        maximum=3_600_000,
        state=State.EFFECTIVE,
        doc=(
            "How long the client waits for the brokers to learn of a new topic or partition. "
            "Messages to it fail after that. A consumer reports a missing topic within the first "
            "second and continues to ask. With allow.auto.create.topics it also waits first."
        ),
    ),
    Property(
        "topic.blacklist",
        "patterns",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        note=(
            "for patterns that the client matches; with the consumer protocol, the broker "
            "matches them"
        ),
        doc="Comma-separated regular expressions of topics that metadata treats as absent.",
    ),
    Property(
        "debug",
        "flags",
        BOTH,
        MEDIUM,
        choices=(*LOG_CONTEXTS, "all"),
        state=State.EFFECTIVE,
        note="plugin has no debug lines yet",
        doc=(
            "Comma-separated contexts whose debug lines are logged, each with its own "
            "logger: docs/guide/logging.md."
        ),
    ),
    Property(
        "socket.timeout.ms",
        "integer",
        BOTH,
        LOW,
        default=60_000,
        minimum=10,
        maximum=300_000,
        state=State.EFFECTIVE,
        doc=(
            "How long a request may take, including sending, unless the request has its own "
            "timeout."
        ),
    ),
    Property(
        "socket.blocking.max.ms",
        "integer",
        BOTH,
        LOW,
        default=1_000,
        minimum=1,
        maximum=60_000,
        deprecated=True,
        state=State.INERT,
        note="no longer used, in librdkafka either",
        doc="Was the longest time that a broker thread blocked in the socket.",
    ),
    Property(
        "socket.send.buffer.bytes",
        "integer",
        BOTH,
        LOW,
        default=0,
        minimum=0,
        maximum=100_000_000,
        state=State.EFFECTIVE,
        doc="Size of the socket's send buffer. 0 means the system's default.",
    ),
    Property(
        "socket.receive.buffer.bytes",
        "integer",
        BOTH,
        LOW,
        default=0,
        minimum=0,
        maximum=100_000_000,
        state=State.EFFECTIVE,
        doc="Size of the socket's receive buffer. 0 means the system's default.",
    ),
    Property(
        "socket.keepalive.enable",
        "boolean",
        BOTH,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        doc="Turn on TCP keep-alive.",
    ),
    Property(
        "socket.nagle.disable",
        "boolean",
        BOTH,
        LOW,
        default=True,
        state=State.EFFECTIVE,
        doc="Turn off Nagle's algorithm (TCP_NODELAY), so that small requests are sent at once.",
    ),
    Property(
        "socket.max.fails",
        "integer",
        BOTH,
        LOW,
        default=1,
        minimum=0,
        maximum=1_000_000,
        state=State.INERT,
        note=(
            "always as with 1: responses come in the order of the requests, so a missing "
            "response blocks all later ones"
        ),
        doc=(
            "How many requests may fail on a connection before the client closes it. 0 never "
            "closes it."
        ),
    ),
    Property(
        "broker.address.ttl",
        "integer",
        BOTH,
        LOW,
        default=1_000,
        minimum=0,
        maximum=86_400_000,
        state=State.EFFECTIVE,
        doc=(
            "How long the client caches the addresses of a broker's name. Later connection "
            "attempts resolve the name again."
        ),
    ),
    Property(
        "broker.address.family",
        "enum",
        BOTH,
        LOW,
        default="any",
        choices=("any", "v4", "v6"),
        state=State.EFFECTIVE,
        doc="Which addresses of a broker the client tries: IPv4, IPv6 or both.",
    ),
    Property(
        "socket.connection.setup.timeout.ms",
        "integer",
        BOTH,
        MEDIUM,
        default=30_000,
        minimum=1_000,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc="How long a connection attempt may take, including the TCP connect and ApiVersions.",
    ),
    Property(
        "connections.max.idle.ms",
        "integer",
        BOTH,
        MEDIUM,
        default=0,
        minimum=0,
        maximum=2_147_483_647,
        state=State.EFFECTIVE,
        doc="Close a connection after this idle time. 0 keeps it open.",
    ),
    Property(
        "reconnect.backoff.jitter.ms",
        "integer",
        BOTH,
        LOW,
        default=0,
        minimum=0,
        maximum=3_600_000,
        deprecated=True,
        state=State.INERT,
        note="no longer used, in librdkafka either",
        doc="Was the jitter of reconnects. The jitter is now 20 % of the backoff.",
    ),
    Property(
        "reconnect.backoff.ms",
        "integer",
        BOTH,
        MEDIUM,
        default=100,
        minimum=0,
        maximum=3_600_000,
        state=State.EFFECTIVE,
        doc=(
            "First delay before the client connects to a broker again. It doubles with each "
            "failure, with 20 % jitter."
        ),
    ),
    Property(
        "reconnect.backoff.max.ms",
        "integer",
        BOTH,
        MEDIUM,
        default=10_000,
        minimum=0,
        maximum=3_600_000,
        state=State.EFFECTIVE,
        doc=(
            "Longest delay before the client connects to a broker again. It has to be at "
            "least reconnect.backoff.ms."
        ),
    ),
    Property(
        "statistics.interval.ms",
        "integer",
        BOTH,
        HIGH,
        default=0,
        minimum=0,
        maximum=86_400_000,
        state=State.EFFECTIVE,
        doc=(
            "How often the client calls stats_cb. With 0 it never does, and it doesn't record "
            "latencies and sizes for metrics() either."
        ),
    ),
    Property(
        "enabled_events",
        "integer",
        BOTH,
        LOW,
        default=0,
        minimum=0,
        maximum=2_147_483_647,
        state=State.INERT,
        note="an option of librdkafka's C interface",
        doc="The events in the event queue of the C interface.",
    ),
    Property(
        "error_cb",
        "callable",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        note="poll(), flush(), consume()",
        doc=(
            "Called with a KafkaError about the whole client, for instance that it can reach no "
            "broker. The first call for each cause comes at once, the next ones once a minute: "
            "docs/guide/errors.md."
        ),
    ),
    Property(
        "throttle_cb",
        "callable",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        doc="Called with a ThrottleEvent when a broker delays a request because of a quota.",
    ),
    Property(
        "stats_cb",
        "callable",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        note="poll(), flush(), consume()",
        doc="Called with the statistics as a JSON text every statistics.interval.ms.",
    ),
    Property(
        "log_cb",
        "callable",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        note="on the log thread; in poll() with log.queue",
        doc=(
            "Called with (client's name, syslog level, facility, text) for each log line, "
            "instead of logger."
        ),
    ),
    Property(
        "log_level",
        "integer",
        BOTH,
        LOW,
        default=6,
        minimum=0,
        maximum=7,
        state=State.EFFECTIVE,
        note="everywhere, before the logger checks its own level",
        doc="Highest syslog level that the client logs, 0 to 7. It is 7 if debug is set.",
    ),
    Property(
        "log.queue",
        "boolean",
        BOTH,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        note="poll(), flush(), consume()",
        doc=(
            "The application's poll() passes log lines to logger or log_cb, instead of the "
            "log thread."
        ),
    ),
    Property(
        "log.thread.name",
        "boolean",
        BOTH,
        LOW,
        default=True,
        state=State.EFFECTIVE,
        note="LogRecord.threadName; in the text for logger and log_cb",
        doc="Include the name of the thread in each log line.",
    ),
    Property(
        "enable.random.seed",
        "boolean",
        BOTH,
        LOW,
        default=True,
        state=State.INERT,
        note="the engine has its own generator, seeded by the system",
        doc="Seed the random generator of the C library.",
    ),
    Property(
        "log.connection.close",
        "boolean",
        BOTH,
        LOW,
        default=True,
        state=State.EFFECTIVE,
        note="control thread",
        doc=(
            "Log it, and call error_cb, when a broker closes a connection in use. The end of an "
            "idle connection is not logged."
        ),
    ),
    Property(
        "background_event_cb",
        "callable",
        BOTH,
        LOW,
        state=State.EFFECTIVE,
        doc=(
            "Called with each event that has no callback of its own: a KafkaError (without "
            "error_cb), the statistics as JSON (without stats_cb) or a ThrottleEvent (without "
            "throttle_cb). The client's event thread calls it at once, without poll()."
        ),
    ),
    Property(
        "socket_cb",
        "internal",
        BOTH,
        LOW,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface.",
    ),
    Property(
        "connect_cb",
        "internal",
        BOTH,
        LOW,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface.",
    ),
    Property(
        "closesocket_cb",
        "internal",
        BOTH,
        LOW,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface.",
    ),
    Property(
        "open_cb",
        "internal",
        BOTH,
        LOW,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface.",
    ),
    Property(
        "resolve_cb",
        "internal",
        BOTH,
        LOW,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface.",
    ),
    Property(
        "opaque",
        "internal",
        BOTH,
        LOW,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface; Python has closures.",
    ),
    Property(
        "default_topic_conf",
        "internal",
        BOTH,
        LOW,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface; topic properties are set like all others.",
    ),
    Property(
        "internal.termination.signal",
        "integer",
        BOTH,
        LOW,
        default=0,
        minimum=0,
        maximum=128,
        state=State.INERT,
        note="the engine's threads end without a signal",
        doc="The signal with which librdkafka ends its threads quickly.",
    ),
    Property(
        "api.version.request",
        "boolean",
        BOTH,
        HIGH,
        default=True,
        deprecated=True,
        state=State.EFFECTIVE,
        doc=(
            "Ask each broker for its protocol versions. If false, brokers have the version "
            "broker.version.fallback, but only if that is before 0.10; newer brokers are asked in"
            " any case."
        ),
    ),
    Property(
        "api.version.request.timeout.ms",
        "integer",
        BOTH,
        LOW,
        default=10_000,
        minimum=1,
        maximum=300_000,
        state=State.EFFECTIVE,
        doc="How long a broker may take to answer ApiVersions.",
    ),
    Property(
        "api.version.fallback.ms",
        "integer",
        BOTH,
        MEDIUM,
        default=0,
        minimum=0,
        maximum=604_800_000,
        deprecated=True,
        state=State.EFFECTIVE,
        doc=(
            "How long the client uses broker.version.fallback for a broker that closed the "
            "connection, or didn't answer, when it was asked for its versions. With 0 the client "
            "asks each time."
        ),
    ),
    Property(
        "broker.version.fallback",
        "string",
        BOTH,
        MEDIUM,
        default="0.10.0",
        deprecated=True,
        state=State.EFFECTIVE,
        doc=(
            "Version of brokers that can't be asked for their protocol versions: 0.9.0, 0.8.2, "
            "0.8.1 or 0.8.0. Any other version means that brokers can be asked."
        ),
    ),
    Property(
        "allow.auto.create.topics",
        "boolean",
        BOTH,
        LOW,
        default=False,
        state=State.EFFECTIVE,
        doc=(
            "Let a consumer's request for a missing topic create it, if the broker is configured "
            "to create topics. A producer's request always does."
        ),
    ),
    Property(
        "plugin.library.paths",
        "string",
        BOTH,
        LOW,
        state=State.REFUSED,
        note="librdkafka's plugins are C libraries for librdkafka",
        doc="Plugin libraries to load.",
    ),
    Property(
        "interceptors",
        "internal",
        BOTH,
        LOW,
        state=State.INTERNAL,
        doc="An option of librdkafka's C interface.",
    ),
    Property(
        "client.rack",
        "string",
        BOTH,
        LOW,
        maximum=255,
        state=State.EFFECTIVE,
        note="sent in Fetch (KIP-392) and to the group, for rack-aware assignors (KIP-881)",
        doc=(
            "The rack of this client, for fetching from a nearby replica, and for producing to a "
            "nearby leader with partitioner.rack.aware. At most 255 bytes."
        ),
    ),
    Property(
        "retry.backoff.ms",
        "integer",
        BOTH,
        MEDIUM,
        default=100,
        minimum=1,
        maximum=300_000,
        state=State.EFFECTIVE,
        doc=(
            "First delay before the client retries a request. It doubles with each failure, "
            "with 20 % jitter."
        ),
    ),
    Property(
        "retry.backoff.max.ms",
        "integer",
        BOTH,
        MEDIUM,
        default=1_000,
        minimum=1,
        maximum=300_000,
        state=State.EFFECTIVE,
        doc="Longest delay before the client retries a request.",
    ),
    Property(
        "client.dns.lookup",
        "enum",
        BOTH,
        LOW,
        default="use_all_dns_ips",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        state=State.EFFECTIVE,
        note="the client tries all addresses of a name in any case",
        doc=(
            "use_all_dns_ips: use the names of the bootstrap servers. "
            "resolve_canonical_bootstrap_servers_only: replace each bootstrap server by the "
            "canonical names of its addresses when the client is created."
        ),
    ),
    Property(
        "enable.metrics.push",
        "boolean",
        BOTH,
        LOW,
        default=True,
        state=State.EFFECTIVE,
        note="an AdminClient pushes no metrics",
        doc=(
            "Push the client metrics that the cluster's operators have subscribed to (KIP-714), "
            "if the brokers accept metrics: docs/guide/monitoring.md."
        ),
    ),
)
