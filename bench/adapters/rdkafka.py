"""The adapter of rdkafka, the Rust API of librdkafka."""

from __future__ import annotations

from functools import partial

from bench.adapters.rust import figures_of, missing

__all__ = ["missing"]

_run = partial(figures_of, "rdkafka")

produce = partial(_run, "produce")  # ThreadedProducer.send() in a loop, each report counted
callback = produce
consume = partial(_run, "consume")  # BaseConsumer.poll(), one message at a time
poll = consume
group = partial(_run, "group")  # the same in a group
cold = partial(_run, "cold")  # from the making of a consumer to its first message in a group
