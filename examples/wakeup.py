"""A signal ends a consumer in order: it leaves its group, and no message is read twice."""

from __future__ import annotations

import os
import signal
import threading

from kafka_native import Consumer

conf = {
    "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
    "group.id": "example-wakeup",
    "auto.offset.reset": "earliest",
}
with Consumer(conf) as consumer:
    consumer.subscribe(["greetings"])
    signal.signal(signal.SIGTERM, lambda number, frame: consumer.wakeup())
    count = 0
    for _ in consumer:  # until wakeup()
        count += 1
        if count == 1000:  # simulates a user who stops this program
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    print(f"{count} messages, then a signal")
    for message in consumer.consume(10, timeout=0.1):  # it could continue
        print("one more:", message.offset())
print("left the group")
