"""``kafka-native completion``: the shell script that completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kafka_native.cli.app import PROGRAM
from kafka_native.cli.errors import Failed
from kafka_native.terminal.lines import echo

VARIABLE = "_KAFKA_NATIVE_COMPLETE"
"""The variable by which the script calls the program. click derives it from the program's name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    r"""Print the script that makes SHELL complete commands, options and their values.

    \b
    bash:  eval "$(kafka-native completion bash)"                  in ~/.bashrc
    zsh:   eval "$(kafka-native completion zsh)"                   in ~/.zshrc
    fish:  kafka-native completion fish > ~/.config/fish/completions/kafka-native.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise Failed(f"this version of click has no completion for {shell}")
    echo(*made(context.find_root().command, {}, PROGRAM, VARIABLE).source().splitlines())
