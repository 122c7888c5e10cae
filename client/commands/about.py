"""`frost help` and `frost version`."""

import click

from client import __version__
from client.commands.command import HELP_WIDTH, Group, leaf
from client.commands.invocation import Invocation
from client.commands.output import Output
from client.commands.parameters import Argument


@leaf(
    "help",
    Argument(["words"], metavar="COMMAND", nargs=-1, required=False, help="Command, as typed after frost."),
    examples=("frost help", "frost help iam policy attach"),
)
def help_of(run: Invocation, words: tuple[str, ...]) -> None:
    """Show the help of frost or of a command."""
    ctx = click.get_current_context().find_root()
    for word in words:
        command = ctx.command.get_command(ctx, word) if isinstance(ctx.command, Group) else None
        if command is None:
            names = ctx.command.every_name() if isinstance(ctx.command, Group) else ()
            raise click.exceptions.NoSuchCommand(word, possibilities=names, ctx=ctx)
        ctx = click.Context(command, info_name=word, parent=ctx)
    ctx.max_content_width = HELP_WIDTH
    Output().text(ctx.get_help())


@leaf("version")
def version(run: Invocation) -> None:
    """Show the version of frost."""
    output = run.talk  # the version does not depend on the config file, which may be damaged
    if output.structured:
        output.document({"version": __version__})
    else:
        output.text(f"frost {__version__}")
