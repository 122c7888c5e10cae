"""Commands that messages and screens suggest, with the flags that they need to mean the same.

`frost iam … --config FILE` suggests commands about the same file, and `--tenant ID` commands about the same tenant.
"""

import re
import shlex
from collections.abc import Sequence

COMMAND = re.compile(
    r"(?<![\w./-])frost (login|logout|whoami|config [a-z-]+"
    r"|account (?:(?:api-key|session) )?[a-z-]+"
    r"|iam (?:(?:policy|group member|group) )?[a-z-]+"
    r"|tenant (?:default-tags [a-z]+|quota (?:requests?|what-if)|[a-z]+))(?![\w-])(?!(?: [a-z-]+)* --help)"
)
"""A command that reads a context."""
_OF_TENANT = ("iam ", "account api-key ", "tenant activity", "tenant current", "tenant default-tags ", "tenant quota")
_OWN_TENANT_FLAG = "iam simulate"
_OF_DATA = re.compile(
    r"(?<![\w./-])frost platform (?:status|backup|restore|audit (?:verify|export|drop))(?![\w-])(?! --help)"
)


_QUOTED = re.compile(r"""(?:"[^"\n]*"|(?<![^\s=(])'[^'\n]*')(?:"[^"\n]*"|'[^'\n]*')*""")
"""A name or another value in a message. An apostrophe within a word begins none."""
_OWN_WORDS = re.compile(r"(?:(?! frost )[^\n;()])*")
"""The words of a message that belong to the command before them."""


def with_flags(text: str, *, config: str | None = None, tenant: str | None = None, data_dir: str | None = None) -> str:
    """Add flags to the commands in a text. A command that has a flag already does not get it again.

    Quoted text is not changed: users chose it, and it may look like a command.

    Args:
        text: A message, or command lines.
        config: The file of `--config`, for commands that read a context.
        tenant: The id of `--tenant`, for commands about a tenant's contents.
        data_dir: The folder of `--data-dir`, for commands of the operator.
    """
    plain = _QUOTED.sub(lambda match: "_" * len(match[0]), text)
    ends: dict[int, str] = {}
    for match in COMMAND.finditer(plain):
        ends[match.end()] = _global_flags(match[1], _own_words(plain, match.end()), config, tenant)
    for match in _OF_DATA.finditer(plain) if data_dir is not None else ():
        ends[match.end()] = _flag("--data-dir", data_dir, _own_words(plain, match.end()))
    for end in sorted(ends, reverse=True):
        text = f"{text[:end]}{ends[end]}{text[end:]}"
    return text


def command_with_flags(line: str, *, config: str | None = None, tenant: str | None = None) -> str:
    """Add flags to one command line, as `with_flags` does. Values in its quotes are no flags."""
    match = COMMAND.match(line)
    if match is None:
        return line
    flags = _global_flags(match[1], shlex.split(line[match.end() :]), config, tenant)
    return f"{match[0]}{flags}{line[match.end() :]}"


def _own_words(plain: str, start: int) -> list[str]:
    match = _OWN_WORDS.match(plain, start)
    return match[0].split() if match else []


def _global_flags(command: str, words: Sequence[str], config: str | None, tenant: str | None) -> str:
    """Return the flags that a command lacks, each with a space before it."""
    flags = _flag("--config", config, words)
    if command.startswith(_OF_TENANT) and command != _OWN_TENANT_FLAG:
        flags += _flag("--tenant", tenant, words)
    return flags


def _flag(name: str, value: str | None, words: Sequence[str]) -> str:
    if value is None or any(word == name or word.startswith(f"{name}=") for word in words):
        return ""
    return f" {name} {shlex.quote(value)}"
