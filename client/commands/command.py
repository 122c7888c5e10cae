"""A layer over click: flags at any position, aliases, lazily imported commands, help, and usage errors with hints.

A group lists its commands as data. A command in another module is imported on first use, so that `frost tenant list`
does not import the code of `frost iam`:

    root = Group("frost", {"tenant": Lazy("client.commands.tenants:tenant", "Tenants", aliases=("tenants",))})

Every command accepts the global flags before, between and after its words; the last value wins. A command may declare
a flag of the same name with its own meaning.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import click
from click.core import ParameterSource
from click.exceptions import NoSuchCommand

from client.commands import usage_errors
from client.commands.output import Output
from client.commands.parameters import Option
from client.commands.usage_errors import FORMATS
from client.text import safe

if TYPE_CHECKING:
    from client.commands.invocation import Invocation

REQUIRES_PERSON = "Requires an interactive login (frost login); API keys and machine tokens are rejected."
HELP_WIDTH = 100
_SHORT_NAMES = {"ls": ("list",), "rm": ("delete", "remove"), "show": ("get",)}
"""Names that every group accepts for the commands of these names."""


class Lazy(NamedTuple):
    """A command to import on first use. `summary` is its line in lists."""

    target: str
    """`module:attribute`."""
    summary: str
    aliases: tuple[str, ...] = ()

    def load(self) -> click.Command:
        """Import the module and return its command."""
        module, _, attribute = self.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


class _Framed(click.Command):
    """Base class of commands and groups: the global flags and the layout of the help."""

    def __init__(self, *args: Any, person: bool = False, examples: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs["add_help_option"] = False
        super().__init__(*args, **kwargs)
        self.person = person
        """Whether the command, or every command of the group, requires an interactive session."""
        self.examples = examples

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's parameters, then the global flags that they do not replace."""
        options = {opt for param in self.params for opt in param.opts}
        return [*self.params, *(flag for flag in GLOBAL_FLAGS if options.isdisjoint(flag.opts))]

    def make_parser(self, ctx: click.Context) -> Any:
        """Register short options as long ones, so that `-o=json` is read like `--output=json`.

        click looks up `-o` as a long option first; if that fails, it builds an error with suggestions (3 ms).
        """
        parser = super().make_parser(ctx)
        parser._long_opt.update(parser._short_opt)
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; usage errors without a context get the context of this command."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write text, usage, aliases, examples, arguments, commands, flags and global flags."""
        text = [self.help or ""]
        if _needs_person(ctx):
            text.append(REQUIRES_PERSON)
        formatter.write_text("\n\n".join(text))
        with formatter.section("Usage"):
            formatter.write_text(f"{ctx.command_path} {' '.join(self._usage(ctx))}")
        if others := _other_paths(ctx):
            with formatter.section("Aliases"):
                formatter.write_text(", ".join(others))
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        self.format_body(ctx, formatter)
        own = [record for param in self.params if (record := param.get_help_record(ctx)) and _is_option(param)]
        common = [
            record for flag in self.get_params(ctx) if flag in GLOBAL_FLAGS and (record := flag.get_help_record(ctx))
        ]
        for title, rows in (("Flags", own), ("Global flags", common)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_body(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the positional arguments. Groups write their commands instead."""
        rows = [record for param in self.params if not _is_option(param) and (record := param.get_help_record(ctx))]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)

    def _usage(self, ctx: click.Context) -> list[str]:
        pieces = [
            piece if param.required else f"[{piece.strip('[]')}]"
            for param in self.params
            if not _is_option(param)
            for piece in param.get_usage_pieces(ctx)
        ]
        required = [
            f"{param.opts[0]} {param.make_metavar(ctx)}"
            for param in self.params
            if _is_option(param) and param.required
        ]
        return [*pieces, *required, "[flags]"]


class Command(_Framed):
    """A command that runs a function. The function receives the `Invocation`, then the command's parameters."""

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function with the `Invocation`."""
        ctx.obj.parsed, ctx.obj.command_path = True, ctx.command_path
        if self.callback is not None:
            self.callback(ctx.obj, **ctx.params)


def leaf(
    name: str, *params: click.Parameter, person: bool = False, examples: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Command]:
    """Turn a function into a command that a group can name as `Lazy`. Its docstring is the help."""

    def make(function: Callable[..., None]) -> Command:
        text = _text(function.__doc__ or "")
        return Command(name, callback=function, params=list(params), help=text, person=person, examples=examples)

    return make


class Group(_Framed, click.Group):
    """A command that contains commands, listed in the order of their definition."""

    def __init__(self, name: str, lazy: Mapping[str, Lazy] | None = None, **kwargs: Any) -> None:
        super().__init__(name, invoke_without_command=True, callback=_command_needed, **kwargs)
        self.does_something = False
        self.lazy = dict(lazy or {})
        self.aliases = {name: entry.aliases for name, entry in self.lazy.items()}

    def leaf(
        self,
        name: str,
        *params: click.Parameter,
        aliases: tuple[str, ...] = (),
        person: bool = False,
        examples: Sequence[str] = (),
    ) -> Callable[[Callable[..., None]], Command]:
        """Add a function as a command. Its docstring is the help, the first line the summary."""

        make = leaf(name, *params, person=person, examples=examples)

        def add(function: Callable[..., None]) -> Command:
            command = make(function)
            self.add_command(command)
            self.aliases[name] = aliases
            return command

        return add

    def alone(self, *params: click.Parameter, examples: Sequence[str] = ()) -> Callable[[Callable[..., None]], None]:
        """Run a function if no command follows the group's name. Its docstring is the help of the group.

        If a command follows, these flags are refused, because no function would receive them.
        """

        def add(function: Callable[..., None]) -> None:
            def begin(**arguments: Any) -> None:
                ctx = click.get_current_context()
                if ctx.invoked_subcommand is None:
                    ctx.obj.parsed, ctx.obj.command_path = True, ctx.command_path
                    function(ctx.obj, **arguments)
                    return
                for param in params:
                    if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
                        raise usage_errors.refused(ctx, f"{param.opts[0]} must follow {ctx.invoked_subcommand}")

            self.callback, self.does_something = begin, True
            self.params += params
            self.help, self.examples = _text(function.__doc__ or ""), examples

        return add

    def main_name(self, word: str) -> str | None:
        """Return the command's name for a name or an alias; None if it is unknown."""
        if word in self.commands or word in self.lazy:
            return word
        return next((name for name in self.list_names() if word in self.other_names(name)), None)

    def other_names(self, name: str) -> tuple[str, ...]:
        """Return the aliases of a command."""
        short = (word for word, names in _SHORT_NAMES.items() if name in names and word not in self.list_names())
        return (*self.aliases.get(name, ()), *short)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in listing order."""
        return self.list_names()

    def list_names(self) -> list[str]:
        return [*self.commands, *self.lazy]

    def every_name(self) -> list[str]:
        """Return names and aliases."""
        return [*self.commands, *self.lazy, *(alias for others in self.aliases.values() for alias in others)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name or alias, imported if necessary; None if it is unknown."""
        name = self.main_name(cmd_name)
        if name is None:
            return None
        return self.commands[name] if name in self.commands else self.lazy[name].load()

    def summaries(self) -> list[tuple[str, str]]:
        """Return the name and the summary of each command. Does not import them."""
        rows = [(name, (command.help or "").split("\n", 1)[0]) for name, command in self.commands.items()]
        return rows + [(name, entry.summary) for name, entry in self.lazy.items()]

    def format_body(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, one per line."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries())

    def _usage(self, ctx: click.Context) -> list[str]:
        return ["[COMMAND]" if self.does_something else "COMMAND", "[flags]"]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the next word. Raises NoSuchCommand, with similar names, if it is unknown."""
        command = self.get_command(ctx, args[0])
        if command is None:
            raise NoSuchCommand(args[0], possibilities=self.every_name(), ctx=ctx)
        return args[0], command, args[1:]


def _command_needed() -> None:
    """Refuse a group without a command."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None and isinstance(ctx.command, Group):
        names = ", ".join(ctx.command.list_commands(ctx))
        raise usage_errors.refused(ctx, "a command is required", hint=f"one of: {names}; {usage_errors.see_help(ctx)}")


def _is_option(param: click.Parameter) -> TypeGuard[click.Option]:
    return isinstance(param, click.Option)


def _needs_person(ctx: click.Context | None) -> bool:
    """Return whether the command or a group above it requires a person."""
    while ctx is not None:
        if getattr(ctx.command, "person", False):
            return True
        ctx = ctx.parent
    return False


def _text(docstring: str) -> str:
    """Return the docstring of a function of a module, without its indentation."""
    return "\n".join(line.removeprefix("    ").rstrip() for line in docstring.strip().split("\n"))


def _other_paths(ctx: click.Context) -> list[str]:
    """Return the command's path under each of its other names."""
    parent = ctx.parent
    if parent is None or not isinstance(parent.command, Group) or ctx.info_name is None:
        return []
    main = parent.command.main_name(ctx.info_name) or ctx.info_name
    names = (main, *parent.command.other_names(main))
    return [f"{parent.command_path} {name}" for name in names if name != ctx.info_name]


# --- global flags ----------------------------------------------------------------------------------------------------


class _GlobalFlag(Option):
    """A flag of every command. Its value is stored in the `Invocation`, not passed to the command."""

    def __init__(self, declarations: Sequence[str], **kwargs: Any) -> None:
        super().__init__(list(declarations), expose_value=False, callback=_remember, **kwargs)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Store the value of a global flag. An empty value is an error."""
    if value is None or value is False or ctx.resilient_parsing:
        return
    if value == "":
        raise usage_errors.refused(ctx, f"{param.opts[-1]} requires a value")
    if param.name == "output" and value not in FORMATS:
        raise usage_errors.refused(ctx, f'-o/--output: "{value}" is not a format', hint=f"one of: {', '.join(FORMATS)}")
    if param.name == "tenant":
        from client.tenancy import check_id

        check_id(value, "--tenant")
    run: Invocation = ctx.obj
    setattr(run.flags, param.name, value)


def _show_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.max_content_width = HELP_WIDTH
        Output().text(ctx.get_help())
        ctx.exit()


def _formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete)]


def _tenants(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
    from client.commands.completers import tenant_ids

    return tenant_ids(ctx, param, incomplete)


GLOBAL_FLAGS: tuple[click.Option, ...] = (
    _GlobalFlag(["--config"], metavar="FILE", help="Config file; default $HOME/.cli/config.yaml."),
    _GlobalFlag(["-d", "--debug"], is_flag=True, help="Log requests and responses to stderr."),
    _GlobalFlag(["--no-color"], is_flag=True, help="Disable colours; also with NO_COLOR or without a terminal."),
    _GlobalFlag(
        ["-o", "--output"],
        metavar="FORMAT",
        help="table (the default), yaml, json or wide; config: output_format.",
        shell_complete=_formats,
    ),
    _GlobalFlag(["-q", "--quiet"], is_flag=True, help="Suppress hints, progress and success messages."),
    _GlobalFlag(
        ["--tenant"],
        metavar="ID",
        help="ID of the tenant to operate on; default: FROST_TENANT, `tenant use`, your default tenant.",
        shell_complete=_tenants,
    ),
    Option(
        ["-h", "--help"], is_flag=True, is_eager=True, expose_value=False, callback=_show_help, help="Show this help."
    ),
)


class Number(click.ParamType["int"]):
    """A whole number from `least` to `most`, written in digits only."""

    name = "number"

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
        if number is None or not self.least <= number <= self.most:
            self.fail(f'takes a number from {self.least} to {self.most}, not "{safe(text, 40)}"', param, ctx)
        return number
