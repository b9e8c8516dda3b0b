"""confluent_kafka's name for `kafka_native.error`."""

from kafka_native.error import *
from kafka_native.error import Message, _KafkaClientError
from kafka_native.error import __all__ as __all__
