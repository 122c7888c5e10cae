"""`frost completion`, and the candidates that shells request.

A shell passes the words as typed and receives one candidate per line, `value<TAB>description`. Values are data: bash
values are quoted here, zsh and fish quote theirs, and none is evaluated. Errors print no output.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import click

from client.commands.command import Command
from client.commands.invocation import Invocation
from client.commands.output import Output
from client.commands.parameters import Argument

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
_SECONDS = 2.0
"""Time limit for the candidates, in seconds."""

_BASH = r"""# frost completion for bash: source <(frost completion bash)
_frost_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(frost __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && $COMPREPLY == */ ]]; then compopt -o nospace; fi
}
complete -o nosort -F _frost_completion frost
"""

_ZSH = r"""#compdef frost
# frost completion for zsh: source <(frost completion zsh)
_frost() {
    local line
    local -a values shown folder
    while IFS= read -r line; do
        values+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done < <(frost __complete zsh "${(@Q)words[2,CURRENT-1]}" "${words[CURRENT]}" 2>/dev/null)
    [[ ${#values} == 1 && $values[1] == */ ]] && folder=(-S '')
    (( ${#values} )) && compadd "${folder[@]}" -l -V frost -d shown -a -- values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _frost "$@"
else
    compdef _frost frost
fi
"""

_FISH = r"""# frost completion for fish: frost completion fish | source
function __frost_complete
    set -l words (commandline -opc)
    frost __complete fish $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c frost -f -a '(__frost_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def _print_script(run: Invocation, shell: str) -> None:
    """Print the completion script for a shell."""
    Output().text(_SCRIPTS[shell].rstrip("\n"))


completion = Command(
    "completion",
    callback=_print_script,
    params=[Argument(["shell"], metavar="SHELL", type=click.Choice(SHELLS), help="bash, zsh or fish.")],
    help="Print the completion script for a shell.\n\n"
    "It completes commands, flags, files after `--document @`, and names and IDs of existing records. The script has\n"
    "no effect until the shell reads it, as in the examples; add that line to ~/.bashrc or ~/.zshrc to keep it.",
    examples=(
        "source <(frost completion bash)",
        "source <(frost completion zsh)",
        "frost completion fish | source",
    ),
)


# --- answering a shell -----------------------------------------------------------------------------------------------


def answer(arguments: list[str], root: click.Group) -> int:
    """Print the candidates for the word at the cursor. Return 0, or 1 after an error.

    Args:
        arguments: The shell's name and its arguments.
        root: The command line to complete.
    """
    try:
        _give_up_after(_SECONDS)
        shell, *typed = arguments
        if shell == "bash":
            lines = _for_bash(root, *typed)
        else:
            *before, incomplete = typed
            unquoted = _split(incomplete)[-1].text
            # zsh and fish replace the whole word, including `--flag=`.
            flag = unquoted[: unquoted.find("=") + 1] if unquoted.startswith("--") else ""
            candidates = _candidates(root, before, unquoted)
            lines = [f"{flag}{item.value}\t{item.help or ''}".rstrip("\t") for item in candidates]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except (Exception, _Late):
        return 1
    return 0


class _Late(BaseException):
    """The time limit has passed. A BaseException, so that no handler treats it as a lost connection and retries."""


def _give_up_after(seconds: float) -> None:
    import signal

    def late(number: int, frame: object) -> None:
        raise _Late

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _for_bash(root: click.Group, line: str, replaced: str) -> list[str]:
    """Return quoted candidates for bash.

    `replaced` is the part of the last word that bash replaces: bash also splits at `:` and `=`, and omits an opening
    quote.
    """
    *before, last = _split(line)
    incomplete = last.text
    tail = _split(replaced)[-1].text
    prefix = incomplete.removesuffix(tail) if tail else incomplete
    if "=" not in prefix and ":" not in prefix:
        prefix = ""
    values = [item.value for item in _candidates(root, [word.text for word in before[1:]], incomplete)]
    return [
        _quoted(value.removeprefix(prefix), last.quote) for value in values if "!" not in value or last.quote != '"'
    ]


class _Word(NamedTuple):
    """A word of a command line without its quotes, and the quote that is still open at its end."""

    text: str
    quote: str


def _split(line: str) -> list[_Word]:
    """Split the typed part of a command line into words; the last one is empty after a space.

    Quotes and backslashes work as in a shell. There are no expansions.
    """
    parts = [""]
    quote = ""
    characters = iter(line)
    for character in characters:
        if character == "\\" and quote != "'":
            escaped = next(characters, "")
            parts[-1] += escaped if not quote or escaped in '"$`\\' else f"\\{escaped}"
        elif quote:
            if character == quote:
                quote = ""
            else:
                parts[-1] += character
        elif character in "'\"":
            quote = character
        elif character.isspace():
            if parts[-1]:
                parts.append("")
        else:
            parts[-1] += character
    return [*(_Word(word, "") for word in parts[:-1]), _Word(parts[-1], quote)]


_PLAIN_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=@%+,")


def _quoted(value: str, quote: str) -> str:
    """Quote a value as one bash word: for the open quote, else with backslashes."""
    if quote == "'":
        return value.replace("'", "'\\''")
    if quote == '"':
        return "".join(f"\\{character}" if character in '"\\$`' else character for character in value)
    return "".join(
        character if character in _PLAIN_WORD or ord(character) > 127 else f"\\{character}" for character in value
    )


def _candidates(root: click.Group, before: list[str], incomplete: str) -> "Iterable[CompletionItem[str]]":
    from click.shell_completion import ShellComplete

    run = Invocation(before)
    _remember_flags(run, before)
    items = ShellComplete(root, {"obj": run}, "frost", "").get_completions(before, incomplete)
    return [item for item in items if item.value.isprintable()]


def _remember_flags(run: Invocation, before: list[str]) -> None:
    """Set the flags that select the source of names, as click runs no callbacks during completion."""
    for index, word in enumerate(before):
        name, equals, value = word.partition("=")
        if name in ("--config", "--tenant"):
            setattr(run.flags, name[2:], value if equals else "".join(before[index + 1 : index + 2]))
