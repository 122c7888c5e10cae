"""Options and arguments of commands, created without the module `inspect`.

click cleans the help text of each parameter with `inspect`, whose import takes a twentieth of a command. The texts here
are single lines, so there is nothing to clean.
"""

from collections.abc import Sequence
from typing import Any

import click


class Option(click.Option):
    """A flag of a command, with or without a value."""

    def __init__(self, declarations: Sequence[str], *, help: str | None = None, **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self.help = help


YES = Option(["--yes"], is_flag=True, help="Do not ask for confirmation; required without a terminal.")


class Argument(click.Argument):
    """A positional argument of a command."""

    def __init__(self, declarations: Sequence[str], *, help: str | None = None, **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self.help = help
