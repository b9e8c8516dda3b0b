"""Refuses an option that has no effect beside the others of a command line."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.core import ParameterSource


def refuse_without_effect(rules: Iterable[tuple[str, bool, str]]) -> None:
    """Refuse an option that the user wrote if it changes nothing.

    :param rules: For an option: the name of its parameter, whether it has an effect, and what it is
        for, such as ``-K is for text``. The text ends the error.
    :raises click.UsageError: The option is on the command line and has no effect.
    """
    source_of = click.get_current_context().get_parameter_source
    for name, has_effect, text in rules:
        if not has_effect and source_of(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"an option has no effect: {text}")
