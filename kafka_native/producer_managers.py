"""The managers of a producer: its leaders, its identity or its transactions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafka_native._native.enums import IDEMPOTENCE_OFF, IDEMPOTENCE_WANTED
from kafka_native.client_core import ClientCore
from kafka_native.config import Config
from kafka_native.control.brokers.coordinator import GROUP, TRANSACTION, Coordinator
from kafka_native.control.main_thread import Managers
from kafka_native.control.producer.identity import Identity
from kafka_native.control.producer.produce_router import ProduceRouter
from kafka_native.control.requests import Backoff
from kafka_native.errors import KafkaError

if TYPE_CHECKING:
    from kafka_native.control.producer.transactions import Transactions


def managers_of(settings: Config, everything: Mapping[str, object], client: ClientCore) -> Managers:
    """Returns the managers of a producer with these settings."""
    context = client.context
    router = ProduceRouter(
        context.engine, context.metadata, context.pool, waits_for_partitions=not client.eager
    )
    if everything["transactional_id"]:
        coordinator = _coordinator(settings, client, settings.text("transactional.id"), TRANSACTION)
        transactions = _transactions_of(settings, client, coordinator)
        return Managers(
            router,
            transactions=transactions,
            others=[coordinator, transactions],
            on_close=[transactions.close],
        )
    if everything["idempotence"] == IDEMPOTENCE_OFF:
        return Managers(router)
    delays = _backoff(settings)
    timeout_s = settings.integer("socket.timeout.ms") / 1000
    on_refused = (
        partial(_warn_without_idempotence, client)
        if everything["idempotence"] == IDEMPOTENCE_WANTED
        else None
    )
    identity = Identity(
        context.engine, delays, timeout_s, client.on_fatal, on_refused, client.logs["eos"]
    )
    return Managers(router, identity)


def _backoff(settings: Config) -> Backoff:
    return Backoff(
        settings.number("retry.backoff.ms") / 1000, settings.number("retry.backoff.max.ms") / 1000
    )


def _coordinator(settings: Config, client: ClientCore, key: str, key_type: int) -> Coordinator:
    return Coordinator(
        client.context.pool,
        key,
        key_type=key_type,
        timeout_s=settings.integer("socket.timeout.ms") / 1000,
        backoff=_backoff(settings),
    )


def _transactions_of(
    settings: Config, client: ClientCore, coordinator: Coordinator
) -> Transactions:
    # here, because most producers have no transactions
    from kafka_native.control.producer.transactions import TRANSACTION_VERSION, Transactions

    pool = client.context.pool
    coordinators: dict[str, Coordinator] = {}

    def of_group(group: str) -> Coordinator:
        if group not in coordinators:
            coordinators[group] = _coordinator(settings, client, group, GROUP)
            client.main.add(coordinators[group])
        return coordinators[group]

    return Transactions(
        client.engine,
        coordinator,
        settings.text("transactional.id"),
        timeout_ms=settings.integer("transaction.timeout.ms"),
        request_s=settings.integer("socket.timeout.ms") / 1000,
        backoff=_backoff(settings),
        group_coordinator=of_group,
        metadata=client.context.metadata,
        version=lambda: pool.features.get(TRANSACTION_VERSION, 0),
        on_fatal=client.on_fatal,
        handle_events=lambda: client.main.handle_events(),
        log=client.logs["eos"],
        hides_causes=client.eager,
        two_phase=bool(settings["transaction.two.phase.commit.enable"]),
    )


def _warn_without_idempotence(client: ClientCore, error: KafkaError) -> None:
    """Warns that the producer works without idempotence. Control thread only.

    enable.idempotence is only the default here, and the brokers don't support or allow it.
    """
    client.logs["eos"].warning("enable.idempotence is off: no producer id: %s", error.str())
