"""confluent_kafka's private helpers, for programs that import them."""

from __future__ import annotations

from . import asyncinit, librdkafka_string_parser
from .conversion_util import ConversionUtil
from .validation_util import ValidationUtil

__all__ = ["ConversionUtil", "ValidationUtil", "asyncinit", "librdkafka_string_parser"]
