"""Error texts of brokers reach an application as one printable line of limited length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from kafka_native import (
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from kafka_native.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ConfigResource,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    RaftVoterEndpoint,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from kafka_native.cleaning import ERROR_TEXT_MAX
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.schema import Struct
from kafka_native.types import Uuid
from tests.waiting import WAIT_S

from .admin_support import changed
from .share_support import new_group, sharing, take
from .support import Client, errors_into, filled

pytestmark = pytest.mark.usefixtures("repaired_cluster")

HOSTILE = ("hostile \x1b[2J\x9b31m\u202e\u2028\r\nERROR root: \t" * 1000)[:20_000]
OWN_MAX = 300
"""The maximum of characters that a client adds to a broker's text: topic, group or broker."""
CODE = KafkaError.POLICY_VIOLATION
QUICK = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 20, "reconnect.backoff.ms": 10}


def insert_errors(message: Struct, *, whole: bool) -> None:
    """Put errors with the hostile text into a response: one for the whole, or one for each item."""
    names = [field.name for field in message.fields]
    for name in names:
        value = getattr(message, name)
        if name.endswith("error_message"):
            setattr(message, name, HOSTILE)
            setattr(message, name.replace("message", "code"), int(CODE))
        elif isinstance(value, list) and not (whole and "error_message" in names):
            for each in value:
                if isinstance(each, Struct):
                    insert_errors(each, whole=whole)


def inner(message: Struct) -> None:
    """Each item of the response has an error, but the response as a whole succeeds."""
    insert_errors(message, whole=False)
    if "error_message" in [field.name for field in message.fields]:
        message.error_message, message.error_code = None, 0  # type: ignore[attr-defined]


def outer(message: Struct) -> None:
    """The response as a whole has an error."""
    insert_errors(message, whole=True)


def check_text(error: KafkaError) -> bool:
    """Return whether an error has the text, and check that the text is safe to show."""
    assert error.str().isprintable(), error.str()[:200]
    assert str(error).isprintable()
    assert len(error.str()) <= ERROR_TEXT_MAX + OWN_MAX
    assert str(KafkaException(error)).isprintable()
    return "hostile " in error.str()


def errors_in(outcome: Any) -> Iterator[KafkaError]:
    """Yield every error in the result of a call."""
    if isinstance(outcome, Future):
        try:
            yield from errors_in(outcome.result(WAIT_S))
        except KafkaException as error:
            yield error.args[0]
    elif isinstance(outcome, KafkaError):
        yield outcome
    elif isinstance(outcome, KafkaException):
        yield outcome.args[0]
    elif isinstance(outcome, dict):
        for each in outcome.values():
            yield from errors_in(each)
    elif isinstance(outcome, list | tuple):
        for each in outcome:
            yield from errors_in(each)
    elif isinstance(getattr(outcome, "error", None), KafkaError):
        yield outcome.error


