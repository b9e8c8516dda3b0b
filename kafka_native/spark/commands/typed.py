"""The command line's options of decoded keys and values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from kafka_native.spark.typed_columns import FORMAT_NAMES, MODES, REGISTRY_PREFIX

__all__ = ["has_format", "separated", "typed_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

RAW: Final = "raw"
_FORMATS: Final = (RAW, "avro", "json", "protobuf")
_OPTION_NAMES: Final[Mapping[str, str]] = {
    **{name.replace(".", "_"): name for name in FORMAT_NAMES},
    "registry": f"{REGISTRY_PREFIX}url",
    "fields": "columns",
    "flatten": "flatten",
    "mode": "mode",
    "dead_letters": "deadLetters",
}
"""The parameters, and the names of the source's options."""


def _field_options(name: str) -> list[Callable[[Any], Any]]:
    return [
        click.option(
            f"--{name}-format",
            type=click.Choice(_FORMATS),
            default=RAW,
            show_default=True,
            help=f"Decode each {name} into typed columns, or store its bytes.",
        ),
        click.option(f"--{name}-subject", help=f"The reader's subject (default: TOPIC-{name})."),
        click.option(
            f"--{name}-schema",
            metavar="SCHEMA",
            help="A version of the subject, a schema, or the path of its file.",
        ),
        click.option(f"--{name}-message", help="Protobuf: the message type's full name."),
        click.option(
            f"--{name}-schema-upgrade",
            is_flag=True,
            help="Move from the checkpoint's schema to the latest version.",
        ),
    ]


_OPTIONS: Final = (
    *_field_options("value"),
    *_field_options("key"),
    click.option(
        "-r",
        "--registry",
        envvar="SCHEMA_REGISTRY_URL",
        metavar="URL,...",
        help="The schema registry; -X schema.registry.PROPERTY=VALUE sets its other properties.",
    ),
    click.option(
        "--columns",
        "fields",
        metavar="value.A,...",
        help="Decode only these fields of keys and values.",
    ),
    click.option("--flatten", is_flag=True, help="Make a column of each field of a record."),
    click.option(
        "--mode",
        type=click.Choice(MODES, case_sensitive=False),
        help="What happens with records that don't decode (default: FAILFAST, JSON: PERMISSIVE).",
    ),
    click.option(
        "--dead-letters",
        metavar="TARGET",
        help="A topic or a folder (with a /) for records that don't decode.",
    ),
)


def typed_options(command: Command) -> Callable[..., Any]:
    """Add the options of decoded keys and values.

    The command gets one parameter ``typed: dict[str, str]`` with the source's options.
    """

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        values = {option: given.pop(name) for name, option in _OPTION_NAMES.items()}
        found = {
            option: "true" if value is True else value
            for option, value in values.items()
            if value not in (None, False, RAW)
        }
        source = click.get_current_context().get_parameter_source("registry")
        if not has_format(found) and source is ParameterSource.ENVIRONMENT:
            found.pop(f"{REGISTRY_PREFIX}url", None)  # for other commands
        return command(**given, typed=found)

    decorated: Callable[..., Any] = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def has_format(typed: Mapping[str, str]) -> bool:
    """Whether keys or values are decoded."""
    return "value.format" in typed or "key.format" in typed


def separated(config: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Separate the properties of the Kafka clients from those of the registry's client."""
    registry = {name: value for name, value in config.items() if name.startswith(REGISTRY_PREFIX)}
    return {name: config[name] for name in config if name not in registry}, registry
