"""The options that name a cluster, and the configuration of a command's clients."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from kafka_native import KafkaException
from kafka_native._reference.property import CONSUMER, PRODUCER
from kafka_native.cli.errors import line_of
from kafka_native.config import PROPERTIES, Role, check_property, read_properties
from kafka_native.errors import KafkaError
from kafka_native.terminal.lines import log_to_stderr, outages_reported_once

Command = TypeVar("Command", bound=Callable[..., Any])

ENVIRONMENT = ("KAFKA_BOOTSTRAP", "BOOTSTRAP")
NO_FILE = "none"
"""``-F none``: read no file, not even the user's own."""
SERVERS = "bootstrap.servers"
REGISTRY_ENVIRONMENT = "SCHEMA_REGISTRY_URL"
REGISTRY_PREFIX = "schema.registry."
"""The properties of the schema registry's client begin with this, as in kcat."""
REGISTRY_URL = f"{REGISTRY_PREFIX}url"
TIMEOUT_S = 10.0
NO_BROKER_TEXT = (
    f"no broker is named: write -b HOST:PORT, set {ENVIRONMENT[0]}, or put {SERVERS}=... into a "
    "file (-F)"
)
NO_REGISTRY_TEXT = (
    f"no schema registry is named: write -r URL, set {REGISTRY_ENVIRONMENT}, or put "
    f"{REGISTRY_URL}=... into a file (-F)"
)


def user_file() -> Path:
    """The user's own configuration file, read when ``-F`` names none. It may be missing."""
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    # Not Path.expanduser(): it raises an error for a user without a home.
    return Path(os.path.expanduser(folder)) / "kafka-native.conf"


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster and its client configuration. The repr hides properties: one may be a password."""

    properties: Mapping[str, str] = field(repr=False)
    """Properties of all kinds of clients by librdkafka's names, without aliases.

    bootstrap.servers, an alias itself, is the exception.
    """
    timeout_s: float = TIMEOUT_S
    """``-m``: seconds to wait for an answer of the cluster."""
    registry: Mapping[str, str] = field(repr=False, default_factory=dict)
    """Properties of the schema registry's client, without ``schema.registry.``."""
    written: Mapping[str, str] = field(default_factory=dict)
    """The names of properties as the user wrote them, by librdkafka's names."""

    @property
    def servers(self) -> str:
        """The bootstrap servers; an empty string if none are named."""
        return self.properties.get(SERVERS, "").strip()

    def config(
        self, role: Role, /, options: Mapping[str, Any] | None = None, **defaults: Any
    ) -> dict[str, Any]:
        """The configuration of a client. An AdminClient takes a producer's.

        :param options: Properties from the command's own options. They override the user's
            configuration. None is ignored.
        :param defaults: The command's defaults, with underscores for dots. The user's configuration
            overrides them.
        :raises click.UsageError: A property doesn't exist, or has no such value.
        """
        # One file serves all commands: drop the properties of the other kind of client.
        mine = {
            name: value for name, value in self.properties.items() if not _is_others(name, role)
        }
        for name, value in mine.items():
            try:
                check_property(self.written.get(name, name), value, role)
            except KafkaException as error:
                raise click.UsageError(line_of(error)) from None
        own = {_canonical(name.replace("_", ".")): value for name, value in defaults.items()}
        given = {
            _canonical(name): value for name, value in (options or {}).items() if value is not None
        }
        return {**own, **mine, **given}


def _is_others(name: str, role: Role) -> bool:
    declared = PROPERTIES.get(name)
    return declared is not None and declared.scope == (CONSUMER if role == "producer" else PRODUCER)


