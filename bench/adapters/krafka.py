"""The adapter of krafka, a client in Rust."""

from __future__ import annotations

from functools import partial

from bench.adapters.rust import figures_of, missing

__all__ = ["missing"]

_run = partial(figures_of, "krafka")

produce = partial(_run, "produce")  # Producer.enqueue() in a loop, each delivery awaited
callback = produce
consume = partial(_run, "consume")  # Consumer.poll(), up to 10,000 records
group = partial(_run, "group")  # the same in a group
cold = partial(_run, "cold")  # from Kafka.builder() to the first record in a group