RULE = (
    ResourceType.TOPIC,
    "t",
    ResourcePatternType.LITERAL,
    "User:a",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
PLACE = TopicPartition("there", 0)
DISK = Uuid(1, 2)
ENTITY = ClientQuotaEntity({"user": "ann"})
ADMIN_CALLS: dict[ApiKey, Callable[[AdminClient], Any]] = {
    ApiKey.CREATE_TOPICS: lambda admin: admin.create_topics([NewTopic("new", 1)]),
    ApiKey.DELETE_TOPICS: lambda admin: admin.delete_topics(["nothing"]),
    ApiKey.CREATE_PARTITIONS: lambda admin: admin.create_partitions([NewPartitions("there", 3)]),
    ApiKey.DESCRIBE_CLUSTER: lambda admin: admin.describe_cluster(),
    ApiKey.DESCRIBE_CONFIGS: lambda admin: admin.describe_configs(
        [ConfigResource("topic", "there")]
    ),
    ApiKey.ALTER_CONFIGS: lambda admin: admin.alter_configs([ConfigResource("topic", "there")]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda admin: admin.incremental_alter_configs(
        [changed("topic", "there", retention_ms="7000")]
    ),
    ApiKey.ELECT_LEADERS: lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PLACE]),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda admin: admin.alter_partition_reassignments(
        {PLACE: None}
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda admin: admin.list_partition_reassignments(),
    ApiKey.CREATE_ACLS: lambda admin: admin.create_acls([AclBinding(*RULE)]),
    ApiKey.DESCRIBE_ACLS: lambda admin: admin.describe_acls(AclBindingFilter(*RULE)),
    ApiKey.DELETE_ACLS: lambda admin: admin.delete_acls([AclBindingFilter(*RULE)]),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda admin: admin.describe_client_quotas(
        ClientQuotaFilter.all()
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda admin: admin.alter_client_quotas(
        [ClientQuotaAlteration(ENTITY, {"x": 1.0})]
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda admin: admin.describe_user_scram_credentials(
        ["ann"]
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda admin: admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_256)]
    ),
    ApiKey.UPDATE_FEATURES: lambda admin: admin.update_features({"x": FeatureUpdate(1)}),
    ApiKey.DESCRIBE_QUORUM: lambda admin: admin.describe_metadata_quorum(),
    ApiKey.ADD_RAFT_VOTER: lambda admin: admin.add_raft_voter(
        9, DISK, [RaftVoterEndpoint("CONTROLLER", "h", 9)]
    ),
    ApiKey.REMOVE_RAFT_VOTER: lambda admin: admin.remove_raft_voter(9, DISK),
    ApiKey.UNREGISTER_BROKER: lambda admin: admin.unregister_broker(9),
    ApiKey.UNREGISTER_CONTROLLER: lambda admin: admin.unregister_controller(9),
    ApiKey.DELETE_GROUPS: lambda admin: admin.delete_consumer_groups(["readers"]),
    ApiKey.FIND_COORDINATOR: lambda admin: admin.describe_consumer_groups(["readers"]),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda admin: admin.describe_consumer_groups(["readers"]),
    ApiKey.DESCRIBE_GROUPS: lambda admin: admin.describe_consumer_groups(["readers"]),
    ApiKey.SHARE_GROUP_DESCRIBE: lambda admin: admin.describe_share_groups(["sharers"]),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: lambda admin: admin.list_share_group_offsets(
        {"sharers": [PLACE]}
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda admin: admin.alter_share_group_offsets(
        "sharers", {PLACE: 0}
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda admin: admin.delete_share_group_offsets(
        "sharers", ["there"]
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: lambda admin: admin.describe_streams_groups(["streamers"]),
    ApiKey.DESCRIBE_PRODUCERS: lambda admin: admin.describe_producers([PLACE]),
}


@pytest.fixture(scope="module")
def admin(cluster: MockCluster) -> Iterator[AdminClient]:
    cluster.create_topic("there", 2)
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUICK}) as made:
        yield made


@pytest.mark.parametrize("key", ADMIN_CALLS, ids=lambda key: key.name)
def test_admin_calls(cluster: MockCluster, admin: AdminClient, key: ApiKey) -> None:
    found = False
    for edit in (inner,) if key is ApiKey.FIND_COORDINATOR else (outer, inner):
        cluster.edit_responses(key, edit, count=100)
        for error in errors_in(ADMIN_CALLS[key](admin)):
            found |= check_text(error)
        cluster.faults.clear()
    assert found, "no error had the text"


def test_delivery_reports(cluster: MockCluster, client: Client) -> None:
    topic, reports = client.topic(), []
    with client.producer(**QUICK) as producer:
        for edit in (outer, inner):
            cluster.edit_responses(ApiKey.PRODUCE, edit, count=1)
            producer.produce(
                topic, b"x", on_delivery=lambda error, message: reports.append((error, message))
            )
            producer.flush(WAIT_S)
            cluster.faults.clear()
    assert [error.code() for error, _ in reports] == [CODE, CODE]
    assert all(check_text(error) and check_text(message.error()) for error, message in reports)


def test_reports_of_bad_records(cluster: MockCluster, client: Client) -> None:
    def edit(message: Any) -> None:
        for each in message.responses:
            for part in each.partition_responses:
                bad = type(part).RecordError(batch_index=0, batch_index_error_message=HOSTILE)
                part.error_code, part.record_errors = int(KafkaError.INVALID_RECORD), [bad]

    topic, reports = client.topic(), []
    cluster.edit_responses(ApiKey.PRODUCE, edit, count=1)
    with client.producer(**{"enable.idempotence": False, **QUICK}) as producer:
        producer.produce(topic, b"x", on_delivery=errors_into(reports))
        producer.flush(WAIT_S)
    assert [check_text(error) for error in reports] == [True]


def polled_errors(consumer: Any, wanted: Callable[[KafkaError], bool]) -> None:
    """Poll until the wanted error arrives, and check all errors."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            polled = consumer.poll(0.2)
        except KafkaException as error:
            if check_text(error.args[0]) and wanted(error.args[0]):
                return
            continue
        for message in [polled] if polled is None or isinstance(polled, Message) else polled:
            error = None if message is None else message.error()
            if error is not None and check_text(error) and wanted(error):
                return
    raise AssertionError("no error had the text")


@pytest.mark.parametrize("code", [CODE, KafkaError.GROUP_AUTHORIZATION_FAILED])
def test_heartbeats(cluster: MockCluster, client: Client, code: int) -> None:
    def edit(message: Any) -> None:
        message.error_code, message.error_message = int(code), HOSTILE

    topic, errors = client.topic(), []
    cluster.edit_responses(ApiKey.CONSUMER_GROUP_HEARTBEAT, edit, count=1000)
    own = {
        "group.id": f"readers-{int(code)}",
        "group.protocol": "consumer",
        "error_cb": errors.append,
        **QUICK,
    }
    with client.consumer(**own) as consumer:
        consumer.subscribe([topic])
        polled_errors(consumer, lambda error: True)
    for error in errors:
        check_text(error)


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_names_of_assignors(cluster: MockCluster, client: Client, topic: str, key: ApiKey) -> None:
    def edit(message: Any) -> None:
        if not message.error_code:
            message.protocol_name = HOSTILE

    cluster.edit_responses(key, edit, count=1000)
    with client.consumer(**{"group.id": f"classic-{key.name}", **QUICK}) as consumer:
        consumer.subscribe([topic])
        polled_errors(
            consumer, lambda error: error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
        )


@pytest.mark.parametrize("edit", [outer, inner])
@pytest.mark.parametrize("key", [ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH])
def test_share_consumers(client: Client, key: ApiKey, edit: Callable[[Struct], None]) -> None:
    if key is ApiKey.SHARE_GROUP_HEARTBEAT and edit is inner:
        pytest.skip("a heartbeat's response has one error")
    topic = filled(client, 1)
    client.cluster.edit_responses(key, edit, count=1000)
    with sharing(
        client, new_group(client), topic, **{name.replace(".", "_"): QUICK[name] for name in QUICK}
    ) as one:
        polled_errors(one, lambda error: True)


@pytest.mark.parametrize("edit", [outer, inner])
def test_acknowledgements(client: Client, edit: Callable[[Struct], None]) -> None:
    topic = filled(client, 1)
    with sharing(
        client, new_group(client), topic, share_acknowledgement_mode="explicit"
    ) as consumer:
        messages = take(consumer, 1)
        client.cluster.edit_responses(ApiKey.SHARE_ACKNOWLEDGE, edit, count=1000)
        consumer.acknowledge(messages[0])
        outcome = consumer.commit_sync(WAIT_S)
        assert any(check_text(error) for error in errors_in(outcome))


def test_transactional_calls(cluster: MockCluster, client: Client) -> None:
    cluster.edit_responses(ApiKey.FIND_COORDINATOR, inner, count=1000)
    own = {"transactional.id": "t", "bootstrap.servers": client.bootstrap, **QUICK}
    producer = Producer(own)
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(2)
    check_text(caught.value.args[0])
    producer.close(0)


@pytest.fixture
def older() -> Iterator[MockCluster]:
    """Yield a cluster whose TxnOffsetCommit has names of topics instead of ids."""
    with MockCluster(1, max_versions={ApiKey.TXN_OFFSET_COMMIT: 5}) as running:
        yield running


def test_names_of_topics_in_a_transaction(older: MockCluster) -> None:
    cluster, client = older, Client(older)

    def edit(message: Any) -> None:
        for topic in message.topics:
            topic.name = HOSTILE
            for part in topic.partitions:
                part.error_code = int(CODE)

    topic = client.topic()
    with client.consumer(**{"group.id": "offsets", **QUICK}) as consumer:
        metadata = consumer.consumer_group_metadata()
    with client.producer(**{"transactional.id": topic, **QUICK}) as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        cluster.edit_responses(ApiKey.TXN_OFFSET_COMMIT, edit, count=1)
        with pytest.raises(KafkaException) as caught:
            producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], metadata, WAIT_S)
        assert check_text(caught.value.args[0])
        producer.abort_transaction(WAIT_S)


def test_sasl() -> None:
    def refuse(message: Any) -> None:
        message.error_code = int(KafkaError.SASL_AUTHENTICATION_FAILED)
        # the redaction replaces a longer text by its length
        message.error_message = HOSTILE[:10_000]

    def offer(message: Any) -> None:
        message.error_code = int(KafkaError.UNSUPPORTED_SASL_MECHANISM)
        message.mechanisms = [f"{number}{HOSTILE}" for number in range(20)]

    security = ListenerSecurity("sasl_plaintext", mechanisms=["PLAIN"], users={"ann": "secret"})
    with MockCluster(1, security=security) as cluster:
        for key, edit in ((ApiKey.SASL_HANDSHAKE, offer), (ApiKey.SASL_AUTHENTICATE, refuse)):
            cluster.edit_responses(key, edit, count=1000)
            errors: list[KafkaError] = []
            conf = {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "ann",
                "sasl.password": "secret",
                **QUICK,
            }
            with Consumer({**conf, "group.id": "g", "error_cb": errors.append}) as consumer:
                with pytest.raises(KafkaException) as caught:
                    consumer.list_topics(timeout=3)
                consumer.poll(0.1)
            assert check_text(caught.value.args[0])
            assert any(check_text(error) for error in errors)
            cluster.faults.clear()
