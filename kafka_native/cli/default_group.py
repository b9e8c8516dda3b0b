"""A group of commands with a default command."""

from __future__ import annotations

from typing import Any

import click


class DefaultGroup(click.Group):
    """Runs the default command if the arguments name no other.

    With ``default="all"``, ``perf --messages 5`` means ``perf all --messages 5``.
    """

    def __init__(self, *args: Any, default: str, **more: Any) -> None:
        """Take the arguments of `click.Group`, and the name of the default command."""
        super().__init__(*args, **more)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command's name if the arguments don't begin with a command's name."""
        named = args[:1] and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else [self.default, *args])
