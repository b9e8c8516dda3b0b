"""The logger ``kafka_native.spark`` of the source, the sink and the pipelines.

Topic names and error texts come from the network. The logger makes each record one printable line.
"""

from __future__ import annotations

import logging
from typing import Final

from kafka_native.cleaning import printable


class _Printable(logging.Filter):
    """Escapes the text of each record. It drops none."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = printable(record.getMessage()), ()
        return True


logger: Final = logging.getLogger("kafka_native.spark")
logger.addFilter(_Printable())
