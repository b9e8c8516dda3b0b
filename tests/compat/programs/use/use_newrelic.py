"""New Relic's agent: the trace's headers arrive, and the consumer's transaction continues it."""

import os
import sys
import time

os.environ.update(NEW_RELIC_LICENSE_KEY="0" * 40, NEW_RELIC_DEVELOPER_MODE="true")
os.environ.update(NEW_RELIC_APP_NAME="test", NEW_RELIC_STARTUP_TIMEOUT="10")

import newrelic.agent

newrelic.agent.initialize()
import confluent_kafka

application = newrelic.agent.register_application(timeout=10)
servers, topic = sys.argv[1:]
to = {"bootstrap.servers": servers}
come = {**to, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
reports = []
for kind in (confluent_kafka.Producer, confluent_kafka.SerializingProducer):
    producer = kind(to)
    with newrelic.agent.BackgroundTask(application, name="request"):
        how = {"headers": [("mine", "1")], "on_delivery": lambda *report: reports.append(report)}
        producer.produce(topic, key=b"key", value=b"value", **how)
        print(producer.flush(30), len(reports))
for kind in (confluent_kafka.Consumer, confluent_kafka.DeserializingConsumer):
    consumer = kind(come)
    consumer.subscribe([topic])
    message = consumer.poll(30)
    print(message.value(), sorted(name for name, _ in message.headers()))
    transaction = newrelic.agent.current_transaction()
    print(transaction.name, transaction.group, transaction.background_task)
    print([each.offset for each in consumer.commit(asynchronous=False)])
    until = time.monotonic() + 30
    while newrelic.agent.current_transaction() is transaction:  # the next poll() ends it
        consumer.poll(0.1)
        assert time.monotonic() < until
    consumer.close()
