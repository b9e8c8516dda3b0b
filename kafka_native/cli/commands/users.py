"""``kafka-native users``: SCRAM users and their credentials."""

from __future__ import annotations

import os
import sys

import click

from kafka_native.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka_native.cli.administration import (
    Outcomes,
    administration,
    errors_of,
    make_sure,
    report,
    report_errors,
    yes_option,
)
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.errors import Failed
from kafka_native.terminal.lines import ask_secret
from kafka_native.terminal.output import Output, json_option

MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
MECHANISM_NAMES = {member: name for name, member in MECHANISMS.items()} | {
    ScramMechanism.UNKNOWN: "unknown"
}
ITERATIONS = 4096
ITERATIONS_RANGE = (4096, 16384)
"""The limits of Apache Kafka."""


@click.group("users")
def command() -> None:
    """List SCRAM users, set their passwords, delete their credentials."""


@command.command("list")
@click.argument("users", nargs=-1, metavar="[USER...]")
@connected()
@json_option
def list_users(connection: Connection, output: Output, users: tuple[str, ...]) -> None:
    """List all users with SCRAM credentials, or the users that you name."""
    errors: dict[str, str] = {}
    with administration(connection) as admin:
        timeout_s = connection.timeout_s
        if users:
            names = list(dict.fromkeys(users))
            found = Outcomes(
                admin.describe_user_scram_credentials(names, request_timeout=timeout_s)
            )
            everyone, errors = dict(found), found.errors
        else:
            everyone = admin.describe_user_scram_credentials(request_timeout=timeout_s).result()
    records = [
        {"user": name, "mechanism": MECHANISM_NAMES[info.mechanism], "iterations": info.iterations}
        for name, user in sorted(everyone.items())
        for info in sorted(user.scram_credential_infos, key=lambda info: info.mechanism)
    ]
    output.rows(records, {"user": "user", "mechanism": "mechanism", "iterations": "iterations"})
    report_errors(output, "user", errors)


@command.command("set")
@click.argument("user")
@click.option(
    "--mechanism",
    type=click.Choice(list(MECHANISMS)),
    default="SCRAM-SHA-512",
    show_default=True,
    help="The SCRAM mechanism.",
)
@click.option(
    "--iterations",
    type=click.IntRange(*ITERATIONS_RANGE),
    default=ITERATIONS,
    show_default=True,
    help="The number of iterations of the hash.",
)
@click.option(
    "--password-stdin",
    is_flag=True,
    help="Read the password from stdin, to the end of its first line.",
)
@click.option(
    "--password-env", metavar="VARIABLE", help="Take the password from this environment variable."
)
@connected()
@json_option
def set_user(
    connection: Connection,
    output: Output,
    user: str,
    mechanism: str,
    iterations: int,
    password_stdin: bool,
    password_env: str | None,
) -> None:
    """Set USER's password for a mechanism. On a terminal the command asks for it twice.

    No option takes the password itself: other users of the machine can see a command's arguments.
    """
    try:
        password = _password(user, password_stdin, password_env).encode()
    except UnicodeError:
        raise Failed("the password isn't UTF-8") from None  # the cause would show a part of it
    info = ScramCredentialInfo(MECHANISMS[mechanism], iterations)
    change = UserScramCredentialUpsertion(user, info, password)
    with administration(connection) as admin:
        outcomes = errors_of(
            admin.alter_user_scram_credentials([change], request_timeout=connection.timeout_s)
        )
    report(output, "user", outcomes, f"has a password for {mechanism}")


def _password(user: str, stdin: bool, variable: str | None) -> str:
    if stdin and variable is not None:
        raise click.UsageError("write --password-stdin or --password-env, not both")
    if variable is not None:
        found = os.environ.get(variable)
        if not found:
            raise Failed(f"the environment variable {variable} isn't set")
        return found
    if stdin:
        found = sys.stdin.buffer.readline().decode().rstrip("\r\n")
        if not found:
            raise Failed("there is no password on stdin")
        return found
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal to ask on: write --password-stdin or --password-env"
        )
    return ask_secret(f"Password of {user}")


@command.command("delete")
@click.argument("user")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(MECHANISMS)),
    help="Only credentials of this mechanism; repeatable (default: all of the user's).",
)
@yes_option
@connected()
@json_option
def delete(
    connection: Connection, output: Output, user: str, mechanisms: tuple[str, ...], yes: bool
) -> None:
    """Delete USER's SCRAM credentials: the user can't log in with them any more."""
    with administration(connection) as admin:
        timeout_s = connection.timeout_s
        described = admin.describe_user_scram_credentials([user], request_timeout=timeout_s)[
            user
        ].result()
        have = [info.mechanism for info in described.scram_credential_infos]
        wanted = [MECHANISMS[each] for each in dict.fromkeys(mechanisms)] or have
        names = ", ".join(MECHANISM_NAMES[each] for each in wanted)
        make_sure(f"Delete the credentials of {user} for {names}?", yes)
        outcomes: dict[str, str | None] = {}
        for each in wanted:  # Apache Kafka takes one change of a user at a time
            call = admin.alter_user_scram_credentials(
                [UserScramCredentialDeletion(user, each)], request_timeout=timeout_s
            )
            outcomes[f"{user} {MECHANISM_NAMES[each]}"] = errors_of(call)[user]
    report(output, "credential", outcomes, "deleted")
