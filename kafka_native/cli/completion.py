"""What the shell completes by asking the cluster: names of topics and groups.

Which cluster is said by the words that are there already, the environment and the user's file. Whoever has pressed a
key waits: the time is short, and where nobody answers there is nothing to complete, and nothing said.

A shell puts what it is offered into the command line as it is, and runs it with Enter. So only plain names are offered.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from kafka_native import ConsumerGroupType, KafkaException
from kafka_native.admin import AdminClient
from kafka_native.cli.connection import connection_of

TIMEOUT_S = 1.5
OFFERED_MAX = 1000
"""Names are given to the shell."""
_PLAIN = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*")
"""No shell has a meaning for these characters, and no name begins as an option does."""
_NAME_MAX = 255
"""Characters of a name that is offered: a longer one would fill the terminal."""


def topics(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The topics that begin with what is there."""
    return _names(context, incomplete, lambda admin: admin.list_topics(timeout=TIMEOUT_S).topics)


def groups(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The groups of every type that begin with what is there."""

    def ask(admin: AdminClient) -> list[str]:
        consumers = admin.list_consumer_groups(request_timeout=TIMEOUT_S)
        others = {
            ConsumerGroupType.SHARE,
            ConsumerGroupType.STREAMS,
        }  # which an old cluster can't be asked for
        more = admin.list_consumer_groups(types=others, request_timeout=TIMEOUT_S)
        return [each.group_id for asked in (consumers, more) for each in asked.result().valid or []]

    return _names(context, incomplete, ask)


def is_offered(name: str) -> bool:
    """Whether a name may be put into a command line."""
    return len(name) <= _NAME_MAX and _PLAIN.fullmatch(name) is not None


def _names(
    context: click.Context, incomplete: str, ask: Callable[[AdminClient], Iterable[str]]
) -> list[CompletionItem]:
    logging.disable()  # the shell waits for names and for nothing else
    try:
        connection = connection_of(context)
        if not connection.servers:
            return []
        with AdminClient(connection.config("producer")) as admin:
            found = sorted(
                name for name in ask(admin) if name.startswith(incomplete) and is_offered(name)
            )
    except (KafkaException, click.ClickException, OSError):
        return []  # no cluster, no names: there is nobody who could be told
    finally:
        logging.disable(logging.NOTSET)
    return [CompletionItem(name) for name in found[:OFFERED_MAX]]
