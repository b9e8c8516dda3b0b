"""The settings of Apache Kafka 4.4.0: of topics, brokers, client metrics and groups.

A real broker returned them. A test compares the table with a broker. Each line has:

- the name and the type;
- the default, where ``null`` is no value and ``""`` the empty one;
- ``dynamic`` if clients can change it, else ``fixed``;
- the allowed values: a range such as ``0..1``, or choices such as ``a|b``;
- the broker's setting that gives the default.
"""

from __future__ import annotations

from typing import NamedTuple

TYPES = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
"""The protocol's numbers of the types."""


class Setting(NamedTuple):
    """One setting.

    - ``default``: its default, or None.
    - ``is_fixed``: whether clients can't change it.
    - ``minimum``, ``maximum``: the bounds of a number, or None.
    - ``choices``: the allowed words. Empty allows all.
    - ``broker_name``: the broker's setting that gives the default, or None.
    """

    name: str
    type: str
    default: str | None
    is_fixed: bool
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    broker_name: str | None


def _read(table: str) -> dict[str, Setting]:
    """Return the settings of a table by name."""
    found: dict[str, Setting] = {}
    for line in table.splitlines():
        name, kind, default, access, allowed, broker_name = line.split(" ")
        first, dots, last = allowed.partition("..")
        found[name] = Setting(
            name,
            kind,
            {"null": None, '""': ""}.get(default, default),
            access == "fixed",
            float(first) if dots and first else None,
            float(last) if dots and last else None,
            () if dots or allowed == "-" else tuple(allowed.split("|")),
            None if broker_name == "-" else broker_name,
        )
    return found


TOPIC_SETTINGS = _read("""\
cleanup.policy list delete dynamic compact|delete log.cleanup.policy
compression.gzip.level int -1 dynamic -1..9 compression.gzip.level
compression.lz4.level int 9 dynamic 1..17 compression.lz4.level
compression.type string producer dynamic uncompressed|zstd|lz4|snappy|gzip|producer compression.type
compression.zstd.level int 3 dynamic -131072..22 compression.zstd.level
delete.retention.ms long 86400000 dynamic 0.. log.cleaner.delete.retention.ms
errors.deadletterqueue.group.enable boolean false dynamic - -
file.delete.delay.ms long 60000 dynamic 0.. log.segment.delete.delay.ms
flush.messages long 9223372036854775807 dynamic 1.. log.flush.interval.messages
flush.ms long 9223372036854775807 dynamic 0.. log.flush.interval.ms
follower.replication.throttled.replicas list "" dynamic - -
index.interval.bytes int 4096 dynamic 0.. log.index.interval.bytes
leader.replication.throttled.replicas list "" dynamic - -
local.retention.bytes long -2 dynamic -2.. log.local.retention.bytes
local.retention.ms long -2 dynamic -2.. log.local.retention.ms
max.compaction.lag.ms long 9223372036854775807 dynamic 1.. log.cleaner.max.compaction.lag.ms
max.decompressed.message.bytes int 2147483639 dynamic 1..2147483639 max.decompressed.message.bytes
max.message.bytes int 1048588 dynamic 0.. message.max.bytes
message.timestamp.after.max.ms long 3600000 dynamic 0.. log.message.timestamp.after.max.ms
message.timestamp.before.max.ms long 9223372036854775807 dynamic 0.. log.message.timestamp.before.max.ms
message.timestamp.type string CreateTime dynamic CreateTime|LogAppendTime log.message.timestamp.type
min.cleanable.dirty.ratio double 0.5 dynamic 0..1 log.cleaner.min.cleanable.ratio
min.compaction.lag.ms long 0 dynamic 0.. log.cleaner.min.compaction.lag.ms
min.insync.replicas int 1 dynamic 1.. min.insync.replicas
preallocate boolean false dynamic - log.preallocate
remote.copy.lag.bytes long -1 dynamic -1.. log.remote.copy.lag.bytes
remote.copy.lag.ms long 0 dynamic -1.. log.remote.copy.lag.ms
remote.log.copy.disable boolean false dynamic - -
remote.log.delete.on.disable boolean false dynamic - -
remote.storage.enable boolean false dynamic - -
retention.bytes long -1 dynamic - log.retention.bytes
retention.ms long 604800000 dynamic -1.. log.retention.ms
segment.bytes int 1073741824 dynamic 1048576.. log.segment.bytes
segment.index.bytes int 10485760 dynamic 4.. log.index.size.max.bytes
segment.jitter.ms long 0 dynamic 0.. log.roll.jitter.ms
segment.ms long 604800000 dynamic 1.. log.roll.ms
unclean.leader.election.enable boolean false dynamic - unclean.leader.election.enable
""")  # noqa: E501
"""The settings of a topic."""

