"""The lag of a consumer, without a request; and a callback for each message."""

from __future__ import annotations

import os

from kafka_native import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")
where = TopicPartition("numbers", 0)
with Producer({"bootstrap.servers": bootstrap}) as producer:
    for number in range(50):
        producer.produce("numbers", str(number), partition=0)

with Consumer({"bootstrap.servers": bootstrap}) as consumer:
    print("nothing is known yet:", consumer.current_lag(where))
    consumer.assign([TopicPartition("numbers", 0, OFFSET_BEGINNING)])
    consumer.seek_to_end()
    first, end = consumer.get_watermark_offsets(where, timeout=10)
    consumer.seek(TopicPartition("numbers", 0, end - 50))

    lags: list[int | None] = []

    def on_message(message: Message) -> None:
        """Collect the lag after each message. The position is already behind it."""
        lags.append(consumer.current_lag(where))

    while len(lags) < 50:
        consumer.consume_callback(on_message, max_messages=50 - len(lags), timeout=10)
    print("behind after the first message:", lags[0], "and after the last:", lags[-1])
    print("of all that is assigned:", list(consumer.lag().values()))
    print("the largest of them:", consumer.lag_max())
