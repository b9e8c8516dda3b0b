"""A share group with slow jobs: threads do them, and the consumer renews their locks meanwhile."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from kafka_native import AcknowledgeType, Message, Producer, ShareConsumer
from kafka_native.mock import MockCluster

JOBS = 8
LOCK_S = 2.0
JOB_S = 4.5  # much longer than a lock


def work(message: Message) -> int:
    """Do a slow job."""
    time.sleep(JOB_S)
    return int(message.value() or b"")


def main() -> None:
    """Take jobs, start them in threads, and renew the locks of those that still run."""
    with MockCluster() as cluster:
        cluster.create_topic("slow-jobs", 1)
        cluster.share.settings.auto_offset_reset = "earliest"
        cluster.share.settings.lock_seconds = LOCK_S
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            for number in range(JOBS):
                producer.produce("slow-jobs", str(number))
        conf = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "slow-workers",
            "share.acknowledgement.mode": "explicit",
        }
        results: list[int] = []
        running: list[tuple[Message, Future[int]]] = []
        renewals = 0
        with ThreadPoolExecutor(JOBS) as pool, ShareConsumer(conf) as consumer:
            consumer.subscribe(["slow-jobs"])
            while len(results) < JOBS:
                running += [(each, pool.submit(work, each)) for each in consumer.poll(0.1)]
                for message, job in running:
                    if not job.done():
                        consumer.acknowledge(message, AcknowledgeType.RENEW)
                        renewals += 1
                    elif job.exception() is not None:
                        consumer.acknowledge(message, AcknowledgeType.RELEASE)
                    else:
                        consumer.acknowledge(message)
                        results.append(job.result())
                running = [(message, job) for message, job in running if not job.done()]
            print("errors:", [each for each in consumer.commit_sync().values() if each])
        print("done, each once:", sorted(results))
        print("renewed more than once:", renewals > JOBS)


main()
