"""AdminClient: features, the controller quorum, unregistered brokers, other resources' settings."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native import KafkaError, Uuid
from kafka_native.admin import (
    AclBinding,
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
    FeatureUpdate,
    FinalizedVersionRange,
    RaftVoterEndpoint,
    ResourceType,
    SupportedVersionRange,
    UpgradeType,
)
from kafka_native.errors import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .admin_support import (
    changed,
    cluster_and_admin,
    code_of,
    expect_error,
    expect_success,
    result_of,
)
from .support import Client, check_refused

FEATURE = "transaction.version"
DIRECTORY = Uuid(1, 2)
ENDPOINTS = [RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9093)]


def settings_of(admin: AdminClient, resource: ConfigResource) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = result_of(admin.describe_configs([resource])[resource])
    return found


# --- features ---


def test_features_are_described_and_updated_and_transactions_follow() -> None:
    with cluster_and_admin(2) as (cluster, admin):
        before = result_of(admin.describe_features())
        assert before.finalized_features[FEATURE] == FinalizedVersionRange(2, 2)
        assert before.finalized_features["metadata.version"] == FinalizedVersionRange(33, 33)
        assert before.supported_features[FEATURE] == SupportedVersionRange(0, 2)
        assert (
            "kraft.version" in before.supported_features.keys() - before.finalized_features.keys()
        )
        up = admin.update_features({FEATURE: FeatureUpdate(1)})
        assert code_of(up[FEATURE]) == KafkaError.INVALID_UPDATE_VERSION, "it is a downgrade"
        down = {FEATURE: FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)}
        expect_success(admin.update_features(down, validate_only=True)[FEATURE])
        assert cluster.transaction_version == 2
        expect_success(admin.update_features(down)[FEATURE])
        after = result_of(admin.describe_features(broker=2))
        assert after.finalized_features == before.finalized_features | {
            FEATURE: FinalizedVersionRange(1, 1)
        }
        assert after.finalized_features_epoch == before.finalized_features_epoch + 1
        cluster.create_topic("written")
        with Client(cluster).producer(**{"transactional.id": "t"}) as producer:
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            producer.produce("written", "x")
            producer.commit_transaction(WAIT_S)
        assert cluster.requests_of(ApiKey.ADD_PARTITIONS_TO_TXN), "as before KIP-890"
        ended = admin.update_features({FEATURE: FeatureUpdate(0, UpgradeType.UNSAFE_DOWNGRADE)})
        expect_success(ended[FEATURE])
        assert FEATURE not in result_of(admin.describe_features()).finalized_features


@pytest.mark.parametrize("version", [0, 1, 2])
def test_updates_succeed_one_by_one_or_as_a_whole(version: int) -> None:
    with cluster_and_admin(1, max_versions={ApiKey.UPDATE_FEATURES: version}) as (cluster, admin):
        both = {FEATURE: FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE), "none": FeatureUpdate(1)}
        done = admin.update_features(both)
        expect_error(done["none"], KafkaError.INVALID_UPDATE_VERSION)
        if version < 2:
            expect_success(done[FEATURE])
        else:
            expect_error(done[FEATURE], KafkaError.INVALID_UPDATE_VERSION)
        assert cluster.transaction_version == (1 if version < 2 else 2)
        if not version:
            tried = admin.update_features({FEATURE: FeatureUpdate(2)}, validate_only=True)
            expect_error(
                tried[FEATURE], KafkaError._INVALID_ARG
            )  # the request has no validate_only
            assert cluster.transaction_version == 1


def test_features_of_an_unknown_or_too_old_broker(client: Client, admin: AdminClient) -> None:
    expect_error(admin.describe_features(broker=77), KafkaError._UNKNOWN_BROKER)
    versions = {ApiKey.API_VERSIONS: 2, ApiKey.UPDATE_FEATURES: -1}
    with cluster_and_admin(1, max_versions=versions) as (_, admin):
        found = result_of(admin.describe_features())
        assert (found.finalized_features, found.supported_features) == ({}, {})
        assert found.finalized_features_epoch is None
        expect_error(
            admin.update_features({"x": FeatureUpdate(1)})["x"], KafkaError._UNSUPPORTED_FEATURE
        )


# --- the quorum ---


def test_the_quorum_is_described_and_voters_are_added_and_removed() -> None:
    with cluster_and_admin(3) as (cluster, admin):
        before = result_of(admin.describe_metadata_quorum())
        assert [each.replica_id for each in before.voters] == [1, 2, 3]
        assert before.leader_id == cluster.controller_id()
        assert (before.observers, before.leader_epoch) == ((), 1)
        follower = before.voters[1]
        assert follower.last_fetch_timestamp == follower.last_caught_up_timestamp
        assert bytes(follower.replica_directory_id) == cluster.quorum.voters[2]
        (endpoint,) = before.nodes[2].endpoints
        port = int(cluster.address(2).rpartition(":")[2])
        assert (endpoint.listener, endpoint.port) == ("CONTROLLER", port)
        expect_success(admin.remove_raft_voter(2, follower.replica_directory_id))
        expect_error(
            admin.remove_raft_voter(2, follower.replica_directory_id), ErrorCode.VOTER_NOT_FOUND
        )
        expect_error(admin.remove_raft_voter(3, DIRECTORY), ErrorCode.VOTER_NOT_FOUND)
        expect_success(admin.add_raft_voter(4, DIRECTORY, ENDPOINTS, cluster_id=cluster.cluster_id))
        expect_error(admin.add_raft_voter(4, DIRECTORY, ENDPOINTS), ErrorCode.DUPLICATE_VOTER)
        other = admin.add_raft_voter(5, DIRECTORY, ENDPOINTS, cluster_id="another")
        expect_error(other, ErrorCode.INCONSISTENT_CLUSTER_ID)
        after = result_of(admin.describe_metadata_quorum())
        assert [each.replica_id for each in after.voters] == [1, 3, 4]
        assert after.voters[2].replica_directory_id == DIRECTORY
        assert after.nodes[4].endpoints == tuple(ENDPOINTS)
        assert after.high_watermark == before.high_watermark + 2


@pytest.mark.parametrize("version", [0, 1])
def test_the_quorum_of_older_brokers(version: int) -> None:
    versions = {ApiKey.DESCRIBE_QUORUM: version, ApiKey.ADD_RAFT_VOTER: 0}
    with cluster_and_admin(2, max_versions=versions) as (_, admin):
        found = result_of(admin.describe_metadata_quorum())
        assert ([each.replica_id for each in found.voters], found.nodes) == ([1, 2], {})
        assert {each.replica_directory_id for each in found.voters} == {None}
        assert [each.last_caught_up_timestamp is None for each in found.voters] == [not version] * 2
        expect_success(admin.add_raft_voter(4, DIRECTORY, ENDPOINTS))


def test_invalid_quorum_responses_and_a_missing_leader(client: Client, admin: AdminClient) -> None:
    def forget(message: Any) -> None:
        message.topics.clear()

    def leaderless(message: Any) -> None:
        message.topics[0].partitions[0].leader_id = -1
        message.topics[0].partitions[0].high_watermark = -1

    def fail(message: Any) -> None:
        message.topics[0].partitions[0].error_code = ErrorCode.UNKNOWN_SERVER_ERROR

    client.cluster.edit_responses(ApiKey.DESCRIBE_QUORUM, forget)
    expect_error(admin.describe_metadata_quorum(), KafkaError._BAD_MSG)
    client.cluster.edit_responses(ApiKey.DESCRIBE_QUORUM, fail)
    expect_error(admin.describe_metadata_quorum(), KafkaError.UNKNOWN)
    client.cluster.edit_responses(ApiKey.DESCRIBE_QUORUM, leaderless)
    found = result_of(admin.describe_metadata_quorum())
    assert (found.leader_id, found.high_watermark) == (None, None)


def test_a_broker_is_unregistered_and_registers_again() -> None:
    with cluster_and_admin(3) as (cluster, admin):
        expect_error(admin.unregister_broker(77), ErrorCode.BROKER_ID_NOT_REGISTERED)
        cluster.broker_down(3)
        expect_success(admin.unregister_broker(3))
        expect_error(admin.unregister_broker(3), ErrorCode.BROKER_ID_NOT_REGISTERED)
        cluster.broker_up(3)
        expect_success(admin.unregister_broker(3))
        assert [node.id for node in result_of(admin.describe_cluster()).nodes] == [1, 2]
        cluster.push_request_errors(ApiKey.UNREGISTER_BROKER, [CLOSE_CONNECTION])
        expect_error(admin.unregister_broker(2), KafkaError._TRANSPORT)  # not sent twice
        assert len(cluster.requests_of(ApiKey.UNREGISTER_BROKER)) == 5


def test_a_controller_is_unregistered_and_registers_again() -> None:
    with cluster_and_admin(3) as (cluster, admin):
        expect_error(admin.unregister_controller(77), ErrorCode.CONTROLLER_ID_NOT_REGISTERED)
        cluster.broker_down(3)
        expect_success(admin.unregister_controller(3))
        expect_error(admin.unregister_controller(3), ErrorCode.CONTROLLER_ID_NOT_REGISTERED)
        cluster.broker_up(3)
        expect_success(admin.unregister_controller(3))
        cluster.push_request_errors(ApiKey.UNREGISTER_CONTROLLER, [CLOSE_CONNECTION])
        expect_error(admin.unregister_controller(2), KafkaError._TRANSPORT)  # not sent twice
        assert len(cluster.requests_of(ApiKey.UNREGISTER_CONTROLLER)) == 5
    with cluster_and_admin(1, max_versions={ApiKey.UNREGISTER_CONTROLLER: -1}) as (_, admin):
        expect_error(admin.unregister_controller(1), KafkaError._UNSUPPORTED_FEATURE)


# --- resources with settings ---


def test_log_levels_of_a_broker(client: Client, admin: AdminClient) -> None:
    client.cluster.clear_requests()
    resource = ConfigResource(ResourceType.BROKER_LOGGER, "2")
    before = settings_of(admin, resource)
    assert before["root"].value == "INFO"
    set_it = changed("broker_logger", "2", kafka="DEBUG")
    expect_success(admin.incremental_alter_configs([set_it], validate_only=True)[resource])
    assert settings_of(admin, resource)["kafka"].value == "INFO"
    wrong = changed("broker_logger", "3", kafka="LOUD")
    done = admin.incremental_alter_configs([set_it, wrong])
    expect_success(done[resource])
    expect_error(done[wrong], KafkaError.INVALID_CONFIG)
    after = settings_of(admin, resource)["kafka"]
    assert after.value == "DEBUG"
    assert after.source == ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG.value
    expect_success(
        admin.incremental_alter_configs([changed("broker_logger", "2", kafka=None)])[resource]
    )
    assert settings_of(admin, resource)["kafka"].value == "INFO"
    assert {each.broker for each in client.cluster.requests_of(ApiKey.DESCRIBE_CONFIGS)} == {2}
    nameless = ConfigResource("broker_logger", "")
    expect_error(admin.describe_configs([nameless])[nameless], KafkaError._INVALID_ARG)


def test_client_metrics_exist_while_they_have_settings(client: Client, admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.CLIENT_METRICS, "subscription")
    set_it = changed(
        "client_metrics", "subscription", interval_ms="1000", metrics="org.apache.kafka."
    )
    expect_success(admin.incremental_alter_configs([set_it])[resource])
    found = settings_of(admin, resource)
    assert (found["interval.ms"].value, found["metrics"].value) == ("1000", "org.apache.kafka.")
    assert found["interval.ms"].source == ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG.value
    assert result_of(admin.list_config_resources({ResourceType.CLIENT_METRICS})) == [resource]
    gone = changed("client_metrics", "subscription", interval_ms=None, metrics=None)
    expect_success(admin.incremental_alter_configs([gone])[resource])
    assert result_of(admin.list_config_resources({ResourceType.CLIENT_METRICS})) == []


def test_config_resources_are_listed(client: Client, topic: str, admin: AdminClient) -> None:
    found = result_of(admin.list_config_resources())
    assert ConfigResource("topic", topic) in found
    brokers = [each.name for each in found if each.restype is ResourceType.BROKER]
    assert brokers == ["1", "2", "3"]
    both = result_of(admin.list_config_resources({ResourceType.BROKER, ResourceType.BROKER_LOGGER}))
    assert {each.restype for each in both} == {ResourceType.BROKER, ResourceType.BROKER_LOGGER}

    def from_a_newer_broker(message: Any) -> None:
        message.config_resources[0].resource_type = 64

    client.cluster.edit_responses(ApiKey.LIST_CONFIG_RESOURCES, from_a_newer_broker)
    assert result_of(admin.list_config_resources())[0].restype is ResourceType.UNKNOWN
    with pytest.raises(ValueError, match="TRANSACTIONAL_ID"):
        admin.list_config_resources({ResourceType.TRANSACTIONAL_ID})
    with pytest.raises(TypeError):
        admin.list_config_resources(["topic"])  # type: ignore[arg-type]


def test_an_older_broker_lists_client_metrics_only() -> None:
    with cluster_and_admin(1, max_versions={ApiKey.LIST_CONFIG_RESOURCES: 0}) as (_, admin):
        result_of(
            admin.incremental_alter_configs(
                [changed("client_metrics", "subscription", interval_ms="1000")]
            )[ConfigResource("client_metrics", "subscription")]
        )
        found = result_of(admin.list_config_resources({ResourceType.CLIENT_METRICS}))
        assert found == [ConfigResource("client_metrics", "subscription")]
        for kinds in (None, {ResourceType.CLIENT_METRICS, ResourceType.GROUP}):
            expect_error(admin.list_config_resources(kinds), KafkaError._UNSUPPORTED_FEATURE)


def test_settings_have_a_type_and_documentation(client: Client, admin: AdminClient) -> None:
    resource = ConfigResource("topic", client.topic())
    plain = settings_of(admin, resource)["retention.ms"]
    assert (plain.config_type, plain.documentation) == (ConfigType.LONG, None)
    documented = result_of(admin.describe_configs([resource], include_documentation=True)[resource])
    assert "retention.ms" in documented["retention.ms"].documentation

    def from_a_newer_broker(message: Any) -> None:
        message.results[0].configs[0].config_type = 99

    client.cluster.edit_responses(ApiKey.DESCRIBE_CONFIGS, from_a_newer_broker)
    assert next(iter(settings_of(admin, resource).values())).config_type is ConfigType.UNKNOWN
    with cluster_and_admin(1, max_versions={ApiKey.DESCRIBE_CONFIGS: 2}) as (_, admin):
        broker = ConfigResource("broker", "1")
        assert settings_of(admin, broker)["num.partitions"].config_type is ConfigType.UNKNOWN
        asked = admin.describe_configs([broker], include_documentation=True)
        expect_error(asked[broker], KafkaError._INVALID_ARG)


def test_resources_with_only_settings_have_no_acls() -> None:
    for kind in ("broker_logger", "client_metrics"):
        with pytest.raises(ValueError, match="restype"):
            AclBinding(kind, "x", "literal", "User:x", "*", "read", "allow")


# --- bad input ---


def test_invalid_arguments_are_refused(client: Client, admin: AdminClient) -> None:
    bad: Any
    check_refused(FeatureUpdate, ValueError, -1, 0, 1 << 15, match="max_version_level")
    check_refused(FeatureUpdate, TypeError, "1", True, None, 1.0)
    with pytest.raises(TypeError):
        FeatureUpdate(1, 2)  # type: ignore[arg-type]
    for bad in (-1, 1 << 16):
        with pytest.raises(ValueError, match="port"):
            RaftVoterEndpoint("CONTROLLER", "host", bad)
    for bad in (("x", "y", "1"), (1, "y", 1), ("x", None, 1)):
        with pytest.raises(TypeError):
            RaftVoterEndpoint(*bad)
    check_refused(admin.update_features, TypeError, None, [], {"x": 1}, {1: FeatureUpdate(1)})
    check_refused(admin.update_features, ValueError, {}, {" ": FeatureUpdate(1)}, match=r".")
    for bad in (-1, 1 << 31):
        with pytest.raises(ValueError, match="broker"):
            admin.unregister_broker(bad)
        with pytest.raises(ValueError, match="broker"):
            admin.unregister_controller(bad)
        with pytest.raises(ValueError, match="broker"):
            admin.add_raft_voter(bad, DIRECTORY, ENDPOINTS)
        with pytest.raises(ValueError, match="broker"):
            admin.remove_raft_voter(bad, DIRECTORY)
    with pytest.raises(TypeError):
        admin.remove_raft_voter(1, "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        admin.remove_raft_voter(1, DIRECTORY, cluster_id=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="non-empty"):
        admin.add_raft_voter(1, DIRECTORY, [])
    with pytest.raises(TypeError):
        admin.describe_features(broker="1")  # type: ignore[arg-type]
