"""confluent_kafka's place for AIOProducer.

The parts of confluent_kafka's own AIOProducer come from an installed one.
"""

from __future__ import annotations

from kafka_native.compat import installed_modules

from ._AIOProducer import AIOProducer

__all__ = ["AIOProducer"]
__path__ = [*__path__, *installed_modules("aio.producer")]
