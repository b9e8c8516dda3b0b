"""The exceptions of the source and the sink."""

from __future__ import annotations

from kafka_native import KafkaException


class OptionError(ValueError):
    """An option is invalid. The text names it and says what to write; it never shows secrets.

    :param option: The option's name, as the guide spells it.
    :param text: The problem, and what to write.
    """

    def __init__(self, option: str, text: str) -> None:
        """Store the arguments; see the class."""
        super().__init__(f"option {option}: {text}")
        self.option = option
        self.text = text

    def __reduce__(self) -> tuple[type[OptionError], tuple[str, str]]:
        """Pickle both arguments: workers send errors to the driver."""
        return (OptionError, (self.option, self.text))


class DataLossError(RuntimeError):
    """Records that the query needs have been deleted (``failOnDataLoss``)."""


class PartitionGoneError(KafkaException):
    """No broker has the partition or the topic any more. The client has asked all of them for long.

    The opposite is `StaleMetadataError`: a broker that doesn't know it yet.
    """


class StaleMetadataError(KafkaException):
    """A broker doesn't know a topic or a partition. Its metadata may be old, so another may."""


class PipelineError(RuntimeError):
    """A pipeline or a stream can't go on. The text gives the reason and the remedy."""


class MalformedRecordError(ValueError):
    """A record doesn't decode into its typed columns (``mode=FAILFAST``)."""


class DeadLetterError(RuntimeError):
    """Dead letters can't be written to the topic or folder of the option ``deadLetters``."""
