"""Parse the command line of the screens before heavy imports."""

from collections.abc import Sequence
from typing import NamedTuple

_OPTIONS = {"--config": "config", "--tenant": "tenant"}
_SWITCHES = {"--read-only": "read_only", "--no-color": "no_color", "-d": "debug", "--debug": "debug"}


class Launch(NamedTuple):
    """The global flags that apply to the screens."""

    config: str | None = None
    tenant: str | None = None
    read_only: bool = False
    no_color: bool = False
    debug: bool = False
    browser: bool = False
    """Whether the terminal is a browser tab (tui/web)."""


def parse(arguments: Sequence[str]) -> Launch | None:
    """Parse a command line; None for a command line of the commands, with a word or another flag."""
    values: dict[str, str | bool] = {}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        if argument in _SWITCHES:
            values[_SWITCHES[argument]] = True
        elif name in _OPTIONS and (equals or rest):
            values[_OPTIONS[name]] = value if equals else rest.pop(0)
        else:
            return None
    return Launch(**values)  # type: ignore[arg-type]  # the keys of the two tables are its fields
