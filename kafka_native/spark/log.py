"""What the source, the sink and the pipelines say: the logger ``kafka_native.spark``.

Names of topics come from the network, and so do the texts of errors: what handlers get is one printable line.
"""

from __future__ import annotations

import logging
from typing import Final

from kafka_native.cleaning import printable


class _Printable(logging.Filter):
    """Lets every record pass, with its text cleaned."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = printable(record.getMessage()), ()
        return True


logger: Final = logging.getLogger("kafka_native.spark")
logger.addFilter(_Printable())
