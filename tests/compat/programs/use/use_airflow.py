"""Airflow's provider: hooks and operators that create a topic, produce, consume and commit."""

import json
import os
import sys
import tempfile

servers, topic = sys.argv[1:]
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp()
os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"
extra = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps(
    {"conn_type": "kafka", "extra": {**extra, "enable.auto.commit": False}}
)

from airflow.providers.apache.kafka.hooks.client import KafkaAdminClientHook
from airflow.providers.apache.kafka.hooks.consume import KafkaConsumerHook
from airflow.providers.apache.kafka.operators.consume import ConsumeFromTopicOperator
from airflow.providers.apache.kafka.operators.produce import ProduceToTopicOperator

admin = KafkaAdminClientHook()
created = f"{topic}-created"
admin.create_topic([(created, 1, 1)])
admin.create_topic([(created, 1, 1)])  # it logs that the topic exists
print(admin.test_connection())


def messages(count):
    for number in range(count):
        yield json.dumps(number), json.dumps({"number": number})


ProduceToTopicOperator(
    task_id="produce", topic=created, producer_function=messages, producer_function_args=[5]
).execute({})
seen = []
ConsumeFromTopicOperator(
    task_id="consume",
    topics=[created],
    apply_function=lambda message: seen.append((message.key(), message.value(), message.offset())),
    commit_cadence="end_of_batch",
    max_messages=5,
    max_batch_size=2,
    poll_timeout=20,
).execute({})
print(*seen, sep="\n")
consumer = KafkaConsumerHook([created]).get_consumer()
print(consumer.poll(2) is None)  # all is committed
consumer.close()
if hasattr(admin, "delete_topic"):
    admin.delete_topic([created])
print(created in admin.get_conn.list_topics(timeout=10).topics)
