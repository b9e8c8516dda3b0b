"""What every command that talks to a cluster shares: which cluster, and the clients' configuration."""

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
from kafka_native.config import PROPERTIES, Role, read_properties
from kafka_native.errors import KafkaError
from kafka_native.terminal.lines import log_to_stderr

Command = TypeVar("Command", bound=Callable[..., Any])

ENVIRONMENT = ("KAFKA_BOOTSTRAP", "BOOTSTRAP")
NO_FILE = "none"
"""``-F none``: not even the user's own file is read."""
SERVERS = "bootstrap.servers"
TIMEOUT_S = 10.0
NO_BROKER_TEXT = f"no broker is named: write -b HOST:PORT, set {ENVIRONMENT[0]}, or put {SERVERS}=... into a file (-F)"


def user_file() -> Path:
    """Where a user's own configuration is read from when ``-F`` names no file: it doesn't have to exist."""
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "kafka-native.conf"


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster, and how to talk to it. Its repr shows no property: one of them may be a password."""

    properties: Mapping[str, str] = field(repr=False)
    """By librdkafka's names, none of them an alias but bootstrap.servers; those of any kind of client."""
    timeout_s: float = TIMEOUT_S
    """``-m``: how long to wait for an answer of the cluster."""

    @property
    def servers(self) -> str:
        """The bootstrap servers; an empty string where none are named."""
        return self.properties.get(SERVERS, "").strip()

    def config(self, role: Role, /, options: Mapping[str, Any] | None = None, **defaults: Any) -> dict[str, Any]:
        """The configuration of a client; an AdminClient takes a producer's.

        :param options: What the command's own options say, which goes before what the user has set; None: nothing.
        :param defaults: What the command would have it be, with underscores for dots; what the user has set stays.
        """
        # One file serves all commands: what is only for the other kind of client is left out without a word.
        mine = {name: value for name, value in self.properties.items() if not _is_others(name, role)}
        own = {_canonical(name.replace("_", ".")): value for name, value in defaults.items()}
        said = {_canonical(name): value for name, value in (options or {}).items() if value is not None}
        return {**own, **mine, **said}


def _is_others(name: str, role: Role) -> bool:
    declared = PROPERTIES.get(name)
    return declared is not None and declared.scope == (CONSUMER if role == "producer" else PRODUCER)


def properties(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """``-X name=value``, repeated, as a dict. What is refused isn't shown: it may be a secret."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name.strip() or not equals:
            raise click.BadParameter("write PROPERTY=VALUE")
        found[name.strip()] = value
    return found


def connected(*, required: bool = True) -> Callable[[Command], Command]:
    """Adds the options that name a cluster; the command gets them as one argument, ``connection: Connection``.

    :param required: Without a broker's name the command can't do anything: wrong usage, exit status 2.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(*args: Any, bootstrap: str | None, extra: dict[str, str], config_file: str | None, **more: Any) -> Any:
            debug, timeout_s = more.pop("debug"), more.pop("timeout")
            merged = _merged(bootstrap, extra, config_file)
            if debug:
                merged["debug"] = debug
            log_to_stderr()
            if merged.get("debug"):
                logging.getLogger("kafka_native").setLevel(logging.DEBUG)
            connection = Connection(merged, timeout_s)
            if required and not connection.servers:
                raise click.UsageError(NO_BROKER_TEXT)
            return command(*args, connection=connection, **more)

        for option in reversed(_OPTIONS):
            call = option(call)
        return call  # type: ignore[return-value]

    return decorate


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "-b", "--bootstrap", "--bootstrap-servers", envvar=ENVIRONMENT, metavar="HOST:PORT,...", help="Brokers to ask."
    ),
    click.option(
        "-X",
        "extra",
        multiple=True,
        callback=properties,
        metavar="PROPERTY=VALUE",
        help="Client configuration, again and again; secrets are better off in a file.",
    ),
    click.option(
        "-F",
        "--config",
        "config_file",
        envvar="KAFKA_NATIVE_CONFIG",
        metavar="FILE",
        help="A file of property=value lines (default: ~/.config/kafka-native.conf; none: no file).",
    ),
    click.option("-d", "--debug", metavar="CONTEXT,...", help="Log these contexts on stderr, as property debug."),
    click.option(
        "-m",
        "--timeout",
        default=TIMEOUT_S,
        show_default=True,
        type=click.FloatRange(0, 3600, min_open=True),
        metavar="SECONDS",
        help="How long to wait for an answer of the cluster.",
    ),
)


def connection_of(context: click.Context) -> Connection:
    """The cluster of a command line that isn't finished, for what is completed by asking it."""
    found = context.params
    with context.scope(cleanup=False):
        merged = _merged(found.get("bootstrap"), found.get("extra") or {}, found.get("config_file"))
    return Connection(merged)


def _merged(bootstrap: str | None, extra: Mapping[str, str], config_file: str | None) -> dict[str, str]:
    """The user's file, then the environment's servers, then ``-F``, then ``-X``, then ``-b``: the later ones win."""
    source = click.get_current_context().get_parameter_source("bootstrap")
    servers = {} if bootstrap is None else {SERVERS: bootstrap}
    written = source is ParameterSource.COMMANDLINE
    layers: list[Mapping[str, str]] = []
    if config_file is None:
        own = user_file()
        layers += [_read(own) if own.exists() else {}, {} if written else servers]
    else:
        layers += [{} if written else servers, {} if config_file == NO_FILE else _read(Path(config_file))]
    layers += [extra, servers if written else {}]
    return {_canonical(name): value for layer in layers for name, value in layer.items()}


def _canonical(name: str) -> str:
    """One name for each property: of an alias, and of kcat's ``topic.NAME``."""
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
