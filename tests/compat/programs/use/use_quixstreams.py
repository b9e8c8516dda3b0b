"""Quix Streams: a stateful application, in transactions, from one topic to another."""

import shutil
import sys
import tempfile

from quixstreams import Application

servers, topic = sys.argv[1:]
folder = tempfile.mkdtemp()


def application(**more):
    return Application(
        broker_address=servers,
        consumer_group=topic,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=folder,
        loglevel=None,
        **more,
    )


app = application()
source = app.topic(topic, value_serializer="json")
with app.get_producer() as producer:
    for number in range(6):
        message = source.serialize(key=f"key {number % 2}", value={"number": number})
        producer.produce(topic, message.value, message.key, headers={"trace": "abc"})
print("flushed")


def count(value, state):
    total = state.get("total", 0) + value["number"]
    state.set("total", total)
    return {"total": total}


def run(first):
    app = application()
    frame = app.dataframe(app.topic(topic, value_deserializer="json"))
    frame = frame.apply(count, stateful=True).to_topic(app.topic(f"{topic}-out"))
    app.run(count=first, timeout=20)


run(4)
run(2)  # it continues at the committed offset, with the state
app = application()
with app.get_consumer(auto_commit_enable=False) as consumer:
    consumer.subscribe([f"{topic}-out"])
    found = []
    while len(found) < 6:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found.append((message.key(), message.value(), message.headers()))
    print([each.offset for each in consumer.commit(message, asynchronous=False)])
print(*sorted(map(repr, found)), sep="\n")
shutil.rmtree(folder)
