"""Shell completion of topics, groups and subjects: it asks the cluster or the schema registry.

The words so far, the environment and the user's file name the server. The user waits for the
answer, so the timeout is short. Without an answer there are no suggestions and no error.

A shell inserts a suggestion unchanged, and Enter runs it. So only names of plain characters are
suggested.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import click
from click.shell_completion import CompletionItem

from kafka_native import ConsumerGroupType, KafkaException
from kafka_native.admin import AdminClient
from kafka_native.cli.connection import Connection, connection_of
from kafka_native.cli.registry import registry_client

TIMEOUT_S = 1.5
OFFERED_MAX = 1000
"""The largest number of names for the shell."""
_PLAIN = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*")
"""Characters without a special meaning in any shell. The first one isn't a dash."""
_NAME_MAX = 255
"""The longest name that is suggested. A longer one would fill the terminal."""


def topics(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Suggest topics that begin with the incomplete word."""
    return _offered(
        context, incomplete, _of_cluster(lambda admin: admin.list_topics(timeout=TIMEOUT_S).topics)
    )


def groups(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Suggest groups of every type that begin with the incomplete word."""

    def ask(admin: AdminClient) -> list[str]:
        consumers = admin.list_consumer_groups(request_timeout=TIMEOUT_S)
        # Old clusters don't have these types, so they need a separate request.
        others = {ConsumerGroupType.SHARE, ConsumerGroupType.STREAMS}
        more = admin.list_consumer_groups(types=others, request_timeout=TIMEOUT_S)
        return [each.group_id for asked in (consumers, more) for each in asked.result().valid or []]

    return _offered(context, incomplete, _of_cluster(ask))


def subjects(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Suggest subjects of the schema registry that begin with the incomplete word."""

    def find(connection: Connection) -> Iterable[str]:
        if "url" not in connection.registry:
            return []
        with registry_client(replace(connection, timeout_s=TIMEOUT_S), retries_max=0) as client:
            return client.get_subjects()

    return _offered(context, incomplete, find)


def is_offered(name: str) -> bool:
    """Whether the name is safe to insert into a command line."""
    return len(name) <= _NAME_MAX and _PLAIN.fullmatch(name) is not None


def _of_cluster(
    ask: Callable[[AdminClient], Iterable[str]],
) -> Callable[[Connection], Iterable[str]]:
    """Make the function that asks an admin client of a connection."""

    def find(connection: Connection) -> Iterable[str]:
        if not connection.servers:
            return []
        with AdminClient(connection.config("producer")) as admin:
            return list(ask(admin))

    return find


def _offered(
    context: click.Context, incomplete: str, find: Callable[[Connection], Iterable[str]]
) -> list[CompletionItem]:
    logging.disable()  # a log line would disturb the user's command line
    try:
        found = sorted(
            name
            for name in find(connection_of(context))
            if name.startswith(incomplete) and is_offered(name)
        )
    except (KafkaException, click.ClickException, OSError):
        return []  # the shell has no place for an error
    finally:
        logging.disable(logging.NOTSET)
    return [CompletionItem(name) for name in found[:OFFERED_MAX]]
