"""What the source and the sink raise."""

from __future__ import annotations


class OptionError(ValueError):
    """An option that can't be. The text names it and says what to write; it never shows a value that may be a secret.

    :param option: The option's name, as the guide writes it.
    :param text: What is wrong, and what to write.
    """

    def __init__(self, option: str, text: str) -> None:
        """Make the error; see the class."""
        super().__init__(f"option {option}: {text}")
        self.option = option
        self.text = text

    def __reduce__(self) -> tuple[type[OptionError], tuple[str, str]]:
        """With both its parts: workers send errors to the driver."""
        return (OptionError, (self.option, self.text))


class DataLossError(RuntimeError):
    """Records that were to be read don't exist any more (``failOnDataLoss``)."""
