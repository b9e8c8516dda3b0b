"""dagster-kafka: an asset reads a topic through its I/O manager; a message goes to a dead-letter topic."""

import sys
import time

import confluent_kafka
from dagster import AssetIn, AssetSpec, asset, materialize
from dagster_kafka import KafkaIOManager, KafkaResource
from dagster_kafka.dlq import create_dlq_manager

servers, topic = sys.argv[1:]
topic = topic.replace("-", "_")
kafka = KafkaResource(bootstrap_servers=servers)
producer = confluent_kafka.Producer(kafka.get_producer_config())
for text in ('{"number": 1}', '{"number": 2}', "no JSON"):
    producer.produce(topic, text, headers={"trace": "abc"})
print(producer.flush(30))


@asset(ins={"rows": AssetIn(key=topic, input_manager_key="kafka")})
def total(rows):
    print(rows)
    return sum(row["number"] for row in rows)


manager = KafkaIOManager(kafka_resource=kafka, consumer_group_id=topic, max_messages=2)
done = materialize([AssetSpec(topic), total], selection=[total], resources={"kafka": manager})
print(done.success, done.output_for_node("total"))


def next_message(consumer):
    until = time.monotonic() + 30
    while (message := consumer.poll(1)) is None or message.error():
        assert time.monotonic() < until, message
    return message


# Closing the I/O manager's consumer has committed: the same group continues behind its messages.
consumer = kafka.get_consumer(topic)
consumer.subscribe([topic])
bad = next_message(consumer)
print(bad.offset(), bad.value())
consumer.close()
letters = create_dlq_manager(kafka, topic)
print(letters.send_to_dlq(bad, ValueError("no JSON"), topic))
letters.cleanup()
consumer = kafka.get_consumer("letters")
consumer.subscribe([letters.dlq_topic_name])
letter = next_message(consumer)
print(letter.topic(), letter.key(), b"no JSON" in letter.value())
print(sorted(name for name, _ in letter.headers()))
consumer.close()
