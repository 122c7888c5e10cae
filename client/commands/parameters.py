"""Options and arguments of commands, created without the module `inspect`.

click cleans the help text of each parameter with `inspect`, whose import takes a twentieth of a command. The texts here
are single lines, so there is nothing to clean.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from client.commands.command_line_arguments import Repeat, remember


class Option(click.Option):
    """A flag of a command, with or without a value. `repeat` returns its value for a printed command line."""

    def __init__(
        self, declarations: Sequence[str], *, help: str | None = None, repeat: Repeat = str, **attributes: Any
    ) -> None:
        super().__init__(declarations, **attributes)
        self.help = help
        self.repeat = repeat

    def handle_parse_result(self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]) -> Any:
        """Process the value, and store its words."""
        parsed = super().handle_parse_result(ctx, opts, args)
        remember(ctx, self, opts, self.repeat)
        return parsed


YES = Option(["--yes"], is_flag=True, help="Do not ask for confirmation; required without a terminal.")


class Argument(click.Argument):
    """A positional argument of a command. `repeat` returns its value for a printed command line."""

    def __init__(
        self, declarations: Sequence[str], *, help: str | None = None, repeat: Repeat = str, **attributes: Any
    ) -> None:
        super().__init__(declarations, **attributes)
        self.help = help
        self.repeat = repeat

    def handle_parse_result(self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]) -> Any:
        """Process the value, and store its words."""
        parsed = super().handle_parse_result(ctx, opts, args)
        remember(ctx, self, opts, self.repeat)
        return parsed
