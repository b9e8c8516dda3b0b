"""A database and Kafka change together: the database decides on a prepared transaction.

It starts its own mock cluster.
"""

from __future__ import annotations

import sqlite3

from kafka_native import Consumer, PreparedTxnState, Producer, TopicPartition
from kafka_native.mock import MockCluster

database = sqlite3.connect(":memory:")
database.execute("create table orders (item text)")
database.execute("create table decided (state text)")
database.execute("insert into decided values ('')")


def opened(conf: dict[str, str | bool]) -> Producer:
    """Create a producer. It ends a transaction from before a crash as the database says."""
    producer = Producer(conf)
    producer.init_transactions(10, keep_prepared_txn=True)
    ((text,),) = database.execute("select state from decided")
    producer.complete_transaction(PreparedTxnState(text), 10)
    return producer


def order(producer: Producer, item: str, *, crash: str = "") -> None:
    """Write one order to both. It may crash before or after the decision."""
    producer.begin_transaction()
    producer.produce("orders", item, partition=0)
    state = producer.prepare_transaction(10)
    if crash == "before":
        return
    with database:  # the decision: both statements, or none
        database.execute("insert into orders values (?)", (item,))
        database.execute("update decided set state = ?", (str(state),))
    if crash == "after":
        return
    producer.complete_transaction(state, 10)


with MockCluster(brokers=3, two_phase_commit=True) as cluster:
    cluster.create_topic("orders", 1)
    where = {"bootstrap.servers": cluster.bootstrap_servers}
    conf = {**where, "transactional.id": "shop", "transaction.two.phase.commit.enable": True}
    for item, crash in (("tea", ""), ("never", "before"), ("coffee", "after"), ("milk", "")):
        with opened(conf) as producer:
            order(producer, item, crash=crash)

    with Consumer(
        {**where, "group.id": "billing", "isolation.level": "read_committed"}
    ) as consumer:
        consumer.assign([TopicPartition("orders", 0, 0)])
        print("Kafka:", [message.value().decode() for message in consumer.consume(3, 10)])
    print("database:", [item for (item,) in database.execute("select item from orders")])
