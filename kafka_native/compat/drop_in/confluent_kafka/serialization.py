"""confluent_kafka's name for `kafka_native.serialization`."""

from kafka_native.errors import KafkaException
from kafka_native.serialization import *
from kafka_native.serialization import HeadersType
from kafka_native.serialization import __all__ as __all__
