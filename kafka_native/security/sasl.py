"""From a client's properties to its SASL mechanism."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import NoReturn

from kafka_native.config import Config
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.security.mechanisms import Credentials, Mechanism
from kafka_native.security.plain import Plain
from kafka_native.security.scram import HASHES, Scram


def mechanism_of(config: Config) -> Mechanism | None:
    """What the client authenticates with, None where ``security.protocol`` has no SASL.

    :raises KafkaException: _INVALID_ARG: there is no such mechanism, or it lacks something.
    """
    if not config.text("security.protocol").startswith("sasl_"):
        return None
    name = config.text("sasl.mechanisms")
    make = MECHANISMS.get(name)
    if make is None:
        close = difflib.get_close_matches(name.upper(), MECHANISMS, n=1, cutoff=0.6)
        hint = f'did you mean "{close[0]}"?' if close else f"one of {', '.join(MECHANISMS)}"
        _fail(config, f"Unsupported SASL mechanism: {name}", hint)
    return make(config)


def _fail(config: Config, text: str, hint: str | None = None) -> NoReturn:
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"Failed to create {config.role}: {text}"), hint=hint)


def _credentials(config: Config) -> Credentials:
    if not (config.is_set("sasl.username") and config.is_set("sasl.password")):
        _fail(config, "sasl.username and sasl.password must be set", f"for {config.text('sasl.mechanisms')}")
    return Credentials(config.text("sasl.username"), config.text("sasl.password"))


def _plain(config: Config) -> Mechanism:
    return Plain(_credentials(config))


def _scram(config: Config) -> Mechanism:
    return Scram(config.text("sasl.mechanisms"), _credentials(config), is_token=config.flag("sasl.scram.tokenauth"))


MECHANISMS: dict[str, Callable[[Config], Mechanism]] = {"PLAIN": _plain, **dict.fromkeys(HASHES, _scram)}
"""Who makes which mechanism, by the name that brokers know it under."""
