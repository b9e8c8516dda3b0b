"""Prepares a transaction (KIP-939), prints its state, and waits until it is killed.

python -m tests.broker.preparer BOOTSTRAP TOPIC TRANSACTIONAL-ID VALUE...
"""

from __future__ import annotations

import sys
import time

from kafka_native import Producer

CALL_S = 60.0


def main(bootstrap: str, topic: str, transactional_id: str, *values: str) -> None:
    """Write each value to its own partition."""
    conf = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    with Producer({**conf, "transaction.two.phase.commit.enable": True}) as producer:
        producer.init_transactions(CALL_S)
        producer.begin_transaction()
        for partition, value in enumerate(values):
            producer.produce(topic, value, partition=partition)
        print(producer.prepare_transaction(CALL_S), flush=True)
        time.sleep(CALL_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
