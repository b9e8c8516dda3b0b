"""The schema registry of a command: its client, and its errors as one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from kafka_native.cli.connection import NO_REGISTRY_TEXT, REGISTRY_PREFIX, Connection
from kafka_native.cli.errors import Failed

if TYPE_CHECKING:
    from kafka_native.schema_registry import SchemaRegistryClient

SCHEMES: Final = ("http://", "https://", "mock://")
NUMBERS: Final = (
    "timeout",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "cache.capacity",
    "cache.latest.ttl.sec",
)
"""The properties of the registry's client that are numbers."""


RULES_PREFIX: Final = "rules."
"""The properties of rule executors, such as the secret of an encryption key, begin with this."""


Reference = tuple[str, str, int]
"""The name of a reference in a schema, and the subject and the version that it stands for."""


def reference(text: str) -> Reference:
    """Parse ``NAME=SUBJECT:VERSION``. A subject may contain colons."""
    name, equals, rest = text.partition("=")
    subject, colon, number = rest.rpartition(":")
    if not (name and equals and subject and colon and number.isascii() and number.isdigit()):
        raise click.BadParameter(f"{text!r} isn't NAME=SUBJECT:VERSION")
    return name, subject, int(number)


def reference_option(*names: str, help: str) -> Callable[[Any], Any]:
    """Make an option for the references of the schema in a file. It may repeat."""
    return click.option(
        *names, multiple=True, type=reference, metavar="NAME=SUBJECT:VERSION", help=help
    )


def rule_config(connection: Connection) -> dict[str, str]:
    """The configuration of rule executors."""
    return {
        name.removeprefix(RULES_PREFIX): value
        for name, value in connection.registry.items()
        if name.startswith(RULES_PREFIX)
    }


def registry_config(connection: Connection) -> dict[str, Any]:
    """The configuration of the registry's client, with numbers where it wants numbers.

    :raises click.UsageError: No registry is named, or a number isn't one.
    """
    url = connection.registry.get("url", "").strip()
    if not url:
        raise click.UsageError(NO_REGISTRY_TEXT)
    if not all(each.strip().lower().startswith(SCHEMES) for each in url.split(",")):
        # The text doesn't show it, because it may contain a password
        raise click.UsageError("the schema registry needs http:// or https:// addresses")
    found: dict[str, Any] = {"timeout": connection.timeout_s, **connection.registry}
    for name in [each for each in found if each.startswith(RULES_PREFIX)]:
        del found[name]
    for name in NUMBERS:
        value = found.get(name)
        if isinstance(value, str):
            try:
                found[name] = float(value) if name == "timeout" else int(value)
            except ValueError:
                raise click.UsageError(f"{REGISTRY_PREFIX}{name} must be a number") from None
    if found.get("ssl.ca.location", "").lower() == "false":
        found["ssl.ca.location"] = False
    return found


@contextmanager
def registry_client(
    connection: Connection, retries_max: int | None = None
) -> Iterator[SchemaRegistryClient]:
    """Open the registry's client for the block. Errors of the registry become `Failed`.

    :param retries_max: How often a request is sent again; None: as the user's properties say.
    """
    config = registry_config(connection)
    if retries_max is not None:
        config["max.retries"] = retries_max
    from kafka_native.schema_registry import SchemaRegistryClient

    with registry_errors():
        try:
            client = SchemaRegistryClient(config)
        except (ValueError, TypeError) as error:
            raise Failed(f"schema registry: {error}") from error
        with client:
            yield client


@contextmanager
def registry_errors() -> Iterator[None]:
    """Turn errors of the schema registry, and a missing package, into `Failed`."""
    from kafka_native.schema_registry.error import OAuthTokenError, SchemaRegistryError

    try:
        yield
    except SchemaRegistryError as error:
        raise Failed(registry_line(error)) from error
    except OAuthTokenError as error:
        raise Failed(f"schema registry: no token: {error}") from error
    except ImportError as error:
        raise Failed(str(error)) from error


HINTS: Final[dict[int | None, str]] = {
    -1: "kafka-native doctor -r URL finds the reason",
    401: f"log in with -X {REGISTRY_PREFIX}basic.auth.user.info=USER:PASSWORD",
    40401: "kafka-native schemas list shows the subjects",
    40402: "kafka-native schemas show SUBJECT lists the versions",
}
"""What to do after an error, by the registry's code or else the HTTP status. -1: no answer."""


def registry_line(error: Exception) -> str:
    """A registry's error as a line for users, with what to do next."""
    status = getattr(error, "http_status_code", None)
    code = getattr(error, "error_code", -1)
    text = f"schema registry: {getattr(error, 'error_message', error)}"
    if isinstance(status, int) and status > 0:
        text += f" (HTTP {status})"
    hint = HINTS.get(status if code == -1 else code)
    return text if hint is None else f"{text} (hint: {hint})"
