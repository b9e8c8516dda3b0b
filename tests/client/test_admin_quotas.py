"""AdminClient: client quotas, and their effect on clients."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native import KafkaError, ThrottleEvent
from kafka_native.admin import (
    AdminClient,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
)
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import poll_until

from .admin_support import (
    admin_of,
    cluster_and_admin,
    code_of,
    expect_error,
    expect_success,
    result_of,
)
from .support import Client, assigned, check_refused, deliver

ALICE = ClientQuotaEntity({"user": "alice"})
ALICE_AT_WORK = ClientQuotaEntity({"user": "alice", "client-id": "work"})
DEFAULT_USER = ClientQuotaEntity({"user": None})
CLIENT = ClientQuotaEntity({"client-id": "slow"})
ADDRESS = ClientQuotaEntity({"ip": "10.0.0.1"})


def quotas_of(
    admin: AdminClient, quota_filter: ClientQuotaFilter
) -> dict[ClientQuotaEntity, dict[str, float]]:
    found: dict[ClientQuotaEntity, dict[str, float]] = result_of(
        admin.describe_client_quotas(quota_filter)
    )
    return found


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_found_and_removed(version: int) -> None:
    versions = {ApiKey.DESCRIBE_CLIENT_QUOTAS: version, ApiKey.ALTER_CLIENT_QUOTAS: version}
    with cluster_and_admin(2, max_versions=versions) as (_, admin):
        rate = {"producer_byte_rate": 1e6}
        done = admin.alter_client_quotas(
            [
                ClientQuotaAlteration(ALICE, {**rate, "request_percentage": 12.5}),
                ClientQuotaAlteration(ALICE_AT_WORK, rate),
                ClientQuotaAlteration(DEFAULT_USER, rate),
                ClientQuotaAlteration(ADDRESS, {"connection_creation_rate": 5}),
                ClientQuotaAlteration(CLIENT, {"bogus": 1}),
            ]
        )
        for each in (ALICE, ALICE_AT_WORK, DEFAULT_USER, ADDRESS):
            expect_success(done[each])
        expect_error(done[CLIENT], KafkaError.INVALID_REQUEST)
        component = ClientQuotaFilterComponent
        everything = quotas_of(admin, ClientQuotaFilter.all())
        assert everything == {
            ALICE: {"producer_byte_rate": 1e6, "request_percentage": 12.5},
            ALICE_AT_WORK: rate,
            DEFAULT_USER: rate,
            ADDRESS: {"connection_creation_rate": 5.0},
        }
        alice = [component.of_entity("user", "alice")]
        assert set(quotas_of(admin, ClientQuotaFilter.contains(alice))) == {ALICE, ALICE_AT_WORK}
        assert set(quotas_of(admin, ClientQuotaFilter.contains_only(alice))) == {ALICE}
        default = [component.of_default_entity("user")]
        assert set(quotas_of(admin, ClientQuotaFilter.contains(default))) == {DEFAULT_USER}
        users = [component.of_entity_type("user")]
        found = quotas_of(admin, ClientQuotaFilter.contains(users))
        assert found.keys() == {ALICE, ALICE_AT_WORK, DEFAULT_USER}
        twice = admin.describe_client_quotas(ClientQuotaFilter.contains([*users, *alice]))
        expect_error(twice, KafkaError.INVALID_REQUEST)

        less = ClientQuotaAlteration(ALICE, {"producer_byte_rate": None, "request_percentage": 50})
        expect_success(admin.alter_client_quotas([less], validate_only=True)[ALICE])
        assert quotas_of(admin, ClientQuotaFilter.all()) == everything
        expect_success(admin.alter_client_quotas([less])[ALICE])
        found = quotas_of(admin, ClientQuotaFilter.contains_only(alice))
        assert found == {ALICE: {"request_percentage": 50.0}}


def test_a_duplicate_entity_fails_without_a_request(client: Client, admin: AdminClient) -> None:
    rate = {"producer_byte_rate": 1e6}
    done = admin.alter_client_quotas(
        [ClientQuotaAlteration(ALICE, rate), ClientQuotaAlteration(ALICE, rate)]
    )
    expect_error(done[ALICE], KafkaError._INVALID_ARG)
    nul = admin.alter_client_quotas(
        [ClientQuotaAlteration(ClientQuotaEntity({"user": "\ud800"}), rate)]
    )
    assert [code_of(each) for each in nul.values()] == [KafkaError._INVALID_ARG]
    assert quotas_of(admin, ClientQuotaFilter.all()) == {}


def test_a_quota_throttles_only_its_entity() -> None:
    with MockCluster(1) as cluster:
        client = Client(cluster)
        cluster.create_topic("written")
        events: dict[str, list[ThrottleEvent]] = {"fast": [], "slow": []}
        with admin_of(client) as admin:
            change = ClientQuotaAlteration(
                CLIENT, {"producer_byte_rate": 1000.0, "consumer_byte_rate": 1000.0}
            )
            expect_success(admin.alter_client_quotas([change])[CLIENT])
            for name, own in events.items():
                with client.producer(**{"client.id": name, "throttle_cb": own.append}) as producer:
                    deliver(producer, "written", b"x" * 1100)
                    if name == "slow":
                        poll_until(lambda: events["slow"], producer)
            assert (events["fast"], 0 < events["slow"][0].throttle_time < 10) == ([], True)
            conf = {"client.id": "slow", "throttle_cb": events["slow"].append}
            with assigned(client, "written", **conf) as consumer:
                poll_until(lambda: len(events["slow"]) >= 2, consumer)
            back = ClientQuotaAlteration(CLIENT, dict.fromkeys(change.ops))
            expect_success(admin.alter_client_quotas([back])[CLIENT])
            assert quotas_of(admin, ClientQuotaFilter.all()) == {}


def test_the_most_specific_quota_counts() -> None:
    with MockCluster(1) as cluster:
        quotas = cluster.quotas

        def ms(user: str, client: str, size: int = 5000) -> int:
            return quotas.throttle_ms(1, user, client, "producer_byte_rate", size, 100.0)

        quotas.alter(frozenset({("user", None)}), {"producer_byte_rate": 1000.0})
        quotas.alter(frozenset({("user", "alice")}), {"producer_byte_rate": 2000.0})
        quotas.alter(
            frozenset({("user", "alice"), ("client-id", "work")}), {"producer_byte_rate": 5000.0}
        )
        assert (ms("bob", "x"), ms("alice", "x"), ms("alice", "work")) == (4000, 1500, 0)
        assert ms("alice", "work") == 1000, "the first call has used the quota"
        later = quotas.throttle_ms(1, "alice", "work", "producer_byte_rate", 0, 103.0)
        assert later == 0, "three seconds later the quota is available again"


def test_quota_changes_follow_the_controller(client: Client, admin: AdminClient) -> None:
    client.cluster.clear_requests()
    client.cluster.push_request_errors(ApiKey.ALTER_CLIENT_QUOTAS, [KafkaError.NOT_CONTROLLER, 0])
    change = ClientQuotaAlteration(ALICE, {"producer_byte_rate": 1e6})
    expect_success(admin.alter_client_quotas([change])[ALICE])
    seen = client.cluster.requests_of(ApiKey.ALTER_CLIENT_QUOTAS)
    assert [each.broker for each in seen] == [client.cluster.controller_id()] * 2
    back = ClientQuotaAlteration(ALICE, {"producer_byte_rate": None})
    expect_success(admin.alter_client_quotas([back])[ALICE])


def test_a_response_without_entities_is_an_error(client: Client, admin: AdminClient) -> None:
    def without_entities(message: Any) -> None:
        for entry in message.entries:
            entry.entity.clear()

    change = ClientQuotaAlteration(ADDRESS, {"connection_creation_rate": 5})
    client.cluster.edit_responses(ApiKey.ALTER_CLIENT_QUOTAS, without_entities)
    expect_error(admin.alter_client_quotas([change])[ADDRESS], KafkaError._BAD_MSG)
    client.cluster.edit_responses(ApiKey.DESCRIBE_CLIENT_QUOTAS, without_entities)
    expect_error(admin.describe_client_quotas(ClientQuotaFilter.all()), KafkaError._BAD_MSG)
    back = ClientQuotaAlteration(ADDRESS, {"connection_creation_rate": None})
    expect_success(admin.alter_client_quotas([back])[ADDRESS])


def test_entities_with_equal_entries_are_equal() -> None:
    assert ClientQuotaEntity({"client-id": "work", "user": "alice"}) == ALICE_AT_WORK
    assert len({ALICE, ClientQuotaEntity({"user": "alice"}), ALICE_AT_WORK}) == 2
    assert repr(DEFAULT_USER) == "ClientQuotaEntity(entries={'user': None})"
    names: dict[str, str | None] = {"user": "alice"}
    entity = ClientQuotaEntity(names)
    names["user"] = "bob"
    assert entity == ALICE


def test_invalid_arguments_are_refused(client: Client, admin: AdminClient) -> None:
    bad: Any
    check_refused(ClientQuotaEntity, TypeError, None, "user", {"user": 1}, {1: "x"})
    check_refused(ClientQuotaEntity, ValueError, {}, {"": "x"}, match="kind")
    for bad in (None, {"x": "1"}, {1: 1.0}, {"x": True}):
        with pytest.raises(TypeError):
            ClientQuotaAlteration(ALICE, bad)
    for bad in ({}, {"": 1.0}, {"x": float("nan")}, {"x": float("inf")}, {"x": 10**400}):
        with pytest.raises(ValueError, match=r"."):
            ClientQuotaAlteration(ALICE, bad)
    with pytest.raises(TypeError):
        ClientQuotaAlteration({"user": "alice"}, {"x": 1.0})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ClientQuotaFilterComponent.of_entity("user", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ClientQuotaFilter.contains(["user"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        admin.describe_client_quotas(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        admin.alter_client_quotas([ALICE])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="non-empty"):
        admin.alter_client_quotas([])
