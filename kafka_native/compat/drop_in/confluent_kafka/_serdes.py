"""The attributes of converting clients that tracing agents read and replace."""

from __future__ import annotations

from typing import Any

from kafka_native.serialization import Serdes

from ._serde_builder import pop_serde_props

__all__ = ["Deserializers", "Serializers"]


class Serializers:
    """``_key_serializer`` and ``_value_serializer`` of a producer.

    Agents of New Relic and Datadog wrap or call them. A new value takes effect at the next message.
    """

    _serdes: Serdes

    @property
    def _key_serializer(self) -> Any:
        return self._serdes.key

    @_key_serializer.setter
    def _key_serializer(self, serializer: Any) -> None:
        self._serdes.key = serializer

    @property
    def _value_serializer(self) -> Any:
        return self._serdes.value

    @_value_serializer.setter
    def _value_serializer(self, serializer: Any) -> None:
        self._serdes.value = serializer


class Deserializers:
    """``_key_deserializer`` and ``_value_deserializer`` of a consumer, with the same use."""

    _serdes: Serdes

    def __init__(self, conf: dict[str, Any]) -> None:
        """Take a configuration as a dict; its own exceptions tell what else it can't be."""
        _, rest = pop_serde_props(conf, "key.deserializer", "value.deserializer")
        if not isinstance(rest, dict):
            raise TypeError("expected configuration dict")
        super().__init__(conf)  # type: ignore[call-arg]

    @property
    def _key_deserializer(self) -> Any:
        return self._serdes.key

    @_key_deserializer.setter
    def _key_deserializer(self, deserializer: Any) -> None:
        self._serdes.key = deserializer

    @property
    def _value_deserializer(self) -> Any:
        return self._serdes.value

    @_value_deserializer.setter
    def _value_deserializer(self, deserializer: Any) -> None:
        self._serdes.value = deserializer
