"""confluent_kafka's name for `kafka_native.error`."""

from kafka_native._native.message import ConfluentMessage as Message
from kafka_native.error import *
from kafka_native.error import __all__ as __all__
from kafka_native.error import _KafkaClientError