GROUP_SETTINGS = _read("""\
consumer.assignment.interval.ms int 1000 dynamic 0.. group.consumer.assignment.interval.ms
consumer.heartbeat.interval.ms int 5000 dynamic 1.. group.consumer.heartbeat.interval.ms
consumer.session.timeout.ms int 45000 dynamic 1.. group.consumer.session.timeout.ms
errors.deadletterqueue.copy.record.enable boolean false dynamic - errors.deadletterqueue.copy.record.enable
errors.deadletterqueue.topic.name string "" dynamic - errors.deadletterqueue.topic.name
share.assignment.interval.ms int 1000 dynamic 0.. group.share.assignment.interval.ms
share.auto.offset.reset string latest dynamic - share.auto.offset.reset
share.delivery.count.limit int 5 dynamic 2.. group.share.delivery.count.limit
share.heartbeat.interval.ms int 5000 dynamic 1.. group.share.heartbeat.interval.ms
share.isolation.level string read_uncommitted dynamic read_committed|read_uncommitted share.isolation.level
share.partition.max.record.locks int 2000 dynamic 100.. group.share.partition.max.record.locks
share.record.lock.duration.ms int 30000 dynamic 1000.. group.share.record.lock.duration.ms
share.renew.acknowledge.enable boolean true dynamic - share.renew.acknowledge.enable
share.session.timeout.ms int 45000 dynamic 1.. group.share.session.timeout.ms
streams.assignment.interval.ms int 1000 dynamic 0.. group.streams.assignment.interval.ms
streams.assignor.name string sticky dynamic - group.streams.assignors
streams.heartbeat.interval.ms int 5000 dynamic 1.. group.streams.heartbeat.interval.ms
streams.initial.rebalance.delay.ms int 3000 dynamic 0.. group.streams.initial.rebalance.delay.ms
streams.num.standby.replicas int 0 dynamic 0.. group.streams.num.standby.replicas
streams.rack.aware.assignment.tags list "" dynamic - group.streams.rack.aware.assignment.tags
streams.session.timeout.ms int 45000 dynamic 1.. group.streams.session.timeout.ms
""")  # noqa: E501
"""The settings of a group."""

CLIENT_METRICS_SETTINGS = _read("""\
interval.ms int 300000 dynamic - -
match list "" dynamic - -
metrics list "" dynamic - -
""")
"""The settings of a subscription of client metrics (KIP-714)."""

