"""Checks of arguments that are fields of an object."""

from __future__ import annotations

from typing import Any

from ..cimpl import KafkaError

string_type = str

__all__ = ["ValidationUtil"]


class ValidationUtil:
    """Functions that check arguments. They raise TypeError or ValueError."""

    @staticmethod
    def check_multiple_not_none(obj: Any, vars_to_check: list[str]) -> None:
        """Check that none of these fields is None."""
        for param in vars_to_check:
            ValidationUtil.check_not_none(obj, param)

    @staticmethod
    def check_not_none(obj: Any, param: str) -> None:
        """Check that the field isn't None."""
        if getattr(obj, param) is None:
            raise ValueError(f"Expected {param} to be not None")

    @staticmethod
    def check_multiple_is_string(obj: Any, vars_to_check: list[str]) -> None:
        """Check that each of these fields is a str or None."""
        for param in vars_to_check:
            ValidationUtil.check_is_string(obj, param)

    @staticmethod
    def check_is_string(obj: Any, param: str) -> None:
        """Check that the field is a str or None."""
        value = getattr(obj, param)
        if value is not None and not isinstance(value, string_type):
            raise TypeError(f"Expected {param} to be a string")

    @staticmethod
    def check_kafka_errors(errors: list[KafkaError]) -> None:
        """Check that this is a list of KafkaErrors."""
        if not isinstance(errors, list):
            raise TypeError("errors should be None or a list")
        if not all(isinstance(error, KafkaError) for error in errors):
            raise TypeError("Expected list of KafkaError")

    @staticmethod
    def check_kafka_error(error: KafkaError) -> None:
        """Check that this is a KafkaError."""
        if not isinstance(error, KafkaError):
            raise TypeError("Expected error to be a KafkaError")
