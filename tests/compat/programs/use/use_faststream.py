"""FastStream's broker for confluent_kafka: subscribers, replies, headers, batches, manual commits.

First the same subscribers on FastStream's broker in memory, which derives a class from Message.
"""

import asyncio
import sys

from faststream import AckPolicy
from faststream.confluent import KafkaBroker, KafkaMessage, TestKafkaBroker

servers, topic = sys.argv[1:]
broker = KafkaBroker(servers, graceful_timeout=10, logger=None)
seen = []
done = asyncio.Event()


def saw(*what):
    seen.append(what)
    if len(seen) == 5:
        done.set()


@broker.subscriber(topic, group_id=topic, auto_offset_reset="earliest", ack_policy=AckPolicy.MANUAL)
@broker.publisher(f"{topic}-replies")
async def handle(body: dict, message: KafkaMessage):
    raw = message.raw_message
    saw("request", body["number"], message.headers.get("trace"), raw.key(), type(raw).__name__)
    await message.ack()
    return {"reply": body["number"]}


@broker.subscriber(f"{topic}-replies", group_id=f"{topic}-r", auto_offset_reset="earliest")
async def on_reply(body: dict):
    saw("reply", body["reply"])


@broker.subscriber(
    f"{topic}-batch", group_id=f"{topic}-b", auto_offset_reset="earliest", batch=True, max_records=2
)
async def on_batch(bodies: list[str]):
    saw("batch", bodies)


async def publish():
    await broker.publish({"number": 1}, topic, key=b"k", headers={"trace": "abc"})
    await broker.publish({"number": 2}, topic, correlation_id="42")
    await broker.publish_batch("a", "b", topic=f"{topic}-batch")


async def main():
    async with TestKafkaBroker(broker):
        await publish()
    print(*sorted(map(repr, seen)), sep="\n")
    seen.clear()
    done.clear()
    async with asyncio.timeout(90):
        await broker.start()
        print(await broker.ping(timeout=10))
        await publish()
        await done.wait()
        await broker.stop()
    print(*sorted(map(repr, seen)), sep="\n")


asyncio.run(main())