BROKER_SETTINGS = _read("""\
add.partitions.to.txn.retry.backoff.max.ms int 100 fixed - -
add.partitions.to.txn.retry.backoff.ms int 20 fixed - -
advertised.listeners list null fixed - -
alter.config.policy.class.name class null fixed - -
alter.log.dirs.replication.quota.window.num int 11 fixed - -
alter.log.dirs.replication.quota.window.size.seconds int 1 fixed - -
authorizer.class.name string "" fixed - -
auto.create.topics.enable boolean true fixed - -
auto.leader.rebalance.enable boolean true fixed - -
background.threads int 10 dynamic 1.. -
broker.heartbeat.interval.ms int 2000 fixed - -
broker.id int -1 fixed - -
broker.rack string null fixed - -
broker.session.timeout.ms int 9000 fixed - -
client.quota.callback.class class null fixed - -
compression.gzip.level int -1 dynamic -1..9 -
compression.lz4.level int 9 dynamic 1..17 -
compression.type string producer dynamic uncompressed|zstd|lz4|snappy|gzip|producer -
compression.zstd.level int 3 dynamic -131072..22 -
config.providers list "" dynamic - -
connection.failed.authentication.delay.ms int 100 fixed - -
connections.max.idle.ms long 600000 fixed - -
connections.max.reauth.ms long 0 fixed - -
controlled.shutdown.enable boolean true fixed - -
controller.listener.names list null fixed - -
controller.quorum.append.linger.ms int 25 fixed - -
controller.quorum.auto.join.enable boolean false fixed - -
controller.quorum.bootstrap.servers list "" fixed - -
controller.quorum.election.backoff.max.ms int 1000 fixed - -
controller.quorum.election.timeout.ms int 1000 fixed - -
controller.quorum.fetch.max.bytes int 1048576 fixed - -
controller.quorum.fetch.snapshot.max.bytes int 1048576 fixed - -
controller.quorum.fetch.timeout.ms int 2000 fixed - -
controller.quorum.request.timeout.ms int 2000 fixed - -
controller.quorum.retry.backoff.ms int 20 fixed - -
controller.quorum.voters list "" fixed - -
controller.quota.window.num int 11 fixed - -
controller.quota.window.size.seconds int 1 fixed - -
controller.socket.timeout.ms int 30000 fixed - -
cordoned.log.dirs list "" dynamic - -
create.topic.policy.class.name class null fixed - -
default.replication.factor int 1 fixed - -
delegation.token.expiry.check.interval.ms long 3600000 fixed - -
delegation.token.expiry.time.ms long 86400000 fixed - -
delegation.token.max.lifetime.ms long 604800000 fixed - -
delegation.token.secret.key password null fixed - -
delete.records.purgatory.purge.interval.requests int 1 fixed - -
delete.topic.enable boolean true fixed - -
early.start.listeners list null fixed - -
errors.deadletterqueue.auto.create.topics.enable boolean false dynamic - -
errors.deadletterqueue.topic.name.prefix string dlq. dynamic - -
fetch.max.bytes int 57671680 fixed - -
fetch.purgatory.purge.interval.requests int 1000 fixed - -
follower.fetch.last.tiered.offset.enable boolean false dynamic - -
group.consumer.assignment.interval.ms int 1000 dynamic 0.. -
group.consumer.assignors list uniform,range fixed - -
group.consumer.heartbeat.interval.ms int 5000 fixed - -
group.consumer.max.assignment.interval.ms int 15000 fixed - -
group.consumer.max.heartbeat.interval.ms int 15000 fixed - -
group.consumer.max.session.timeout.ms int 60000 fixed - -
group.consumer.max.size int 2147483647 fixed - -
group.consumer.migration.policy string bidirectional fixed - -
group.consumer.min.assignment.interval.ms int 0 fixed - -
group.consumer.min.heartbeat.interval.ms int 5000 fixed - -
group.consumer.min.session.timeout.ms int 45000 fixed - -
group.consumer.session.timeout.ms int 45000 fixed - -
group.coordinator.append.linger.ms int -1 fixed - -
group.coordinator.background.threads int 2 fixed - -
group.coordinator.cached.buffer.max.bytes int 1048588 dynamic 524288.. -
group.coordinator.rebalance.protocols list classic,consumer,streams fixed - -
group.coordinator.threads int 4 fixed - -
group.initial.rebalance.delay.ms int 3000 fixed - -
group.max.session.timeout.ms int 1800000 fixed - -
group.max.size int 2147483647 fixed - -
group.min.session.timeout.ms int 6000 fixed - -
group.share.assignment.interval.ms int 1000 dynamic 0.. -
group.share.assignors list simple fixed - -
group.share.delivery.count.limit int 5 fixed - -
group.share.heartbeat.interval.ms int 5000 fixed - -
group.share.max.assignment.interval.ms int 15000 fixed - -
group.share.max.delivery.count.limit int 10 fixed - -
group.share.max.heartbeat.interval.ms int 15000 fixed - -
group.share.max.partition.max.record.locks int 4000 fixed - -
group.share.max.record.lock.duration.ms int 60000 fixed - -
group.share.max.session.timeout.ms int 60000 fixed - -
group.share.max.share.sessions int 2000 fixed - -
group.share.max.size int 200 fixed - -
group.share.min.assignment.interval.ms int 0 fixed - -
group.share.min.delivery.count.limit int 2 fixed - -
group.share.min.heartbeat.interval.ms int 5000 fixed - -
group.share.min.partition.max.record.locks int 100 fixed - -
group.share.min.record.lock.duration.ms int 15000 fixed - -
group.share.min.session.timeout.ms int 45000 fixed - -
group.share.partition.max.record.locks int 2000 fixed - -
group.share.record.lock.duration.ms int 30000 fixed - -
group.share.session.timeout.ms int 45000 fixed - -
group.streams.assignment.interval.ms int 1000 dynamic 0.. -
group.streams.assignors list sticky fixed - -
group.streams.heartbeat.interval.ms int 5000 fixed - -
group.streams.initial.rebalance.delay.ms int 3000 fixed - -
group.streams.max.assignment.interval.ms int 15000 fixed - -
group.streams.max.heartbeat.interval.ms int 15000 fixed - -
group.streams.max.session.timeout.ms int 60000 fixed - -
group.streams.max.size int 2147483647 fixed - -
group.streams.max.standby.replicas int 2 fixed - -
group.streams.min.assignment.interval.ms int 0 fixed - -
group.streams.min.heartbeat.interval.ms int 5000 fixed - -
group.streams.min.session.timeout.ms int 45000 fixed - -
group.streams.num.standby.replicas int 0 fixed - -
group.streams.rack.aware.assignment.tags list "" fixed - -
group.streams.session.timeout.ms int 45000 fixed - -
group.streams.topology.description.plugin.class class null fixed - -
initial.broker.registration.timeout.ms int 60000 fixed - -
inter.broker.listener.name string null fixed - -
kafka.metrics.polling.interval.secs int 10 fixed - -
kafka.metrics.reporters list "" fixed - -
leader.imbalance.check.interval.seconds long 300 fixed - -
listener.security.protocol.map string SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT dynamic - -
listeners list PLAINTEXT://:9092 dynamic - -
log.cleaner.backoff.ms long 15000 dynamic 0.. -
log.cleaner.dedupe.buffer.size long 134217728 dynamic 1.. -
log.cleaner.delete.retention.ms long 86400000 dynamic 0.. -
log.cleaner.enable boolean true fixed - -
log.cleaner.io.buffer.load.factor double 0.9 dynamic - -
log.cleaner.io.buffer.size int 524288 dynamic 0.. -
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 dynamic - -
log.cleaner.max.compaction.lag.ms long 9223372036854775807 dynamic 1.. -
log.cleaner.min.cleanable.ratio double 0.5 dynamic 0..1 -
log.cleaner.min.compaction.lag.ms long 0 dynamic 0.. -
log.cleaner.threads int 1 dynamic 0.. -
log.cleanup.policy list delete dynamic compact|delete -
log.dir list /tmp/kafka-logs fixed - -
log.dir.failure.timeout.ms long 30000 fixed - -
log.dirs list null fixed - -
log.flush.interval.messages long 9223372036854775807 dynamic 1.. -
log.flush.interval.ms long null dynamic - -
log.flush.offset.checkpoint.interval.ms int 60000 fixed - -
log.flush.scheduler.interval.ms long 9223372036854775807 fixed - -
log.flush.start.offset.checkpoint.interval.ms int 60000 fixed - -
log.index.interval.bytes int 4096 dynamic 0.. -
log.index.size.max.bytes int 10485760 dynamic 4.. -
log.local.retention.bytes long -2 dynamic -2.. -
log.local.retention.ms long -2 dynamic -2.. -
log.message.timestamp.after.max.ms long 3600000 dynamic 0.. -
log.message.timestamp.before.max.ms long 9223372036854775807 dynamic 0.. -
log.message.timestamp.type string CreateTime dynamic CreateTime|LogAppendTime -
log.preallocate boolean false dynamic - -
log.remote.copy.lag.bytes long -1 dynamic -1.. -
log.remote.copy.lag.ms long 0 dynamic -1.. -
log.retention.bytes long -1 dynamic - -
log.retention.check.interval.ms long 300000 fixed - -
log.retention.hours int 168 fixed - -
log.retention.minutes int null fixed - -
log.retention.ms long null dynamic - -
log.roll.hours int 168 fixed - -
log.roll.jitter.hours int 0 fixed - -
log.roll.jitter.ms long null dynamic - -
log.roll.ms long null dynamic - -
log.segment.bytes int 1073741824 dynamic 1048576.. -
log.segment.delete.delay.ms long 60000 dynamic 0.. -
max.connection.creation.rate int 2147483647 dynamic 0.. -
max.connections int 2147483647 dynamic 0.. -
max.connections.per.ip int 2147483647 dynamic 0.. -
max.connections.per.ip.overrides string "" dynamic - -
max.decompressed.message.bytes int 2147483639 dynamic 1..2147483639 -
max.incremental.fetch.session.cache.slots int 1000 fixed - -
max.request.partition.size.limit int 2000 fixed - -
message.max.bytes int 1048588 dynamic 0.. -
metadata.log.dir string null fixed - -
metadata.log.max.record.bytes.between.snapshots long 20971520 fixed - -
metadata.log.max.snapshot.interval.ms long 3600000 fixed - -
metadata.log.segment.bytes int 1073741824 fixed - -
metadata.log.segment.ms long 604800000 fixed - -
metadata.max.idle.interval.ms int 500 fixed - -
metadata.max.retention.bytes long 104857600 fixed - -
metadata.max.retention.ms long 604800000 fixed - -
metric.reporters list org.apache.kafka.common.metrics.JmxReporter dynamic - -
metrics.num.samples int 2 fixed - -
metrics.recording.level string INFO fixed - -
metrics.sample.window.ms long 30000 fixed - -
min.insync.replicas int 1 dynamic 1.. -
node.id int null fixed - -
num.io.threads int 8 dynamic 1.. -
num.network.threads int 3 dynamic 1.. -
num.partitions int 1 fixed - -
num.recovery.threads.per.data.dir int 2 dynamic 1.. -
num.replica.alter.log.dirs.threads int null fixed - -
num.replica.fetchers int 1 dynamic 1.. -
offset.metadata.max.bytes int 4096 fixed - -
offsets.commit.timeout.ms int 5000 fixed - -
offsets.load.buffer.size int 5242880 fixed - -
offsets.retention.check.interval.ms long 600000 fixed - -
offsets.retention.minutes int 10080 fixed - -
offsets.topic.compression.codec int 0 fixed - -
offsets.topic.num.partitions int 50 fixed - -
offsets.topic.replication.factor short 3 fixed - -
offsets.topic.segment.bytes int 104857600 fixed - -
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic - -
process.roles list null fixed - -
producer.id.expiration.ms int 86400000 dynamic 1.. -
producer.purgatory.purge.interval.requests int 1000 fixed - -
queued.max.request.bytes long -1 fixed - -
queued.max.requests int 500 fixed - -
quota.window.num int 11 fixed - -
quota.window.size.seconds int 1 fixed - -
remote.fetch.max.wait.ms int 500 dynamic 1.. -
remote.list.offsets.request.timeout.ms long 30000 dynamic 1.. -
remote.log.index.file.cache.total.size.bytes long 1073741824 dynamic 1.. -
remote.log.manager.copier.thread.pool.size int 10 dynamic 1.. -
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 dynamic 1.. -
remote.log.manager.copy.quota.window.num int 11 fixed - -
remote.log.manager.copy.quota.window.size.seconds int 1 fixed - -
remote.log.manager.expiration.thread.pool.size int 10 dynamic 1.. -
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 dynamic 1.. -
remote.log.manager.fetch.quota.window.num int 11 fixed - -
remote.log.manager.fetch.quota.window.size.seconds int 1 fixed - -
remote.log.manager.follower.thread.pool.size int 2 dynamic 1.. -
remote.log.manager.task.interval.ms long 30000 fixed - -
remote.log.manager.thread.pool.size int 2 fixed - -
remote.log.metadata.custom.metadata.max.bytes int 128 fixed - -
remote.log.metadata.manager.class.name string org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager fixed - -
remote.log.metadata.manager.class.path string null fixed - -
remote.log.metadata.manager.impl.prefix string rlmm.config. fixed - -
remote.log.metadata.manager.listener.name string null fixed - -
remote.log.reader.max.pending.tasks int 100 fixed - -
remote.log.reader.threads int 10 dynamic 1.. -
remote.log.storage.manager.class.name string null fixed - -
remote.log.storage.manager.class.path string null fixed - -
remote.log.storage.manager.impl.prefix string rsm.config. fixed - -
remote.log.storage.system.enable boolean false fixed - -
replica.fetch.backoff.ms int 1000 fixed - -
replica.fetch.max.bytes int 1048576 fixed - -
replica.fetch.min.bytes int 1 fixed - -
replica.fetch.response.max.bytes int 10485760 fixed - -
replica.fetch.wait.max.ms int 500 fixed - -
replica.high.watermark.checkpoint.interval.ms long 5000 fixed - -
replica.lag.time.max.ms long 30000 fixed - -
replica.selector.class string null fixed - -
replica.socket.receive.buffer.bytes int 65536 fixed - -
replica.socket.timeout.ms int 30000 fixed - -
replication.quota.window.num int 11 fixed - -
replication.quota.window.size.seconds int 1 fixed - -
request.timeout.ms int 30000 fixed - -
sasl.client.callback.handler.class class null fixed - -
sasl.enabled.mechanisms list GSSAPI dynamic - -
sasl.jaas.config password null dynamic - -
sasl.kerberos.kinit.cmd string /usr/bin/kinit dynamic - -
sasl.kerberos.min.time.before.relogin long 60000 dynamic - -
sasl.kerberos.principal.to.local.rules list DEFAULT dynamic - -
sasl.kerberos.service.name string null dynamic - -
sasl.kerberos.ticket.renew.jitter double 0.05 dynamic - -
sasl.kerberos.ticket.renew.window.factor double 0.8 dynamic - -
sasl.login.callback.handler.class class null fixed - -
sasl.login.class class null fixed - -
sasl.login.connect.timeout.ms int null fixed - -
sasl.login.read.timeout.ms int null fixed - -
sasl.login.refresh.buffer.seconds short 300 dynamic - -
sasl.login.refresh.min.period.seconds short 60 dynamic - -
sasl.login.refresh.window.factor double 0.8 dynamic - -
sasl.login.refresh.window.jitter double 0.05 dynamic - -
sasl.login.retry.backoff.max.ms long 10000 fixed - -
sasl.login.retry.backoff.ms long 100 fixed - -
sasl.mechanism.controller.protocol string GSSAPI fixed - -
sasl.mechanism.inter.broker.protocol string GSSAPI dynamic - -
sasl.oauthbearer.allow.unverified.audience boolean false fixed - -
sasl.oauthbearer.allow.unverified.issuer boolean false fixed - -
sasl.oauthbearer.assertion.algorithm string RS256 fixed - -
sasl.oauthbearer.assertion.claim.aud string null fixed - -
sasl.oauthbearer.assertion.claim.exp.seconds int 300 fixed - -
sasl.oauthbearer.assertion.claim.iss string null fixed - -
sasl.oauthbearer.assertion.claim.jti.include boolean false fixed - -
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 fixed - -
sasl.oauthbearer.assertion.claim.sub string null fixed - -
sasl.oauthbearer.assertion.file string null fixed - -
sasl.oauthbearer.assertion.private.key.file string null fixed - -
sasl.oauthbearer.assertion.private.key.passphrase password null fixed - -
sasl.oauthbearer.assertion.template.file string null fixed - -
sasl.oauthbearer.client.credentials.client.id string null fixed - -
sasl.oauthbearer.client.credentials.client.secret password null fixed - -
sasl.oauthbearer.clock.skew.seconds int 30 fixed - -
sasl.oauthbearer.expected.audience list "" fixed - -
sasl.oauthbearer.expected.issuer string null fixed - -
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 fixed - -
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 fixed - -
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 fixed - -
sasl.oauthbearer.jwks.endpoint.url string null fixed - -
sasl.oauthbearer.jwt.retriever.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever fixed - -
sasl.oauthbearer.jwt.validator.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator fixed - -
sasl.oauthbearer.scope string null fixed - -
sasl.oauthbearer.scope.claim.name string scope fixed - -
sasl.oauthbearer.sub.claim.name string sub fixed - -
sasl.oauthbearer.token.endpoint.url string null fixed - -
sasl.server.callback.handler.class class null fixed - -
sasl.server.max.receive.size int 524288 fixed - -
security.inter.broker.protocol string PLAINTEXT fixed - -
security.providers string null fixed - -
share.coordinator.append.linger.ms int -1 fixed - -
share.coordinator.cached.buffer.max.bytes int 1048588 dynamic 524288.. -
share.coordinator.load.buffer.size int 5242880 fixed - -
share.coordinator.snapshot.update.records.per.snapshot int 500 fixed - -
share.coordinator.state.topic.compression.codec int 0 fixed - -
share.coordinator.state.topic.min.isr short 2 fixed - -
share.coordinator.state.topic.num.partitions int 50 fixed - -
share.coordinator.state.topic.replication.factor short 3 fixed - -
share.coordinator.state.topic.segment.bytes int 104857600 fixed - -
share.coordinator.threads int 1 fixed - -
share.coordinator.write.timeout.ms int 5000 fixed - -
share.fetch.purgatory.purge.interval.requests int 1000 fixed - -
socket.connection.setup.timeout.max.ms long 30000 fixed - -
socket.connection.setup.timeout.ms long 10000 fixed - -
socket.listen.backlog.size int 50 fixed - -
socket.receive.buffer.bytes int 102400 fixed - -
socket.request.max.bytes int 104857600 fixed - -
socket.send.buffer.bytes int 102400 fixed - -
ssl.allow.dn.changes boolean false fixed - -
ssl.allow.san.changes boolean false fixed - -
ssl.cipher.suites list "" dynamic - -
ssl.client.auth string none dynamic required|requested|none -
ssl.enabled.protocols list TLSv1.2,TLSv1.3 dynamic - -
ssl.endpoint.identification.algorithm string https dynamic - -
ssl.engine.factory.class class null dynamic - -
ssl.key.password password null dynamic - -
ssl.keymanager.algorithm string SunX509 dynamic - -
ssl.keystore.certificate.chain password null dynamic - -
ssl.keystore.key password null dynamic - -
ssl.keystore.location string null dynamic - -
ssl.keystore.password password null dynamic - -
ssl.keystore.type string JKS dynamic - -
ssl.principal.mapping.rules string DEFAULT fixed - -
ssl.protocol string TLSv1.3 dynamic - -
ssl.provider string null dynamic - -
ssl.secure.random.implementation string null dynamic - -
ssl.trustmanager.algorithm string PKIX dynamic - -
ssl.truststore.certificates password null dynamic - -
ssl.truststore.location string null dynamic - -
ssl.truststore.password password null dynamic - -
ssl.truststore.type string JKS dynamic - -
telemetry.max.bytes int 1048576 fixed - -
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 fixed - -
transaction.max.timeout.ms int 900000 fixed - -
transaction.partition.verification.enable boolean true dynamic - -
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 fixed - -
transaction.state.log.load.buffer.size int 5242880 fixed - -
transaction.state.log.min.isr int 2 fixed - -
transaction.state.log.num.partitions int 50 fixed - -
transaction.state.log.replication.factor short 3 fixed - -
transaction.state.log.segment.bytes int 104857600 fixed - -
transaction.two.phase.commit.enable boolean false fixed - -
transactional.id.expiration.ms int 604800000 fixed - -
unclean.leader.election.enable boolean false dynamic - -
""")  # noqa: E501
"""The settings of a broker."""
