"""A group of commands of which one is meant where none is named."""

from __future__ import annotations

from typing import Any

import click


class Defaulting(click.Group):
    """``perf --messages 5`` is ``perf all --messages 5``, with ``default="all"``."""

    def __init__(self, *args: Any, default: str, **more: Any) -> None:
        """See `click.Group`; ``default`` is the command's name."""
        super().__init__(*args, **more)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What doesn't begin with a command's name is the default one's."""
        named = args[:1] and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else [self.default, *args])