def properties(
    _context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str]:
    """Parse ``-X name=value``, which may repeat. Errors don't show the text: it may be a secret."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name.strip() or not equals:
            raise click.BadParameter("write PROPERTY=VALUE")
        found[name.strip()] = value
    return found


def connected(
    *, required: bool = True, registry: bool = False, cluster: bool = True
) -> Callable[[Command], Command]:
    """Add the options that name a cluster.

    The command gets the argument ``connection: Connection``.

    :param required: Whether a command line without a broker is wrong usage (exit status 2).
    :param registry: Whether to add ``-r``, the URL of the schema registry.
    :param cluster: Whether the command uses the cluster. If not, it has no ``-b``.
    """
    options = [*(_OPTIONS if cluster else _OPTIONS[1:]), *([_REGISTRY_OPTION] if registry else [])]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(
            *args: Any,
            bootstrap: str | None = None,
            registry: str | None = None,
            extra: dict[str, str],
            config_file: str | None,
            **more: Any,
        ) -> Any:
            debug, timeout_s = more.pop("debug"), more.pop("timeout")
            merged, written = _merged(bootstrap, registry, extra, config_file)
            if debug:
                merged["debug"] = debug
            log_to_stderr()
            if merged.get("debug"):
                logging.getLogger("kafka_native").setLevel(logging.DEBUG)
            connection = _connection(merged, written, timeout_s)
            if required and cluster and not connection.servers:
                raise click.UsageError(NO_BROKER_TEXT)
            with outages_reported_once():
                return command(*args, connection=connection, **more)

        for option in reversed(options):
            call = option(call)
        return call  # type: ignore[return-value]

    return decorate


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-servers",
        envvar=ENVIRONMENT,
        metavar="HOST:PORT,...",
        help="Bootstrap servers.",
    ),
    click.option(
        "-X",
        "extra",
        multiple=True,
        callback=properties,
        metavar="PROPERTY=VALUE",
        help="A client property; repeatable. Secrets are safer in a file.",
    ),
    click.option(
        "-F",
        "--config",
        "config_file",
        envvar="KAFKA_NATIVE_CONFIG",
        metavar="FILE",
        help="A file of property=value lines (default: ~/.config/kafka-native.conf; none: no "
        "file).",
    ),
    click.option(
        "-d",
        "--debug",
        metavar="CONTEXT,...",
        help="Log these contexts on stderr, like property debug.",
    ),
    click.option(
        "-m",
        "--timeout",
        default=TIMEOUT_S,
        show_default=True,
        type=click.FloatRange(0, 3600, min_open=True),
        metavar="SECONDS",
        help="Seconds to wait for an answer of the cluster.",
    ),
)


_REGISTRY_OPTION: Callable[[Any], Any] = click.option(
    "-r",
    "--registry",
    envvar=REGISTRY_ENVIRONMENT,
    metavar="URL,...",
    help="The schema registry; -X schema.registry.PROPERTY=VALUE sets its other properties.",
)


def connection_of(context: click.Context) -> Connection:
    """The cluster of an unfinished command line, for shell completion."""
    found = context.params
    with context.scope(cleanup=False):
        merged, written = _merged(
            found.get("bootstrap"),
            found.get("registry"),
            found.get("extra") or {},
            found.get("config_file"),
        )
    return _connection(merged, written, TIMEOUT_S)


def _connection(
    merged: Mapping[str, str], written: Mapping[str, str], timeout_s: float
) -> Connection:
    """Separate the properties of the cluster's clients from those of the registry's client."""
    registry = {
        name.removeprefix(REGISTRY_PREFIX): value
        for name, value in merged.items()
        if name.startswith(REGISTRY_PREFIX)
    }
    properties = {
        name: value for name, value in merged.items() if not name.startswith(REGISTRY_PREFIX)
    }
    return Connection(properties, timeout_s, registry, written)


def _merged(
    bootstrap: str | None, registry: str | None, extra: Mapping[str, str], config_file: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Merge the sources of properties; later ones override earlier ones.

    Returns the values and the user's names, both by librdkafka's names.

    The order is: the user's file, the environment's servers and registry, ``-F``, ``-X``, ``-b``
    and ``-r``.
    """
    source_of = click.get_current_context().get_parameter_source
    options: dict[str, str] = {}
    environment: dict[str, str] = {}
    for option, name, value in (
        ("bootstrap", SERVERS, bootstrap),
        ("registry", REGISTRY_URL, registry),
    ):
        if value is not None:
            is_written = source_of(option) is ParameterSource.COMMANDLINE
            (options if is_written else environment)[name] = value
    layers: list[Mapping[str, str]]
    if config_file is None:
        own = user_file()
        layers = [_read(own) if own.exists() else {}, environment]
    else:
        layers = [environment, {} if config_file == NO_FILE else _read(Path(config_file))]
    layers += [extra, options]
    pairs = [(_canonical(name), name, value) for layer in layers for name, value in layer.items()]
    return {name: value for name, _, value in pairs}, {name: text for name, text, _ in pairs}


def _canonical(name: str) -> str:
    """The property's own name for an alias, or for kcat's ``topic.NAME``."""
    known = name if name in PROPERTIES else name.removeprefix("topic.")
    declared = PROPERTIES.get(known)
    found = name if declared is None else declared.alias_of or known
    return SERVERS if found == PROPERTIES[SERVERS].alias_of else found


def _read(file: Path) -> dict[str, str]:
    try:
        return read_properties(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        text = "no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"{file}: {text}")) from None
